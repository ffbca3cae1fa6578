//! Timestamps as the language writes them: RFC 3339 with `T` and an offset.

const DAY_SECONDS: i64 = 86_400;

/// Nanoseconds since 1970 of a timestamp such as `2016-03-14T01:59:00Z`. `None`: not one.
pub fn parse_nanos(text: &str) -> Option<i128> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = bytes.get(from..to).filter(|part| part.iter().all(u8::is_ascii_digit))?;
        Some(part.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    };
    let marked = |at: usize, mark: u8| bytes.get(at) == Some(&mark);
    if ![(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().all(|(at, mark)| marked(*at, *mark))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_date = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0;
    if marked(at, b'.') {
        let end = at + 1 + bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = end - at - 1;
        if !(1..=9).contains(&digits) {
            return None;
        }
        nanos = number(at + 1, end)? * 10_i64.pow(9 - digits as u32);
        at = end;
    }
    let offset = match bytes.get(at..)? {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), ..] if bytes.len() == at + 6 && marked(at + 3, b':') => {
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    // A leap second counts as the second before it.
    let of_day = hour * 3600 + minute * 60 + second.min(59);
    let seconds = days_since_1970(year, month, day) * DAY_SECONDS + of_day - offset;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

/// Milliseconds since 1970, rounded up, so that nothing waits less than asked.
pub fn parse_ms(text: &str) -> Option<i64> {
    parse_nanos(text).and_then(|nanos| i64::try_from((nanos + 999_999).div_euclid(1_000_000)).ok())
}

/// Prints milliseconds since 1970 as Step Functions does: `2016-03-14T01:59:00.000Z`.
pub fn format_ms(ms: i64) -> String {
    let (seconds, ms) = (ms.div_euclid(1000), ms.rem_euclid(1000));
    let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the Gregorian calendar, counted in years that begin in March, so that a leap day comes last.
pub(crate) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The other way round.
pub(crate) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rfc3339_with_t_and_offset_is_a_timestamp() {
        for good in [
            "2016-03-14T01:59:00Z",
            "2016-03-14T01:59:00.123456789Z",
            "2016-03-14T01:59:00+05:30",
            "2024-02-29T23:59:60Z",
            "9999-12-31T23:59:59Z",
            "0001-01-01T00:00:00-23:59",
        ] {
            assert!(parse_ms(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "2016-03-14",
            "2016-03-14 01:59:00Z",
            "2016-03-14T01:59:00",
            "2016-13-14T01:59:00Z",
            "2016-02-30T01:59:00Z",
            "2023-02-29T01:59:00Z",
            "2016-03-14T24:00:00Z",
            "2016-03-14t01:59:00Z",
            "2016-03-14T01:59:00z",
            "20160314T015900Z",
            "2016-03-14T01:59Z",
            "2016-03-14T01:59:00.Z",
            "2016-03-14T01:59:00+24:00",
            "2016-03-14T01:59:00+05",
            "2016-03-14T01:59:00Z ",
            "+016-03-14T01:59:00Z",
            "\u{ff12}016-03-14T01:59:00Z",
        ] {
            assert_eq!(parse_ms(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back_on_every_day_of_the_calendar() {
        for day in (-719_162..2_932_896).step_by(13) {
            let ms = day * DAY_SECONDS * 1000 + 12_345_678;
            assert_eq!(parse_ms(&format_ms(ms)), Some(ms));
        }
        assert_eq!(format_ms(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_ms(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(format_ms(parse_ms("2016-03-14T01:59:00.5+01:00").unwrap()), "2016-03-14T00:59:00.500Z");
        assert_eq!(parse_ms("1969-12-31T23:59:59.9999Z"), Some(0));
    }
}
