//! A store whose verbs fail where a test wants them to: before they are done, or after.

use perdura_inbox::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named, Put, Receipt,
    Redriven, Row,
};
use perdura_inbox::store::{Memory, Pending, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A memory with faults. A clone is the same.
#[derive(Clone)]
pub(crate) struct Faulty {
    memory: Memory,
    /// So many ends are done, and answered with an error.
    pub(crate) ends_muted: Arc<AtomicU32>,
    /// So many heartbeats fail.
    pub(crate) beats_lost: Arc<AtomicU32>,
    pub(crate) ends_asked: Arc<AtomicU32>,
}

impl Faulty {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory, ends_muted: Arc::default(), beats_lost: Arc::default(), ends_asked: Arc::default() }
    }
}

/// Takes one of so many.
fn take(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn lost() -> StoreError {
    StoreError::Unavailable("lost on purpose".into())
}

impl Store for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>> {
        self.memory.put(put)
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>> {
        self.memory.claim(claim)
    }

    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>> {
        self.memory.claim_named(address, claim)
    }

    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>> {
        if take(&self.beats_lost) {
            return Box::pin(std::future::ready(Err(lost())));
        }
        self.memory.beat(held, lease_for)
    }

    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            self.ends_asked.fetch_add(1, Ordering::SeqCst);
            let ended = self.memory.end(held, ending).await?;
            if take(&self.ends_muted) { Err(lost()) } else { Ok(ended) }
        })
    }

    fn lapse<'a>(
        &'a self,
        inbox: &'a Name,
        attempts_max: u32,
        rows_max: u32,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.memory.lapse(inbox, attempts_max, rows_max)
    }

    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>> {
        self.memory.look(address)
    }

    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.memory.list(list)
    }

    fn stuck<'a>(
        &'a self,
        inbox: &'a Name,
        doing_for: Duration,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        self.memory.stuck(inbox, doing_for)
    }

    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>> {
        self.memory.counts(inbox)
    }

    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>> {
        self.memory.redrive(address)
    }

    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>> {
        self.memory.sweep(inbox, keep, rows_max)
    }

    fn bell(&self) -> Arc<Notify> {
        self.memory.bell()
    }
}
