//! How claims end, and what becomes of those that do not.

use super::{ATTEMPTS_MAX, Bench, Desk, LEASE_FOR, NEAR, address, again, dead, held, name, put, wish};
use crate::row::{Ending, Held, Holding, Named, Receipt, Redriven, Status};
use crate::rule::LAPSED;
use std::time::Duration;

pub async fn a_failed_row_comes_back_after_its_delay(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    let delay_for = Duration::from_hours(1);
    desk.ended(&message, &again(delay_for)).await;
    let row = desk.row(&address("1")).await;
    assert_eq!(
        (row.status, row.attempts, row.last_error.as_deref()),
        (Status::Pending, 1, Some("it failed"))
    );
    assert_eq!((row.processed_at, row.lease_until), (None, None));
    bench.pass(delay_for.saturating_sub(NEAR)).await;
    assert_eq!(desk.claim(&wish("a", 1)).await, []);
    bench.pass(NEAR).await;
    let message = desk.only("b").await;
    assert_eq!((message.row.attempts, message.payload), (2, "1".into()));
}

pub async fn a_done_row_is_never_claimed_again(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    desk.ended(&message, &Ending::Done).await;
    let row = desk.row(&address("1")).await;
    assert!(row.processed_at >= row.claimed_at && row.processed_at.is_some());
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.lapse().await, []);
    assert_eq!(desk.redrive(&address("1")).await, Redriven::NotDead(Status::Done));
    assert!(matches!(desk.put(&put("1")).await, Receipt::Duplicate(row) if row.status == Status::Done));
    for claim in [again(Duration::ZERO), dead()] {
        assert_eq!(desk.end(&held(&message), &claim).await, Holding::Lost);
    }
    assert_eq!(desk.claim(&wish("b", 10)).await, []);
    assert_eq!(desk.named(&address("1"), "b").await, Named::Taken(Status::Done));
    assert_eq!(desk.row(&address("1")).await, row, "nothing was changed");
}

pub async fn done_told_twice_is_done_once(bench: &Bench) {
    let (desk, another) = (Desk::of(bench), Desk(bench.another()));
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    desk.ended(&message, &Ending::Done).await;
    let row = desk.row(&address("1")).await;
    bench.pass(NEAR).await;
    another.ended(&message, &Ending::Done).await;
    assert_eq!(row.status, Status::Done);
    assert_eq!(desk.row(&address("1")).await, row);
}

pub async fn a_stale_claim_changes_nothing(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let stale = held(&desk.only("a").await);
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.lapse().await.len(), 1);
    // It was returned and nobody has it; then the same worker, under the same name, has it again.
    for round in 0..2 {
        if round == 1 {
            desk.only("a").await;
        }
        let row = desk.row(&address("1")).await;
        assert_eq!(desk.beat(std::slice::from_ref(&stale)).await, []);
        for ending in [Ending::Done, again(Duration::ZERO), dead()] {
            assert_eq!(desk.end(&stale, &ending).await, Holding::Lost, "{ending:?} in round {round}");
        }
        assert_eq!(desk.row(&address("1")).await, row, "in round {round}");
    }
}

pub async fn another_owner_changes_nothing(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    let stranger = Held { owner: name("b"), ..held(&message) };
    assert_eq!(desk.beat(std::slice::from_ref(&stranger)).await, []);
    for ending in [Ending::Done, again(Duration::ZERO), dead()] {
        assert_eq!(desk.end(&stranger, &ending).await, Holding::Lost);
    }
    assert_eq!(desk.row(&address("1")).await, message.row);
    desk.ended(&message, &Ending::Done).await;
    assert_eq!(desk.end(&stranger, &Ending::Done).await, Holding::Lost, "it did not end it");
}

pub async fn a_lease_that_runs_out_returns_the_row(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let first = desk.only("a").await;
    bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
    assert_eq!(desk.lapse().await, []);
    bench.pass(NEAR * 2).await;
    let lapsed = desk.lapse().await;
    assert_eq!(lapsed.len(), 1);
    assert_eq!((lapsed[0].status, lapsed[0].last_error.as_deref()), (Status::Pending, Some(LAPSED)));
    assert_eq!(desk.row(&address("1")).await, lapsed[0], "what is told is what is kept");
    assert_eq!(desk.lapse().await, [], "once");
    let second = desk.only("b").await;
    assert!(second.row.epoch > first.row.epoch && second.row.attempts == 2);
}

pub async fn a_renewed_lease_holds_from_then_on(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    for _ in 0..3 {
        bench.pass(LEASE_FOR.saturating_sub(NEAR)).await;
        assert_eq!(desk.beat(&[held(&message)]).await, [message.row.epoch]);
        assert_eq!(desk.lapse().await, []);
    }
    let row = desk.row(&address("1")).await;
    assert_eq!(row.claimed_at, message.row.claimed_at, "it is DOING since it was claimed");
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.lapse().await.len(), 1);
}

pub async fn leases_are_renewed_together_and_the_lost_are_told(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["1", "2", "3"]).await;
    let claimed = desk.claim(&wish("a", 10)).await;
    desk.ended(&claimed[1], &Ending::Done).await;
    let all: Vec<Held> = claimed.iter().map(held).collect();
    let mut still = desk.beat(&all).await;
    still.sort();
    assert_eq!(still, [claimed[0].row.epoch, claimed[2].row.epoch]);
    assert_eq!(desk.beat(&[]).await, []);
}

pub async fn a_message_that_kills_its_workers_dies(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    for attempt in 1..=ATTEMPTS_MAX {
        assert_eq!(desk.only("a").await.row.attempts, attempt, "it counts when it is claimed");
        bench.pass(LEASE_FOR + NEAR).await;
        let lapsed = desk.lapse().await;
        let expected = if attempt < ATTEMPTS_MAX { Status::Pending } else { Status::Dead };
        assert_eq!((lapsed.len(), lapsed[0].status), (1, expected));
    }
    assert_eq!(desk.claim(&wish("a", 10)).await, []);
    let row = desk.row(&address("1")).await;
    assert!(row.processed_at.is_some() && row.last_error.as_deref() == Some(LAPSED));
}

pub async fn a_late_end_counts_while_nobody_took_the_row(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.ended(&message, &Ending::Done).await;
    assert_eq!(desk.lapse().await, []);
    assert_eq!(desk.status("1").await, Status::Done);
}

pub async fn a_lapse_is_bounded(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["1", "2", "3"]).await;
    desk.claim(&wish("a", 10)).await;
    bench.pass(LEASE_FOR + NEAR).await;
    let store = bench.store();
    for expected in [2, 1, 0] {
        let lapsed = store.lapse(&name("in"), ATTEMPTS_MAX, 2).await.expect("looking for lapsed leases");
        assert_eq!(lapsed.len(), expected);
    }
    assert_eq!(store.lapse(&name("out"), ATTEMPTS_MAX, 2).await.expect("looking"), []);
}
