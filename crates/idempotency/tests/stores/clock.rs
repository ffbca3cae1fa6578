//! A clock that stands still until it is told to go on, or back.

use jiff::{SignedDuration, Timestamp};
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::{Clock, Pending, Store};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds since 1970. A clone is the same clock.
#[derive(Clone)]
pub(crate) struct StandingClock(Arc<AtomicI64>);

impl StandingClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000)))
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

    /// Two instances of a store that lives on this clock, and what has to last as long as they do.
    pub(crate) fn bench(
        self,
        instances: [Arc<dyn Store>; 2],
        hears_others: bool,
        keeps: impl Send + Sync + 'static,
    ) -> Bench {
        let step = move |time: SignedDuration| -> Pending<'static, ()> {
            let _kept = &keeps;
            self.step(time.as_secs_f64());
            Box::pin(ready(()))
        };
        Bench::new(instances, hears_others, Box::new(step))
    }
}
