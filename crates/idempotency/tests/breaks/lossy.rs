//! A store whose answers get lost when a test says so.

use http::Extensions;
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Epoch, Grant, Holding, Keep, OperationId, Record,
};
use perdura_idempotency::store::{Memory, Pending, Store, StoreError, Swept, Transaction};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is wrong with the way to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Good,
    /// Claims are done, and their answers lost.
    LosesClaims,
    /// Renewals are not answered.
    HoldsRenewals,
    /// What is released is, and the first answer to it is lost.
    LosesARelease,
    /// Records that are to be ended turn out to be damaged.
    Damaged,
    /// Nothing gets there.
    Cut,
}

#[derive(Clone, Default)]
pub(crate) struct Lossy {
    inner: Memory,
    seen: Arc<Mutex<(Way, HashSet<OperationId>)>>,
    /// What happens between a look and whatever follows from it.
    looked: Option<Arc<dyn Fn() + Send + Sync>>,
}

fn lost<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("the answer was lost".into()))
}

impl Lossy {
    /// The way to this memory.
    pub(crate) fn before(inner: Memory) -> Self {
        Self { inner, ..Self::default() }
    }

    /// This memory; after each look at it, something happens.
    pub(crate) fn after_looks(inner: Memory, happens: impl Fn() + Send + Sync + 'static) -> Self {
        Self { inner, looked: Some(Arc::new(happens)), ..Self::default() }
    }

    pub(crate) fn becomes(&self, way: Way) {
        self.seen.lock().unwrap().0 = way;
    }

    /// How many operations were claimed or looked at since this was asked last.
    pub(crate) fn asked_for(&self) -> usize {
        std::mem::take(&mut self.seen.lock().unwrap().1).len()
    }

    fn is_cut(&self) -> bool {
        self.seen.lock().unwrap().0 == Way::Cut
    }

    async fn unless_cut<T>(&self, answer: Pending<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.is_cut() { lost() } else { answer.await }
    }
}

impl Store for Lossy {
    fn name(&self) -> &'static str {
        "lossy"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.agree(check)
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        Box::pin(async move {
            let way = {
                let mut seen = self.seen.lock().unwrap();
                seen.1.insert(claim.operation);
                seen.0
            };
            match way {
                Way::Good | Way::HoldsRenewals | Way::LosesARelease | Way::Damaged => {
                    self.inner.claim(claim).await
                }
                Way::LosesClaims => {
                    self.inner.claim(claim).await?;
                    lost()
                }
                Way::Cut => lost(),
            }
        })
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            if self.seen.lock().unwrap().0 == Way::HoldsRenewals {
                std::future::pending::<()>().await;
            }
            self.unless_cut(self.inner.renew(operation, epoch, lease_for)).await
        })
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        Box::pin(async move {
            if self.seen.lock().unwrap().0 == Way::Damaged {
                let Completion { operation, .. } = *completion;
                return Err(StoreError::Corrupt { operation, what: "on purpose" });
            }
            self.unless_cut(self.inner.complete(completion)).await
        })
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(async move {
            let released = self.unless_cut(self.inner.release(operation, epoch)).await;
            let way = &mut self.seen.lock().unwrap().0;
            if *way == Way::LosesARelease {
                *way = Way::Good;
                return lost();
            }
            released
        })
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move {
            self.seen.lock().unwrap().1.insert(operation);
            let found = self.unless_cut(self.inner.look(operation)).await;
            if let Some(happens) = &self.looked {
                happens();
            }
            found
        })
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.erase(operation)
    }

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        self.inner.sweep(records_max, keep)
    }

    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        self.inner.unknown(limit)
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.inner.changed(operation)
    }

    fn begin<'a>(
        &'a self,
        _: OperationId,
        _: Grant,
        _: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn Transaction>>, StoreError>> {
        Box::pin(async { Ok(Some(Box::new(Uncommitted) as Box<dyn Transaction>)) })
    }

    fn shares_transactions(&self) -> bool {
        true
    }
}

/// A transaction whose commit gets neither there nor an answer.
struct Uncommitted;

impl Transaction for Uncommitted {
    fn complete(self: Box<Self>, _: Completion) -> Pending<'static, Result<Holding, StoreError>> {
        Box::pin(async { lost() })
    }

    fn roll_back(self: Box<Self>) -> Pending<'static, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}
