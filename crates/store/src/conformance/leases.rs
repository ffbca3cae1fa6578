//! Leases and incarnations.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Make, Node, at};
use crate::lease::{Claim, Incarnation, Lease, Renewal};
use crate::store::{CommitError, Store};

fn some(store: &mut dyn Store, holder: &str, now: i64, most: u16) -> Lease {
    store.acquire(&Claim { holder: holder.into(), most, now: at(now), expires_at: at(now + 100) }).unwrap()
}

fn take(store: &mut dyn Store, holder: &str, now: i64) -> Lease {
    some(store, holder, now, u16::MAX)
}

/// The numbers of its Shards.
fn numbers(lease: &Lease) -> Vec<u16> {
    lease.shards().iter().map(|shard| shard.0).collect()
}

fn until(ms: i64) -> Renewal {
    Renewal { expires_at: at(ms), steady_at: at(ms) }
}

#[track_caller]
fn is_fenced(result: Result<(), CommitError>) -> (Incarnation, Incarnation) {
    match result {
        Err(CommitError::Fenced { held, newest }) => (held, newest),
        other => panic!("not fenced: {other:?}"),
    }
}

pub fn acquiring_again_begins_a_higher_incarnation(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let first = take(&mut *store, "a", 0);
    let second = take(&mut *store, "a", 1);
    assert!(second.incarnation() > first.incarnation());
    assert_eq!((numbers(&second), &**second.holder(), second.expires_at()), (vec![0], "a", at(101)));
}

pub fn a_lease_tells_the_steady_time_of_those_before(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let mut first = take(&mut *store, "a", 1_000);
    assert_eq!(first.steady_at(), None);
    store.renew(&mut first, Renewal { expires_at: at(1_500), steady_at: at(77) }).unwrap();
    // Whatever the wall clock says now.
    let second = take(&mut *store, "a", 900_000);
    assert_eq!(second.steady_at(), Some(at(77)));
    store.release(&second).unwrap();
    assert_eq!(take(&mut *store, "b", 5).steady_at(), Some(at(77)));
}

pub fn a_lease_that_has_not_run_out_is_not_taken(make: Make<'_>) {
    let mut home = make(2);
    let (mut a, mut b) = (home.handle(), home.handle());
    assert_eq!(numbers(&take(&mut *a, "a", 0)), [0, 1]);
    assert_eq!(numbers(&take(&mut *b, "b", 99)), [0; 0]);
    assert_eq!(numbers(&take(&mut *b, "b", 100)), [0; 0], "it lasts until then, that moment included");
}

pub fn a_lease_that_ran_out_is_taken(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let old = take(&mut *a, "a", 0);
    let new = take(&mut *b, "b", 101);
    assert!(new.incarnation() > old.incarnation());
    assert_eq!(numbers(&new), [0]);
}

pub fn who_has_ended_can_neither_renew_nor_release_nor_recover_nor_ask(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let mut old = take(&mut *a, "a", 0);
    let new = take(&mut *b, "b", 101);
    let expected = (old.incarnation(), new.incarnation());
    assert_eq!(is_fenced(a.renew(&mut old, until(900))), expected);
    assert_eq!(old.expires_at(), at(100), "it is not longer than it was");
    assert_eq!(is_fenced(a.release(&old)), expected);
    assert_eq!(is_fenced(a.recover(&old).map(|_| ())), expected);
    assert_eq!(is_fenced(a.newest(&old).map(|_| ())), expected);
    assert_eq!(numbers(&take(&mut *a, "a", 150)), [0; 0], "the new one was not released");
}

pub fn released_shards_are_free_at_once(make: Make<'_>) {
    let mut home = make(2);
    let (mut a, mut b) = (home.handle(), home.handle());
    let lease = take(&mut *a, "a", 0);
    a.release(&lease).unwrap();
    let next = take(&mut *b, "b", 1);
    assert!(next.incarnation() > lease.incarnation());
    assert_eq!(numbers(&next), [0, 1]);
    is_fenced(a.release(&lease));
}

pub fn a_renewed_lease_holds_for_longer(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let mut lease = take(&mut *a, "a", 0);
    a.renew(&mut lease, until(500)).unwrap();
    assert_eq!(lease.expires_at(), at(500));
    assert_eq!(numbers(&take(&mut *b, "b", 400)), [0; 0]);
    assert_eq!(numbers(&take(&mut *b, "b", 501)), [0]);
}

pub fn incarnations_outlive_a_restart(make: Make<'_>) {
    let mut home = make(1);
    let before = Node::on(&mut *home).lease;
    home.restart();
    let after = Node::on(&mut *home).lease;
    assert!(after.incarnation() > before.incarnation());
}

pub fn several_nodes_hold_some_shards_each(make: Make<'_>) {
    let mut home = make(3);
    let (mut a, mut b) = (home.handle(), home.handle());
    assert_eq!(a.shards(), 3);
    let one = some(&mut *a, "a", 0, 2);
    let two = some(&mut *b, "b", 0, 2);
    assert_eq!((numbers(&one), numbers(&two)), (vec![0, 1], vec![2]));
    a.recover(&one).unwrap();
    b.recover(&two).unwrap();
}

pub fn a_dead_nodes_shards_go_to_several(make: Make<'_>) {
    let mut home = make(4);
    let (mut a, mut b, mut c) = (home.handle(), home.handle(), home.handle());
    assert_eq!(numbers(&take(&mut *a, "a", 0)), [0, 1, 2, 3]);
    let two = some(&mut *b, "b", 101, 2);
    let three = some(&mut *c, "c", 101, 2);
    assert_eq!((numbers(&two), numbers(&three)), (vec![0, 1], vec![2, 3]));
    assert_eq!(numbers(&take(&mut *a, "a", 102)), [0; 0]);
}

pub fn everybody_can_see_who_holds_what(make: Make<'_>) {
    let mut home = make(3);
    let (mut a, mut b) = (home.handle(), home.handle());
    let mut reader = b.reader().unwrap();
    let mut told = || -> Vec<(u16, String)> {
        reader.holders().unwrap().into_iter().map(|(shard, who)| (shard.0, who.to_string())).collect()
    };
    let holds = |shard: u16, who: &str| (shard, who.to_owned());
    assert_eq!(told(), []);
    let one = some(&mut *a, "a", 0, 2);
    assert_eq!(told(), [holds(0, "a"), holds(1, "a")]);
    some(&mut *b, "b", 0, 2);
    assert_eq!(told(), [holds(0, "a"), holds(1, "a"), holds(2, "b")]);
    a.release(&one).unwrap();
    assert_eq!(told(), [holds(2, "b")]);
}
