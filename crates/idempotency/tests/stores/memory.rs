//! The memory of one process.

use crate::clock::StandingClock;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::Memory;
use std::future::{Ready, ready};
use std::sync::Arc;

fn bench() -> Ready<Bench> {
    let clock = StandingClock::new();
    let memory = Arc::new(Memory::with_clock(clock.clock()));
    ready(clock.bench([memory.clone(), memory], true, ()))
}

perdura_idempotency::store_conformance!(bench);
