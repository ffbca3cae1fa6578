//! Java's printed forms, because the service is written in Java, and they are visible.

use crate::json::Value;
use std::fmt::Write;

/// Prints a value as Java's `toString` does: `{a=1, b=[x, y]}`, texts without quotes.
pub(super) fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) if number.is_integer() => {
            write!(out, "{number}").expect("writing to a String cannot fail");
        }
        Value::Number(number) => print_double(number.as_f64(), out),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (at, (name, member)) in map.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(name);
                out.push('=');
                print(member, out);
            }
            out.push('}');
        }
    }
}

/// `Double.toString`: plain from 0.001 up to ten million, `1.0E7` beyond.
fn print_double(double: f64, out: &mut String) {
    let size = double.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        write!(out, "{double:?}").expect("writing to a String cannot fail");
        return;
    }
    let shortest = format!("{double:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    write!(out, "{digits}{point}E{exponent}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn values_print_as_java_prints_them() {
        for (json, text) in [
            (r#"{"a":1,"b":[],"c":{"d":"x y"}}"#, "{a=1, b=[], c={d=x y}}"),
            (r#"[null,true,"q",1.5,-0.0]"#, "[null, true, q, 1.5, -0.0]"),
            ("0.001", "0.001"),
            ("0.00099", "9.9E-4"),
            ("9999999.5", "9999999.5"),
            ("10000000.0", "1.0E7"),
            ("-123456789.25", "-1.2345678925E8"),
            ("1e300", "1.0E300"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            let mut out = String::new();
            print(&parse(json).unwrap(), &mut out);
            assert_eq!(out, text, "{json}");
        }
    }
}
