//! The suite that every store must pass objects to the broken ones too, and names the promise that each breaks.

use crate::bench::StandingClock;
use crate::faulty::{Faulty, How};
use perdura_idempotency::conformance::CHECKS;
use perdura_idempotency::store::Memory;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The promises that this store does not keep.
fn broken_promises(how: How) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let mut broken = Vec::new();
    for (name, check) in CHECKS {
        let clock = StandingClock::new();
        let store = Faulty::defective(Arc::new(Memory::with_clock(clock.clock())), how);
        let bench = clock.bench([store.clone(), store], true, ());
        if catch_unwind(AssertUnwindSafe(|| runtime.block_on(check(&bench)))).is_err() {
            broken.push(*name);
        }
    }
    broken
}

#[test]
fn every_broken_store_breaks_a_promise_by_name() {
    for (how, promise) in [
        (How::CompletesWithoutFence, "the_table_is_followed"),
        (How::ReleasesWithoutFence, "the_table_is_followed"),
        (How::RenewsWithoutFence, "the_table_is_followed"),
        (How::RepeatsEpochsAfterRelease, "epochs_grow_and_never_repeat"),
        (How::FindsThenCreates, "a_claim_is_granted_once_among_many"),
        (How::ReplaysAnotherKeysAnswer, "operations_do_not_mix"),
        (How::TakesOverByTimeAlone, "the_table_is_followed"),
        (How::AcknowledgesAndDrops, "answers_of_any_size_come_back"),
        (How::ForgetsEarly, "retention_counts_from_the_end"),
        (How::TellsWhatItSawOnce, "an_answer_is_never_given_after_it_expired"),
        (How::IgnoresTheRequest, "the_table_is_followed"),
    ] {
        let broken = broken_promises(how);
        assert!(broken.contains(&promise), "a store that {how:?} breaks {broken:?}, and not {promise}");
        assert!(
            broken.contains(&"random_sequences_follow_the_rules") || how == How::FindsThenCreates,
            "{how:?}"
        );
    }
}
