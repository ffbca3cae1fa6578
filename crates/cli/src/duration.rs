//! Durations as people say them.

use std::time::Duration;

/// The longest that may be said: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// Reads `500ms`, `10s`, `5m`, `24h`, `90d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (count, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err("write a number and a unit: 500ms, 10s, 5m, 24h or 90d".to_owned()),
    };
    let count: f64 = count.trim().parse().map_err(|_| format!("{count:?} is no number"))?;
    let all = count * seconds;
    if (0.0..=SECONDS_MAX).contains(&all) {
        Ok(Duration::from_secs_f64(all))
    } else {
        Err("it is to be at least 0, at most a hundred years".to_owned())
    }
}

/// The two largest units that matter: `450 ms`, `1.5 s`, `2 min 5 s`, `3 h 20 min`, `45 d`.
pub(crate) fn say(ms: i64) -> String {
    let ms = ms.max(0);
    let seconds = ms / 1000;
    match seconds {
        0 if ms > 0 => format!("{ms} ms"),
        0..60 if ms % 1000 >= 100 => format!("{seconds}.{} s", ms % 1000 / 100),
        0..60 => format!("{seconds} s"),
        60..3600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds / 60 % 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// The same without fractions of a second, for what counts down or up.
pub(crate) fn say_whole(ms: i64) -> String {
    say(ms.max(0) / 1000 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_a_duration() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("1.5m", 90_000), ("24h", 86_400_000), ("0s", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["10", "s", "-1s", "1y", "1e9d", "nan s", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_read_as_people_say_them() {
        for (ms, expected) in [
            (-5, "0 s"),
            (0, "0 s"),
            (450, "450 ms"),
            (1000, "1 s"),
            (1549, "1.5 s"),
            (59_999, "59.9 s"),
            (60_000, "1 min"),
            (125_000, "2 min 5 s"),
            (12_000_000, "3 h 20 min"),
            (45 * 86_400_000, "45 d"),
            (45 * 86_400_000 + 3_600_000, "45 d 1 h"),
        ] {
            assert_eq!(say(ms), expected, "{ms}");
        }
        assert_eq!(say_whole(4999), "4 s");
    }
}
