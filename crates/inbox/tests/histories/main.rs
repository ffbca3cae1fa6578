//! Random histories of several clients on a few rows, checked for linearizability row by row: whatever overlapped, there is an order in
//! which every answer about a row is the one that a single register would have given. What spans rows, one DOING per ordering key
//! and epochs that are given once, is checked over the whole history.
//!
//! The register in `spec` is written apart from the rules that the stores share. The checker has been seen to fail: the stores in
//! `naive` each lack one safeguard, and each is caught. Run through `scripts/with-servers`.

#[expect(dead_code, reason = "the tests of the stores use the rest")]
#[path = "../stores/bench.rs"]
mod bench;
mod check;
mod client;
#[path = "../naive/mod.rs"]
mod naive;
mod spec;

use bench::{Folder, StandingClock};
use client::World;
use naive::{How, Naive};
use perdura_inbox::store::{Memory, Store};
use std::sync::Arc;

/// How many histories the memory is put through.
const HISTORIES: u64 = 3_000;
/// A broken store is caught within so many.
const CAUGHT_WITHIN: u64 = 1_000;

fn on(seed: u64, make: impl FnOnce(&StandingClock) -> Arc<dyn Store>) -> Result<(), String> {
    let clock = StandingClock::new();
    let store = make(&clock);
    let world = World::new([store.clone(), store], move |by| clock.step(by as f64), 0);
    client::run_interleaved(&world, seed);
    check::check(&world.take())
}

#[test]
fn random_histories_of_the_memory_are_linearizable() {
    for seed in 0..HISTORIES {
        if let Err(found) = on(seed, |clock| Arc::new(Memory::with_clock(clock.clock()))) {
            panic!("seed {seed}: {found}");
        }
    }
}

#[test]
fn histories_have_overlap_takeovers_and_late_ends() {
    let mut counts = check::Counts::default();
    for seed in 0..1_000 {
        let clock = StandingClock::new();
        let store: Arc<dyn Store> = Arc::new(Memory::with_clock(clock.clock()));
        let world = World::new([store.clone(), store], move |by| clock.step(by as f64), 0);
        client::run_interleaved(&world, seed);
        counts.add(&world.take());
    }
    counts.assert_each_at_least(50);
}

/// What concerns no single row, or no order of calls, is left to the suite.
fn is_about_rows(how: How) -> bool {
    match how {
        How::EndsWithoutEpoch
        | How::EndsWithoutOwner
        | How::BeatsWithoutEpoch
        | How::ClaimsInTwoSteps
        | How::ClaimsByNameInTwoSteps
        | How::PutsInTwoSteps
        | How::IgnoresOrderingKeys
        | How::ClaimsDoneRowsAgain
        | How::BuriesDoneRows
        | How::LapsesWhatIsHeld
        | How::CountsNoCrashes
        | How::ForgetsTenants
        | How::TakesConflictsForDuplicates
        | How::ForgetsIdsEarly
        | How::AcknowledgesAndDrops
        | How::RepeatsEpochs => true,
        How::LapsesWhatWasRenewed | How::LeavesNobodyAfterADeadHead | How::ServesTheFirstTenantFirst => false,
    }
}

#[test]
fn every_broken_store_is_caught() {
    for how in How::ALL.into_iter().filter(|how| is_about_rows(*how)) {
        let caught = (0..CAUGHT_WITHIN)
            .find(|seed| on(*seed, |clock| Arc::new(Naive::new(clock.clock(), Some(how)))).is_err());
        println!("a store that {how:?} is caught by seed {caught:?}");
        assert!(caught.is_some(), "a store that {how:?} is not caught in {CAUGHT_WITHIN} histories");
    }
}

#[test]
fn a_store_with_all_safeguards_is_not_objected_to() {
    for seed in 0..300 {
        if let Err(found) = on(seed, |clock| Arc::new(Naive::new(clock.clock(), None))) {
            panic!("seed {seed}: {found}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_of_two_instances_on_sqlite_are_linearizable() {
    const HISTORIES: u64 = 100;
    for seed in 0..HISTORIES {
        let (folder, clock) = (Folder::new(), StandingClock::new());
        let instances = clock.open_twice(&folder.file());
        let world = World::new(instances, move |by| clock.step(by as f64), 0);
        client::run_at_once(&world, seed).await;
        if let Err(found) = check::check(&world.take()) {
            panic!("seed {seed}: {found}");
        }
    }
}

/// One history after the other in one schema, each on rows of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_histories_of_two_instances_on_postgres_are_linearizable() {
    const HISTORIES: u32 = 60;
    let schema = bench::fresh_schema();
    let (here, there) = tokio::join!(bench::open_postgres(&schema), bench::open_postgres(&schema));
    let instances: [Arc<dyn Store>; 2] = [Arc::new(here), Arc::new(there)];
    let jump = client::postgres_clock(&schema).await;
    for nth in 0..HISTORIES {
        let world = World::new(instances.clone(), jump.clone(), nth);
        client::run_at_once(&world, u64::from(nth)).await;
        if let Err(found) = check::check(&world.take()) {
            panic!("seed {nth}: {found}");
        }
    }
}
