//! Integers by picture: digits, letters, Roman numerals and words, to text and back.

use super::Arguments;
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::number;
use crate::jsonata::regex::Regex;
use crate::jsonata::value::Val;
use std::sync::LazyLock;

/// The format of a picture.
#[derive(Clone, Debug)]
pub(super) struct IntegerFormat {
    pub(super) primary: Primary,
    pub(super) case: Case,
    pub(super) ordinal: bool,
    /// The zero of the digits in use.
    pub(super) zero: u32,
    /// Digits that are written in any case, and those that may be.
    pub(super) mandatory: usize,
    pub(super) optional: usize,
    /// One separator after every so many digits …
    pub(super) regular: Option<(usize, char)>,
    /// … or separators at places counted from the right.
    pub(super) separators: Vec<(usize, char)>,
    /// The picture itself, if it is not supported.
    pub(super) picture: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Primary {
    Decimal,
    Letters,
    Roman,
    Words,
    /// Any other numbering, which no implementation supports.
    Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    Title,
}

/// The zeros of the decimal digits that pictures may be written in.
const ZEROS: [u32; 37] = [
    0x30, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];

const FEW: [&str; 20] = [
    "Zero",
    "One",
    "Two",
    "Three",
    "Four",
    "Five",
    "Six",
    "Seven",
    "Eight",
    "Nine",
    "Ten",
    "Eleven",
    "Twelve",
    "Thirteen",
    "Fourteen",
    "Fifteen",
    "Sixteen",
    "Seventeen",
    "Eighteen",
    "Nineteen",
];
const ORDINALS: [&str; 20] = [
    "Zeroth",
    "First",
    "Second",
    "Third",
    "Fourth",
    "Fifth",
    "Sixth",
    "Seventh",
    "Eighth",
    "Ninth",
    "Tenth",
    "Eleventh",
    "Twelfth",
    "Thirteenth",
    "Fourteenth",
    "Fifteenth",
    "Sixteenth",
    "Seventeenth",
    "Eighteenth",
    "Nineteenth",
];
const DECADES: [&str; 8] = ["Twenty", "Thirty", "Forty", "Fifty", "Sixty", "Seventy", "Eighty", "Ninety"];
const MAGNITUDES: [(&str, f64); 4] =
    [("Thousand", 1e3), ("Million", 1e6), ("Billion", 1e9), ("Trillion", 1e12)];
const ROMAN: [(u32, &str); 13] = [
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
];

impl IntegerFormat {
    /// Reads a picture such as `#,##0`, `I`, `w;o` or `A`.
    pub(super) fn parse(picture: &str) -> Fallible<Self> {
        let (primary, modifier) = picture.rsplit_once(';').unwrap_or((picture, ""));
        let mut format = Self {
            primary: Primary::Decimal,
            case: Case::Lower,
            ordinal: modifier.starts_with('o'),
            zero: 0x30,
            mandatory: 0,
            optional: 0,
            regular: None,
            separators: Vec::new(),
            picture: primary.into(),
        };
        (format.primary, format.case) = match primary {
            "A" => (Primary::Letters, Case::Upper),
            "a" => (Primary::Letters, Case::Lower),
            "I" => (Primary::Roman, Case::Upper),
            "i" => (Primary::Roman, Case::Lower),
            "W" => (Primary::Words, Case::Upper),
            "Ww" => (Primary::Words, Case::Title),
            "w" => (Primary::Words, Case::Lower),
            _ => {
                format.digits(primary)?;
                (if format.mandatory > 0 { Primary::Decimal } else { Primary::Sequence }, Case::Lower)
            }
        };
        Ok(format)
    }

    fn digits(&mut self, picture: &str) -> Fallible<()> {
        let mut zero = None;
        let mut place = 0;
        for character in picture.chars().rev() {
            let code = character as u32;
            if let Some(group) = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code)) {
                if *zero.get_or_insert(*group) != *group {
                    return Err(Error::new("D3131"));
                }
                self.mandatory += 1;
                place += 1;
            } else if character == '#' {
                self.optional += 1;
                place += 1;
            } else {
                self.separators.push((place, character));
            }
        }
        self.zero = zero.unwrap_or(0x30);
        self.regular = regular(&self.separators);
        Ok(())
    }
}

/// The distance at which one separator repeats, if that is all there is.
fn regular(separators: &[(usize, char)]) -> Option<(usize, char)> {
    let (_, character) = separators.first()?;
    if separators.iter().any(|(_, other)| other != character) {
        return None;
    }
    let places: Vec<usize> = separators.iter().map(|(place, _)| *place).collect();
    let distance = common_distance(&places)?;
    Some((distance, *character))
}

/// The greatest common divisor of places, if they are all its multiples in turn.
pub(super) fn common_distance(places: &[usize]) -> Option<usize> {
    let divisor = places.iter().copied().reduce(|a, b| {
        let (mut a, mut b) = (a, b);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    })?;
    let is_regular = (1..=places.len()).all(|turn| places.contains(&(turn * divisor)));
    (is_regular && divisor > 0).then_some(divisor)
}

impl Evaluator<'_> {
    pub(super) fn format_integer(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(value) = args.number(0)? else { return Ok(Val::Undefined) };
        let Some(picture) = args.text(1)? else { return Err(Error::argument(2)) };
        self.meter.work(128 + 8 * picture.len() as u64)?;
        let text = self.integer_text(value.floor(), &IntegerFormat::parse(picture)?)?;
        Val::built(&self.meter, &text)
    }

    /// An integer as its format writes it.
    pub(super) fn integer_text(&self, value: f64, format: &IntegerFormat) -> Fallible<String> {
        let size = value.abs();
        let is_decimal = matches!(format.primary, Primary::Decimal | Primary::Sequence);
        if !size.is_finite() && !is_decimal {
            // The reference would never end.
            return Err(Error::stack());
        }
        let mut text = match format.primary {
            Primary::Sequence => {
                return Err(Error::new("D3130").quoted(&format.picture));
            }
            Primary::Letters => letters(size),
            Primary::Roman => self.roman(size)?,
            Primary::Words => words(size, false, format.ordinal),
            Primary::Decimal => self.decimal(size, format)?,
        };
        text = match (format.primary, format.case) {
            (Primary::Decimal, _) | (Primary::Words, Case::Title) => text,
            (_, Case::Upper) => text.to_uppercase(),
            _ => text.to_lowercase(),
        };
        if value < 0.0 {
            text.insert(0, '-');
        }
        Ok(text)
    }

    fn decimal(&self, size: f64, format: &IntegerFormat) -> Fallible<String> {
        let digits = number::display(size);
        // A width in a date picture may ask for any number of zeros: refused before they are made.
        let missing = format.mandatory.saturating_sub(digits.len());
        drop(self.meter.hold(missing.saturating_mul(4))?);
        self.meter.text(missing)?;
        let digits = format!("{}{digits}", "0".repeat(missing));
        let digits =
            digits.chars().map(|digit| char::from_u32(digit as u32 + format.zero - 0x30).unwrap_or(digit));
        let mut characters: Vec<char> = digits.collect();
        if let Some((distance, separator)) = format.regular {
            let count = characters.len();
            let spaced = characters.into_iter().enumerate().flat_map(|(at, digit)| {
                let is_group = at > 0 && (count - at).is_multiple_of(distance);
                is_group.then_some(separator).into_iter().chain([digit])
            });
            characters = spaced.collect();
        } else {
            self.meter.work((characters.len() * format.separators.len()) as u64)?;
            for (place, separator) in format.separators.iter().rev() {
                // A place beyond the first digit counts back from the last one, as in the reference.
                let count = characters.len();
                let (head, tail) = match count.checked_sub(*place) {
                    Some(at) => (at, at),
                    None => (0, count.saturating_sub(place - count)),
                };
                let rest = characters.split_off(tail);
                characters.truncate(head);
                characters.push(*separator);
                characters.extend(rest);
            }
        }
        let mut text: String = characters.iter().collect();
        if format.ordinal {
            let is_teen = characters.len() > 1 && characters[characters.len() - 2] == '1';
            text.push_str(match characters.last() {
                Some('1') if !is_teen => "st",
                Some('2') if !is_teen => "nd",
                Some('3') if !is_teen => "rd",
                _ => "th",
            });
        }
        Ok(text)
    }

    fn roman(&self, size: f64) -> Fallible<String> {
        // One letter for each thousand: refused before they are made.
        let thousands = (size / 1000.0) as usize;
        drop(self.meter.hold(thousands.saturating_mul(2))?);
        self.meter.text(thousands)?;
        let mut text = "m".repeat(thousands);
        let mut rest = (size % 1000.0) as u32;
        for (value, letters) in ROMAN {
            while rest >= value {
                text.push_str(letters);
                rest -= value;
            }
        }
        Ok(text)
    }

    pub(super) fn parse_integer(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let Some(picture) = args.text(1)? else { return Err(Error::argument(2)) };
        self.meter.work(128 + (8 * picture.len() + text.len()) as u64)?;
        self.integer_value(text, &IntegerFormat::parse(picture)?).map(Val::Number)
    }

    /// The integer that a text means; NaN where it means none.
    pub(super) fn integer_value(&self, text: &str, format: &IntegerFormat) -> Fallible<f64> {
        Ok(match format.primary {
            Primary::Sequence => {
                return Err(Error::new("D3130").quoted(&format.picture));
            }
            Primary::Letters => {
                let first = if format.case == Case::Upper { 'A' } else { 'a' } as u32;
                let value = |unit: u16| f64::from(i32::from(unit) - first as i32 + 1);
                let units: Vec<u16> = text.encode_utf16().collect();
                let places = units.iter().rev().zip(0..);
                places.fold(0.0, |sum, (unit, place)| sum + value(*unit) * 26_f64.powi(place))
            }
            Primary::Roman => from_roman(&text.to_uppercase()),
            Primary::Words => self.words_value(&text.to_lowercase())?,
            Primary::Decimal => {
                let text = if format.ordinal {
                    text.get(..text.len().saturating_sub(2)).unwrap_or("")
                } else {
                    text
                };
                let is_separator = |digit: char| match format.regular {
                    Some(_) => digit == ',',
                    None => format.separators.iter().any(|(_, separator)| *separator == digit),
                };
                let plain = |digit: char| {
                    char::from_u32((digit as u32).wrapping_sub(format.zero).wrapping_add(0x30)).unwrap_or('?')
                };
                let digits: String = text.chars().filter(|digit| !is_separator(*digit)).map(plain).collect();
                leading_integer(&digits)
            }
        })
    }

    fn words_value(&self, text: &str) -> Fallible<f64> {
        static BREAKS: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r",\s|\sand\s|[\s\\-]", "").ok());
        let mut parts = Vec::new();
        let mut from = 0;
        if let Some(breaks) = &*BREAKS {
            while let Some(found) = breaks.find(text, from, &self.meter)? {
                parts.push(&text[from..found.start]);
                from = found.end;
            }
        }
        parts.push(&text[from..]);
        let mut sums = vec![0.0];
        for part in parts {
            let value = word_value(part);
            let top: f64 = sums.pop().unwrap_or(0.0);
            if value < 100.0 {
                if top >= 1000.0 {
                    sums.push(top);
                    sums.push(value);
                } else {
                    sums.push(top + value);
                }
            } else {
                sums.push(top * value);
            }
        }
        Ok(sums.iter().sum())
    }
}

/// Parses an integer like JavaScript: text after the digits is ignored.
pub(super) fn leading_integer(text: &str) -> f64 {
    let text = text.trim_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let hex: Vec<u32> = hex.chars().map_while(|digit| digit.to_digit(16)).collect();
        let number = hex.iter().fold(0.0, |sum, digit| sum * 16.0 + f64::from(*digit));
        return if hex.is_empty() { f64::NAN } else { sign * number };
    }
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    digits[..count].parse::<f64>().map_or(f64::NAN, |number| sign * number)
}

fn letters(size: f64) -> String {
    let mut letters = Vec::new();
    let mut rest = size;
    while rest > 0.0 {
        letters.push(char::from(b'a' + ((rest - 1.0) % 26.0) as u8));
        rest = ((rest - 1.0) / 26.0).floor();
    }
    letters.iter().rev().collect()
}

fn words(number: f64, follows: bool, ordinal: bool) -> String {
    let few = |number: f64| if ordinal { ORDINALS[number as usize] } else { FEW[number as usize] };
    if number <= 19.0 {
        return format!("{}{}", if follows { " and " } else { "" }, few(number));
    }
    if number < 100.0 {
        let decade = DECADES[(number / 10.0) as usize - 2];
        let rest = number % 10.0;
        let lead = if follows { " and " } else { "" };
        return if rest > 0.0 {
            format!("{lead}{decade}-{}", words(rest, false, ordinal))
        } else if ordinal {
            format!("{lead}{}ieth", &decade[..decade.len() - 1])
        } else {
            format!("{lead}{decade}")
        };
    }
    let (name, factor) = if number < 1000.0 {
        ("Hundred", 100.0)
    } else {
        *MAGNITUDES.iter().rev().find(|(_, factor)| number >= *factor).unwrap_or(&MAGNITUDES[0])
    };
    let count = (number / factor).floor();
    let rest = if factor == 100.0 { number % 100.0 } else { number - count * factor };
    let lead = if follows { ", " } else { "" };
    let tail = if rest > 0.0 {
        words(rest, true, ordinal)
    } else if ordinal {
        "th".into()
    } else {
        String::new()
    };
    format!("{lead}{} {name}{tail}", words(count, false, false))
}

fn from_roman(text: &str) -> f64 {
    let (mut sum, mut max) = (0.0, 1.0);
    for letter in text.chars().rev() {
        let value = match letter {
            'M' => 1000.0,
            'D' => 500.0,
            'C' => 100.0,
            'L' => 50.0,
            'X' => 10.0,
            'V' => 5.0,
            'I' => 1.0,
            _ => return f64::NAN,
        };
        if value < max {
            sum -= value;
        } else {
            max = value;
            sum += value;
        }
    }
    sum
}

fn word_value(word: &str) -> f64 {
    let position = |words: &[&str]| words.iter().position(|known| known.eq_ignore_ascii_case(word));
    if let Some(value) = position(&FEW).or_else(|| position(&ORDINALS)) {
        return value as f64;
    }
    let stem = word.strip_suffix("ieth").map(|stem| format!("{stem}y"));
    let decade = |word: &str| DECADES.iter().position(|known| known.eq_ignore_ascii_case(word));
    if let Some(value) = decade(word).or_else(|| stem.and_then(|stem| decade(&stem))) {
        return (value + 2) as f64 * 10.0;
    }
    let word = word.strip_suffix("th").unwrap_or(word);
    if word == "hundred" {
        return 100.0;
    }
    let magnitude = MAGNITUDES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    magnitude.map_or(f64::NAN, |(_, value)| *value)
}

/// All words that numbers are made of, for the dates that are written with them.
pub(super) fn word_pattern() -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(FEW.iter().chain(&ORDINALS).map(|word| word.to_lowercase()));
    for decade in DECADES {
        let decade = decade.to_lowercase();
        words.push(format!("{}ieth", &decade[..decade.len() - 1]));
        words.push(decade);
    }
    words.extend(["hundred", "hundredth"].map(str::to_owned));
    for (magnitude, _) in MAGNITUDES {
        words.extend([magnitude.to_lowercase(), format!("{}th", magnitude.to_lowercase())]);
    }
    format!("(?:{}|and|[\\-, ])+", words.join("|"))
}
