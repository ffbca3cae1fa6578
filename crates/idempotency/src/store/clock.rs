//! The clock of an in-process store. Server stores use their own.

use jiff::Timestamp;
use std::sync::Arc;
#[cfg(feature = "sqlite")]
use std::time::{Duration, Instant};

/// Returns the time. Tests use a clock that stands still until it is moved.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine.
pub(crate) fn system() -> Clock {
    Arc::new(Timestamp::now)
}

/// The clock of this machine, for data with records of earlier processes: it begins no earlier than the newest time on
/// record, and then follows elapsed time, whatever happens to the machine's clock. A record with a time that is behind
/// for a moment would be expired as soon as the clock is right.
#[cfg(feature = "sqlite")]
pub(crate) fn not_before(newest: Option<Timestamp>) -> Clock {
    let (began_at, began) = (Timestamp::now(), Instant::now());
    let least = newest.map_or(began_at, |newest| newest.max(began_at));
    Arc::new(move || shown(Timestamp::now(), least, began.elapsed()))
}

/// The time shown after `elapsed`.
#[cfg(feature = "sqlite")]
fn shown(machine: Timestamp, least: Timestamp, elapsed: Duration) -> Timestamp {
    machine.max(least.checked_add(elapsed).unwrap_or(Timestamp::MAX))
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn time_passes_from_the_newest_on_record_whatever_the_machine_says() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let day = 86_400;
        for (machine, elapsed, expected) in [
            (1_000 * day, 0, 1_000 * day),
            (999 * day, 0, 1_000 * day),
            (999 * day + 5, 5, 1_000 * day + 5),
            (1_001 * day, 5, 1_001 * day),
            (1_000 * day + 4, 5, 1_000 * day + 5),
        ] {
            let shown = shown(at(machine), at(1_000 * day), Duration::from_secs(elapsed));
            assert_eq!(shown, at(expected), "{machine} {elapsed}");
        }
        assert_eq!(shown(at(0), Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
    }
}
