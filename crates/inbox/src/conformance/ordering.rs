//! Promises of an ordering key: it orders its own rows and affects no others.

use super::{
    ATTEMPTS_MAX, Bench, Desk, LEASE_FOR, NEAR, address, again, dead, ids, keyed, name, of_tenant, put, wish,
};
use crate::row::{Ending, Named, Put, Redriven, Status};
use std::time::Duration;

pub async fn one_row_of_an_ordering_key_at_a_time(bench: &Bench) {
    let desk = Desk::of(bench);
    for id in ["1", "2", "3"] {
        desk.accepted(&keyed(id, "k")).await;
    }
    for (n, id) in ["1", "2", "3"].into_iter().enumerate() {
        let message = desk.only("a").await;
        assert_eq!(message.row.address, address(id));
        assert_eq!(desk.claim(&wish("b", 10)).await, [], "while {id} is DOING");
        if n == 0 {
            assert_eq!(desk.named(&address("2"), "b").await, Named::NotYet, "by name neither");
        }
        desk.ended(&message, &Ending::Done).await;
    }
}

pub async fn a_failing_head_blocks_its_key_alone(bench: &Bench) {
    let desk = Desk::of(bench);
    for (id, key) in [("1", "k"), ("2", "k"), ("3", "l")] {
        desk.accepted(&keyed(id, key)).await;
    }
    desk.accepted(&put("4")).await;
    let claimed = desk.claim(&wish("a", 10)).await;
    assert_eq!(ids(&claimed), ["1", "3", "4"]);
    let delay_for = Duration::from_hours(1);
    desk.ended(&claimed[0], &again(delay_for)).await;
    desk.ended(&claimed[1], &Ending::Done).await;
    assert_eq!(desk.claim(&wish("a", 10)).await, [], "2 waits for 1");
    desk.accepted(&keyed("5", "l")).await;
    assert_eq!(desk.only("a").await.row.address, address("5"));
    bench.pass(delay_for).await;
    assert_eq!(desk.only("a").await.row.address, address("1"));
}

pub async fn a_dead_head_makes_way(bench: &Bench) {
    let desk = Desk::of(bench);
    for id in ["1", "2"] {
        desk.accepted(&keyed(id, "k")).await;
    }
    let first = desk.only("a").await;
    desk.ended(&first, &dead()).await;
    assert_eq!(desk.only("a").await.row.address, address("2"));
    desk.accepted(&keyed("3", "k")).await;
    for _ in 1..ATTEMPTS_MAX {
        bench.pass(LEASE_FOR + NEAR).await;
        desk.lapse().await;
        assert_eq!(desk.only("a").await.row.address, address("2"), "as long as it has attempts");
    }
    bench.pass(LEASE_FOR + NEAR).await;
    assert_eq!(desk.lapse().await[0].status, Status::Dead);
    assert_eq!(desk.only("a").await.row.address, address("3"));
}

pub async fn a_lapsed_head_stays_the_head(bench: &Bench) {
    let desk = Desk::of(bench);
    for id in ["1", "2"] {
        desk.accepted(&keyed(id, "k")).await;
    }
    desk.only("a").await;
    bench.pass(LEASE_FOR + NEAR).await;
    desk.lapse().await;
    assert_eq!(desk.only("b").await.row.address, address("1"));
}

pub async fn a_redriven_row_comes_last_of_its_key(bench: &Bench) {
    let desk = Desk::of(bench);
    for id in ["1", "2", "3"] {
        desk.accepted(&keyed(id, "k")).await;
    }
    let first = desk.only("a").await;
    desk.ended(&first, &dead()).await;
    let redriven = desk.redrive(&address("1")).await;
    assert!(matches!(&redriven, Redriven::Pending(row) if !row.head && row.attempts == 0), "{redriven:?}");
    for id in ["2", "3", "1"] {
        let message = desk.only("a").await;
        assert_eq!(message.row.address, address(id));
        desk.ended(&message, &dead()).await;
    }
    assert!(matches!(desk.redrive(&address("3")).await, Redriven::Pending(row) if row.head));
    assert_eq!(desk.only("a").await.row.address, address("3"));
}

pub async fn keys_of_two_tenants_are_two_keys(bench: &Bench) {
    let desk = Desk::of(bench);
    for tenant in ["t", "u"] {
        for id in ["1", "2"] {
            let put = Put::new(of_tenant(tenant, id), "x");
            desk.accepted(&Put { ordering_key: Some(name("k")), ..put }).await;
        }
    }
    let claimed = desk.claim(&wish("a", 10)).await;
    assert_eq!(ids(&claimed), ["1", "1"], "one of each tenant");
}

/// A row that is put behind a head while the head ends must not wait for ever.
pub async fn puts_and_ends_of_one_key_leave_nobody_waiting(bench: &Bench) {
    const ROWS: usize = 60;
    let (store, another) = (bench.store(), Desk(bench.another()));
    let putting = tokio::spawn(async move {
        for n in 0..ROWS {
            store.put(&keyed(&n.to_string(), "k")).await.expect("putting");
        }
    });
    let mut worked = Vec::new();
    while worked.len() < ROWS {
        let over = putting.is_finished();
        let claimed = another.claim(&wish("w", 5)).await;
        assert!(!(claimed.is_empty() && over), "{} of {ROWS} were worked and the others wait", worked.len());
        for message in &claimed {
            another.ended(message, &Ending::Done).await;
            worked.push(message.row.address.id.as_str().to_owned());
        }
    }
    let expected: Vec<String> = (0..ROWS).map(|n| n.to_string()).collect();
    assert_eq!(worked, expected, "in the order in which they were put");
    putting.await.expect("it does not panic");
}
