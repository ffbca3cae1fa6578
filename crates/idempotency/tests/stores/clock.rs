//! A clock that stands still until it is told to go on, or back.

use jiff::Timestamp;
use perdura_idempotency::store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Milliseconds since 1970. A clone is the same clock.
#[derive(Clone)]
pub(crate) struct StandingClock(Arc<AtomicI64>);

impl StandingClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000)))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.step(time.as_secs_f64());
    }

    /// Goes by so many seconds, also back.
    pub(crate) fn step(&self, seconds: f64) {
        self.0.fetch_add((seconds * 1e3).round() as i64, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let millis = self.0.clone();
        Arc::new(move || {
            Timestamp::from_millisecond(millis.load(Ordering::SeqCst)).expect("a time that can be told")
        })
    }
}
