//! What is old goes, a slice at a time, so that nobody waits long for a sweep.

use crate::data::{Data, Served};
use perdura_store::{Retention, Room, SweepPlace};
use std::time::Duration;

/// How many executions one slice takes: a commit that meets one takes a few milliseconds longer.
pub const SLICE: u32 = 32;
/// How many are counted at once by whoever only wants to know.
pub(crate) const COUNTED_AT_ONCE: u32 = 1_000;
/// How often a server looks for what is too old.
const EVERY: Duration = Duration::from_mins(1);
/// How many pages of 4 KiB are given back to the disk at once.
pub(crate) const PAGES: u32 = 64;
/// Between two slices the others have their turn.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// For how long things are kept. Each is a bound of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Executions, after they ended.
    pub ended_for: Duration,
    /// Ledger rows, after their execution ended.
    pub ledger_for: Duration,
    /// If the data is larger than this, the executions that ended first go.
    pub bytes_max: Option<u64>,
}

impl Default for Keep {
    /// 90 days and 24 hours, whatever the size.
    fn default() -> Self {
        Self {
            ended_for: Duration::from_hours(90 * 24),
            ledger_for: Duration::from_hours(24),
            bytes_max: None,
        }
    }
}

/// A time as the store counts it.
pub fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl Keep {
    /// Takes a slice, from this place on; where the next begins, if there is one.
    fn slice(&self, data: &mut Served, mut place: Option<SweepPlace>) -> Result<Next, crate::Refusal> {
        let now = data.moment().now;
        let retention = Retention {
            ended_before: now.after_ms(-ms(self.ended_for)),
            ledger_before: now.after_ms(-ms(self.ledger_for)),
            bytes_max: self.bytes_max,
        };
        let swept = data.sweep(&retention, &mut place, SLICE)?;
        if swept.executions + swept.ledger > 0 {
            tracing::info!(executions = swept.executions, ledger = swept.ledger, "what was too old is gone");
        }
        Ok(swept.more.then_some(place))
    }
}

/// Whether a sweep goes on, and from where.
type Next = Option<Option<SweepPlace>>;

/// Sweeps once a minute, for as long as it is polled.
pub async fn sweep(data: Served, keep: Keep) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let mut place = None;
        loop {
            let mut data = data.clone();
            match tokio::task::spawn_blocking(move || keep.slice(&mut data, place)).await {
                Ok(Ok(Some(next))) => {
                    place = next;
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(Ok(None)) => break,
                Ok(Err(refusal)) => {
                    tracing::warn!(%refusal, "what is too old cannot be taken away");
                    break;
                }
                Err(panic) => {
                    tracing::error!(%panic, "sweeping failed");
                    break;
                }
            }
        }
        give_back(&data).await;
    }
}

/// Gives the room back that will not soon be used, a slice at a time.
async fn give_back(data: &Served) {
    loop {
        let mut data = data.clone();
        match tokio::task::spawn_blocking(move || data.give_back(PAGES, true)).await {
            Ok(Ok(Room { more: true, .. })) => tokio::time::sleep(PAUSE).await,
            Ok(Ok(_)) => return,
            Ok(Err(refusal)) => return tracing::warn!(%refusal, "room cannot be given back"),
            Err(panic) => return tracing::error!(%panic, "giving room back failed"),
        }
    }
}
