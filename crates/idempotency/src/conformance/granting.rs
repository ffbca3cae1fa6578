//! Grants: which claim may run an operation.

use super::{ANSWER_FOR, Bench, Desk, LEASE_FOR, NEAR, answered, claim, operation, take};
use crate::record::{Claim, Claimed, Holding, Standing};
use jiff::SignedDuration;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Barrier;

/// Offers all claims at once, every other one to the second instance.
async fn at_once(bench: &Bench, claims: Vec<Claim>) -> Vec<Claimed> {
    let start = Arc::new(Barrier::new(claims.len()));
    let instances = [bench.store(), bench.another()];
    let tasks: Vec<_> = claims
        .into_iter()
        .zip(instances.iter().cycle())
        .map(|(claim, store)| {
            let (store, start) = (store.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                store.claim(&claim).await.expect("claiming")
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("claiming does not panic"));
    }
    answers
}

/// Of many concurrent claims on several instances, one is granted, and the others find the operation running.
pub async fn a_claim_is_granted_once_among_many(bench: &Bench) {
    for round in 0..20 {
        let answers =
            at_once(bench, (0..10).map(|claimant| claim(operation(round), claimant)).collect()).await;
        let mut grants = 0;
        for answer in answers {
            match answer {
                Claimed::Granted(_) => grants += 1,
                Claimed::Found(record) | Claimed::Lapsed(record) => {
                    assert!(matches!(record.standing, Standing::Running { .. }));
                }
            }
        }
        assert_eq!(grants, 1, "in round {round}");
    }
}

/// The same claim offered by two connections at once is one grant.
pub async fn the_same_claim_at_once_is_granted_once(bench: &Bench) {
    for round in 0..10 {
        let answers = at_once(bench, vec![claim(operation(round), 1); 6]).await;
        assert!(answers.iter().all(|answer| *answer == answers[0]), "in round {round}: {answers:?}");
        assert!(matches!(answers[0], Claimed::Granted(_)));
    }
}

/// No epoch is given twice: not for another operation, not after a release, an expiry or a sweep, and not by another
/// instance.
pub async fn epochs_grow_and_never_repeat(bench: &Bench) {
    let (desk, another) = (Desk::of(bench), Desk(bench.another()));
    let mut given = Vec::new();
    let mut claimant = 0;
    let mut next = |n: u64| {
        claimant += 1;
        take(operation(n), claimant)
    };
    for n in 1..=3 {
        given.push(desk.granted(&next(n)).await.epoch);
    }
    assert_eq!(desk.release(operation(1), given[0]).await, Holding::Held);
    given.push(another.granted(&next(1)).await.epoch);
    bench.pass(LEASE_FOR + NEAR).await;
    given.push(desk.granted(&next(1)).await.epoch);
    let newest = given[given.len() - 1];
    assert_eq!(desk.complete(&answered(operation(1), newest, "a")).await, Holding::Held);
    bench.pass(ANSWER_FOR + NEAR).await;
    given.push(another.granted(&next(1)).await.epoch);
    let newest = given[given.len() - 1];
    assert_eq!(another.complete(&answered(operation(1), newest, "b")).await, Holding::Held);
    bench.pass(ANSWER_FOR + NEAR).await;
    desk.sweep_all().await;
    given.push(desk.granted(&next(1)).await.epoch);
    let newest = given[given.len() - 1];
    assert_eq!(desk.release(operation(1), newest).await, Holding::Held);
    desk.sweep_all().await;
    given.push(desk.granted(&next(1)).await.epoch);
    let distinct: BTreeSet<_> = given.iter().collect();
    assert_eq!(distinct.len(), given.len(), "{given:?}");
    assert!(given.is_sorted(), "{given:?}");
}

/// Operations are independent: ids that differ in one bit are two.
pub async fn operations_do_not_mix(bench: &Bench) {
    let desk = Desk::of(bench);
    let near = |bit: u32| crate::record::OperationId::from_hash((1_u128 << bit).to_be_bytes());
    let bits = [(0, "a"), (1, "b"), (7, "c"), (8, "d"), (31, "e"), (64, "f"), (100, "g"), (127, "h")];
    let mut epochs = Vec::new();
    for (bit, _) in bits {
        epochs.push(desk.granted(&claim(near(bit), 1)).await.epoch);
    }
    for ((bit, answer), epoch) in bits.into_iter().zip(&epochs).step_by(2) {
        assert_eq!(desk.complete(&answered(near(bit), *epoch, answer)).await, Holding::Held);
    }
    for (n, (bit, expected)) in bits.into_iter().enumerate() {
        match desk.standing(near(bit)).await {
            Standing::Completed { answer, .. } => assert_eq!((n % 2, &answer[..]), (0, expected.as_bytes())),
            other => assert!(n % 2 == 1 && other.is_running(), "{other:?}"),
        }
    }
    assert_eq!(desk.complete(&answered(near(1), epochs[0], "not mine")).await, Holding::Lost);
}

/// The lease counts from the renewal.
pub async fn a_renewed_lease_holds_from_then_on(bench: &Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&take(operation(1), 1)).await;
    for _ in 0..4 {
        bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
        assert_eq!(desk.renew(operation(1), grant.epoch).await, Holding::Held);
    }
    bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
    let found = desk.found(&take(operation(1), 2)).await;
    assert_eq!(found.epoch, grant.epoch);
    bench.pass(NEAR + NEAR).await;
    assert!(desk.granted(&take(operation(1), 2)).await.taken_over);
    assert_eq!(desk.renew(operation(1), grant.epoch).await, Holding::Lost);
}

/// With the clock an hour back, a lease lasts an hour longer; an hour ahead, it ends early. Neither makes two holders.
pub async fn a_stepped_clock_makes_no_second_holder(bench: &Bench) {
    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    let (desk, key) = (Desk::of(bench), operation(1));
    let lease_left = async || match desk.found(&take(key, 2)).await.standing {
        Standing::Running { lease_left } => lease_left,
        other => panic!("should run: {other:?}"),
    };
    let first = desk.granted(&take(key, 1)).await;
    (bench.step)(-HOUR).await;
    assert!(lease_left().await > HOUR.unsigned_abs(), "the lease lasts longer");
    assert_eq!(desk.renew(key, first.epoch).await, Holding::Held);
    assert!(lease_left().await <= LEASE_FOR, "renewed on the new clock");

    (bench.step)(HOUR).await;
    let second = desk.granted(&take(key, 2)).await;
    assert!(second.taken_over && second.epoch > first.epoch && second.first_at == first.first_at);
    assert_eq!(desk.renew(key, first.epoch).await, Holding::Lost);
    assert_eq!(desk.complete(&answered(key, first.epoch, "late")).await, Holding::Lost);

    (bench.step)(-HOUR).await;
    assert_eq!(desk.complete(&answered(key, second.epoch, "second")).await, Holding::Held);
    assert_eq!(desk.complete(&answered(key, first.epoch, "later")).await, Holding::Lost);
    (bench.step)(HOUR).await;
    assert_eq!(desk.answer(&take(key, 3)).await, "second");
    let third = desk.granted(&take(operation(2), 3)).await;
    assert!(third.epoch > second.epoch, "epochs grow whatever the clock does");
}
