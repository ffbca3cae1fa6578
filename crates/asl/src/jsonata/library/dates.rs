//! Dates and times to text, by picture.
//!
//! Time itself comes from the dice of the Turn; here it is only formatted. There are no time zones, only offsets.

use super::Arguments;
use super::integers::{Case, IntegerFormat, leading_integer};
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::value::{Text, Val};
use crate::timestamp::{date_of, days_since_1970};

/// The default picture of `$now()` and `$fromMillis`.
const ISO: &str = "[Y0001]-[M01]-[D01]T[H01]:[m01]:[s01].[f001][Z01:01t]";

pub(super) const DAYS: [&str; 8] =
    ["", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAY_MS: f64 = 86_400_000.0;

/// One piece of a date picture.
pub(super) enum Part {
    Literal(String),
    Marker(Marker),
}

/// A component of a date and how it is written.
pub(super) struct Marker {
    pub(super) component: char,
    presentation2: Option<char>,
    /// The most characters that a name may have.
    pub(super) width_max: Option<usize>,
    pub(super) names: Option<Case>,
    pub(super) format: Option<IntegerFormat>,
    /// How many digits a year, month or day has, where that is said.
    pub(super) digits: Option<usize>,
}

/// Reads a picture such as `[D01]/[M01]/[Y0001]`.
pub(super) fn parse_picture(picture: &str) -> Fallible<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = picture;
    while let Some(open) = rest.find('[') {
        push_literal(&mut parts, &rest[..open]);
        rest = &rest[open..];
        if let Some(after) = rest.strip_prefix("[[") {
            parts.push(Part::Literal("[".into()));
            rest = after;
            continue;
        }
        let Some(close) = rest.find(']') else { return Err(Error::new("D3135")) };
        let marker: String = rest[1..close].chars().filter(|c| !c.is_whitespace()).collect();
        parts.push(Part::Marker(Marker::parse(&marker)?));
        rest = &rest[close + 1..];
    }
    push_literal(&mut parts, rest);
    Ok(parts)
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.replace("]]", "]")));
    }
}

impl Marker {
    fn parse(marker: &str) -> Fallible<Self> {
        let component = marker.chars().next().unwrap_or_default();
        let modifiers = &marker[component.len_utf8().min(marker.len())..];
        let (presentation, width) = match modifiers.rsplit_once(',') {
            Some((presentation, width)) => (presentation, Some(width)),
            None => (modifiers, None),
        };
        let (width_min, width_max) = width.map_or((None, None), widths);
        let mut presentation2 = None;
        let mut presentation1 = presentation;
        let last = presentation.chars().next_back();
        if presentation.chars().count() > 1 && last.is_some_and(|last| "atco".contains(last)) {
            presentation2 = last;
            presentation1 = &presentation[..presentation.len() - 1];
        } else if presentation.is_empty() {
            let unknown = || {
                let name = if marker.is_empty() { String::new() } else { component.to_string() };
                Error::new("D3132").quoted(&name)
            };
            presentation1 = default_presentation(component).ok_or_else(unknown)?;
        }
        let mut parsed =
            Self { component, presentation2, width_max, names: None, format: None, digits: None };
        if presentation1.starts_with('n') {
            parsed.names = Some(Case::Lower);
        } else if let Some(rest) = presentation1.strip_prefix('N') {
            parsed.names = Some(if rest.starts_with('n') { Case::Title } else { Case::Upper });
        } else if "YMDdFWwXxHhmsf".contains(component) {
            let suffix = presentation2.map_or(String::new(), |modifier| format!(";{modifier}"));
            let mut format = IntegerFormat::parse(&format!("{presentation1}{suffix}"))?;
            format.mandatory = format.mandatory.max(width_min.filter(|_| format.mandatory > 0).unwrap_or(0));
            if "YMD".contains(component) {
                if let Some(max) = width_max {
                    parsed.digits = Some(max);
                    format.mandatory = max;
                } else if format.mandatory + format.optional >= 2 {
                    parsed.digits = Some(format.mandatory + format.optional);
                }
            }
            parsed.format = Some(format);
        }
        if matches!(component, 'Z' | 'z') {
            parsed.format = Some(IntegerFormat::parse(presentation1)?);
        }
        Ok(parsed)
    }
}

/// `min`, `min-max` or `*-max`.
fn widths(text: &str) -> (Option<usize>, Option<usize>) {
    let width = |text: &str| {
        let number = leading_integer(text);
        (number >= 0.0).then_some(number as usize)
    };
    match text.split_once('-') {
        Some((min, max)) => (width(min), width(max)),
        None => (width(text), None),
    }
}

fn default_presentation(component: char) -> Option<&'static str> {
    Some(match component {
        'Y' | 'M' | 'D' | 'd' | 'W' | 'w' | 'X' | 'x' | 'H' | 'h' | 'f' => "1",
        'F' | 'P' | 'C' | 'E' => "n",
        'm' | 's' => "01",
        'Z' | 'z' => "01:01",
        _ => return None,
    })
}

/// Days since 1970 of a date; months may be out of 0..12 and carry over.
fn day_number(year: f64, month: f64, day: f64) -> f64 {
    let (year, month) = (year + (month / 12.0).floor(), month.rem_euclid(12.0));
    if !year.is_finite() || year.abs() > 400_000.0 {
        return f64::NAN;
    }
    days_since_1970(year as i64, month as i64 + 1, 1) as f64 + day - 1.0
}

/// JavaScript's `Date.UTC`: years from 0 to 99 are those of the twentieth century.
pub(super) fn utc(fields: [f64; 7]) -> f64 {
    let [year, month, day, hours, minutes, seconds, millis] = fields.map(f64::trunc);
    let year = if (0.0..=99.0).contains(&year) { 1900.0 + year } else { year };
    let time = hours * 3_600_000.0 + minutes * 60_000.0 + seconds * 1000.0 + millis;
    let total = day_number(year, month, day) * DAY_MS + time;
    if total.abs() <= 8.64e15 { total } else { f64::NAN }
}

/// The fields of a time; all of them NaN if it is invalid.
#[derive(Clone, Copy)]
pub(super) struct Date {
    millis: f64,
    year: f64,
    month: f64,
    day: f64,
}

impl Date {
    pub(super) fn new(millis: f64) -> Self {
        let millis = millis.trunc();
        if millis.is_nan() || millis.abs() > 8.64e15 {
            return Self { millis: f64::NAN, year: f64::NAN, month: f64::NAN, day: f64::NAN };
        }
        let (year, month, day) = date_of((millis / DAY_MS).floor() as i64);
        Self { millis, year: year as f64, month: (month - 1) as f64, day: day as f64 }
    }

    pub(super) fn month(self) -> f64 {
        self.month
    }

    pub(super) fn day(self) -> f64 {
        self.day
    }

    fn midnight(self) -> f64 {
        utc([self.year, self.month, self.day, 0.0, 0.0, 0.0, 0.0])
    }

    /// From Monday, which is 1, to Sunday, which is 7.
    fn weekday(millis: f64) -> f64 {
        ((millis / DAY_MS).floor() + 3.0).rem_euclid(7.0) + 1.0
    }

    /// The Monday of the first week of a month that has most of its days in it.
    fn first_week(year: f64, month: f64) -> f64 {
        let first = utc([year, month, 1.0, 0.0, 0.0, 0.0, 0.0]);
        let weekday = Self::weekday(first);
        first + if weekday > 4.0 { 8.0 - weekday } else { 1.0 - weekday } * DAY_MS
    }

    /// The week of a year or of a month, where `span` is 12 or 1 months.
    fn week(self, month: f64, span: f64, weeks_max: f64) -> f64 {
        let weeks = |start: f64| (self.midnight() - start) / (DAY_MS * 7.0) + 1.0;
        let shift = |months: f64| {
            let at = month + months;
            Self::first_week(self.year + (at / 12.0).floor(), at.rem_euclid(12.0))
        };
        let mut week = weeks(shift(0.0));
        if week > weeks_max {
            if self.midnight() >= shift(span) {
                week = 1.0;
            }
        } else if week < 1.0 {
            week = weeks(shift(-span));
        }
        week.floor()
    }

    /// One component as a number; unknown letters give NaN.
    pub(super) fn component(self, component: char) -> f64 {
        let time = self.millis.rem_euclid(DAY_MS);
        match component {
            'Y' => self.year,
            'M' => self.month + 1.0,
            'D' => self.day,
            'd' => (self.midnight() - utc([self.year, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])) / DAY_MS + 1.0,
            'F' => Self::weekday(self.millis),
            'W' => self.week(0.0, 12.0, 52.0),
            'w' => self.week(self.month, 1.0, 4.0),
            'X' => {
                let year = self.year;
                if self.millis < Self::first_week(year, 0.0) {
                    year - 1.0
                } else if self.millis >= Self::first_week(year + 1.0, 0.0) {
                    year + 1.0
                } else {
                    year
                }
            }
            'x' => {
                let next = (self.month + 1.0).rem_euclid(12.0);
                let next_year = self.year + ((self.month + 1.0) / 12.0).floor();
                if self.millis < Self::first_week(self.year, self.month) {
                    (self.month - 1.0).rem_euclid(12.0) + 1.0
                } else if self.millis >= Self::first_week(next_year, next) {
                    next + 1.0
                } else {
                    self.month + 1.0
                }
            }
            'H' => (time / 3_600_000.0).floor(),
            'h' => {
                let hours = (time / 3_600_000.0).floor() % 12.0;
                if hours == 0.0 { 12.0 } else { hours }
            }
            'P' => f64::from(u8::from(time >= DAY_MS / 2.0)),
            'm' => (time / 60_000.0).floor() % 60.0,
            's' => (time / 1000.0).floor() % 60.0,
            'f' => time % 1000.0,
            _ => f64::NAN,
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn now(&self, args: Arguments<'_>) -> Fallible<Val> {
        self.date_text(self.scope.dice.now_ms() as f64, args, 0)
    }

    pub(super) fn date_of_millis(&self, args: Arguments<'_>) -> Fallible<Val> {
        match args.number(0)? {
            Some(millis) => self.date_text(millis, args, 1),
            None => Ok(Val::Undefined),
        }
    }

    /// A time by the picture and offset that stand at `first` among the arguments.
    fn date_text(&self, millis: f64, args: Arguments<'_>, first: usize) -> Fallible<Val> {
        let picture = args.text(first)?.map_or(ISO, |picture| &**picture);
        self.meter.work(256 + 16 * picture.len() as u64)?;
        let (hours, minutes) = match args.text(first + 1)? {
            Some(offset) => {
                let offset = leading_integer(offset);
                ((offset / 100.0).floor(), offset % 100.0)
            }
            None => (0.0, 0.0),
        };
        let date = Date::new(millis + (60.0 * hours + minutes) * 60_000.0);
        let mut out = Text::new(&self.meter)?;
        for part in parse_picture(picture)? {
            match part {
                Part::Literal(text) => out.push(&text)?,
                Part::Marker(marker) => out.push(&self.component_text(date, &marker, hours, minutes)?)?,
            }
        }
        Ok(out.finish())
    }

    fn component_text(&self, date: Date, marker: &Marker, hours: f64, minutes: f64) -> Fallible<String> {
        let component = marker.component;
        let mut value = date.component(component);
        match component {
            'Z' | 'z' => return self.offset_text(marker, hours, minutes),
            'P' => {
                let name = if value == 1.0 { "pm" } else { "am" };
                return Ok(if marker.names == Some(Case::Upper) { name.to_uppercase() } else { name.into() });
            }
            'C' | 'E' => return Ok("ISO".into()),
            'Y' => {
                if let Some(digits) = marker.digits {
                    value %= 10_f64.powf(digits as f64);
                }
            }
            _ => {}
        }
        if let Some(case) = marker.names {
            let names: &[&str] = match component {
                'M' | 'x' => &MONTHS,
                'F' => &DAYS[1..],
                _ => {
                    return Err(Error::new("D3133").quoted(&component.to_string()));
                }
            };
            let name = names.get(value as usize - usize::from(value >= 1.0)).filter(|_| !value.is_nan());
            let name = name.ok_or_else(|| Error::plain("The time is out of the range of dates"))?;
            let name: String = name.chars().take(marker.width_max.unwrap_or(usize::MAX)).collect();
            return Ok(match case {
                Case::Upper => name.to_uppercase(),
                Case::Lower => name.to_lowercase(),
                Case::Title => name,
            });
        }
        match &marker.format {
            Some(format) => self.integer_text(value, format),
            None => Ok("undefined".into()),
        }
    }

    fn offset_text(&self, marker: &Marker, hours: f64, minutes: f64) -> Fallible<String> {
        let offset = hours * 100.0 + minutes;
        if offset == 0.0 && marker.presentation2 == Some('t') {
            return Ok("Z".into());
        }
        let Some(format) = &marker.format else { return Ok(String::new()) };
        let mut text = if format.regular.is_some() {
            self.integer_text(offset, format)?
        } else {
            match format.mandatory {
                1 | 2 => {
                    let mut text = self.integer_text(hours, format)?;
                    if minutes != 0.0 {
                        let two = IntegerFormat::parse("00")?;
                        text = format!("{text}:{}", self.integer_text(minutes, &two)?);
                    }
                    text
                }
                3 | 4 => self.integer_text(offset, format)?,
                _ => return Err(Error::new("D3134")),
            }
        };
        if offset >= 0.0 {
            text.insert(0, '+');
        }
        Ok(if marker.component == 'z' { format!("GMT{text}") } else { text })
    }
}
