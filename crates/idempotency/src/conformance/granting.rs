//! Who may run an operation.

use super::{Bench, Desk, claim, operation, request, take};
use crate::record::{Claim, Claimed, Holding, Standing};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

/// Offers all claims at once, every other one to another instance.
async fn at_once(bench: &dyn Bench, claims: Vec<Claim>) -> Vec<Claimed> {
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

/// Of many who want it at once, on several instances, one gets it, and the others find it running.
pub async fn a_claim_is_granted_once_among_many(bench: &dyn Bench) {
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

/// Whoever did not hear the answer asks again and is told the same; nobody else is granted it.
pub async fn the_same_claim_again_gets_the_same_grant(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let first = desk.granted(&claim(operation(1), 1)).await;
    assert!(!first.taken_over);
    assert_eq!(desk.granted(&claim(operation(1), 1)).await, first);
    assert_eq!(Desk(bench.another()).granted(&claim(operation(1), 1)).await, first);
    desk.found(&claim(operation(1), 2)).await;
    bench.pass(super::LEASE_FOR + super::NEAR).await;
    let second = desk.granted(&take(operation(1), 2)).await;
    assert_eq!(desk.granted(&take(operation(1), 2)).await, second, "a grant that took over is told as such");
}

/// The same claim offered by two connections at once is one grant.
pub async fn the_same_claim_at_once_is_granted_once(bench: &dyn Bench) {
    for round in 0..10 {
        let answers = at_once(bench, vec![claim(operation(round), 1); 6]).await;
        assert!(answers.iter().all(|answer| *answer == answers[0]), "in round {round}: {answers:?}");
        assert!(matches!(answers[0], Claimed::Granted(_)));
    }
}

/// What somebody holds is found, with what is left of the lease.
pub async fn a_running_operation_is_found_running(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    bench.pass(Duration::from_secs(10)).await;
    for found in [desk.found(&claim(operation(1), 2)).await, desk.found(&take(operation(1), 3)).await] {
        let wished = claim(operation(1), 2);
        assert_eq!(
            (found.scope, found.request, found.epoch, found.first_at),
            (wished.scope, wished.request, grant.epoch, grant.first_at)
        );
        let Standing::Running { lease_left } = found.standing else { panic!("runs: {found:?}") };
        assert!((Duration::from_secs(10)..=Duration::from_secs(20)).contains(&lease_left), "{lease_left:?}");
    }
}

/// Another request under the same key learns that it is another, at every stage, and leaves everything as it is.
pub async fn another_request_is_told_and_changes_nothing(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let other = Claim { request: request(2), ..take(operation(1), 9) };
    let grant = desk.granted(&claim(operation(1), 1)).await;
    assert_eq!(desk.found(&other).await.request, request(1));
    assert_eq!(desk.complete(&super::answered(operation(1), grant.epoch, "first")).await, Holding::Held);
    let found = desk.found(&other).await;
    assert_eq!((found.request, found.epoch), (request(1), grant.epoch));
    assert_eq!(desk.answer(&claim(operation(1), 3)).await, "first");
}

/// A lease that ran out is not taken over by another request, nor marked by it; also not by the same claimant.
pub async fn another_request_never_takes_over(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    bench.pass(super::LEASE_FOR + super::NEAR).await;
    for claimant in [1, 2] {
        for wish in [take(operation(1), claimant), claim(operation(1), claimant)] {
            let found = desk.found(&Claim { request: request(2), ..wish }).await;
            assert_eq!(found.standing, Standing::Running { lease_left: Duration::ZERO });
        }
    }
    assert_eq!(desk.renew(operation(1), grant.epoch).await, Holding::Held, "it is still the first one's");
}

/// No epoch is given twice: not for another operation, not after a release, an expiry or a sweep, and not by another
/// instance.
pub async fn epochs_grow_and_never_repeat(bench: &dyn Bench) {
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
    bench.pass(super::LEASE_FOR + super::NEAR).await;
    given.push(desk.granted(&next(1)).await.epoch);
    let newest = given[given.len() - 1];
    assert_eq!(desk.complete(&super::answered(operation(1), newest, "a")).await, Holding::Held);
    bench.pass(super::ANSWER_FOR + super::NEAR).await;
    given.push(another.granted(&next(1)).await.epoch);
    let newest = given[given.len() - 1];
    assert_eq!(another.complete(&super::answered(operation(1), newest, "b")).await, Holding::Held);
    bench.pass(super::ANSWER_FOR + super::NEAR).await;
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

/// Each operation is its own: ids that differ in one bit are two.
pub async fn operations_do_not_mix(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let near = |bit: u32| crate::record::OperationId::from_hash((1_u128 << bit).to_be_bytes());
    let bits = [0, 1, 7, 8, 31, 64, 100, 127];
    let mut epochs = Vec::new();
    for bit in bits {
        epochs.push(desk.granted(&claim(near(bit), 1)).await.epoch);
    }
    for (bit, epoch) in bits.into_iter().zip(&epochs).step_by(2) {
        assert_eq!(desk.complete(&super::answered(near(bit), *epoch, "mine")).await, Holding::Held);
    }
    for (n, bit) in bits.into_iter().enumerate() {
        let ended = matches!(desk.standing(near(bit)).await, Standing::Completed { .. });
        assert_eq!(ended, n % 2 == 0);
    }
    assert_eq!(desk.complete(&super::answered(near(1), epochs[0], "not mine")).await, Holding::Lost);
}
