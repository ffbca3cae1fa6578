//! Formats and rounds numbers like JavaScript, as JSONata does.

use crate::json::Number;

/// The shortest text that reads back as the same double: `1`, `0.1`, `1e+21`, `1e-7`.
pub(super) fn display(number: f64) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if number == 0.0 {
        return "0".into();
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().expect("an exponent is an integer");
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", layout(&digits, exponent))
}

/// Places the point among `digits`, of which the first has the weight 10^`exponent`.
fn layout(digits: &str, exponent: i32) -> String {
    let count = digits.len() as i32;
    if (0..21).contains(&exponent) {
        let whole = exponent + 1;
        if count <= whole {
            format!("{digits}{}", "0".repeat((whole - count) as usize))
        } else {
            format!("{}.{}", &digits[..whole as usize], &digits[whole as usize..])
        }
    } else if (-6..0).contains(&exponent) {
        format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        format!("{first}{point}{rest}e{sign}{}", exponent.abs())
    }
}

/// The number that 15 significant digits leave, half away from zero: what JSONata prints of a double.
pub(super) fn to_precision_15(number: f64) -> f64 {
    if !number.is_finite() || number == 0.0 {
        return number;
    }
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return number;
    }
    // 40 digits show a tie as such: a double that is halfway between two 15-digit numbers has 16 digits.
    let exact = format!("{:.39e}", number.abs());
    let (mantissa, exponent) = exact.split_once('e').expect("scientific notation has an exponent");
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let (kept, rest) = digits.split_at(15);
    let kept: u64 = kept.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let kept = kept + u64::from(rest[0] >= b'5');
    let exponent: i32 = exponent.parse().expect("an exponent is an integer");
    let rounded: f64 = format!("{kept}e{}", exponent - 14).parse().expect("digits and an exponent");
    if number < 0.0 { -rounded } else { rounded }
}

/// `places` digits after the point, half away from zero.
pub(super) fn to_fixed(number: f64, places: usize) -> String {
    if number.abs() >= 1e21 || !number.is_finite() {
        return display(number);
    }
    let exact = format!("{:.*}", places + 1, number.abs());
    // One digit more than wanted is rounded half to even by the printer only when it is a tie there; a
    // tie here shows as a final 5 of the exact decimal expansion.
    let tie =
        exact.ends_with('5') && format!("{:.*}", places + 30, number.abs()).trim_end_matches('0') == exact;
    if tie {
        let (whole, fraction) = exact.split_once('.').expect("at least one place was printed");
        let mut digits: Vec<u8> = whole.bytes().chain(fraction[..places].bytes()).collect();
        increment(&mut digits);
        let text = String::from_utf8(digits).expect("digits are ASCII");
        let point = text.len() - places;
        return if places == 0 { text } else { format!("{}.{}", &text[..point], &text[point..]) };
    }
    format!("{:.*}", places, number.abs())
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return;
        }
    }
    digits.insert(0, b'1');
}

/// JavaScript's rounding: halves go up.
pub(super) fn round_half_up(number: f64) -> f64 {
    let floor = number.floor();
    if number - floor >= 0.5 { floor + 1.0 } else { floor }
}

/// Rounds to `places` digits after the point, half to even, on the decimal text of the number.
pub(super) fn round(number: f64, places: f64) -> f64 {
    let scaled = if places == 0.0 { number } else { shift(number, places) };
    let mut result = round_half_up(scaled);
    if (result - scaled).abs() == 0.5 && (result % 2.0).abs() == 1.0 {
        result -= 1.0;
    }
    if places != 0.0 {
        result = shift(result, -places);
    }
    if result == 0.0 { 0.0 } else { result }
}

/// Moves the decimal point by `places`, in the text, where it is exact.
fn shift(number: f64, places: f64) -> f64 {
    let text = display(number);
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(0.0)),
        None => (&*text, 0.0),
    };
    let exponent = display(exponent + places);
    format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN)
}

/// The digits of a whole number in another base.
pub(super) fn to_radix(number: f64, radix: u32) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !number.is_finite() {
        return display(number);
    }
    let mut digits = Vec::new();
    let mut rest = number.abs();
    let base = f64::from(radix);
    while rest >= EXACT {
        rest /= base;
        digits.push('0');
    }
    loop {
        let remainder = rest % base;
        digits.push(char::from_digit(remainder as u32, radix).unwrap_or('0'));
        rest = (rest - remainder) / base;
        if rest <= 0.0 {
            break;
        }
    }
    if number < 0.0 {
        digits.push('-');
    }
    digits.into_iter().rev().collect()
}

/// A computed number as JSON: whole ones print as integers. `None` when not finite.
pub(super) fn to_json(number: f64) -> Option<Number> {
    match Number::from_computed(number)? {
        Number::Float(float) if float.fract() == 0.0 && float.abs() < 1e21 => {
            let digits = display(float);
            Some(digits.parse().map_or_else(|_| Number::Big(digits.into()), Number::Int))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (123_456_789.0, "123456789"),
            (0.1, "0.1"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (9_223_372_036_854_775_808.0, "9223372036854776000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(display(number), text);
        }
    }

    #[test]
    fn fifteen_digits_hide_what_doubles_get_wrong() {
        for (number, rounded) in [
            (0.1 + 0.2, 0.3),
            (1.0 / 3.0, 0.333_333_333_333_333),
            (100_000_000_000_000.5, 100_000_000_000_001.0),
            (-4.35 * 100.0, -435.0),
            (1e300, 1e300),
        ] {
            assert_eq!(to_precision_15(number), rounded);
        }
    }

    #[test]
    fn fixed_places_round_halves_away_from_zero() {
        for (number, places, text) in [
            (0.5, 0, "1"),
            (2.5, 0, "3"),
            (1.005, 2, "1.00"),
            (9.995, 2, "9.99"),
            (99.5, 0, "100"),
            (0.125, 2, "0.13"),
            (1234.5678, 2, "1234.57"),
            (0.0, 3, "0.000"),
        ] {
            assert_eq!(to_fixed(number, places), text);
        }
    }

    #[test]
    fn rounding_is_half_to_even_on_decimals() {
        for (number, places, result) in [
            (4.525, 2.0, 4.52),
            (4.515, 2.0, 4.52),
            (2.5, 0.0, 2.0),
            (3.5, 0.0, 4.0),
            (-0.5, 0.0, 0.0),
            (12345.0, -2.0, 12300.0),
            (0.499_999_999_999_999_94, 0.0, 0.0),
        ] {
            assert_eq!(round(number, places), result, "{number} {places}");
        }
    }

    #[test]
    fn whole_results_print_as_integers_however_large() {
        for (number, text) in [
            (2.0, "2"),
            (2.5, "2.5"),
            (-0.0, "0"),
            (1e16, "10000000000000000"),
            (1e21, "1e21"),
            (1e19, "10000000000000000000"),
        ] {
            assert_eq!(to_json(number).unwrap().to_string(), text);
        }
        assert_eq!(to_json(f64::INFINITY), None);
    }
}
