//! What becomes of a lease that ran out, and of a holder that comes late.

use super::{Bench, Desk, LEASE_FOR, NEAR, answered, claim, operation, take, unknown};
use crate::record::{Claim, Claimed, Epoch, Holding, Standing};
use std::time::Duration;

const OPERATION: u64 = 1;

/// The first holder is gone beyond its lease; the second took over.
async fn taken_over(bench: &dyn Bench) -> (Desk, Epoch, Epoch) {
    let desk = Desk::of(bench);
    let first = desk.granted(&take(operation(OPERATION), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    let second = desk.granted(&take(operation(OPERATION), 2)).await;
    (desk, first.epoch, second.epoch)
}

/// At most once: nobody runs it again, and what came of it is unknown, under the same epoch.
pub async fn a_lapsed_lease_is_an_unknown_outcome(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(OPERATION), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    let found = desk.lapsed(&claim(operation(OPERATION), 2)).await;
    assert_eq!((found.epoch, found.first_at), (grant.epoch, grant.first_at));
    let Standing::Unknown { at, expires_at } = found.standing else { panic!("is unknown: {found:?}") };
    super::assert_apart(grant.first_at, at, LEASE_FOR + NEAR);
    super::assert_apart(at, expires_at, super::ANSWER_FOR);
    assert_eq!(desk.standing(operation(OPERATION)).await, found.standing);
    for claimant in [1, 2, 3] {
        let again = desk.claim(&claim(operation(OPERATION), claimant)).await;
        assert_eq!(again, Claimed::Found(found.clone()), "it lapsed once");
    }
    assert_eq!(desk.renew(operation(OPERATION), grant.epoch).await, Holding::Lost);
}

/// Nobody else ran: what the holder tells late is the truth.
pub async fn a_late_end_heals_an_unknown_outcome(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(OPERATION), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.found(&claim(operation(OPERATION), 2)).await;
    assert_eq!(desk.complete(&answered(operation(OPERATION), grant.epoch, "late")).await, Holding::Held);
    assert_eq!(desk.answer(&claim(operation(OPERATION), 3)).await, "late");
    let released = desk.granted(&claim(operation(2), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.found(&claim(operation(2), 2)).await;
    assert_eq!(
        desk.release(operation(2), released.epoch).await,
        Holding::Held,
        "nothing was done, says the holder"
    );
    assert_eq!(desk.look(operation(2)).await, None);
}

/// A second run is safe: the next one gets it, under a newer epoch, and is told.
pub async fn a_lapsed_lease_is_taken_over_where_that_is_allowed(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let first = desk.granted(&take(operation(OPERATION), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    let second = desk.granted(&take(operation(OPERATION), 2)).await;
    assert!(second.taken_over && second.epoch > first.epoch);
    assert_eq!(second.first_at, first.first_at);
    let found = desk.found(&take(operation(OPERATION), 3)).await;
    assert_eq!((found.epoch, found.first_at), (second.epoch, first.first_at));
    assert!(matches!(found.standing, Standing::Running { lease_left } if lease_left > Duration::ZERO));
}

/// Also what was marked unknown before.
pub async fn an_unknown_outcome_is_taken_over_where_that_is_allowed(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let first = desk.granted(&claim(operation(OPERATION), 1)).await;
    assert_eq!(desk.complete(&unknown(operation(OPERATION), first.epoch)).await, Holding::Held);
    let second = desk.granted(&take(operation(OPERATION), 2)).await;
    assert!(second.taken_over && second.epoch > first.epoch);
    assert_eq!(second.first_at, first.first_at);
    assert_eq!(desk.complete(&answered(operation(OPERATION), first.epoch, "late")).await, Holding::Lost);
    assert!(matches!(desk.standing(operation(OPERATION)).await, Standing::Running { .. }));
}

/// The first holder succeeds after the second took over, and before it has ended.
pub async fn a_late_success_after_a_lost_lease_changes_nothing(bench: &dyn Bench) {
    let (desk, first, second) = taken_over(bench).await;
    assert_eq!(desk.complete(&answered(operation(OPERATION), first, "late")).await, Holding::Lost);
    assert!(matches!(desk.standing(operation(OPERATION)).await, Standing::Running { .. }));
    assert_eq!(desk.complete(&answered(operation(OPERATION), second, "second")).await, Holding::Held);
    assert_eq!(desk.answer(&take(operation(OPERATION), 3)).await, "second");
}

/// The first holder fails, gives up or renews after the second took over.
pub async fn a_late_failure_after_a_lost_lease_changes_nothing(bench: &dyn Bench) {
    let (desk, first, second) = taken_over(bench).await;
    let before = desk.look(operation(OPERATION)).await.expect("is there");
    assert_eq!(desk.release(operation(OPERATION), first).await, Holding::Lost);
    assert_eq!(desk.complete(&unknown(operation(OPERATION), first)).await, Holding::Lost);
    assert_eq!(desk.renew(operation(OPERATION), first).await, Holding::Lost);
    let after = desk.look(operation(OPERATION)).await.expect("is still there");
    assert!(matches!(after.standing, Standing::Running { .. }));
    assert_eq!((after.epoch, after.request, after.first_at), (before.epoch, before.request, before.first_at));
    assert_eq!(desk.complete(&answered(operation(OPERATION), second, "second")).await, Holding::Held);
    assert_eq!(desk.release(operation(OPERATION), first).await, Holding::Lost);
    assert_eq!(desk.answer(&take(operation(OPERATION), 3)).await, "second");
}

/// The first holder succeeds after the second did.
pub async fn a_late_success_after_another_one_changes_nothing(bench: &dyn Bench) {
    let (desk, first, second) = taken_over(bench).await;
    assert_eq!(desk.complete(&answered(operation(OPERATION), second, "second")).await, Holding::Held);
    let before = desk.look(operation(OPERATION)).await;
    bench.pass(Duration::from_mins(1)).await;
    assert_eq!(desk.complete(&answered(operation(OPERATION), first, "first")).await, Holding::Lost);
    assert_eq!(desk.complete(&unknown(operation(OPERATION), first)).await, Holding::Lost);
    assert_eq!(desk.look(operation(OPERATION)).await, before);
}

/// A lease that ran out while nobody else claimed may be renewed, completed, and asked for again by its own claimant.
pub async fn a_lapsed_lease_that_nobody_claimed_is_still_held(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(OPERATION), 1)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.standing(operation(OPERATION)).await, Standing::Running { lease_left: Duration::ZERO });
    assert_eq!(desk.granted(&claim(operation(OPERATION), 1)).await, grant);
    assert_eq!(desk.renew(operation(OPERATION), grant.epoch).await, Holding::Held);
    desk.found(&claim(operation(OPERATION), 2)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.complete(&answered(operation(OPERATION), grant.epoch, "late")).await, Holding::Held);
    assert_eq!(desk.answer(&claim(operation(OPERATION), 2)).await, "late");
}

/// Renewing counts from the renewal.
pub async fn a_renewed_lease_holds_from_then_on(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&take(operation(OPERATION), 1)).await;
    for _ in 0..4 {
        bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
        assert_eq!(desk.renew(operation(OPERATION), grant.epoch).await, Holding::Held);
    }
    bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
    let found = desk.found(&take(operation(OPERATION), 2)).await;
    assert_eq!(found.epoch, grant.epoch);
    bench.pass(NEAR + NEAR).await;
    assert!(desk.granted(&take(operation(OPERATION), 2)).await.taken_over);
    assert_eq!(desk.renew(operation(OPERATION), grant.epoch).await, Holding::Lost);
}

/// Two days of running, with one long lease and with renewals, and sweeps in between.
pub async fn nothing_expires_while_it_runs(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let (half_a_day, two_days) = (Duration::from_hours(12), Duration::from_hours(48));
    let first = desk.granted(&Claim { lease_for: two_days + NEAR, ..claim(operation(OPERATION), 1) }).await;
    let second = desk.granted(&Claim { lease_for: half_a_day + NEAR, ..claim(operation(2), 1) }).await;
    for _ in 0..4 {
        bench.pass(half_a_day).await;
        desk.sweep_all().await;
        let renewed = desk.0.renew(operation(2), second.epoch, half_a_day + NEAR).await.expect("renewing");
        assert_eq!(renewed, Holding::Held);
    }
    assert!(matches!(desk.standing(operation(OPERATION)).await, Standing::Running { .. }));
    assert_eq!(desk.complete(&answered(operation(OPERATION), first.epoch, "a")).await, Holding::Held);
    assert_eq!(desk.complete(&answered(operation(2), second.epoch, "b")).await, Holding::Held);
    let found = desk.found(&claim(operation(OPERATION), 2)).await;
    assert_eq!(found.first_at, first.first_at);
    let Standing::Completed { at, .. } = found.standing else { panic!("is completed: {found:?}") };
    super::assert_apart(first.first_at, at, two_days);
}

/// An epoch that was never given holds nothing.
pub async fn an_end_under_a_made_up_epoch_is_lost(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let made_up = Epoch(4_000_000_000);
    assert_eq!(desk.complete(&answered(operation(OPERATION), made_up, "x")).await, Holding::Lost);
    assert_eq!(desk.release(operation(OPERATION), made_up).await, Holding::Lost);
    assert_eq!(desk.renew(operation(OPERATION), made_up).await, Holding::Lost);
    assert_eq!(desk.look(operation(OPERATION)).await, None);
    let grant = desk.granted(&claim(operation(OPERATION), 1)).await;
    for epoch in [made_up, Epoch(grant.epoch.0 + 1), Epoch(grant.epoch.0.saturating_sub(1)), Epoch(0)] {
        assert_eq!(desk.complete(&answered(operation(OPERATION), epoch, "x")).await, Holding::Lost);
        assert_eq!(desk.release(operation(OPERATION), epoch).await, Holding::Lost);
    }
    assert!(matches!(desk.standing(operation(OPERATION)).await, Standing::Running { .. }));
}
