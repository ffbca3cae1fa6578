//! Random histories of several clients on a few keys, checked for linearizability: whatever overlapped, there is an
//! order in which every answer is the one that a single register would have given.
//!
//! The register in `spec` is written apart from the rules that the stores share. The checker has been seen to fail: the
//! defects in `faulty` each break one promise on purpose, and each is caught.

#[allow(dead_code, reason = "the tests of the stores use the rest")]
#[path = "../stores/bench.rs"]
mod bench;
mod check;
mod client;
#[allow(dead_code, reason = "the tests of the door use the rest")]
#[path = "../faulty/mod.rs"]
mod faulty;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/pg.rs"]
mod pg;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/redis_server.rs"]
mod redis_server;
mod servers;
mod spec;
mod suite;
mod tape;
mod world;

use bench::{Folder, StandingClock};
use check::Looks;
use faulty::{Faulty, How};
use perdura_idempotency::store::sqlite::Options;
use perdura_idempotency::store::{Memory, Store};
use std::sync::Arc;
use world::{Plan, World};

/// How many histories the memory is put through.
const HISTORIES: u64 = 10_000;
/// A broken store is caught within so many.
const CAUGHT_WITHIN: u64 = 500;

fn on_memory(seed: u64, store: impl FnOnce(Memory) -> Arc<dyn Store>) -> Result<(), String> {
    let clock = StandingClock::new();
    let store = store(Memory::with_clock(clock.clock()));
    let world = World::new(store, clock);
    world::run_interleaved(&world, seed);
    check::check(&world.tape.take(), Looks::AtThatMoment)
}

#[test]
fn random_histories_of_the_memory_are_linearizable() {
    for seed in 0..HISTORIES {
        if let Err(found) = on_memory(seed, |memory| Arc::new(memory)) {
            panic!("seed {seed}: {found}");
        }
    }
}

#[test]
fn a_seed_is_the_same_history_each_time() {
    let tell = |seed| {
        let clock = StandingClock::new();
        let world = World::new(Arc::new(Memory::with_clock(clock.clock())), clock);
        world::run_interleaved(&world, seed);
        format!("{:?}", world.tape.take())
    };
    assert_eq!(tell(7), tell(7));
    assert_ne!(tell(7), tell(8));
}

#[test]
fn histories_have_overlap_crashes_takeovers_and_late_ends() {
    let mut counts = tape::Counts::default();
    for seed in 0..300 {
        let clock = StandingClock::new();
        let world = World::new(Arc::new(Memory::with_clock(clock.clock())), clock);
        world::run_interleaved(&world, seed);
        counts.add(&world.tape.take());
    }
    counts.assert_each_at_least(100);
}

#[test]
fn every_broken_store_is_caught() {
    for how in How::ALL {
        let caught = (0..CAUGHT_WITHIN)
            .find(|seed| on_memory(*seed, |memory| Faulty::defective(Arc::new(memory), how)).is_err());
        println!("a store that {how:?} is caught by seed {caught:?}");
        assert!(caught.is_some(), "a store that {how:?} is not caught in {CAUGHT_WITHIN} histories");
    }
}

#[test]
fn random_histories_of_one_sqlite_file_are_linearizable() {
    const HISTORIES: u64 = 150;
    for seed in 0..HISTORIES {
        let (folder, clock) = (Folder::new(), StandingClock::new());
        let instances = clock.open_twice(&folder.file(), &Options::default());
        let world = World::shared(instances, move |by| clock.step(by as f64), 0);
        world::run_on_threads(&world, &Plan::at_once(seed));
        if let Err(found) = check::check(&world.tape.take(), Looks::DuringTheCall) {
            panic!("seed {seed}, on threads: {found}");
        }
    }
}
