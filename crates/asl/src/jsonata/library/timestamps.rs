//! Text to times: ISO 8601, or by picture.

use super::Arguments;
use super::dates::{DAYS, Date, MONTHS, Marker, Part, parse_picture, utc};
use super::integers::{Case, IntegerFormat, Primary, leading_integer, word_pattern};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::regex::Regex;
use crate::jsonata::text;
use crate::jsonata::value::Val;
use std::collections::BTreeMap;
use std::sync::LazyLock;

impl Evaluator<'_> {
    pub(super) fn to_millis(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(timestamp) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(timestamp.len())?;
        match args.text(1)? {
            Some(picture) => self.by_picture(timestamp, picture),
            None => match self.iso(timestamp)? {
                Some(millis) => Ok(Val::Number(millis)),
                None => Err(Error::new("D3110").value(text::render(args.get(0)))),
            },
        }
    }

    /// ISO 8601 in any precision from the year on; `None` if it does not look like that at all.
    fn iso(&self, timestamp: &str) -> Fallible<Option<f64>> {
        static LOOKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
            let pattern =
                r"^\d{4}(-[01]\d)*(-[0-3]\d)*(T[0-2]\d:[0-5]\d:[0-5]\d)*(\.\d+)?([+-][0-2]\d:?[0-5]\d|Z)?$";
            Regex::new(pattern, "").ok()
        });
        let Some(looks) = &*LOOKS else { return Ok(None) };
        if looks.find(timestamp, 0, &self.meter)?.is_none() {
            return Ok(None);
        }
        Ok(Some(read_iso(timestamp).unwrap_or(f64::NAN)))
    }

    fn by_picture(&self, timestamp: &str, picture: &str) -> Fallible<Val> {
        self.meter.work(256 + 32 * picture.len() as u64)?;
        let parts = parse_picture(picture)?;
        let mut pattern = String::from("^");
        for part in &parts {
            pattern.push('(');
            pattern.push_str(&part_pattern(part)?);
            pattern.push(')');
        }
        pattern.push('$');
        self.meter.work(16 * pattern.len() as u64)?;
        let regex = Regex::new(&pattern, "i").map_err(Error::plain)?;
        self.meter.work(16 * regex.weight() as u64)?;
        let Some(found) = regex.find(timestamp, 0, &self.meter)? else { return Ok(Val::Undefined) };
        let mut components = BTreeMap::new();
        for (part, group) in parts.iter().zip(&found.groups) {
            if let (Part::Marker(marker), Some((start, end))) = (part, group) {
                components.insert(marker.component, self.part_value(marker, &timestamp[*start..*end])?);
            }
        }
        if components.is_empty() {
            return Ok(Val::Undefined);
        }
        let now = Date::new(self.scope.dice.now_ms() as f64);
        Ok(Val::Number(time_of(components, now)?))
    }

    /// The value of a component; `None` where the text is not one of its names.
    fn part_value(&self, marker: &Marker, text: &str) -> Fallible<Option<f64>> {
        if matches!(marker.component, 'Z' | 'z') {
            return Ok(Some(offset_minutes(marker, text)));
        }
        if let Some(format) = &marker.format {
            return self.integer_value(text, format).map(Some);
        }
        let named = |names: &[&str]| {
            let short = |name: &str| -> String {
                name.chars().take(marker.width_max.filter(|max| *max > 0).unwrap_or(usize::MAX)).collect()
            };
            names.iter().position(|name| short(name) == text).map(|at| at as f64 + 1.0)
        };
        Ok(match marker.component {
            'M' | 'x' => named(&MONTHS),
            'F' => named(&DAYS[1..]),
            _ => match text {
                "am" | "AM" => Some(0.0),
                "pm" | "PM" => Some(1.0),
                _ => None,
            },
        })
    }
}

/// `YYYY[-MM[-DD]][Thh:mm:ss[.f]][offset]`, in UTC where no offset is given.
fn read_iso(text: &str) -> Option<f64> {
    let number = |text: &str| text.parse::<f64>().ok();
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text.strip_suffix('Z').unwrap_or(text), None),
    };
    let mut fields = date.split('-');
    let year = fields.next().filter(|year| year.len() == 4).and_then(number)?;
    let month = fields.next().map_or(Some(1.0), number)?;
    let day = fields.next().map_or(Some(1.0), number)?;
    let is_date = (1.0..=12.0).contains(&month) && (1.0..=31.0).contains(&day) && fields.next().is_none();
    if !is_date {
        return None;
    }
    let mut clock = [0.0; 4];
    let mut offset = 0.0;
    if let Some(time) = time {
        let end = time.find(['+', '-', 'Z']).unwrap_or(time.len());
        let (time, zone) = time.split_at(end);
        let (seconds, fraction) = time.split_once('.').unwrap_or((time, ""));
        for (field, text) in clock.iter_mut().zip(seconds.split(':')) {
            *field = number(text)?;
        }
        let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
        clock[3] = number(&millis)?;
        if clock[0] > 24.0 || clock[0] == 24.0 && clock[1..].iter().any(|field| *field > 0.0) {
            return None;
        }
        if zone.len() > 1 {
            let digits = zone[1..].replace(':', "");
            let minutes = number(&digits[..2])? * 60.0 + number(&digits[2..])?;
            offset = if zone.starts_with('-') { -minutes } else { minutes };
        }
    }
    // Adding full centuries first keeps the years from 0 to 99 what they are.
    let shifted = utc([year + 400.0, month - 1.0, day, clock[0], clock[1], clock[2], clock[3]]);
    Some(shifted - 146_097.0 * 86_400_000.0 - offset * 60_000.0)
}

/// The pattern of one part of a picture.
fn part_pattern(part: &Part) -> Fallible<String> {
    let marker = match part {
        Part::Literal(text) => {
            let mut pattern = String::new();
            for character in text.chars() {
                if ".*+?^${}()|[]\\".contains(character) {
                    pattern.push('\\');
                }
                pattern.push(character);
            }
            return Ok(pattern);
        }
        Part::Marker(marker) => marker,
    };
    if matches!(marker.component, 'Z' | 'z') {
        let name = if marker.component == 'z' { "GMT" } else { "" };
        let separator = marker.format.as_ref().and_then(|format| format.regular);
        let minutes = separator.map_or(String::new(), |(_, character)| format!("{character}[0-9]+"));
        return Ok(format!("{name}[-+][0-9]+{minutes}"));
    }
    match &marker.format {
        Some(format) => integer_pattern(format, marker.digits),
        None if matches!(marker.component, 'M' | 'x' | 'F' | 'P') => Ok("[a-zA-Z]+".into()),
        None => Err(Error::new("D3133").quoted(&marker.component.to_string())),
    }
}

fn integer_pattern(format: &IntegerFormat, digits: Option<usize>) -> Fallible<String> {
    let is_upper = format.case == Case::Upper;
    Ok(match format.primary {
        Primary::Letters => if is_upper { "[A-Z]+" } else { "[a-z]+" }.into(),
        Primary::Roman => if is_upper { "[MDCLXVI]+" } else { "[mdclxvi]+" }.into(),
        Primary::Words => word_pattern(),
        Primary::Decimal => {
            let count = match digits.filter(|digits| *digits > 0) {
                Some(digits) if format.optional == 0 => format!("{{{digits}}}"),
                Some(digits) => format!("{{{},{digits}}}", digits.saturating_sub(format.optional)),
                None => "+".into(),
            };
            let suffix = if format.ordinal { "(?:th|st|nd|rd)" } else { "" };
            format!("[0-9]{count}{suffix}")
        }
        Primary::Sequence => {
            return Err(Error::new("D3130").quoted(&format.picture));
        }
    })
}

fn offset_minutes(marker: &Marker, text: &str) -> f64 {
    let text = if marker.component == 'z' { text.get(3..).unwrap_or("") } else { text };
    if let Some((_, separator)) = marker.format.as_ref().and_then(|format| format.regular) {
        let (hours, minutes) = text.split_once(separator).unwrap_or((text, ""));
        return leading_integer(hours) * 60.0 + leading_integer(minutes);
    }
    if text.len() <= 3 {
        return leading_integer(text) * 60.0;
    }
    let (hours, minutes) = text.split_at(3);
    leading_integer(hours) * 60.0 + leading_integer(minutes)
}

/// The time of the components. Missing components before them are those of now, missing ones after them the smallest.
fn time_of(mut components: BTreeMap<char, Option<f64>>, now: Date) -> Fallible<f64> {
    let mask = |letters: &str, components: &BTreeMap<char, Option<f64>>| {
        letters.chars().fold(0_u32, |mask, letter| {
            let value = components.get(&letter).copied().flatten();
            mask << 1 | u32::from(value.is_some_and(|value| value != 0.0 && !value.is_nan()))
        })
    };
    let is_type = |kind: u32, mask: u32| !kind & mask == 0 && kind & mask != 0;
    let dates = mask("YXMxWwdD", &components);
    let times = mask("PHhmsf", &components);
    let by_month = is_type(0b1010_0001, dates);
    let by_day_of_year = !by_month && is_type(0b1000_0010, dates);
    let by_week_of_month = is_type(0b0101_0100, dates);
    let by_week = !by_week_of_month && is_type(0b0100_1000, dates);
    let by_half_day = !is_type(0b01_0111, times) && is_type(0b10_1111, times);
    let wanted = if by_day_of_year {
        "YD"
    } else if by_week_of_month {
        "XxwF"
    } else if by_week {
        "XWF"
    } else {
        "YMD"
    };
    let (mut has_started, mut has_ended) = (false, false);
    for letter in wanted.chars().chain(if by_half_day { "Phmsf" } else { "Hmsf" }.chars()) {
        if components.get(&letter).copied().flatten().is_some() {
            has_started = true;
            if has_ended {
                return Err(Error::new("D3136"));
            }
        } else if has_started {
            components.insert(letter, Some(if "MDd".contains(letter) { 1.0 } else { 0.0 }));
            has_ended = true;
        } else {
            components.insert(letter, Some(now.component(letter)));
        }
    }
    if by_week_of_month || by_week {
        return Err(Error::new("D3136"));
    }
    let get = |letter: char| components.get(&letter).copied().flatten().unwrap_or(f64::NAN);
    let mut month = if get('M') > 0.0 { get('M') - 1.0 } else { 0.0 };
    let mut day = get('D');
    if by_day_of_year {
        let first = utc([get('Y'), 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let date = Date::new(first + (get('d') - 1.0) * 86_400_000.0);
        (month, day) = (date.month(), date.day());
    }
    let mut hours = get('H');
    if by_half_day {
        hours = if get('h') == 12.0 { 0.0 } else { get('h') };
        if get('P') == 1.0 {
            hours += 12.0;
        }
    }
    let millis = utc([get('Y'), month, day, hours, get('m'), get('s'), get('f')]);
    let truthy = |letter: char| Some(get(letter)).filter(|value| *value != 0.0 && !value.is_nan());
    Ok(millis - truthy('Z').or_else(|| truthy('z')).unwrap_or(0.0) * 60_000.0)
}
