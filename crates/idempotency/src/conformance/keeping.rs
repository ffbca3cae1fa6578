//! Retention: how long records are kept, and what expires when.

use super::{ANSWER_FOR, Bench, Desk, KEEP, NEAR, TOMBSTONE_FOR, answered, claim, operation, take, unknown};
use crate::record::{Claim, Completion, Holding, Keep, Standing};
use crate::store::Swept;
use std::time::Duration;

/// An answer, then a tombstone.
const WITH_TOMBSTONE: Keep = Keep { answer_for: ANSWER_FOR, tombstone_for: TOMBSTONE_FOR };

/// Two days of running, with one long lease and with renewals, and sweeps in between.
pub async fn nothing_expires_while_it_runs(bench: &Bench) {
    let desk = Desk::of(bench);
    let (half_a_day, two_days) = (Duration::from_hours(12), Duration::from_hours(48));
    let first = desk.granted(&Claim { lease_for: two_days + NEAR, ..claim(operation(1), 1) }).await;
    let second = desk.granted(&Claim { lease_for: half_a_day + NEAR, ..claim(operation(2), 1) }).await;
    for _ in 0..4 {
        bench.pass(half_a_day).await;
        desk.sweep_all().await;
        let renewed = desk.0.renew(operation(2), second.epoch, half_a_day + NEAR).await.expect("renewing");
        assert_eq!(renewed, Holding::Held);
    }
    assert!(matches!(desk.standing(operation(1)).await, Standing::Running { .. }));
    assert_eq!(desk.complete(&answered(operation(1), first.epoch, "a")).await, Holding::Held);
    assert_eq!(desk.complete(&answered(operation(2), second.epoch, "b")).await, Holding::Held);
    let found = desk.found(&claim(operation(1), 2)).await;
    assert_eq!(found.first_at, first.first_at);
    let Standing::Completed { at, .. } = found.standing else { panic!("is completed: {found:?}") };
    super::assert_apart(first.first_at, at, two_days);
}

/// Retention counts from the end: three hours of running take nothing from two hours of keeping.
pub async fn retention_counts_from_the_end(bench: &Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    bench.pass(Duration::from_hours(3)).await;
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "kept")).await, Holding::Held);
    bench.pass(ANSWER_FOR.saturating_sub(NEAR)).await;
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "kept");
    bench.pass(NEAR + NEAR).await;
    assert_eq!(desk.look(operation(1)).await, None);
    let second = desk.granted(&claim(operation(1), 3)).await;
    assert!(!second.taken_over && second.first_at > grant.first_at, "a new operation");
}

/// Not by a claim, not by a look, not by another instance, even one that has returned it before.
pub async fn an_answer_is_never_given_after_it_expired(bench: &Bench) {
    let desks = [Desk::of(bench), Desk(bench.another())];
    desks[0].completed(operation(1), "secret", WITH_TOMBSTONE).await;
    for desk in &desks {
        assert_eq!(desk.answer(&take(operation(1), 2)).await, "secret");
        assert!(matches!(desk.standing(operation(1)).await, Standing::Completed { .. }));
    }
    bench.pass(ANSWER_FOR + NEAR).await;
    for desk in desks {
        assert!(matches!(desk.standing(operation(1)).await, Standing::Expired { .. }));
        assert!(matches!(desk.found(&take(operation(1), 2)).await.standing, Standing::Expired { .. }));
    }
}

/// A tombstone is not for ever.
pub async fn a_tombstone_goes_too(bench: &Bench) {
    let desk = Desk::of(bench);
    let first = desk.completed(operation(1), "once", WITH_TOMBSTONE).await;
    bench.pass(ANSWER_FOR + TOMBSTONE_FOR.saturating_sub(NEAR)).await;
    desk.sweep_all().await;
    desk.found(&claim(operation(1), 2)).await;
    bench.pass(NEAR + NEAR).await;
    assert_eq!(desk.look(operation(1)).await, None);
    let second = desk.granted(&claim(operation(1), 2)).await;
    assert!(!second.taken_over && second.epoch > first.epoch);
}

/// An operation with an unknown outcome does not run again either while its tombstone exists.
pub async fn unknown_outcomes_have_tombstones_too(bench: &Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    let completion = Completion { keep: WITH_TOMBSTONE, ..unknown(operation(1), grant.epoch) };
    assert_eq!(desk.complete(&completion).await, Holding::Held);
    bench.pass(ANSWER_FOR + TOMBSTONE_FOR.saturating_sub(NEAR)).await;
    desk.sweep_all().await;
    assert!(matches!(desk.found(&claim(operation(1), 2)).await.standing, Standing::Unknown { .. }));
    bench.pass(NEAR + NEAR).await;
    desk.granted(&claim(operation(1), 2)).await;
}

/// Like an expired answer: no bytes, and no second run.
pub async fn an_erased_answer_is_gone_and_the_rest_stays(bench: &Bench) {
    let desk = Desk::of(bench);
    let another = Desk(bench.another());
    let grant = desk.completed(operation(1), "private", KEEP).await;
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "private");
    assert_eq!(another.answer(&claim(operation(1), 2)).await, "private");
    assert!(desk.erase(operation(1)).await);
    assert!(!desk.erase(operation(1)).await, "there is none any more");
    for wish in [claim(operation(1), 2), take(operation(1), 3)] {
        for found in [desk.found(&wish).await, another.found(&wish).await] {
            assert_eq!(
                (found.epoch, found.first_at, found.request),
                (grant.epoch, grant.first_at, wish.request)
            );
            assert!(matches!(found.standing, Standing::Expired { .. }));
        }
    }
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "private")).await, Holding::Held);
    assert!(
        matches!(desk.standing(operation(1)).await, Standing::Expired { .. }),
        "told again, it stays erased"
    );
    bench.pass(ANSWER_FOR.saturating_sub(NEAR)).await;
    desk.sweep_all().await;
    desk.found(&claim(operation(1), 2)).await;
    bench.pass(NEAR + NEAR).await;
    desk.granted(&claim(operation(1), 2)).await;
}

/// No sweep takes more than its limit, and enough of them take all.
pub async fn a_sweep_is_bounded(bench: &Bench) {
    let desk = Desk::of(bench);
    for n in 0..12 {
        let keep = if n % 2 == 0 { KEEP } else { WITH_TOMBSTONE };
        desk.completed(operation(n), "old", keep).await;
    }
    bench.pass(ANSWER_FOR + NEAR).await;
    let mut swept_in_all = 0;
    for _ in 0..12 {
        swept_in_all += desk.sweep(5).await.count();
    }
    assert!(swept_in_all <= 24, "nothing is swept twice: {swept_in_all}");
    assert_eq!(desk.sweep(5).await, Swept::default());
    for n in 0..12 {
        assert_eq!(desk.look(operation(n)).await.is_some(), n % 2 == 1);
    }
}

/// Running operations, and ended ones that have not expired.
pub async fn a_sweep_leaves_what_is_kept(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.completed(operation(1), "kept", KEEP).await;
    let running = desk.granted(&Claim { lease_for: ANSWER_FOR, ..claim(operation(2), 1) }).await;
    let third = desk.granted(&claim(operation(3), 1)).await;
    assert_eq!(desk.complete(&unknown(operation(3), third.epoch)).await, Holding::Held);
    bench.pass(ANSWER_FOR.saturating_sub(NEAR)).await;
    assert_eq!(desk.sweep(100).await, Swept::default());
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "kept");
    assert_eq!(desk.renew(operation(2), running.epoch).await, Holding::Held);
    assert!(matches!(desk.standing(operation(3)).await, Standing::Unknown { .. }));
}

/// Durations beyond the end of time are kept until then.
pub async fn retention_without_end_is_kept(bench: &Bench) {
    let desk = Desk::of(bench);
    let keep = Keep { answer_for: Duration::MAX, tombstone_for: Duration::MAX };
    desk.completed(operation(1), "for ever", keep).await;
    let grant = desk.granted(&Claim { lease_for: Duration::MAX, ..claim(operation(2), 1) }).await;
    bench.pass(Duration::from_hours(365 * 24)).await;
    desk.sweep_all().await;
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "for ever");
    assert_eq!(desk.found(&take(operation(2), 2)).await.epoch, grant.epoch);
}
