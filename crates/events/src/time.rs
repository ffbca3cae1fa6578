//! Times, only as far as their text is concerned: whether one is RFC 3339, and how seconds since 1970 are written.

/// Whether a text is a date and time of RFC 3339.
pub(crate) fn is_rfc3339(text: &str) -> bool {
    read(text.as_bytes()).is_some()
}

fn read(text: &[u8]) -> Option<()> {
    let number = |from: usize, length: usize, max: u32| {
        let digits = text.get(from..from + length)?;
        digits.iter().all(u8::is_ascii_digit).then_some(())?;
        let value = digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        (value <= max).then_some(value)
    };
    let is = |at: usize, wanted: &[u8]| text.get(at).is_some_and(|byte| wanted.contains(byte)).then_some(());
    let year = number(0, 4, 9999)?;
    is(4, b"-")?;
    let month = number(5, 2, 12).filter(|month| *month > 0)?;
    is(7, b"-")?;
    number(8, 2, days_in(year, month)).filter(|day| *day > 0)?;
    is(10, b"Tt")?;
    number(11, 2, 23)?;
    is(13, b":")?;
    number(14, 2, 59)?;
    is(16, b":")?;
    // 60 is a leap second.
    number(17, 2, 60)?;
    let mut at = 19;
    if is(at, b".").is_some() {
        let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then_some(())?;
        at += 1 + digits;
    }
    if is(at, b"Zz").is_some() {
        at += 1;
    } else {
        is(at, b"+-")?;
        number(at + 1, 2, 23)?;
        is(at + 3, b":")?;
        number(at + 4, 2, 59)?;
        at += 6;
    }
    (at == text.len()).then_some(())
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Seconds since 1970, with a fraction or without, as RFC 3339 writes them. None beyond the year 9999, or before 1970.
pub(crate) fn from_seconds(text: &str) -> Option<String> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty()
        || seconds.len() > 12
        || !is_number(seconds)
        || !is_number(fraction)
        || fraction.len() > 9
    {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let length = |year: u32| if days_in(year, 2) == 29 { 366 } else { 365 };
    while days >= length(year) {
        days -= length(year);
        year += 1;
        if year > 9999 {
            return None;
        }
    }
    let mut month = 1;
    while days >= u64::from(days_in(year, month)) {
        days -= u64::from(days_in(year, month));
        month += 1;
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let day = days + 1;
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{point}{fraction}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_what_looks_like_them() {
        for text in [
            "2018-04-05T17:31:00Z",
            "2018-04-05t17:31:00.123456789z",
            "2016-12-31T23:59:60Z",
            "2024-02-29T00:00:00+01:00",
            "2000-02-29T00:00:00-23:59",
        ] {
            assert!(is_rfc3339(text), "{text}");
        }
        for text in [
            "",
            "2018",
            "2018-04-05",
            "2018-04-05T17:31:00",
            "2018-04-05 17:31:00Z",
            "2018-13-05T17:31:00Z",
            "2018-00-05T17:31:00Z",
            "2018-04-31T17:31:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2018-04-05T24:00:00Z",
            "2018-04-05T17:60:00Z",
            "2018-04-05T17:31:61Z",
            "2018-04-05T17:31:00.Z",
            "2018-04-05T17:31:00+0100",
            "2018-04-05T17:31:00Zx",
            "+018-04-05T17:31:00Z",
            "2018-04-05T17:31:00é",
        ] {
            assert!(!is_rfc3339(text), "{text}");
        }
    }

    #[test]
    fn seconds_since_1970_are_written_as_dates() {
        for (seconds, time) in [
            ("0", "1970-01-01T00:00:00Z"),
            ("951782399", "2000-02-28T23:59:59Z"),
            ("951782400", "2000-02-29T00:00:00Z"),
            ("1795123800.5", "2026-11-19T21:30:00.5Z"),
            ("253402300799", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(from_seconds(seconds).as_deref(), Some(time), "{seconds}");
            assert!(is_rfc3339(time), "{time}");
        }
        for seconds in ["", "-1", "1e9", "253402300800", "x", "1.x", ".5", "1.0000000001"] {
            assert_eq!(from_seconds(seconds), None, "{seconds}");
        }
    }
}
