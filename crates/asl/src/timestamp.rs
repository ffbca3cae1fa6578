//! Timestamps as the language writes them: RFC 3339 with `T` and an offset.

use jiff::Timestamp;

/// Nanoseconds since 1970 of a timestamp such as `2016-03-14T01:59:00Z`. `None`: not one.
pub fn parse_nanos(text: &str) -> Option<i128> {
    is_rfc3339(text).then(|| text.parse::<Timestamp>().ok()).flatten().map(Timestamp::as_nanosecond)
}

/// Milliseconds since 1970, rounded up, so that nothing waits less than asked.
pub fn parse_ms(text: &str) -> Option<i64> {
    parse_nanos(text).and_then(|nanos| i64::try_from((nanos + 999_999).div_euclid(1_000_000)).ok())
}

/// Prints milliseconds since 1970 as Step Functions does: `2016-03-14T01:59:00.000Z`.
pub fn format_ms(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => "9999-12-30T22:00:00.999Z".to_owned(),
    }
}

/// jiff also reads other forms of ISO 8601; the language does not.
fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let mark = |at: usize, mark: u8| bytes.get(at) == Some(&mark);
    let shape = digits(0..4)
        && mark(4, b'-')
        && digits(5..7)
        && mark(7, b'-')
        && digits(8..10)
        && mark(10, b'T')
        && digits(11..13)
        && mark(13, b':')
        && digits(14..16)
        && mark(16, b':')
        && digits(17..19);
    if !shape {
        return false;
    }
    let mut rest = &text[19..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if end == 0 || end > 9 {
            return false;
        }
        rest = &fraction[end..];
    }
    let offset = rest.as_bytes();
    rest == "Z"
        || (offset.len() == 6
            && matches!(offset[0], b'+' | b'-')
            && offset[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| offset[*at].is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rfc3339_with_t_and_offset_is_a_timestamp() {
        for good in ["2016-03-14T01:59:00Z", "2016-03-14T01:59:00.123456789Z", "2016-03-14T01:59:00+05:30"] {
            assert!(parse_ms(good).is_some(), "{good}");
        }
        for bad in [
            "2016-03-14",
            "2016-03-14 01:59:00Z",
            "2016-03-14T01:59:00",
            "2016-13-14T01:59:00Z",
            "2016-03-14T25:59:00Z",
            "2016-03-14t01:59:00z",
            "20160314T015900Z",
            "",
            "2016-03-14T01:59Z",
            "2016-03-14T01:59:00.Z",
        ] {
            assert_eq!(parse_ms(bad), None, "{bad}");
        }
        assert_eq!(format_ms(parse_ms("2016-03-14T01:59:00.5+00:00").unwrap()), "2016-03-14T01:59:00.500Z");
    }
}
