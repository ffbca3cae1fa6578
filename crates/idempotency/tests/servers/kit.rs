//! What the tests of both servers say to a store.

use bytes::Bytes;
use perdura_idempotency::conformance;
pub(crate) use perdura_idempotency::conformance::{answered, operation};
use perdura_idempotency::record::{Claim, Claimed, Epoch, Grant, Holding, OperationId, Record, Standing};
use perdura_idempotency::store::{Store, StoreError};
use std::time::Duration;

/// No test waits longer for something that has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The n-th claimant wants it, for as long as a server may be away, and a second run would be safe.
pub(crate) fn take(operation: OperationId, claimant: u64) -> Claim {
    Claim { lease_for: Duration::from_mins(1), ..conformance::take(operation, claimant) }
}

pub(crate) async fn granted(store: &dyn Store, claim: &Claim) -> Grant {
    match store.claim(claim).await {
        Ok(Claimed::Granted(grant)) => grant,
        other => panic!("should be granted: {other:?}"),
    }
}

pub(crate) async fn found(store: &dyn Store, claim: &Claim) -> Record {
    match store.claim(claim).await {
        Ok(Claimed::Found(record) | Claimed::Lapsed(record)) => record,
        other => panic!("should be found: {other:?}"),
    }
}

pub(crate) async fn complete(
    store: &dyn Store,
    operation: OperationId,
    epoch: Epoch,
    answer: &'static str,
) -> Holding {
    store.complete(&answered(operation, epoch, answer)).await.expect("the store answers")
}

/// The answer that is kept.
pub(crate) async fn answer(store: &dyn Store, operation: OperationId) -> Bytes {
    match store.look(operation).await.expect("the store answers").expect("it is there").standing {
        Standing::Completed { answer, .. } => answer,
        other => panic!("should be completed: {other:?}"),
    }
}

pub(crate) async fn is_running(store: &dyn Store, operation: OperationId) -> bool {
    let record = store.look(operation).await.expect("the store answers");
    record.is_some_and(|record| matches!(record.standing, Standing::Running { .. }))
}

pub(crate) fn is_unavailable<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

pub(crate) fn unfit<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unfit(why)) => why,
        Err(other) => panic!("should be unfit: {other:?}"),
        Ok(_) => panic!("should be unfit, and is not"),
    }
}

pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

/// Before asking again whether something has come about: the servers need the processor too.
pub(crate) async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}
