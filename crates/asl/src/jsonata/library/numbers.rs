//! Numbers.

use super::{Arguments, Builtin};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::number;
use crate::jsonata::text;
use crate::jsonata::value::Val;

impl Evaluator<'_> {
    pub(super) fn aggregate(&self, builtin: Builtin, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        if array.is_empty() && builtin != Builtin::Sum {
            return Ok(Val::Undefined);
        }
        self.meter.work(array.len() as u64)?;
        let numbers = array.iter().map(|item| item.number().unwrap_or(f64::NAN));
        let pick = |first_wins: fn(f64, f64) -> bool| {
            move |a: f64, b: f64| if a.is_nan() || (!b.is_nan() && first_wins(a, b)) { a } else { b }
        };
        Ok(Val::Number(match builtin {
            Builtin::Max => numbers.fold(f64::NEG_INFINITY, pick(|a, b| a >= b)),
            Builtin::Min => numbers.fold(f64::INFINITY, pick(|a, b| a <= b)),
            Builtin::Average => numbers.sum::<f64>() / array.len() as f64,
            // Rust's empty sum is -0.0.
            _ => 0.0 + numbers.fold(0.0, |sum, number| sum + number),
        }))
    }

    /// `$number`: decimal text, `0x`, `0o` and `0b`, and truths.
    pub(super) fn number(&self, args: Arguments<'_>) -> Fallible<Val> {
        let value = args.get(0);
        let cannot = || Error::new("D3030").value(text::render(value));
        match value {
            Val::Undefined | Val::Number(_) | Val::Exact(_) => Ok(value.clone()),
            Val::Bool(truth) => Ok(Val::count(usize::from(*truth))),
            Val::String(text) => {
                self.meter.text(text.len())?;
                parse(text).map(Val::Number).ok_or_else(cannot)
            }
            _ => Err(cannot()),
        }
    }

    pub(super) fn format_base(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(value) = args.number(0)? else { return Ok(Val::Undefined) };
        let radix = number::round(args.number(1)?.unwrap_or(10.0), 0.0);
        if !(2.0..=36.0).contains(&radix) {
            return Err(Error::new("D3100").value(number::display(radix)));
        }
        Val::built(&self.meter, &number::to_radix(number::round(value, 0.0), radix as u32))
    }
}

pub(super) fn round(args: Arguments<'_>) -> Fallible<Val> {
    let places = args.number(1)?.unwrap_or(0.0);
    Ok(args.number(0)?.map_or(Val::Undefined, |value| Val::Number(number::round(value, places))))
}

pub(super) fn sqrt(args: Arguments<'_>) -> Fallible<Val> {
    match args.number(0)? {
        Some(value) if value < 0.0 => Err(Error::new("D3060").value(text::render(args.get(0)))),
        Some(value) => Ok(Val::Number(value.sqrt())),
        None => Ok(Val::Undefined),
    }
}

pub(super) fn power(args: Arguments<'_>) -> Fallible<Val> {
    let Some(base) = args.number(0)? else { return Ok(Val::Undefined) };
    let exponent = args.number(1)?.unwrap_or(f64::NAN);
    // JavaScript, unlike C, gives NaN for 1 to an infinite power.
    let result = if exponent.is_infinite() && base.abs() == 1.0 { f64::NAN } else { base.powf(exponent) };
    if result.is_finite() {
        return Ok(Val::Number(result));
    }
    Err(Error::new("D3061").value(text::render(args.get(0))).value2(text::render(args.get(1))))
}

/// Reads a number as `$number` does.
fn parse(text: &str) -> Option<f64> {
    let radix = |digits: &str, radix: u32| {
        let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(radix)).collect();
        let digits = digits.filter(|digits| !digits.is_empty())?;
        Some(digits.iter().fold(0.0, |sum, digit| sum * f64::from(radix) + f64::from(*digit)))
    };
    let mut start = text.chars();
    match (start.next(), start.next()) {
        (Some('0'), Some('x' | 'X')) => return radix(start.as_str(), 16),
        (Some('0'), Some('o' | 'O')) => return radix(start.as_str(), 8),
        (Some('0'), Some('b' | 'B')) => return radix(start.as_str(), 2),
        _ => {}
    }
    is_decimal(text).then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.is_finite())
}

fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let is_mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    is_mantissa
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}
