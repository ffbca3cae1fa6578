//! The time of executions: that of the machine, or one that is moved on instead of waiting.
//!
//! It follows the monotonic clock from the moment of its making, so it never goes back, whatever happens to the
//! wall clock meanwhile.

use perdura_engine::Timestamp;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that may be moved on.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    began_at: Timestamp,
    skipped: i64,
    skips: bool,
}

impl Clock {
    /// From now. `skips`: waiting is replaced by [`Clock::skip_to`].
    pub(crate) fn start(skips: bool) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_at = Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX));
        Self { began: Instant::now(), began_at, skipped: 0, skips }
    }

    /// Now.
    pub(crate) fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.began_at.after_ms(passed).after_ms(self.skipped)
    }

    /// Whether time may be skipped while nothing else is to be waited for.
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    /// How much was skipped, in milliseconds.
    pub(crate) fn skipped_ms(&self) -> i64 {
        self.skipped
    }

    /// Moves on to a time; never back.
    pub(crate) fn skip_to(&mut self, at: Timestamp) {
        let ahead = at.0.saturating_sub(self.now().0).max(0);
        self.skipped = self.skipped.saturating_add(ahead);
    }

    /// How long until a time; zero if it has come.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        // Half a millisecond more: a wait that ends too early would only begin again.
        let ms = at.0.saturating_sub(self.now().0);
        if ms <= 0 {
            Duration::ZERO
        } else {
            Duration::from_millis(ms.unsigned_abs()) + Duration::from_micros(500)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_clock_moves_on_and_never_back() {
        let mut clock = Clock::start(true);
        let before = clock.now();
        let later = before.after_seconds(45 * 86_400);
        assert!(clock.until(later) > Duration::from_hours(44 * 24));
        clock.skip_to(later);
        assert!(clock.now() >= later);
        assert_eq!(clock.until(later), Duration::ZERO);
        clock.skip_to(before);
        assert!(clock.now() >= later);
        clock.skip_to(Timestamp(i64::MAX));
        assert_eq!(clock.now(), Timestamp(i64::MAX));
    }
}
