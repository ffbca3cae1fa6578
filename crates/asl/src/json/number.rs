//! Numbers that keep their meaning.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A JSON number: an integer of any length, or a double.
///
/// Equality is that of the notation (`1` and `1.0` differ, as they do when printed);
/// [`Number::compare`] is that of the number line. A number is printed as it was written; what is computed is printed with
/// as few digits as read back the same, and never is zero with a sign.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// An integer that fits 64 bits.
    Int(i64),
    /// A finite double; printed with a fraction or an exponent.
    Float(f64),
    /// A finite double whose text differs from its printed form: `1.50`, `1E5`, `-0e5`, `1e-400`.
    Written(f64, Arc<str>),
    /// An integer that does not fit 64 bits, as its digits, without leading zeros, or `-0`.
    Big(Arc<str>),
}

impl Number {
    /// Reads a number that the lexer has already found to be well formed. `None`: out of range.
    pub(crate) fn from_literal(text: &str) -> Option<Self> {
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            return Some(match text.parse::<i64>() {
                Ok(0) if text.starts_with('-') => Self::Big(text.into()),
                Ok(int) => Self::Int(int),
                Err(_) => Self::Big(text.into()),
            });
        }
        let float = text.parse::<f64>().ok().filter(|float| float.is_finite())?;
        let is_plain = is_surely_plain(text, float) || format!("{float:?}") == text;
        Some(if is_plain { Self::Float(float) } else { Self::Written(float, text.into()) })
    }

    /// The same number in its printed form, without the notation of its source.
    pub(crate) fn computed(self) -> Self {
        match self {
            Self::Written(float, _) => Self::Float(float),
            Self::Int(_) | Self::Float(_) | Self::Big(_) => self,
        }
    }

    /// A double as the result of a computation: whole numbers print as integers. `None` when not finite.
    pub fn from_computed(float: f64) -> Option<Self> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if !float.is_finite() {
            None
        } else if float.fract() == 0.0 && float.abs() <= EXACT {
            Some(Self::Int(float as i64))
        } else {
            Some(Self::Float(float))
        }
    }

    /// The nearest double.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Int(int) => *int as f64,
            Self::Float(float) | Self::Written(float, _) => *float,
            Self::Big(digits) => digits.parse().unwrap_or(f64::NAN),
        }
    }

    /// The integer, where this is one and fits; `2.0` counts as 2.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Float(float) | Self::Written(float, _) if float.fract() == 0.0 && float.abs() < 9.2e18 => {
                Some(*float as i64)
            }
            Self::Big(_) if self.is_signed_zero() => Some(0),
            Self::Float(_) | Self::Written(..) | Self::Big(_) => None,
        }
    }

    /// Whether it is `-0`, in any notation.
    pub(crate) fn is_signed_zero(&self) -> bool {
        match self {
            Self::Int(_) => false,
            Self::Float(float) | Self::Written(float, _) => *float == 0.0 && float.is_sign_negative(),
            Self::Big(digits) => **digits == *"-0",
        }
    }

    /// Whether it is written as an integer.
    pub fn is_integer(&self) -> bool {
        !matches!(self, Self::Float(_) | Self::Written(..))
    }

    /// Order on the number line, exact between integers of any length.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (zero, other) if zero.is_signed_zero() => Self::Int(0).compare(other),
            (other, zero) if zero.is_signed_zero() => other.compare(&Self::Int(0)),
            (Self::Written(float, _), other) => Self::Float(*float).compare(other),
            (other, Self::Written(float, _)) => other.compare(&Self::Float(*float)),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Big(a), Self::Big(b)) => compare_digits(a, b),
            (Self::Big(a), Self::Int(b)) => compare_digits(a, &b.to_string()),
            (Self::Int(a), Self::Big(b)) => compare_digits(&a.to_string(), b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(*a, *b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(*b, *a).reverse(),
            _ => self.as_f64().total_cmp(&other.as_f64()),
        }
    }
}

/// Whether a double prints as it is written, as far as this shows without printing it: few digits, no exponent, and no
/// zero at the end except that of `.0`.
fn is_surely_plain(text: &str, float: f64) -> bool {
    let is_short = text.len() <= 15 && float.abs() >= 1e-4;
    is_short
        && text.bytes().all(|byte| !matches!(byte, b'e' | b'E'))
        && (!text.ends_with('0') || text.ends_with(".0"))
}

fn compare_digits(a: &str, b: &str) -> Ordering {
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (None, None) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (Some(a), Some(b)) => b.len().cmp(&a.len()).then_with(|| b.cmp(a)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    }
}

fn compare_int_float(int: i64, float: f64) -> Ordering {
    if float >= 9.3e18 {
        Ordering::Less
    } else if float <= -9.3e18 {
        Ordering::Greater
    } else {
        let whole = float.trunc();
        i128::from(int)
            .cmp(&(whole as i128))
            .then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => write!(formatter, "{int}"),
            // Debug is Rust's shortest form that reads back the same, always with a fraction or exponent.
            Self::Float(float) => write!(formatter, "{float:?}"),
            Self::Big(text) | Self::Written(_, text) => formatter.write_str(text),
        }
    }
}

macro_rules! from_integer {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Number {
            fn from(int: $kind) -> Self {
                i64::try_from(int).map_or_else(|_| Self::Big(int.to_string().into()), Self::Int)
            }
        }
    )*};
}
from_integer!(i8, i16, i32, i64, u8, u16, u32, u64, usize, i128, u128);

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::from_literal(text).unwrap()
    }

    #[test]
    fn integers_of_any_length_keep_their_digits() {
        for text in ["1", "-1", "9007199254740993", "18446744073709551615", "123456789012345678901234567890"]
        {
            assert_eq!(number(text).to_string(), text);
        }
    }

    #[test]
    fn floats_stay_floats_and_print_as_they_read() {
        for text in ["1.0", "0.1", "1e300", "4.35", "12345678.9", "1e-7", "-0.0", "-0"] {
            assert_eq!(number(text).to_string(), text);
        }
        for text in [
            "1.50",
            "1E5",
            "1e5",
            "-0e5",
            "1e-400",
            "0.00001",
            "100.0",
            "1.0e0",
            "0.1000000000000000055511151",
        ] {
            assert_eq!(number(text).to_string(), text);
        }
        for text in ["1.5", "100.0", "-12.25", "0.5"] {
            assert!(matches!(number(text), Number::Float(_)), "{text}");
        }
        assert_eq!(number("1.50").compare(&number("1.5")), Ordering::Equal);
        assert_eq!(number("1E2").as_i64(), Some(100));
        assert!(Number::from_literal("1e400").is_none());
    }

    #[test]
    fn comparison_is_exact_where_doubles_would_round() {
        assert_eq!(number("9007199254740993").compare(&number("9007199254740992.0")), Ordering::Greater);
        assert_eq!(number("1").compare(&number("1.0")), Ordering::Equal);
        assert_eq!(number("-5").compare(&number("-4.5")), Ordering::Less);
        assert_eq!(number("18446744073709551616").compare(&number("18446744073709551617")), Ordering::Less);
        assert_eq!(number("-18446744073709551616").compare(&number("1")), Ordering::Less);
        for (left, right) in [("-0", "0"), ("-0", "-0"), ("-0.0", "0"), ("-0.0", "0.0"), ("-0", "0.0")] {
            assert_eq!(number(left).compare(&number(right)), Ordering::Equal, "{left} {right}");
            assert_eq!(number(right).compare(&number(left)), Ordering::Equal, "{right} {left}");
        }
        assert_eq!(number("-0").compare(&number("-18446744073709551616")), Ordering::Greater);
        assert_eq!(number("-0").as_i64(), Some(0));
    }
}
