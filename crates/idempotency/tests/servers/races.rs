//! Many at once, on both servers.

use crate::kit::{granted, in_time, operation, take};
use crate::{pg, redis_server};
use perdura_idempotency::record::{Claim, Claimed, Holding, Standing};
use perdura_idempotency::store::Store;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

const KEYS: u64 = 1_000;
/// Pairs that claim at the same time.
const PAIRS: u64 = 8;

/// Two instances claim each of a thousand keys at the same moment: new ones, and ones whose lease ran out.
async fn one_of_two_is_granted(here: Arc<dyn Store>, there: Arc<dyn Store>) {
    claim_at_once(&here, &there, 0).await;
    for key in KEYS..2 * KEYS {
        let lapsed = Claim { lease_for: Duration::ZERO, ..take(operation(key), 0) };
        granted(&*here, &lapsed).await;
    }
    claim_at_once(&here, &there, KEYS).await;
}

async fn claim_at_once(here: &Arc<dyn Store>, there: &Arc<dyn Store>, from: u64) {
    let pairs: Vec<_> = (0..PAIRS)
        .map(|pair| {
            let barrier = Arc::new(Barrier::new(2));
            [(Arc::clone(here), 1), (Arc::clone(there), 2)].map(|(store, claimant)| {
                let barrier = Arc::clone(&barrier);
                tokio::spawn(async move {
                    let mut grants = Vec::new();
                    for key in (from + pair..from + KEYS).step_by(PAIRS as usize) {
                        barrier.wait().await;
                        match store.claim(&take(operation(key), claimant)).await.expect("the store answers") {
                            Claimed::Granted(grant) => {
                                assert_eq!(grant.taken_over, from > 0);
                                grants.push((key, grant.epoch));
                            }
                            Claimed::Found(record) | Claimed::Lapsed(record) => {
                                assert!(matches!(record.standing, Standing::Running { .. }), "{record:?}");
                            }
                        }
                    }
                    grants
                })
            })
        })
        .collect();
    let mut grants = Vec::new();
    for claimant in pairs.into_iter().flatten() {
        grants.extend(in_time("claiming", claimant).await.expect("no claimant panics"));
    }
    grants.sort_unstable();
    let keys: Vec<u64> = grants.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, (from..from + KEYS).collect::<Vec<_>>(), "each key was granted once");
    let epochs: BTreeSet<_> = grants.iter().map(|(_, epoch)| *epoch).collect();
    assert_eq!(epochs.len(), grants.len(), "no epoch was given twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_claims_at_once_postgres_grants_one() {
    let schema = pg::fresh_schema();
    one_of_two_is_granted(Arc::new(pg::open(&schema).await), Arc::new(pg::open(&schema).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_claims_at_once_redis_grants_one() {
    let (url, prefix) = (redis_server::url(), redis_server::fresh_name());
    let (here, there) = tokio::join!(redis_server::open(&url, &prefix), redis_server::open(&url, &prefix));
    one_of_two_is_granted(Arc::new(here), Arc::new(there)).await;
}

/// Claimed, released and claimed again by many at once: the later grant has the larger epoch, always.
async fn epochs_grow_under_releases(here: Arc<dyn Store>, there: Arc<dyn Store>) {
    let order = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let claimants: Vec<_> = (0..8_u64)
        .map(|claimant| {
            let store = Arc::clone(if claimant % 2 == 0 { &here } else { &there });
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                for round in 0..50_u64 {
                    let claim = take(operation(1), claimant * 1_000 + round);
                    if let Claimed::Granted(grant) = store.claim(&claim).await.expect("the store answers") {
                        order.lock().await.push(grant.epoch);
                        let released = store.release(operation(1), grant.epoch).await;
                        assert_eq!(released.expect("the store answers"), Holding::Held);
                    }
                }
            })
        })
        .collect();
    for claimant in claimants {
        in_time("claiming", claimant).await.expect("no claimant panics");
    }
    let order = order.lock().await;
    assert!(order.len() >= 8, "many were granted: {}", order.len());
    assert!(order.is_sorted_by(|before, after| before < after), "{order:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_of_an_operation_grow_in_postgres_whoever_releases() {
    let schema = pg::fresh_schema();
    epochs_grow_under_releases(Arc::new(pg::open(&schema).await), Arc::new(pg::open(&schema).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_of_an_operation_grow_in_redis_whoever_releases() {
    let (url, prefix) = (redis_server::url(), redis_server::fresh_name());
    let (here, there) = tokio::join!(redis_server::open(&url, &prefix), redis_server::open(&url, &prefix));
    epochs_grow_under_releases(Arc::new(here), Arc::new(there)).await;
}

/// One claimant is held up after it drew its epoch and before its row is there; meanwhile another one is granted the
/// same operation and releases it, if it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_was_drawn_early_is_not_granted_late() {
    let schema = pg::fresh_schema();
    let store = Arc::new(pg::open(&schema).await);
    let gate = pg::connection().await;
    let held_up = format!(
        "CREATE FUNCTION {schema}.held_up() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF NEW.claimant = '{}' THEN
                 PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}'));
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER held_up BEFORE INSERT ON {schema}.idempotency_record
         FOR EACH ROW EXECUTE FUNCTION {schema}.held_up();
         SELECT pg_advisory_lock(hashtext('{schema}'))",
        take(operation(1), 1).claimant
    );
    gate.batch_execute(&held_up).await.expect("the gate is closed");
    let claim = |claimant| {
        let store = Arc::clone(&store);
        tokio::spawn(
            async move { store.claim(&take(operation(1), claimant)).await.expect("the store answers") },
        )
    };
    let waiting = format!(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE locktype = 'advisory' AND NOT granted AND query LIKE '%{schema}.idempotency_claim%'"
    );
    let are_waiting =
        async || gate.query_one(&waiting, &[]).await.expect("the server tells").get::<_, i64>(0);

    let first = claim(1);
    in_time("the first at the gate", async { while are_waiting().await < 1 {} }).await;
    let second = claim(2);
    in_time("the second", async { while !second.is_finished() && are_waiting().await < 2 {} }).await;
    let mut epochs = Vec::new();
    if second.is_finished() {
        let record = store.look(operation(1)).await.expect("the store answers").expect("it was granted");
        epochs.push(record.epoch);
        let released = store.release(operation(1), record.epoch).await;
        assert_eq!(released.expect("the store answers"), Holding::Held);
    }
    gate.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("the gate is opened");
    for claimed in [in_time("the first", first).await, in_time("the second", second).await] {
        if let Claimed::Granted(grant) = claimed.expect("no claimant panics") {
            epochs.push(grant.epoch);
        }
    }
    epochs.dedup();
    assert!(
        !epochs.is_empty() && epochs.is_sorted(),
        "each grant has a larger epoch than the one before: {epochs:?}"
    );
}
