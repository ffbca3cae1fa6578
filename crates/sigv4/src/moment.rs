//! The time of a signature: seconds since 1970, and `20260304T050607Z`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const FORM: &str = "%Y%m%dT%H%M%SZ";

/// `20260304T050607Z`. The first eight characters are the day.
pub(crate) fn written(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    at.unwrap_or(Timestamp::MAX).strftime(FORM).to_string()
}

/// The seconds of a time in this form; `None`: it is not a valid time.
pub(crate) fn read(text: &str) -> Option<u64> {
    let at = DateTime::strptime(FORM, text).ok()?.to_zoned(TimeZone::UTC).ok()?;
    let seconds = u64::try_from(at.timestamp().as_second()).ok()?;
    // A time that was parsed leniently formats differently, and is refused.
    (written(seconds) == text).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_and_read() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_440_938_160, "20150830T123600Z"),
            (1_772_600_767, "20260304T050607Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(written(seconds), text);
            assert_eq!(read(text), Some(seconds));
        }
        assert_eq!(written(u64::MAX), "99991230T220000Z");
    }

    #[test]
    fn what_is_no_time_is_not_taken_for_one() {
        for text in [
            "",
            "20150830",
            "20150830T123600",
            "20150830T123600z",
            "20150830 123600Z",
            "20150231T000000Z",
            "20150830T240000Z",
            "20150830T126000Z",
            "20150830T123660Z",
            " 20150830T12360Z",
            "20150030T123600Z",
            "19691231T235959Z",
            "+0150830T123600Z",
            "2015083é123600Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
