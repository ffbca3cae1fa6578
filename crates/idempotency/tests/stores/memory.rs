//! The memory of one process.

use crate::clock::StandingClock;
use crate::stepped::one_holder_whatever_the_clock_says;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::{Memory, Pending, Store};
use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

struct MemoryBench {
    clock: StandingClock,
    memory: Memory,
}

fn bench() -> Ready<MemoryBench> {
    let clock = StandingClock::new();
    ready(MemoryBench { memory: Memory::with_clock(clock.clock()), clock })
}

impl Bench for MemoryBench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.memory.clone())
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(self.memory.clone())
    }

    fn pass(&self, time: Duration) -> Pending<'_, ()> {
        self.clock.pass(time);
        Box::pin(ready(()))
    }

    fn hears_others(&self) -> bool {
        true
    }
}

perdura_idempotency::store_conformance!(bench);

#[tokio::test]
async fn a_stepped_clock_makes_no_second_holder() {
    let clock = StandingClock::new();
    let memory = Memory::with_clock(clock.clock());
    one_holder_whatever_the_clock_says(&memory, async |seconds| clock.step(seconds)).await;
}
