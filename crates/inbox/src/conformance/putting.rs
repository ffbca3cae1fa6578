//! How messages are taken in.

use super::{Bench, Desk, address, of_tenant, put};
use crate::row::{Address, PAYLOAD_BYTES_MAX, Put, Receipt, Status};
use crate::store::StoreError;
use std::sync::Arc;
use tokio::sync::Barrier;

pub async fn a_message_is_taken_in_once(bench: &Bench) {
    let (desk, another) = (Desk::of(bench), Desk(bench.another()));
    let row = desk.accepted(&put("1")).await;
    assert_eq!((row.status, row.attempts, row.head), (Status::Pending, 0, true));
    assert_eq!(row.not_before, row.received_at);
    assert_eq!(another.put(&put("1")).await, Receipt::Duplicate(row.clone()));
    assert_eq!(desk.row(&address("1")).await, row, "nothing was changed");
}

pub async fn another_message_under_its_id_is_a_conflict(bench: &Bench) {
    let desk = Desk::of(bench);
    let row = desk.accepted(&put("1")).await;
    let other = Put::new(address("1"), "another payload");
    assert_eq!(desk.put(&other).await, Receipt::Conflict(row));
    let kept = bench.store().look(&address("1")).await.expect("looking").expect("it is there");
    assert_eq!(kept.payload, "1", "the first one counts");
}

pub async fn ids_belong_to_an_inbox_and_a_tenant(bench: &Bench) {
    let desk = Desk::of(bench);
    let mut addresses = vec![address("1"), of_tenant("u", "1")];
    addresses.push(Address { inbox: super::name("out"), ..address("1") });
    for address in &addresses {
        let row = desk.accepted(&Put::new(address.clone(), format!("of {address}"))).await;
        assert_eq!(row.address, *address);
    }
    for address in &addresses {
        let kept = bench.store().look(address).await.expect("looking").expect("it is there");
        assert_eq!(kept.payload, format!("of {address}"));
    }
}

pub async fn many_copies_at_once_are_one_row(bench: &Bench) {
    let mut senders = tokio::task::JoinSet::new();
    let all_are_there = Arc::new(Barrier::new(100));
    for n in 0..100 {
        let store = if n % 2 == 0 { bench.store() } else { bench.another() };
        let all_are_there = all_are_there.clone();
        senders.spawn(async move {
            all_are_there.wait().await;
            store.put(&put("1")).await.expect("putting")
        });
    }
    let (mut accepted, mut duplicates) = (Vec::new(), Vec::new());
    for receipt in senders.join_all().await {
        match receipt {
            Receipt::Accepted(row) => accepted.push(row),
            Receipt::Duplicate(row) => duplicates.push(row),
            Receipt::Conflict(row) => panic!("they are copies: {row:?}"),
        }
    }
    assert_eq!((accepted.len(), duplicates.len()), (1, 99));
    assert!(duplicates.iter().all(|row| *row == accepted[0]), "each is told of the first");
    let counts = bench.store().counts(&super::name("in")).await.expect("counting");
    assert_eq!(counts.pending, 1);
}

pub async fn payloads_come_back_as_they_were(bench: &Bench) {
    let desk = Desk::of(bench);
    for (n, bytes) in [0, 1, 1_000, 10_000, PAYLOAD_BYTES_MAX].into_iter().enumerate() {
        let payload: Vec<u8> = (0..bytes).map(|at| (at * 7 + n) as u8).collect();
        let address = address(&format!("of {bytes}"));
        desk.accepted(&Put::new(address.clone(), payload.clone())).await;
        let message = desk.only("a").await;
        assert_eq!((message.row.address.clone(), message.payload), (address, payload.into()));
    }
    let refused = bench.store().put(&Put::new(address("x"), vec![0; PAYLOAD_BYTES_MAX + 1])).await;
    assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{refused:?}");
}
