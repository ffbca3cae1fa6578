//! Sweeping much at once.

use crate::kit::{clocked, over};
use bytes::Bytes;
use perdura_idempotency::observe::{Happening, What};
use perdura_idempotency::record::{
    Claim, Claimed, Completion, Ending, Keep, OperationId, RequestTag, ScopeTag, Takeover,
};
use perdura_idempotency::store::{Memory, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

const RECORDS: u32 = 10_000;

/// Stores the n-th of many ends, kept for an hour.
async fn store_end(store: &Memory, n: u32) {
    let operation = format!("00000000-0000-8000-8000-{n:012x}");
    let operation = OperationId::parse(&operation).expect("an id");
    let keep = Keep { answer_for: Duration::from_hours(1), tombstone_for: Duration::ZERO };
    let claim = Claim {
        operation,
        scope: ScopeTag([0; 16]),
        request: RequestTag([0; 32]),
        claimant: Uuid::nil(),
        lease_for: Duration::from_secs(30),
        takeover: Takeover::Never,
        keep,
    };
    let Ok(Claimed::Granted(grant)) = store.claim(&claim).await else { panic!("it is granted") };
    let ending = Ending::Answered(Bytes::from_static(b"done"));
    let completion = Completion { operation, epoch: grant.epoch, ending, keep };
    store.complete(&completion).await.expect("the store answers");
}

/// A store that answers at once never lets go of the thread by itself.
#[tokio::test(start_paused = true)]
async fn a_large_sweep_lets_others_have_the_thread() {
    let (passed, store) = clocked();
    for n in 0..RECORDS {
        store_end(&store, n).await;
    }
    passed.store(2 * 3_600, Ordering::SeqCst);
    let swept = Arc::new(AtomicU64::new(0));
    let counted = swept.clone();
    let observer = move |happening: &Happening| {
        if let What::Swept(batch) = &happening.what {
            counted.fetch_add(batch.records, Ordering::SeqCst);
        }
    };
    let layer = over(Arc::new(store)).observe(observer).sweep_every(Duration::from_secs(1)).build().await;
    let layer = layer.expect("a layer");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut seen = BTreeSet::new();
    while seen.last() != Some(&u64::from(RECORDS)) {
        seen.insert(swept.load(Ordering::SeqCst));
        tokio::task::yield_now().await;
    }
    assert!(seen.len() > 5, "others had their turn after {seen:?}");
    drop(layer);
}
