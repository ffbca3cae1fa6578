//! How an operation ends, and what is told of it afterwards.

use super::{Bench, Desk, KEEP, LEASE_FOR, NEAR, answered, claim, operation, take, unknown};
use crate::record::{Completion, Ending, Holding, Standing};
use bytes::Bytes;
use std::time::Duration;

/// Everybody who asks for the same gets the same bytes, with when it ended and until when they are kept.
pub async fn an_answer_is_given_as_it_was_told(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    bench.pass(Duration::from_secs(20)).await;
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "made")).await, Holding::Held);
    let found = desk.found(&claim(operation(1), 2)).await;
    assert_eq!((found.epoch, found.first_at), (grant.epoch, grant.first_at));
    let Standing::Completed { at, expires_at, answer } = found.standing.clone() else {
        panic!("is completed: {found:?}")
    };
    assert_eq!(answer, "made");
    super::assert_apart(grant.first_at, at, Duration::from_secs(20));
    super::assert_apart(at, expires_at, super::ANSWER_FOR);
    for wish in [claim(operation(1), 1), take(operation(1), 1), take(operation(1), 3)] {
        assert_eq!(desk.found(&wish).await, found, "also its own claimant is told that it ended");
    }
    assert_eq!(desk.look(operation(1)).await, Some(found));
}

/// Whoever did not hear that its end was recorded tells it again, and nothing is changed by that, nor by another end.
pub async fn told_twice_the_first_counts(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.completed(operation(1), "first", KEEP).await;
    let before = desk.look(operation(1)).await;
    bench.pass(Duration::from_mins(1)).await;
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "first")).await, Holding::Held);
    assert_eq!(desk.complete(&answered(operation(1), grant.epoch, "second")).await, Holding::Held);
    assert_eq!(desk.look(operation(1)).await, before, "also its retention does not begin again");
}

/// The holder itself does not know.
pub async fn told_unknown_it_is_unknown_until_it_expires(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    assert_eq!(desk.complete(&unknown(operation(1), grant.epoch)).await, Holding::Held);
    let found = desk.found(&claim(operation(1), 2)).await;
    let Standing::Unknown { at, expires_at } = found.standing else { panic!("is unknown: {found:?}") };
    super::assert_apart(at, expires_at, super::ANSWER_FOR);
    assert_eq!(desk.found(&claim(operation(1), 1)).await, found);
    bench.pass(super::ANSWER_FOR.saturating_sub(NEAR)).await;
    desk.sweep_all().await;
    assert_eq!(desk.found(&claim(operation(1), 1)).await, found);
    bench.pass(NEAR + NEAR).await;
    assert!(!desk.granted(&claim(operation(1), 3)).await.taken_over, "a new operation");
}

/// What is known does not become unknown.
pub async fn unknown_told_after_an_answer_changes_nothing(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.completed(operation(1), "known", KEEP).await;
    assert_eq!(desk.complete(&unknown(operation(1), grant.epoch)).await, Holding::Held);
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "known");
}

/// Nothing was done: the next one begins from the beginning, and the one before holds nothing.
pub async fn a_released_operation_is_forgotten(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let first = desk.granted(&claim(operation(1), 1)).await;
    bench.pass(Duration::from_secs(20)).await;
    assert_eq!(desk.release(operation(1), first.epoch).await, Holding::Held);
    assert_eq!(desk.look(operation(1)).await, None);
    assert_eq!(desk.release(operation(1), first.epoch).await, Holding::Lost);
    assert_eq!(desk.complete(&answered(operation(1), first.epoch, "late")).await, Holding::Lost);
    assert_eq!(desk.look(operation(1)).await, None, "a late end brings nothing back");
    let second = desk.granted(&claim(operation(1), 2)).await;
    assert!(!second.taken_over && second.epoch > first.epoch && second.first_at > first.first_at);
    assert_eq!(desk.complete(&answered(operation(1), first.epoch, "late")).await, Holding::Lost);
    assert_eq!(desk.release(operation(1), first.epoch).await, Holding::Lost);
    assert_eq!(desk.complete(&answered(operation(1), second.epoch, "second")).await, Holding::Held);
    assert_eq!(desk.answer(&claim(operation(1), 3)).await, "second");
}

/// An answer that was told is not taken back.
pub async fn what_has_an_answer_is_not_released(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.completed(operation(1), "kept", KEEP).await;
    assert_eq!(desk.release(operation(1), grant.epoch).await, Holding::Lost);
    assert_eq!(desk.answer(&claim(operation(1), 2)).await, "kept");
}

/// There is no lease any more.
pub async fn what_has_ended_is_not_renewed(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let grant = desk.completed(operation(1), "ended", KEEP).await;
    let before = desk.look(operation(1)).await;
    assert_eq!(desk.renew(operation(1), grant.epoch).await, Holding::Lost);
    assert_eq!(desk.look(operation(1)).await, before);
}

/// Nothing, every byte, and a mebibyte.
pub async fn answers_of_any_size_come_back(bench: &dyn Bench) {
    let desk = Desk::of(bench);
    let sizes: [usize; 6] = [0, 1, 256, 4_096, 70_000, 1 << 20];
    for (n, size) in (1..).zip(sizes) {
        let answer: Bytes = (0..size).map(|at| (at * 31 / 8) as u8).collect::<Vec<u8>>().into();
        let grant = desk.granted(&claim(operation(n), 1)).await;
        let ending = Ending::Answered(answer.clone());
        let completion = Completion { operation: operation(n), epoch: grant.epoch, ending, keep: KEEP };
        assert_eq!(desk.complete(&completion).await, Holding::Held);
        assert!(desk.answer(&claim(operation(n), 2)).await == answer, "{size} bytes");
    }
}

/// What one instance was told, the other tells, at once.
pub async fn another_instance_sees_what_was_done(bench: &dyn Bench) {
    let (here, there) = (Desk::of(bench), Desk(bench.another()));
    let grant = here.granted(&claim(operation(1), 1)).await;
    assert_eq!(there.found(&claim(operation(1), 2)).await.epoch, grant.epoch);
    bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
    assert_eq!(there.renew(operation(1), grant.epoch).await, Holding::Held);
    assert_eq!(there.complete(&answered(operation(1), grant.epoch, "there")).await, Holding::Held);
    assert_eq!(here.answer(&claim(operation(1), 3)).await, "there");
    assert!(here.erase(operation(1)).await);
    assert!(matches!(there.standing(operation(1)).await, Standing::Expired { .. }));
}

/// Many tell an end under the same epoch at once: all hold, one counts, and it stays that one.
pub async fn many_ends_at_once_are_one_end(bench: &dyn Bench) {
    const ENDS: [&str; 4] = ["a", "b", "c", "d"];
    let desk = Desk::of(bench);
    let grant = desk.granted(&claim(operation(1), 1)).await;
    let tasks: Vec<_> = ENDS
        .into_iter()
        .zip([bench.store(), bench.another()].iter().cycle())
        .map(|(end, store)| {
            let store = store.clone();
            tokio::spawn(async move { store.complete(&answered(operation(1), grant.epoch, end)).await })
        })
        .collect();
    for task in tasks {
        let holding = task.await.expect("completing does not panic").expect("completing");
        assert_eq!(holding, Holding::Held);
    }
    let kept = desk.answer(&claim(operation(1), 2)).await;
    assert!(ENDS.iter().any(|end| kept == *end), "{kept:?}");
    assert_eq!(Desk(bench.another()).answer(&claim(operation(1), 3)).await, kept);
}
