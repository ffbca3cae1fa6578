//! Retention: old executions and ledger rows are deleted a slice at a time, so that commits never wait long.

use crate::data::{Data, Served};
use crate::who::Caller;
use perdura_store::audit::DoorKind;
use perdura_store::{Retention, Room, SweepPlace};
use std::sync::Arc;
use std::time::Duration;

/// Executions in a slice: a commit that waits for one takes a few milliseconds longer.
pub const SLICE: u32 = 32;
/// Executions in a slice of a dry run.
pub(crate) const COUNTED_AT_ONCE: u32 = 1_000;
/// How often a server sweeps.
const EVERY: Duration = Duration::from_mins(1);
/// Pages of 4 KiB that are given back to the disk at once.
pub(crate) const PAGES: u32 = 64;
/// What the audit calls a sweep.
const CHORE: &str = "retention";
/// The pause between two slices, for commits.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// How long data is kept. Each is a bound of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Of executions, after they ended.
    pub ended_for: Duration,
    /// Of ledger rows, after their execution ended.
    pub ledger_for: Duration,
    /// If the data is larger than this, the executions that ended first are deleted.
    pub bytes_max: Option<u64>,
    /// Of entries of the audit.
    pub audit_for: Duration,
}

impl Default for Keep {
    /// 90 days, 24 hours, and 400 days for the audit, whatever the size.
    fn default() -> Self {
        Self {
            ended_for: Duration::from_hours(90 * 24),
            ledger_for: Duration::from_hours(24),
            bytes_max: None,
            audit_for: Duration::from_hours(400 * 24),
        }
    }
}

/// Milliseconds, at most what the store can count.
pub fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl Keep {
    /// Deletes a slice; returns whether and where the sweep goes on.
    fn slice(&self, data: &Served, mut place: Option<SweepPlace>) -> Result<Next, crate::Refusal> {
        let now = data.moment().now;
        let retention = Retention {
            ended_before: now.after_ms(-ms(self.ended_for)),
            ledger_before: now.after_ms(-ms(self.ledger_for)),
            bytes_max: self.bytes_max,
        };
        let by = Caller::server().origin(DoorKind::Chore, CHORE, now);
        let swept = data.by(Arc::new(by)).sweep(&retention, &mut place, SLICE)?;
        if swept.executions + swept.ledger > 0 {
            tracing::info!(executions = swept.executions, ledger = swept.ledger, "deleted what was too old");
        }
        Ok(swept.more.then_some(place))
    }

    /// Cuts a slice off the audit; returns whether there may be more.
    fn cut(&self, data: &Served) -> Result<bool, crate::Refusal> {
        let now = data.moment().now;
        let by = Arc::new(Caller::server().origin(DoorKind::Chore, CHORE, now));
        let cut = data.door().cut_audit(now.after_ms(-ms(self.audit_for)), SLICE, &by)?;
        if cut > 0 {
            tracing::info!(rows = cut, "deleted the oldest rows of the audit");
        }
        Ok(cut == u64::from(SLICE))
    }
}

/// Whether a sweep goes on, and from where.
type Next = Option<Option<SweepPlace>>;

/// Sweeps once a minute until the future is dropped.
pub async fn sweep(data: Served, keep: Keep) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let mut place = None;
        loop {
            let data = data.clone();
            match tokio::task::spawn_blocking(move || keep.slice(&data, place)).await {
                Ok(Ok(Some(next))) => {
                    place = next;
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(Ok(None)) => break,
                Ok(Err(refusal)) => {
                    tracing::warn!(%refusal, "old data cannot be deleted");
                    break;
                }
                Err(panic) => {
                    tracing::error!(%panic, "sweeping failed");
                    break;
                }
            }
        }
        cut(&data, keep).await;
        give_back(&data).await;
    }
}

/// Takes away what is too old of the audit, a slice at a time.
async fn cut(data: &Served, keep: Keep) {
    loop {
        let data = data.clone();
        match tokio::task::spawn_blocking(move || keep.cut(&data)).await {
            Ok(Ok(true)) => tokio::time::sleep(PAUSE).await,
            Ok(Ok(false)) => return,
            Ok(Err(refusal)) => return tracing::warn!(%refusal, "the old end of the audit cannot be deleted"),
            Err(panic) => return tracing::error!(%panic, "cutting the audit failed"),
        }
    }
}

/// Gives free pages that will not be reused soon back to the disk, a slice at a time.
async fn give_back(data: &Served) {
    loop {
        let mut data = data.clone();
        match tokio::task::spawn_blocking(move || data.give_back(PAGES, true)).await {
            Ok(Ok(Room { more: true, .. })) => tokio::time::sleep(PAUSE).await,
            Ok(Ok(_)) => return,
            Ok(Err(refusal)) => {
                return tracing::warn!(%refusal, "free pages cannot be given back to the disk");
            }
            Err(panic) => return tracing::error!(%panic, "giving free pages back failed"),
        }
    }
}
