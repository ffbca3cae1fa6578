//! Stuck calls: sent long ago and no longer being made. A person should look at them.
//!
//! A call is pending from its record to its answer. While this process makes it, it may take as long as it likes. But
//! one that no process makes any more and that has no answer is stuck.

use crate::data::{Data, Served};
use crate::fold::fold;
use perdura_engine::{Execution, LedgerStatus, Timestamp};
use perdura_store::{Failure, LedgerFilter, LedgerRow};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A call that is pending for longer than this without an attempt under way is stuck.
pub const STUCK_AFTER: Duration = Duration::from_mins(5);
/// How often a server looks.
const EVERY: Duration = Duration::from_mins(1);
/// How many pending calls are checked, the oldest first.
const ROWS_MAX: u32 = 10_000;

/// The stuck calls.
pub fn stuck<D: Data>(data: &mut D) -> Result<Vec<LedgerRow>, Failure> {
    let after_ms = i64::try_from(STUCK_AFTER.as_millis()).unwrap_or(i64::MAX);
    let filter = LedgerFilter {
        status: Some(LedgerStatus::Pending),
        started_before: Some(data.moment().now.after_ms(-after_ms)),
        ..LedgerFilter::default()
    };
    let mut rows = data.read(|reader| reader.ledger(&filter, ROWS_MAX))?;
    rows.retain(|row| is_stuck(data, row));
    Ok(rows)
}

/// A step waits for the call, and no process makes it.
fn is_stuck<D: Data>(data: &mut D, row: &LedgerRow) -> bool {
    if let Some(view) = data.view(row.execution) {
        let is_live = view.live.iter().any(|key| key.readable() == &*row.key);
        return !is_live && waits(&view.execution, row);
    }
    match data.read(|reader| Ok(fold(reader, row.execution))) {
        Ok(Ok(Some(folded))) => waits(&folded.execution, row),
        // An execution that cannot be read needs a person as well.
        Ok(Ok(None) | Err(_)) | Err(_) => true,
    }
}

fn waits(execution: &Execution, row: &LedgerRow) -> bool {
    execution.calls().any(|(_, key, _)| key.readable() == &*row.key)
}

/// The last result, for metrics.
#[derive(Debug, Default)]
pub struct Watch {
    stuck: AtomicU64,
    oldest_pending: AtomicI64,
    held: AtomicU64,
}

impl Watch {
    pub fn stuck(&self) -> u64 {
        self.stuck.load(Ordering::Relaxed)
    }

    pub fn oldest_pending(&self) -> Option<Timestamp> {
        Some(self.oldest_pending.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Timestamp)
    }

    /// How many executions sleep because their machine is paused.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn look(&self, data: &mut Served) -> Result<(), Failure> {
        let rows = stuck(data)?;
        for row in &rows {
            tracing::warn!(
                execution = %row.execution, step = %row.step, key = %row.key, since = %row.started_at,
                "stuck: sent long ago, not answered, and nobody tries it"
            );
        }
        let pending = LedgerFilter { status: Some(LedgerStatus::Pending), ..LedgerFilter::default() };
        let oldest =
            data.read(|reader| reader.ledger(&pending, 1))?.first().map_or(0, |row| row.started_at.0);
        let held = data.read(|reader| reader.held_counts())?.values().sum();
        self.held.store(held, Ordering::Relaxed);
        self.stuck.store(rows.len() as u64, Ordering::Relaxed);
        self.oldest_pending.store(oldest, Ordering::Relaxed);
        Ok(())
    }
}

/// Checks once a minute until the future is dropped.
pub async fn watch(data: Served, watch: Arc<Watch>) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let (mut data, watch) = (data.clone(), watch.clone());
        let looked = tokio::task::spawn_blocking(move || watch.look(&mut data)).await;
        match looked {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(%failure, "the ledger cannot be read"),
            Err(panic) => tracing::error!(%panic, "looking for stuck calls failed"),
        }
    }
}
