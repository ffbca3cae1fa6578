//! Texts: formatting, splitting, parsing and printing.

use super::java;
use crate::diagnostic::explain_data;
use crate::json::{Number, Value, parse};
use std::collections::BTreeSet;

/// The longest text of a function, in bytes.
pub const TEXT_MAX: usize = 16 << 20;

/// Whether a printed value has at most about `left` bytes; subtracts its size.
pub(super) fn fits(value: &Value, left: &mut usize) -> bool {
    let takes = match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(Number::Int(_) | Number::Float(_)) => 25,
        Value::Number(Number::Big(text) | Number::Written(_, text)) => text.len().max(25),
        Value::String(text) => text.len() + 2,
        Value::Array(_) | Value::Object(_) => 2,
    };
    let Some(rest) = left.checked_sub(takes) else { return false };
    *left = rest;
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(map) => map.iter().all(|(name, member)| {
            let Some(rest) = left.checked_sub(name.len() + 4) else { return false };
            *left = rest;
            fits(member, left)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// `JsonToString`: compact JSON.
pub(super) fn print(value: &Value) -> Option<String> {
    fits(value, &mut { TEXT_MAX }).then(|| value.to_string())
}

/// `StringToJson`. An empty text is `null`, as in the service.
pub(super) fn read_json(json: &str) -> Result<Value, String> {
    if json.trim_matches([' ', '\t', '\n', '\r']).is_empty() {
        return Ok(Value::Null);
    }
    parse(json).map_err(|error| {
        let reason = explain_data(json, &error);
        format!("Cannot convert String to Json in States.StringToJson, caused by: {reason}")
    })
}

/// `StringSplit`: at any character of the splitter; empty pieces are left out.
pub(super) fn split(text: &str, splitter: &str) -> Value {
    let splitter: BTreeSet<char> = splitter.chars().collect();
    text.split(|c| splitter.contains(&c)).filter(|piece| !piece.is_empty()).collect()
}

/// `Format`: every `{}` is replaced by the next value, printed as Java prints it.
pub(super) fn format(template: &Value, values: &[Value]) -> Result<Value, String> {
    let invalid = |what: &str| Err(format!("Invalid {what}"));
    let mut left = TEXT_MAX;
    if !fits(template, &mut left) || !values.iter().all(|value| fits(value, &mut left)) {
        return invalid("arguments in States.Format");
    }
    let mut raw = String::new();
    java::print(template, &mut raw);
    let (mut out, mut values) = (String::with_capacity(raw.len()), values.iter());
    let mut missing = false;
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('\\', Some(plain @ ('\'' | '{' | '}' | '\\'))) => {
                out.push(plain);
                rest.next();
            }
            ('{', Some('}')) => {
                rest.next();
                match values.next() {
                    Some(value) => java::print(value, &mut out),
                    None => missing = true,
                }
            }
            ('{', _) => return invalid("template in States.Format: matching '}' not found for '{'."),
            ('}', _) => return invalid("template in States.Format: matching '{' not found for '}'."),
            (plain, _) => out.push(plain),
        }
    }
    if missing || values.next().is_some() {
        return invalid(
            "arguments in States.Format: number of arguments do not match the occurrences of {}.",
        );
    }
    Ok(out.into())
}
