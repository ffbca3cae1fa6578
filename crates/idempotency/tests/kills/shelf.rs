//! A store that is not empty: with records that expired and wait to be removed, and others that are kept.

use crate::place::{Place, Store};
use perdura_idempotency::conformance::{answered, claim};
use perdura_idempotency::record::{Claim, Claimed, Completion, Keep, OperationId, Standing};
use perdura_idempotency::store;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// More than what one batch of a sweep removes.
pub(crate) const EXPIRED: u64 = 1_200;
/// What is left of them after the first batch.
pub(crate) const LEFT: u64 = EXPIRED - 1_000;
/// Records that are kept.
const KEPT: u64 = 20;
/// So many write at the same time, and share their commits.
const AT_ONCE: u64 = 32;

pub(crate) struct Shelf {
    expired: Vec<OperationId>,
    kept: Vec<OperationId>,
}

fn fresh_operation() -> OperationId {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("random bytes are drawn");
    let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    OperationId::parse(&id.to_string()).expect("made as operations are")
}

/// Claims and completes one, as an instance does.
async fn put(store: &dyn store::Store, operation: OperationId, answer_for: Duration) {
    let keep = Keep { answer_for, tombstone_for: Duration::ZERO };
    let claim = Claim { keep, ..claim(operation, 1) };
    let Ok(Claimed::Granted(grant)) = store.claim(&claim).await else { panic!("it is new") };
    let answer = operation.as_bytes().to_vec();
    let completion = Completion { keep, ..answered(operation, grant.epoch, answer) };
    store.complete(&completion).await.expect("the store answers");
}

impl Shelf {
    /// Fills the store before anybody else uses it.
    pub(crate) async fn fill(place: &Place) -> Self {
        let store = place.open().await;
        let mut writing = JoinSet::new();
        for nth in 0..AT_ONCE {
            let store = Arc::clone(&store);
            writing.spawn(async move {
                let mut shelf = Self { expired: Vec::new(), kept: Vec::new() };
                for record in (nth..EXPIRED + KEPT).step_by(AT_ONCE as usize) {
                    let (operations, answer_for) = if record < EXPIRED {
                        (&mut shelf.expired, Duration::from_millis(1))
                    } else {
                        (&mut shelf.kept, Duration::from_hours(2))
                    };
                    operations.push(fresh_operation());
                    put(&*store, operations[operations.len() - 1], answer_for).await;
                }
                shelf
            });
        }
        let shelves = writing.join_all().await;
        let (expired, kept) =
            shelves.into_iter().map(|shelf| (shelf.expired, shelf.kept)).unzip::<_, _, Vec<_>, Vec<_>>();
        Self { expired: expired.concat(), kept: kept.concat() }
    }

    /// What expired is gone, and what is kept is there, each with its own answer.
    pub(crate) async fn check(&self, place: &Place) {
        let store = place.open().await;
        assert_eq!((self.expired.len() as u64, self.kept.len() as u64), (EXPIRED, KEPT));
        for &operation in &self.expired {
            assert_eq!(store.look(operation).await.expect("the store answers"), None);
        }
        for &operation in &self.kept {
            let record = store.look(operation).await.expect("the store answers").expect("it is kept");
            assert!(
                matches!(&record.standing, Standing::Completed { answer, .. } if answer == &operation.as_bytes()[..]),
                "{record:?}"
            );
        }
        let keep = Keep { answer_for: Duration::from_hours(2), tombstone_for: Duration::ZERO };
        let swept = store.sweep(u32::MAX, keep).await.expect("the store answers");
        assert_eq!((swept.answers, swept.records), (0, 0));
    }
}

impl Store {
    /// Whether instances remove what expired, or it goes by itself.
    pub(crate) fn is_swept(self) -> bool {
        match self {
            Self::Sqlite | Self::Postgres => true,
            Self::Redis => false,
        }
    }
}
