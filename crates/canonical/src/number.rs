//! JSON numbers as exact decimals: sign, digits without zeros at either end, and the power of ten they are times.
//!
//! Nothing is computed but the exponent, so `1e999999999` costs ten bytes and no two numbers are rounded into one.

/// An exponent of more digits could not be added to in 64 bits.
const EXPONENT_DIGITS_MAX: usize = 18;

/// Writes the number that `text` begins with, and says how many bytes it takes there.
pub fn write_number(text: &[u8], out: &mut Vec<u8>) -> Result<usize, &'static str> {
    let number = Spelled::read(text)?;
    number.write(out)?;
    Ok(number.length)
}

/// How many bytes the number takes that `text` begins with.
pub(crate) fn length(text: &[u8]) -> Result<usize, &'static str> {
    Spelled::read(text).map(|number| number.length)
}

/// A number as it stands there.
struct Spelled<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: Exponent<'a>,
    length: usize,
}

impl<'a> Spelled<'a> {
    fn read(text: &'a [u8]) -> Result<Self, &'static str> {
        let digits_from = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_negative = text.first() == Some(&b'-');
        let mut at = usize::from(is_negative);
        let whole = &text[at..at + digits_from(at)];
        at += whole.len();
        match whole {
            [] => return Err("a number needs a digit"),
            [b'0', _, ..] => return Err("a number does not begin with a zero and another digit"),
            [..] => {}
        }
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = &text[at + 1..at + 1 + digits_from(at + 1)];
            at += 1 + fraction.len();
            if fraction.is_empty() {
                return Err("a number needs a digit after its point");
            }
        }
        let mut exponent = Exponent { is_negative: false, digits: &[] };
        if let Some(b'e' | b'E') = text.get(at) {
            at += 1;
            exponent.is_negative = text.get(at) == Some(&b'-');
            at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
            exponent.digits = &text[at..at + digits_from(at)];
            at += exponent.digits.len();
            if exponent.digits.is_empty() {
                return Err("a number needs a digit in its exponent");
            }
        }
        Ok(Self { is_negative, whole, fraction, exponent, length: at })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let Self { whole, fraction, .. } = *self;
        let sign = out.len();
        out.push(if self.is_negative { b'-' } else { b'+' });
        let (whole, leading) =
            if whole == b"0" { (&[][..], without_leading_zeros(fraction)) } else { (whole, fraction) };
        out.extend_from_slice(whole);
        out.extend_from_slice(leading);
        let written = out.len();
        while out.last() == Some(&b'0') {
            out.pop();
        }
        if out.len() == sign + 1 {
            // Zero, whatever its sign and its exponent.
            out[sign] = b'+';
            out.push(b'0');
            return Ok(());
        }
        let power = self.exponent.value()? - fraction.len() as i64 + (written - out.len()) as i64;
        if power != 0 {
            write_power(power, out);
        }
        Ok(())
    }
}

struct Exponent<'a> {
    is_negative: bool,
    digits: &'a [u8],
}

impl Exponent<'_> {
    fn value(&self) -> Result<i64, &'static str> {
        let digits = without_leading_zeros(self.digits);
        if digits.len() > EXPONENT_DIGITS_MAX {
            return Err("the exponent of a number has more than 18 digits");
        }
        let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        Ok(if self.is_negative { -value } else { value })
    }
}

/// Writes `e` and the power. Formatting it as other numbers takes longer than all the rest of a number.
fn write_power(power: i64, out: &mut Vec<u8>) {
    out.push(b'e');
    if power < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = power.unsigned_abs();
    while left > 0 {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, &'static str> {
        let mut out = Vec::new();
        let length = write_number(text.as_bytes(), &mut out)?;
        assert_eq!(length, text.len(), "{text}");
        Ok(String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn all_spellings_of_a_number_are_one() {
        let table: &[(&str, &[&str])] = &[
            ("+0", &["0", "-0", "0.0", "-0.000", "0e5", "0E-5", "-0.0e+99999999999999999999999999"]),
            (
                "+1",
                &[
                    "1", "1.0", "1e0", "1E+0", "1e-0", "10E-1", "0.1e1", "0.001e3", "1000e-3", "1.000",
                    "1e000",
                ],
            ),
            ("-1", &["-1", "-1.0", "-10e-1"]),
            ("+1e2", &["100", "1e2", "1E2", "1.00e2", "0.01e4", "1e0000000000000000000000002"]),
            ("+12e-1", &["1.2", "1.20", "12e-1", "0.12e1"]),
            ("+5e-324", &["5e-324", "0.5e-323"]),
            ("+9007199254740993", &["9007199254740993", "9007199254740993.0"]),
            ("+9007199254740992", &["9007199254740992", "9.007199254740992e15"]),
            ("+18446744073709551616", &["18446744073709551616"]),
            ("+1e999999999", &["1e999999999", "10e999999998"]),
            ("-1e-999999999999999999", &["-1e-999999999999999999"]),
            ("+1000000000000000000001", &["1000000000000000000001"]),
        ];
        for (form, spellings) in table {
            for spelling in *spellings {
                assert_eq!(canonical(spelling).as_deref(), Ok(*form), "{spelling}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (text, why) in [
            ("-", "needs a digit"),
            ("-a", "needs a digit"),
            ("01", "begin with a zero"),
            ("-00", "begin with a zero"),
            ("1.", "after its point"),
            ("1.e1", "after its point"),
            ("1e", "in its exponent"),
            ("1e+", "in its exponent"),
            ("1E-x", "in its exponent"),
            ("1e1000000000000000000", "more than 18"),
            ("1e-1000000000000000000", "more than 18"),
        ] {
            let said = canonical(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
