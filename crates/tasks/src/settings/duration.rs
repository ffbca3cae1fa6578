//! Durations as users write them.

use std::time::Duration;

/// The longest duration: a hundred years.
const SECONDS_MAX: f64 = 100.0 * 366.0 * 86_400.0;

/// Parses `500ms`, `10s`, `5m`, `24h`, `90d`.
pub fn duration(text: &str) -> Result<Duration, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_a_duration() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("1.5m", 90_000), ("24h", 86_400_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["10", "s", "-1s", "1y", "1e9d", "nan s", ""] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
