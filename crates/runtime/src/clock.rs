//! The real clocks and the real dice.

use perdura_engine::{Moment, Timestamp};
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A smaller difference between the clocks is drift, a larger one a step.
const STEP_MS: i64 = 500;
/// Entropy is asked for this many Turns at a time.
const POOL: usize = 256;

/// Reads the wall clock and a clock that never steps, which starts out equal to it.
#[derive(Debug)]
pub struct RealClock {
    began_at: Timestamp,
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// How far the wall clock was stepped since the beginning.
    ahead_ms: i64,
    entropy: Vec<u128>,
}

impl Default for RealClock {
    fn default() -> Self {
        Self {
            began_at: wall(),
            began: Instant::now(),
            inner: Mutex::new(Inner { ahead_ms: 0, entropy: Vec::with_capacity(POOL) }),
        }
    }
}

impl RealClock {
    /// Now, and fresh entropy.
    pub fn moment(&self) -> Moment {
        let elapsed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let steady = self.began_at.after_ms(elapsed);
        let wall = wall();
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ahead_ms = wall.0 - steady.0;
        if (ahead_ms - inner.ahead_ms).abs() >= STEP_MS {
            tracing::warn!(by_ms = ahead_ms - inner.ahead_ms, "the wall clock was stepped");
            inner.ahead_ms = ahead_ms;
        }
        let now = steady.after_ms(inner.ahead_ms);
        if inner.entropy.is_empty() {
            inner.entropy.extend(pool());
        }
        let entropy = inner.entropy.pop().expect("the pool was just filled");
        Moment { now, steady, entropy }
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn pool() -> impl Iterator<Item = u128> {
    let mut bytes = [0; POOL * 16];
    getrandom::fill(&mut bytes).expect("a system without random numbers cannot make keys");
    let chunks: Vec<u128> =
        bytes.as_chunks::<16>().0.iter().map(|chunk| u128::from_ne_bytes(*chunk)).collect();
    chunks.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_never_comes_twice_and_steady_time_never_goes_back() {
        let clock = RealClock::default();
        let moments: Vec<Moment> = (0..3 * POOL).map(|_| clock.moment()).collect();
        let mut entropy: Vec<u128> = moments.iter().map(|moment| moment.entropy).collect();
        entropy.sort_unstable();
        entropy.dedup();
        assert_eq!(entropy.len(), moments.len());
        assert!(moments.is_sorted_by_key(|moment| moment.steady));
    }
}
