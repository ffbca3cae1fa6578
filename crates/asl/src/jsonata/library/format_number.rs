//! `$formatNumber`: numbers by picture, as XPath defines it.

use super::Arguments;
use super::integers::common_distance;
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::number;
use crate::jsonata::value::{Object, Val};

/// The characters of a picture.
struct Signs {
    decimal: String,
    grouping: String,
    exponent: String,
    minus: String,
    percent: String,
    per_mille: String,
    zero: char,
    digit: String,
    separator: String,
}

impl Signs {
    fn new(options: &Val) -> Self {
        let option = |name: &str, default: &str| match options {
            Val::Object(object) => text_of(object, name).unwrap_or_else(|| default.to_owned()),
            _ => default.to_owned(),
        };
        Self {
            decimal: option("decimal-separator", "."),
            grouping: option("grouping-separator", ","),
            exponent: option("exponent-separator", "e"),
            minus: option("minus-sign", "-"),
            percent: option("percent", "%"),
            per_mille: option("per-mille", "\u{2030}"),
            zero: option("zero-digit", "0").chars().next().unwrap_or('0'),
            digit: option("digit", "#"),
            separator: option("pattern-separator", ";"),
        }
    }

    fn is_digit(&self, character: char) -> bool {
        (self.zero as u32..self.zero as u32 + 10).contains(&(character as u32))
    }

    fn is_optional(&self, character: char) -> bool {
        is_sign(&self.digit, character)
    }

    fn is_active(&self, character: char) -> bool {
        self.is_digit(character)
            || [&self.decimal, &self.exponent, &self.grouping, &self.digit, &self.separator]
                .iter()
                .any(|sign| is_sign(sign, character))
    }
}

fn is_sign(sign: &str, character: char) -> bool {
    sign.chars().eq([character])
}

fn text_of(object: &Object, name: &str) -> Option<String> {
    object.get(name).str().map(|text| text.to_string())
}

/// One sub-picture, taken apart.
struct Parts {
    picture: String,
    prefix: String,
    suffix: String,
    active: String,
    mantissa: String,
    exponent: Option<String>,
    integer: String,
    fraction: String,
}

impl Parts {
    fn new(picture: &str, signs: &Signs) -> Self {
        let counts = |character: char| signs.is_active(character) && !is_sign(&signs.exponent, character);
        // A picture without active characters is all prefix; the rules below refuse it.
        let start = picture.find(counts).unwrap_or(0);
        let end = picture
            .char_indices()
            .rev()
            .find(|(_, character)| counts(*character))
            .map_or(picture.len(), |(at, character)| at + character.len_utf8());
        let active = &picture[start..end];
        let (mantissa, exponent) = match active.find(&*signs.exponent) {
            Some(at) if !signs.exponent.is_empty() => {
                (&active[..at], Some(active[at + signs.exponent.len()..].to_owned()))
            }
            _ => (active, None),
        };
        let (integer, fraction) = match mantissa.find(&*signs.decimal) {
            Some(at) if !signs.decimal.is_empty() => (&mantissa[..at], &mantissa[at + signs.decimal.len()..]),
            _ => (mantissa, &picture[end..]),
        };
        Self {
            picture: picture.into(),
            prefix: picture[..start].into(),
            suffix: picture[end..].into(),
            active: active.into(),
            mantissa: mantissa.into(),
            exponent,
            integer: integer.into(),
            fraction: fraction.into(),
        }
    }

    /// The rules of a picture; if it breaks several, the last one is named.
    fn check(&self, signs: &Signs) -> Fallible<()> {
        let picture = &*self.picture;
        let is_twice = |sign: &str| picture.find(sign) != picture.rfind(sign);
        let mut code = None;
        if is_twice(&signs.decimal) {
            code = Some("D3081");
        }
        if is_twice(&signs.percent) {
            code = Some("D3082");
        }
        if is_twice(&signs.per_mille) {
            code = Some("D3083");
        }
        if picture.contains(&*signs.percent) && picture.contains(&*signs.per_mille) {
            code = Some("D3084");
        }
        if !self.mantissa.chars().any(|c| signs.is_digit(c) || signs.is_optional(c)) {
            code = Some("D3085");
        }
        if self.active.chars().any(|character| !signs.is_active(character)) {
            code = Some("D3086");
        }
        match picture.find(&*signs.decimal) {
            Some(at) => {
                let before = picture[..at].ends_with(&*signs.grouping);
                if before || picture[at + signs.decimal.len()..].starts_with(&*signs.grouping) {
                    code = Some("D3087");
                }
            }
            None if self.integer.ends_with(&*signs.grouping) => code = Some("D3088"),
            None => {}
        }
        if picture.contains(&signs.grouping.repeat(2)) {
            code = Some("D3089");
        }
        let has_digit = |text: &str| text.chars().any(|character| signs.is_digit(character));
        if self.integer.find(&*signs.digit).is_some_and(|at| has_digit(&self.integer[..at])) {
            code = Some("D3090");
        }
        if self.fraction.rfind(&*signs.digit).is_some_and(|at| has_digit(&self.fraction[at..])) {
            code = Some("D3091");
        }
        if let Some(exponent) = &self.exponent {
            let has_percent = picture.contains(&*signs.percent) || picture.contains(&*signs.per_mille);
            if !exponent.is_empty() && has_percent {
                code = Some("D3092");
            }
            if exponent.is_empty() || exponent.chars().any(|character| !signs.is_digit(character)) {
                code = Some("D3093");
            }
        }
        code.map_or(Ok(()), |code| Err(Error::new(code)))
    }
}

/// The layout of a sub-picture.
struct Layout {
    prefix: String,
    suffix: String,
    picture: String,
    groups: Vec<usize>,
    regular: Option<usize>,
    fraction_groups: Vec<usize>,
    integer_min: usize,
    scaling: usize,
    fraction_min: usize,
    fraction_max: usize,
    exponent_min: usize,
}

impl Layout {
    fn new(parts: &Parts, signs: &Signs) -> Self {
        let digits = |text: &str| text.chars().filter(|c| signs.is_digit(*c)).count();
        let places =
            |text: &str| text.chars().filter(|c| signs.is_digit(*c) || signs.is_optional(*c)).count();
        let separators = |text: &str| -> Vec<usize> {
            if signs.grouping.is_empty() {
                return Vec::new();
            }
            text.match_indices(&*signs.grouping).map(|(at, _)| at).collect()
        };
        let groups: Vec<usize> =
            separators(&parts.integer).into_iter().map(|at| places(&parts.integer[at..])).collect();
        let fraction_groups =
            separators(&parts.fraction).into_iter().map(|at| places(&parts.fraction[..at])).collect();
        let mut integer_min = digits(&parts.integer);
        let scaling = integer_min;
        let mut fraction_min = digits(&parts.fraction);
        let mut fraction_max = places(&parts.fraction);
        if integer_min == 0 && fraction_max == 0 {
            if parts.exponent.is_some() {
                (fraction_min, fraction_max) = (1, 1);
            } else {
                integer_min = 1;
            }
        }
        if parts.exponent.is_some() && integer_min == 0 && parts.integer.contains(&*signs.digit) {
            integer_min = 1;
        }
        if integer_min == 0 && fraction_min == 0 {
            fraction_min = 1;
        }
        Self {
            prefix: parts.prefix.clone(),
            suffix: parts.suffix.clone(),
            picture: parts.picture.clone(),
            regular: common_distance(&groups),
            groups,
            fraction_groups,
            integer_min,
            scaling,
            fraction_min,
            fraction_max,
            exponent_min: parts.exponent.as_deref().map_or(0, digits),
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn format_number(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(value) = args.number(0)? else { return Ok(Val::Undefined) };
        let Some(picture) = args.text(1)? else { return Err(Error::argument(2)) };
        let signs = Signs::new(args.get(2));
        // Pictures are short; long ones cost the passes over them.
        self.meter.work(512 + 16 * picture.len() as u64)?;
        let pictures: Vec<&str> = if signs.separator.is_empty() {
            vec![picture]
        } else {
            picture.split(&*signs.separator).collect()
        };
        if pictures.len() > 2 {
            return Err(Error::new("D3080"));
        }
        let parts: Vec<Parts> = pictures.iter().map(|picture| Parts::new(picture, &signs)).collect();
        parts.iter().try_for_each(|parts| parts.check(&signs))?;
        let is_negative = value < 0.0;
        let mut layout = Layout::new(&parts[0], &signs);
        if is_negative {
            match parts.get(1) {
                Some(parts) => layout = Layout::new(parts, &signs),
                None => layout.prefix.insert_str(0, &signs.minus),
            }
        }
        Val::built(&self.meter, &write(value, &layout, &signs))
    }
}

fn write(value: f64, layout: &Layout, signs: &Signs) -> String {
    let factor = if layout.picture.contains(&*signs.percent) {
        100.0
    } else if layout.picture.contains(&*signs.per_mille) {
        1000.0
    } else {
        1.0
    };
    let mut mantissa = value.abs() * factor;
    let mut exponent = None;
    if layout.exponent_min > 0 {
        let max = 10_f64.powi(layout.scaling as i32);
        let min = 10_f64.powi(layout.scaling as i32 - 1);
        let mut shift = 0_i32;
        // Zero has no fitting exponent; the reference would search for one for ever.
        while mantissa < min && mantissa > 0.0 {
            mantissa *= 10.0;
            shift -= 1;
        }
        while mantissa > max && mantissa.is_finite() {
            mantissa /= 10.0;
            shift += 1;
        }
        exponent = Some(shift);
    }
    let rounded = number::round(mantissa, layout.fraction_max as f64);
    let text = number::to_fixed(rounded, layout.fraction_max);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole: Vec<char> = pad_left(whole.trim_start_matches('0'), layout.integer_min);
    let mut fraction: Vec<char> = fraction.trim_end_matches('0').chars().collect();
    while fraction.len() < layout.fraction_min {
        fraction.push('0');
    }
    let digit = |character: char| match character.to_digit(10) {
        Some(value) => char::from_u32(signs.zero as u32 + value).unwrap_or(character),
        None => character,
    };
    let mut out = layout.prefix.clone();
    let count = whole.len();
    for (at, character) in whole.into_iter().enumerate() {
        let to_come = count - at;
        let is_group = match layout.regular {
            Some(distance) => to_come.is_multiple_of(distance),
            None => layout.groups.contains(&to_come),
        };
        if at > 0 && is_group {
            out.push_str(&signs.grouping);
        }
        out.push(digit(character));
    }
    if !fraction.is_empty() && layout.picture.contains(&*signs.decimal) {
        out.push_str(&signs.decimal);
        for (at, character) in fraction.into_iter().enumerate() {
            if at > 0 && layout.fraction_groups.contains(&at) {
                out.push_str(&signs.grouping);
            }
            out.push(digit(character));
        }
    }
    if let Some(exponent) = exponent {
        out.push_str(&signs.exponent);
        if exponent < 0 {
            out.push_str(&signs.minus);
        }
        let digits = exponent.abs().to_string();
        out.extend(pad_left(&digits, layout.exponent_min).into_iter().map(digit));
    }
    out + &layout.suffix
}

fn pad_left(digits: &str, length: usize) -> Vec<char> {
    let missing = length.saturating_sub(digits.len());
    std::iter::repeat_n('0', missing).chain(digits.chars()).collect()
}
