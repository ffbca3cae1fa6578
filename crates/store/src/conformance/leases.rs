//! Leases and Epochs.

#![allow(missing_docs, reason = "the name is the promise")]

use super::{Home, Make, Node, at};
use crate::lease::{Epoch, Lease, Renewal, Shard};
use crate::store::{CommitError, Store};
use std::sync::Arc;

fn take(store: &mut dyn Store, holder: &str, now: i64) -> Vec<Lease> {
    store.acquire(&Arc::from(holder), at(now), at(now + 100)).unwrap()
}

fn one(store: &mut dyn Store, holder: &str, now: i64) -> Lease {
    take(store, holder, now).pop().expect("the Shard is free")
}

fn until(ms: i64) -> Renewal {
    Renewal { expires_at: at(ms), steady_at: at(ms) }
}

fn is_fenced(result: Result<(), CommitError>) -> (Epoch, Epoch) {
    match result {
        Err(CommitError::Fenced { held, newest, .. }) => (held, newest),
        other => panic!("not fenced: {other:?}"),
    }
}

pub fn acquiring_again_raises_the_epoch(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let first = one(&mut *store, "a", 0);
    let second = one(&mut *store, "a", 1);
    assert!(second.epoch() > first.epoch());
    assert_eq!((second.shard(), &**second.holder(), second.expires_at()), (Shard(0), "a", at(101)));
}

pub fn a_lease_tells_the_steady_time_of_its_last_holder(make: Make<'_>) {
    let mut home = make(1);
    let mut store = home.handle();
    let mut first = one(&mut *store, "a", 1_000);
    assert_eq!(first.steady_at(), None);
    store.renew(&mut first, Renewal { expires_at: at(1_500), steady_at: at(77) }).unwrap();
    // Whatever the wall says now.
    let second = one(&mut *store, "a", 900_000);
    assert_eq!(second.steady_at(), Some(at(77)));
    store.release(&second).unwrap();
    assert_eq!(one(&mut *store, "b", 5).steady_at(), Some(at(77)));
}

pub fn a_lease_that_has_not_run_out_is_not_taken(make: Make<'_>) {
    let mut home = make(2);
    let (mut a, mut b) = (home.handle(), home.handle());
    assert_eq!(take(&mut *a, "a", 0).len(), 2);
    assert_eq!(take(&mut *b, "b", 99), []);
    assert_eq!(take(&mut *b, "b", 100), [], "it lasts until then, that moment included");
}

pub fn a_lease_that_ran_out_is_taken(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let old = one(&mut *a, "a", 0);
    let new = one(&mut *b, "b", 101);
    assert!(new.epoch() > old.epoch());
}

pub fn an_old_epoch_can_neither_renew_nor_release_nor_recover(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let mut old = one(&mut *a, "a", 0);
    let new = one(&mut *b, "b", 101);
    let expected = (old.epoch(), new.epoch());
    assert_eq!(is_fenced(a.renew(&mut old, until(900))), expected);
    assert_eq!(old.expires_at(), at(100), "it is not longer than it was");
    assert_eq!(is_fenced(a.release(&old)), expected);
    assert_eq!(is_fenced(a.recover(&old).map(|_| ())), expected);
    assert_eq!(take(&mut *a, "a", 150), [], "the new one was not released");
}

pub fn a_released_shard_is_free_at_once(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let lease = one(&mut *a, "a", 0);
    a.release(&lease).unwrap();
    let next = one(&mut *b, "b", 1);
    assert!(next.epoch() > lease.epoch());
    is_fenced(a.release(&lease));
}

pub fn a_renewed_lease_holds_for_longer(make: Make<'_>) {
    let mut home = make(1);
    let (mut a, mut b) = (home.handle(), home.handle());
    let mut lease = one(&mut *a, "a", 0);
    a.renew(&mut lease, until(500)).unwrap();
    assert_eq!(lease.expires_at(), at(500));
    assert_eq!(take(&mut *b, "b", 400), []);
    assert_eq!(take(&mut *b, "b", 501).len(), 1);
}

pub fn epochs_outlive_a_restart(make: Make<'_>) {
    let mut home = make(1);
    let before = Node::on(&mut *home).lease;
    restart(&mut *home);
    let after = Node::on(&mut *home).lease;
    assert!(after.epoch() > before.epoch());
}

pub fn every_shard_has_its_own_lease(make: Make<'_>) {
    let mut home = make(3);
    let (mut a, mut b) = (home.handle(), home.handle());
    assert_eq!(a.shards(), 3);
    let leases = take(&mut *a, "a", 0);
    assert_eq!(leases.iter().map(|lease| lease.shard().0).collect::<Vec<_>>(), [0, 1, 2]);
    a.release(&leases[1]).unwrap();
    let taken = take(&mut *b, "b", 1);
    assert_eq!(taken.iter().map(|lease| lease.shard().0).collect::<Vec<_>>(), [1]);
    assert_eq!(b.recover(&taken[0]).unwrap().executions.len(), 0);
    a.recover(&leases[0]).unwrap();
}

fn restart(home: &mut dyn Home) {
    home.restart();
}
