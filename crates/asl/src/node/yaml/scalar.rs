//! The meaning of scalars in the core schema of YAML 1.2.

use super::super::NodeKind;
use crate::json::Number;
use granit_parser::Tag;

/// The core type that a tag names: `str` for `!!str`.
pub(super) fn core_name(tag: &Tag) -> Option<&str> {
    if tag.is_yaml_core_schema() { Some(tag.suffix()) } else { None }
}

/// `!`: a string, whatever it looks like.
pub(super) fn is_non_specific(tag: &Tag) -> bool {
    tag.to_string() == "!"
}

/// The value, or the mistake in it. Only a plain scalar can be anything except a string.
pub(super) fn resolve(text: &str, is_plain: bool, tag: Option<&Tag>) -> Result<NodeKind, String> {
    let Some(tag) = tag else {
        return if is_plain { plain(text) } else { Ok(NodeKind::String(text.into())) };
    };
    let wanted = core_name(tag).unwrap_or("str");
    if wanted == "str" {
        return Ok(NodeKind::String(text.into()));
    }
    let kind = plain(text)?;
    let fits = match &kind {
        NodeKind::Null => wanted == "null",
        NodeKind::Bool(_) => wanted == "bool",
        NodeKind::Number(number) => wanted == "float" || wanted == "int" && number.is_integer(),
        NodeKind::String(_) | NodeKind::Array(_) | NodeKind::Object(_) => false,
    };
    if fits { Ok(kind) } else { Err(format!("`{text}` is no `!!{wanted}`")) }
}

fn plain(text: &str) -> Result<NodeKind, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "false" | "False" | "FALSE" => NodeKind::Bool(false),
        _ => match number(text) {
            Some(result) => NodeKind::Number(result?),
            None => NodeKind::String(text.into()),
        },
    })
}

/// `None`: no number. An error: a number that JSON does not have.
fn number(text: &str) -> Option<Result<Number, String>> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Some(Err("infinity has no place in JSON".to_owned())),
        ".nan" | ".NaN" | ".NAN" if unsigned == text => {
            return Some(Err("not a number has no place in JSON".to_owned()));
        }
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
                return None;
            }
            let value = u128::from_str_radix(digits, radix).map(Number::from);
            return Some(value.map_err(|_| "this number is out of range".to_owned()));
        }
    }
    let literal = decimal(sign, unsigned)?;
    Some(Number::from_literal(&literal).ok_or_else(|| "this number is out of range".to_owned()))
}

/// A decimal number as JSON writes it: `.5` is `0.5`, `1.` is `1.0`, `007` is `7`.
fn decimal(sign: &str, text: &str) -> Option<String> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    let (mut fraction, mut exponent) = (None, "");
    if let Some(after) = rest.strip_prefix('.') {
        let length = digits(after);
        fraction = Some(&after[..length]);
        rest = &after[length..];
    }
    if whole == 0 && fraction.is_none_or(str::is_empty) {
        return None;
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
        if unsigned.is_empty() || digits(unsigned) != unsigned.len() {
            return None;
        }
        (exponent, rest) = (rest, "");
    }
    if !rest.is_empty() {
        return None;
    }
    let whole = text[..whole].trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = match fraction {
        Some("") => ".0".to_owned(),
        Some(digits) => format!(".{digits}"),
        None => String::new(),
    };
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}
