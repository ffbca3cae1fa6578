//! Promises about lists of rows and about retention.

use super::{Bench, Desk, NEAR, address, again, dead, name, of_tenant, put, wish};
use crate::row::{Counts, Ending, Keep, List, Put, Receipt, Redriven, Status};
use std::time::Duration;

pub async fn rows_are_listed_in_pages_and_counted(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["1", "2", "3", "4", "5", "6"]).await;
    desk.accepted(&Put::new(of_tenant("u", "7"), "x")).await;
    let claimed = desk.claim(&wish("a", 100)).await;
    let of =
        |id: &str| claimed.iter().find(|message| message.row.address.id.as_str() == id).expect("claimed");
    desk.ended(of("1"), &Ending::Done).await;
    desk.ended(of("2"), &dead()).await;
    for id in ["3", "5", "6"] {
        desk.ended(of(id), &again(Duration::from_hours(1))).await;
    }
    let store = bench.store();
    let counts = store.counts(&name("in")).await.expect("counting");
    assert_eq!(counts, Counts { pending: 3, doing: 2, done: 1, dead: 1 });
    assert_eq!(store.counts(&name("out")).await.expect("counting"), Counts::default());
    let list = List { inbox: name("in"), status: Status::Pending, after: 0, limit: 2 };
    let page = store.list(&list).await.expect("listing");
    let ids: Vec<_> = page.iter().map(|row| row.address.id.as_str()).collect();
    assert_eq!(ids, ["3", "5"], "in the order of arrival");
    let rest = store.list(&List { after: page[1].number, ..list.clone() }).await.expect("listing");
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0], desk.row(&address("6")).await);
    assert_eq!(store.list(&List { inbox: name("out"), ..list }).await.expect("listing"), []);
}

pub async fn what_is_doing_for_long_is_stuck(bench: &Bench) {
    let desk = Desk::of(bench);
    let doing_for = Duration::from_hours(1);
    desk.accept_all(&["1", "2", "3"]).await;
    let first = desk.claim(&wish("a", 2)).await;
    bench.pass(doing_for.saturating_sub(NEAR)).await;
    let store = bench.store();
    let stuck = async || store.stuck(&name("in"), doing_for).await.expect("listing");
    desk.claim(&wish("a", 1)).await;
    assert_eq!(stuck().await, []);
    bench.pass(NEAR).await;
    let ids: Vec<_> = stuck().await.iter().map(|row| row.address.id.as_str().to_owned()).collect();
    assert_eq!(ids, ["1", "2"]);
    desk.ended(&first[0], &Ending::Done).await;
    assert_eq!(stuck().await.len(), 1);
    assert_eq!(store.stuck(&name("out"), doing_for).await.expect("listing"), []);
}

pub async fn only_a_dead_row_is_redriven(bench: &Bench) {
    let desk = Desk::of(bench);
    assert_eq!(desk.redrive(&address("1")).await, Redriven::Missing);
    desk.accepted(&put("1")).await;
    assert_eq!(desk.redrive(&address("1")).await, Redriven::NotDead(Status::Pending));
    let message = desk.only("a").await;
    assert_eq!(desk.redrive(&address("1")).await, Redriven::NotDead(Status::Doing));
    desk.ended(&message, &dead()).await;
    let row = desk.row(&address("1")).await;
    assert_eq!((row.status, row.last_error.as_deref()), (Status::Dead, Some("it is no use")));
    let Redriven::Pending(row) = desk.redrive(&address("1")).await else { panic!("it is dead") };
    assert_eq!((row.status, row.attempts, row.processed_at), (Status::Pending, 0, None));
    assert_eq!(row.last_error.as_deref(), Some("it is no use"), "it is still told");
    assert_eq!(desk.only("b").await.row.attempts, 1);
}

pub async fn a_sweep_is_bounded_and_leaves_what_is_open(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accept_all(&["1", "2", "3", "4", "5"]).await;
    let claimed = desk.claim(&wish("a", 4)).await;
    for message in &claimed[..2] {
        desk.ended(message, &Ending::Done).await;
    }
    desk.ended(&claimed[2], &dead()).await;
    let keep = Keep { done_for: Duration::from_hours(1), dead_for: Duration::from_hours(2) };
    let store = bench.store();
    let sweep = async |rows_max| store.sweep(&name("in"), keep, rows_max).await.expect("sweeping");
    bench.pass(keep.done_for.saturating_sub(NEAR)).await;
    assert_eq!(sweep(100).await, 0);
    bench.pass(NEAR).await;
    assert_eq!(store.sweep(&name("out"), keep, 100).await.expect("sweeping"), 0);
    assert_eq!((sweep(1).await, sweep(100).await, sweep(100).await), (1, 1, 0));
    bench.pass(keep.dead_for.saturating_sub(keep.done_for)).await;
    assert_eq!(sweep(100).await, 1);
    bench.pass(Duration::from_hours(1_000)).await;
    assert_eq!(sweep(100).await, 0, "what is open is kept");
    let counts = store.counts(&name("in")).await.expect("counting");
    assert_eq!(counts, Counts { pending: 1, doing: 1, done: 0, dead: 0 });
}

pub async fn an_id_is_known_until_its_row_is_swept(bench: &Bench) {
    let desk = Desk::of(bench);
    desk.accepted(&put("1")).await;
    let message = desk.only("a").await;
    desk.ended(&message, &dead()).await;
    let keep = Keep { done_for: Duration::from_hours(1), dead_for: Duration::from_hours(1) };
    bench.pass(keep.dead_for.saturating_sub(NEAR)).await;
    bench.store().sweep(&name("in"), keep, 100).await.expect("sweeping");
    assert!(matches!(desk.put(&put("1")).await, Receipt::Duplicate(row) if row.status == Status::Dead));
    bench.pass(NEAR).await;
    bench.store().sweep(&name("in"), keep, 100).await.expect("sweeping");
    assert_eq!(desk.redrive(&address("1")).await, Redriven::Missing, "it goes with the row");
    desk.accepted(&put("1")).await;
}
