//! Durations for people.

pub(crate) use perdura_tasks::settings::duration as parse;

/// With the two largest relevant units: `450 ms`, `1.5 s`, `2 min 5 s`, `3 h 20 min`, `45 d`.
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

/// The same without fractions of a second, for a running count.
pub(crate) fn say_whole(ms: i64) -> String {
    say(ms.max(0) / 1000 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

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
