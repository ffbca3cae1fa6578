//! The clock of a run: the machine's, or one that skips waits.

use perdura_engine::{Moment, Timestamp, Wake};
use perdura_runtime::RealClock;

/// Both clocks of the machine, which can be moved forward together.
#[derive(Debug)]
pub(super) struct Clock {
    real: RealClock,
    /// [`Clock::skip_to`] replaces waiting.
    skips: bool,
    /// How far it began ahead of the machine's clock.
    ahead_ms: i64,
    skipped_ms: i64,
}

impl Clock {
    pub(super) fn new(skips: bool) -> Self {
        Self { real: RealClock::default(), skips, ahead_ms: 0, skipped_ms: 0 }
    }

    pub(super) fn skips(&self) -> bool {
        self.skips
    }

    /// From now on, really wait.
    pub(super) fn stop_skipping(&mut self) {
        self.skips = false;
    }

    /// If an earlier run skipped time, continue from its newest time, so that recorded times stay in the past.
    pub(super) fn begin_after(&mut self, newest: Option<Timestamp>) {
        if self.skips {
            self.ahead_ms += self.until(Wake { steady: newest, wall: None }).unwrap_or(0);
        }
    }

    pub(super) fn moment(&self) -> Moment {
        let moment = self.real.moment();
        let ahead_ms = self.ahead_ms.saturating_add(self.skipped_ms);
        let [now, steady] = [moment.now, moment.steady].map(|at| at.after_ms(ahead_ms));
        Moment { now, steady, ..moment }
    }

    pub(super) fn skipped_ms(&self) -> i64 {
        self.skipped_ms
    }

    /// Milliseconds until one of the clocks reaches its time; 0 if it has. `None`: there is no time.
    pub(super) fn until(&self, wake: Wake) -> Option<i64> {
        let moment = self.moment();
        let steady = wake.steady.map(|at| at.0.saturating_sub(moment.steady.0));
        let wall = wake.wall.map(|at| at.0.saturating_sub(moment.now.0));
        Some(steady.into_iter().chain(wall).min()?.max(0))
    }

    /// Moves to the first of these times, never back; returns whether there is one.
    pub(super) fn skip_to(&mut self, wake: Wake) -> bool {
        let ahead = self.until(wake);
        self.skipped_ms = self.skipped_ms.saturating_add(ahead.unwrap_or(0));
        ahead.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_clock_moves_on_and_never_back() {
        let mut clock = Clock::new(true);
        clock.begin_after(Some(clock.moment().steady.after_seconds(86_400)));
        let before = clock.moment();
        assert_eq!(clock.skipped_ms(), 0);
        let later = before.steady.after_seconds(45 * 86_400);
        let wake = |at| Wake { steady: Some(at), wall: None };
        assert!(clock.until(wake(later)) > Some(44 * 86_400_000));
        assert!(clock.skip_to(wake(later)));
        assert!(clock.moment().steady >= later && clock.moment().now > before.now.after_seconds(44 * 86_400));
        assert_eq!(clock.until(wake(later)), Some(0));
        assert!(clock.skip_to(wake(before.steady)) && clock.moment().steady >= later);
        assert!(!clock.skip_to(Wake::default()));
        clock.skip_to(wake(Timestamp(i64::MAX)));
        assert_eq!(clock.moment().steady, Timestamp(i64::MAX));
    }
}
