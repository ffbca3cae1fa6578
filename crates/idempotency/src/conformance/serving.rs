//! The other duties of a store: agreeing on a secret, lookups, waking waiters, sharing transactions.

use super::{Bench, Desk, LEASE_FOR, NEAR, answered, claim, operation, take};
use crate::record::{Holding, OperationId, Standing};
use crate::store::{Pending, Store};
use std::sync::Arc;
use std::time::Duration;

/// The limit of a wait in a check: after it, the waiter was not woken.
const WOKEN_WITHIN: Duration = Duration::from_secs(20);

/// The first check value counts, for every instance.
pub async fn one_secret_is_agreed_on(bench: &Bench) {
    let (here, there) = (bench.store(), bench.another());
    assert!(here.agree([1; 16]).await.expect("agreeing"));
    assert!(here.agree([1; 16]).await.expect("agreeing"));
    assert!(there.agree([1; 16]).await.expect("agreeing"));
    assert!(!there.agree([2; 16]).await.expect("agreeing"));
    assert!(!here.agree([2; 16]).await.expect("agreeing"));
    assert!(here.agree([1; 16]).await.expect("agreeing"), "a wrong one changes nothing");
}

/// A missing record is not an error.
pub async fn what_is_not_there_is_not_found(bench: &Bench) {
    let desk = Desk::of(bench);
    assert_eq!(desk.look(operation(1)).await, None);
    desk.granted(&claim(operation(1), 1)).await;
    assert_eq!(desk.look(operation(2)).await, None);
    assert!(!desk.0.name().is_empty());
}

pub(super) async fn woken(waiting: Pending<'static, ()>, by: &str) {
    let woken = tokio::time::timeout(WOKEN_WITHIN, waiting).await;
    assert!(woken.is_ok(), "{by} wakes who waits");
}

/// Asks for the notification and begins to listen.
pub(super) async fn waiting(store: &Arc<dyn Store>, operation: OperationId) -> Pending<'static, ()> {
    let mut waiting = store.changed(operation);
    let early = tokio::time::timeout(Duration::ZERO, &mut waiting).await;
    // A notification may come for nothing; then wait for the next one.
    if early.is_ok() { store.changed(operation) } else { waiting }
}

/// An answer, a release and a detected lapse wake all waiters of the operation, and no others.
pub async fn an_end_wakes_who_waits(bench: &Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    let (first, second) = (waiting(&desk.0, operation(1)).await, waiting(&desk.0, operation(1)).await);
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "done")).await, Holding::Held);
    woken(first, "an answer").await;
    woken(second, "an answer").await;

    let grant = desk.granted(&claim(operation(2), 1)).await;
    let heard = waiting(&desk.0, operation(2)).await;
    assert_eq!(desk.release(operation(2), grant.epoch).await, Holding::Held);
    woken(heard, "a release").await;

    desk.granted(&claim(operation(3), 1)).await;
    let heard = waiting(&desk.0, operation(3)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.found(&claim(operation(3), 2)).await;
    woken(heard, "a lapse").await;
}

/// Across instances: notified if the store can, and in any case found by polling. The waiter was told that it runs
/// since it began to listen, so that a store may skip notifications without listeners.
pub async fn an_end_elsewhere_is_heard_or_found(bench: &Bench) {
    let (here, there) = (bench.store(), Desk(bench.another()));
    let grant = there.granted(&take(operation(1), 1)).await;
    let heard = waiting(&here, operation(1)).await;
    let here = Desk(here);
    assert_eq!(here.found(&take(operation(1), 2)).await.epoch, grant.epoch);
    assert_eq!(there.complete(&answered(operation(1), grant.epoch, "there")).await, Holding::Held);
    if bench.hears_others {
        woken(heard, "an answer elsewhere").await;
    }
    assert_eq!(here.answer(&take(operation(1), 2)).await, "there");
}

/// `begin` does what `shares_transactions` says; after a rollback nothing is recorded; after a completion it is.
pub async fn a_transaction_is_given_where_it_is_promised(bench: &Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&take(operation(1), 1)).await;
    let mut extensions = http::Extensions::new();
    let begun = desk.0.begin(operation(1), grant, &mut extensions).await.expect("beginning");
    assert_eq!(begun.is_some(), desk.0.shares_transactions());
    let Some(transaction) = begun else { return };
    transaction.roll_back().await.expect("rolling back");
    assert!(matches!(desk.standing(operation(1)).await, Standing::Running { .. }));

    let begun = desk.0.begin(operation(1), grant, &mut extensions).await.expect("beginning");
    let completion = answered(operation(1), grant.epoch, "together");
    let holding = begun.expect("given before").complete(completion).await.expect("completing");
    assert_eq!(holding, Holding::Held);
    assert_eq!(desk.answer(&take(operation(1), 2)).await, "together");

    let late = desk.granted(&take(operation(2), 1)).await;
    let begun = desk.0.begin(operation(2), late, &mut extensions).await.expect("beginning");
    bench.pass(LEASE_FOR + NEAR).await;
    let newer = Desk(bench.another()).granted(&take(operation(2), 2)).await;
    let completion = answered(operation(2), late.epoch, "late");
    let holding = begun.expect("given before").complete(completion).await.expect("completing");
    assert_eq!(holding, Holding::Lost, "a newer grant exists");
    let found = desk.look(operation(2)).await.expect("is there");
    assert_eq!(found.epoch, newer.epoch);
    assert!(matches!(found.standing, Standing::Running { .. }));
}
