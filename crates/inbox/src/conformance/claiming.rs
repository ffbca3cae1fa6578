//! How rows are claimed.

use super::{Bench, Desk, LEASE_FOR, NEAR, address, held, ids, name, of_tenant, put, wish};
use crate::row::{Claim, Ending, Epoch, Keep, Message, Named, Put, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

pub async fn rows_are_claimed_oldest_first(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["c", "a", "d", "b"]).await;
    assert_eq!(ids(&desk.claim(&wish("a", 3)).await), ["c", "a", "d"]);
    let last = desk.only("b").await;
    let row = &last.row;
    assert_eq!((row.status, row.attempts, row.owner.clone()), (Status::Doing, 1, Some(name("b"))));
    let claimed_at = row.claimed_at.expect("it was claimed");
    assert_eq!(row.lease_until, Some(crate::rule::later(claimed_at, LEASE_FOR)));
    assert_eq!(desk.row(&row.address).await, *row, "what is told is what is kept");
    assert_eq!(desk.claim(&wish("a", 10)).await, []);
}

pub async fn a_row_is_claimed_once_among_many(bench: &Bench) {
    const ROWS: usize = 100;
    let desk = Desk::of(bench);
    for n in 0..ROWS {
        desk.accepted(&put(&n.to_string())).await;
    }
    let mut workers = tokio::task::JoinSet::new();
    let all_are_there = Arc::new(Barrier::new(10));
    for n in 0..10_usize {
        let store = if n % 2 == 0 { bench.store() } else { bench.another() };
        let all_are_there = all_are_there.clone();
        workers.spawn(async move {
            all_are_there.wait().await;
            let mut mine = Vec::new();
            // One that finds all others locked gets none, and looks again.
            let mut idle = 0;
            while idle < 3 {
                let claimed = store.claim(&wish(&n.to_string(), 7)).await.expect("claiming");
                idle = if claimed.is_empty() { idle + 1 } else { 0 };
                mine.extend(claimed);
            }
            mine
        });
    }
    let claimed: Vec<Message> = workers.join_all().await.into_iter().flatten().collect();
    let rows: BTreeSet<_> = claimed.iter().map(|message| &message.row.address).collect();
    let epochs: BTreeSet<_> = claimed.iter().map(|message| message.row.epoch).collect();
    assert_eq!((claimed.len(), rows.len(), epochs.len()), (ROWS, ROWS, ROWS));
}

pub async fn a_claim_is_made_by_name(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["1", "2"]).await;
    let two = address("2");
    let Named::Claimed(message) = desk.named(&two, "a").await else { panic!("it is pending") };
    assert_eq!((message.row.address.clone(), message.payload.clone()), (two.clone(), "2".into()));
    assert_eq!(desk.named(&two, "b").await, Named::Taken(Status::Doing));
    desk.ended(&message, &Ending::Done).await;
    assert_eq!(desk.named(&two, "b").await, Named::Taken(Status::Done));
    assert_eq!(desk.named(&address("3"), "b").await, Named::Missing);
    assert_eq!(desk.only("b").await.row.address, address("1"), "the other one is left");
}

pub async fn a_claim_by_name_is_made_once_among_many(bench: &Bench) {
    Desk::of(bench).accepted(&put("1")).await;
    let mut workers = tokio::task::JoinSet::new();
    let all_are_there = Arc::new(Barrier::new(20));
    for n in 0..20_usize {
        let desk = Desk(if n % 2 == 0 { bench.store() } else { bench.another() });
        let all_are_there = all_are_there.clone();
        workers.spawn(async move {
            all_are_there.wait().await;
            desk.named(&address("1"), &n.to_string()).await
        });
    }
    let told = workers.join_all().await;
    let claimed = told.iter().filter(|named| matches!(named, Named::Claimed(_))).count();
    let taken = told.iter().filter(|named| **named == Named::Taken(Status::Doing)).count();
    assert_eq!((claimed, taken), (1, 19));
}

pub async fn a_delayed_message_waits(bench: &Bench) {
    let desk = Desk::of(bench);
    let delay_for = Duration::from_hours(1);
    desk.accepted(&Put { delay_for, ..put("1") }).await;
    desk.accepted(&put("2")).await;
    assert_eq!(desk.only("a").await.row.address, address("2"));
    bench.pass(delay_for.saturating_sub(NEAR)).await;
    assert_eq!(desk.claim(&wish("a", 1)).await, []);
    assert_eq!(desk.named(&address("1"), "a").await, Named::NotYet);
    bench.pass(NEAR).await;
    assert_eq!(desk.only("a").await.row.address, address("1"));
}

pub async fn tenants_share_a_claim(bench: &Bench) {
    let desk = Desk::of(bench);
    for tenant in ["a", "b", "c"] {
        for n in 0..6 {
            desk.accepted(&Put::new(of_tenant(tenant, &n.to_string()), "x")).await;
        }
    }
    let claimed = desk.claim(&wish("w", 6)).await;
    let mut shares: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for message in &claimed {
        let of = shares.entry(message.row.address.tenant.as_str()).or_default();
        of.push(message.row.address.id.as_str());
    }
    for (tenant, ids) in &mut shares {
        ids.sort_unstable();
        assert_eq!(*ids, ["0", "1"], "the oldest of {tenant}");
    }
    assert_eq!(shares.len(), 3);
}

pub async fn a_noisy_tenant_does_not_hold_up_a_quiet_one(bench: &Bench) {
    let desk = Desk::of(bench);
    for n in 0..60 {
        desk.accepted(&Put::new(of_tenant("b", &n.to_string()), "x")).await;
    }
    desk.accepted(&Put::new(of_tenant("a", "1"), "x")).await;
    desk.accepted(&Put::new(of_tenant("c", "1"), "x")).await;
    // One row at a time, each claim after the tenant that was served last.
    let mut served = Vec::new();
    let mut after = None;
    for _ in 0..6 {
        let claimed = desk.claim(&Claim { after: after.clone(), ..wish("w", 1) }).await;
        let tenant = claimed[0].row.address.tenant.clone();
        served.push(tenant.as_str().to_owned());
        after = Some(tenant);
    }
    assert_eq!(served, ["a", "b", "c", "b", "b", "b"]);
}

pub async fn epochs_grow_and_never_repeat(bench: &Bench) {
    let desk = Desk::of(bench);
    let mut newest = Epoch(0);
    for round in 0..5 {
        desk.accept_all(&["1", "2"]).await;
        for message in desk.claim(&wish("a", 10)).await {
            assert!(message.row.epoch > newest, "in round {round}: {message:?} after {newest}");
            newest = message.row.epoch;
            let stale = held(&message);
            desk.ended(&message, &Ending::Done).await;
            assert_eq!(stale.epoch, newest);
        }
        bench.pass(Duration::from_hours(1)).await;
        let keep = Keep { done_for: Duration::ZERO, dead_for: Duration::ZERO };
        assert_eq!(bench.store().sweep(&name("in"), keep, 100).await.expect("sweeping"), 2);
    }
}
