//! Values as JSON text: for `$string`, and for error messages.

use super::error::{Error, Fallible};
use super::number;
use super::value::{Text, Val};
use crate::json::Value;

/// Longer values are cut in messages.
const SHOWN_BYTES_MAX: usize = 32 * 1024;

/// Appends a value in the form of `$string`: numbers with 15 digits, functions as empty strings.
pub(super) fn write(value: &Val, pretty: bool, out: &mut Text) -> Fallible<()> {
    match value {
        Val::Function(_) => Ok(()),
        Val::String(text) => out.push(text),
        Val::Number(number) if !number.is_finite() => Err(Error::new("D3001")),
        other => write_json(other, if pretty { Some(0) } else { None }, out),
    }
}

fn write_json(value: &Val, indent: Option<usize>, out: &mut Text) -> Fallible<()> {
    match value {
        Val::Undefined | Val::Null => out.push("null"),
        Val::Bool(truth) => out.push(if *truth { "true" } else { "false" }),
        Val::Exact(_) if value.number() == Some(0.0) => out.push("0"),
        Val::Exact(number) => out.push(&number.to_string()),
        Val::Number(number) => {
            out.work(if number.fract() == 0.0 && number.abs() < 1e15 { 32 } else { 256 })?;
            let text = if value.is_numeric()? {
                number::display(number::to_precision_15(*number))
            } else {
                "null".to_owned()
            };
            out.push(&text)
        }
        Val::String(text) => out.push(&quoted(text)),
        Val::Function(_) => out.push("\"\""),
        Val::Array(array) if array.is_empty() => out.push("[]"),
        Val::Array(array) => {
            let inner = indent.map(|indent| indent + 2);
            for (at, item) in array.iter().enumerate() {
                out.push(if at == 0 { "[" } else { "," })?;
                line(inner, out)?;
                write_json(&item, inner, out)?;
            }
            line(indent, out)?;
            out.push("]")
        }
        Val::Object(object) => {
            let inner = indent.map(|indent| indent + 2);
            out.work(16)?;
            let mut opening = "{";
            for (key, value) in object.members() {
                if value.is_undefined() {
                    continue;
                }
                out.push(opening)?;
                opening = ",";
                line(inner, out)?;
                out.push(&quoted(&key))?;
                out.push(if indent.is_some() { ": " } else { ":" })?;
                write_json(&value, inner, out)?;
            }
            if opening == "{" {
                return out.push("{}");
            }
            line(indent, out)?;
            out.push("}")
        }
    }
}

/// A line break, if the text is pretty-printed.
fn line(indent: Option<usize>, out: &mut Text) -> Fallible<()> {
    match indent {
        Some(indent) => {
            out.push("\n")?;
            out.repeat(" ", indent)
        }
        None => Ok(()),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value as a message shows it: plain JSON, `None` for what JSON does not have.
pub(super) fn render(value: &Val) -> Option<String> {
    let mut out = String::new();
    render_to(value, &mut out).then_some(out)
}

/// Whether there was anything to write.
fn render_to(value: &Val, out: &mut String) -> bool {
    if out.len() > SHOWN_BYTES_MAX {
        out.push('…');
        return true;
    }
    match value {
        Val::Undefined | Val::Function(_) => return false,
        Val::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Val::Exact(number) => out.push_str(&number.to_string()),
        Val::Number(number) if number.is_finite() => out.push_str(&number::display(*number)),
        Val::Null | Val::Number(_) => out.push_str("null"),
        Val::String(text) => {
            let end = (0..=text.len().min(SHOWN_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at));
            out.push_str(&quoted(&text[..end.unwrap_or(0)]));
        }
        Val::Array(array) => {
            out.push('[');
            for (at, item) in array.iter().enumerate() {
                if out.len() > SHOWN_BYTES_MAX {
                    break;
                }
                if at > 0 {
                    out.push(',');
                }
                if !render_to(&item, out) {
                    out.push_str("null");
                }
            }
            out.push(']');
        }
        Val::Object(object) => {
            out.push('{');
            let mut is_first = true;
            for (key, value) in object.members() {
                if out.len() > SHOWN_BYTES_MAX {
                    break;
                }
                let before = out.len();
                if !is_first {
                    out.push(',');
                }
                out.push_str(&quoted(&key));
                out.push(':');
                if render_to(&value, out) {
                    is_first = false;
                } else {
                    out.truncate(before);
                }
            }
            out.push('}');
        }
    }
    true
}
