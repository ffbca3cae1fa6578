//! What Java would say: the service is written in it, and it shows.

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

/// `java.util.Random`, so that a seed gives here what it gives on AWS.
pub(super) struct Random(u64);

impl Random {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    pub(super) fn new(seed: i64) -> Self {
        Self((seed as u64 ^ Self::MULTIPLIER) & Self::MASK)
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xb) & Self::MASK;
        (self.0 >> (48 - bits)) as i32
    }

    /// `nextInt(bound)`: from 0 up to, but not, `bound`, which is above 0.
    fn below(&mut self, bound: i32) -> i32 {
        let mut bits = self.next(31);
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(bits)) >> 31) as i32;
        }
        loop {
            let rest = bits % bound;
            // Where the last, incomplete round of the bound begins, low numbers would come too often.
            if bits.wrapping_sub(rest).wrapping_add(bound - 1) >= 0 {
                return rest;
            }
            bits = self.next(31);
        }
    }

    /// From `start` up to, but not, `end`, which is above `start`.
    pub(super) fn between(&mut self, start: i32, end: i32) -> i32 {
        match end.checked_sub(start) {
            Some(width) => start + self.below(width),
            None => loop {
                let drawn = self.next(32);
                if (start..end).contains(&drawn) {
                    return drawn;
                }
            },
        }
    }
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

    #[test]
    fn a_seed_gives_what_java_gives() {
        // First values of `new java.util.Random(seed).nextInt(bound)`.
        for (seed, bound, value) in
            [(42, 10, 0), (42, 99, 62), (42, 4, 2), (1, 999, 105), (2, 999, 805), (-10, 9, 0)]
        {
            assert_eq!(Random::new(seed).between(0, bound), value, "seed {seed}, bound {bound}");
        }
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| (i32::MIN..i32::MAX).contains(&random.between(i32::MIN, i32::MAX))));
    }
}
