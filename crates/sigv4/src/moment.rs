//! The time of a signature: seconds since 1970, and `20260304T050607Z`.

const SECONDS_PER_DAY: u64 = 86_400;

/// `20260304T050607Z`. The first eight characters are the day.
pub(crate) fn written(seconds: u64) -> String {
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let rest = seconds % SECONDS_PER_DAY;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The seconds of a time that is written so; `None`: it is no such time.
pub(crate) fn read(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = &bytes[from..to];
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    // A 31st of February or a 25th hour is another time when it is written again.
    (written(seconds) == text).then_some(seconds)
}

/// Days since 1970 of a date, in years that begin in March: then a leap day is the last of its year.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    before + (month * 153 + 2) / 5 + day - 1 - 719_468
}

fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
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
        for day in 0..80_000 {
            assert_eq!(read(&written(day * SECONDS_PER_DAY)), Some(day * SECONDS_PER_DAY), "day {day}");
        }
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
            "20150030T123600Z",
            "19691231T235959Z",
            "+0150830T123600Z",
            "2015083é123600Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
