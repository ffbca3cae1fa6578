//! The suite that every store must pass objects to the broken ones too, and names the promise that each breaks.

use crate::bench::StandingClock;
use crate::naive::{How, Naive};
use perdura_inbox::conformance::{CHECKS, Check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Whether a store keeps this promise.
fn keeps(check: Check, how: Option<How>) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let clock = StandingClock::new();
    let store = Arc::new(Naive::new(clock.clock(), how));
    let bench = clock.bench([store.clone(), store], ());
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(check(&bench)))).is_ok()
}

#[test]
fn a_store_with_all_safeguards_breaks_no_promise() {
    for (name, check) in CHECKS {
        assert!(keeps(*check, None), "{name}");
    }
}

/// The promise that a store without this safeguard breaks.
fn broken_by(how: How) -> &'static str {
    match how {
        How::EndsWithoutEpoch | How::BeatsWithoutEpoch => "a_stale_claim_changes_nothing",
        How::EndsWithoutOwner => "another_owner_changes_nothing",
        How::ClaimsInTwoSteps => "a_row_is_claimed_once_among_many",
        How::ClaimsByNameInTwoSteps => "a_claim_by_name_is_made_once_among_many",
        How::PutsInTwoSteps => "many_copies_at_once_are_one_row",
        How::IgnoresOrderingKeys => "one_row_of_an_ordering_key_at_a_time",
        How::LeavesNobodyAfterADeadHead => "a_dead_head_makes_way",
        How::ClaimsDoneRowsAgain | How::BuriesDoneRows => "a_done_row_is_never_claimed_again",
        How::LapsesWhatWasRenewed => "a_renewed_lease_holds_from_then_on",
        How::LapsesWhatIsHeld => "a_lease_that_runs_out_returns_the_row",
        How::CountsNoCrashes => "a_message_that_kills_its_workers_dies",
        How::ForgetsTenants => "ids_belong_to_an_inbox_and_a_tenant",
        How::TakesConflictsForDuplicates => "another_message_under_its_id_is_a_conflict",
        How::ForgetsIdsEarly => "an_id_is_known_until_its_row_is_swept",
        How::AcknowledgesAndDrops => "done_told_twice_is_done_once",
        How::RepeatsEpochs => "epochs_grow_and_never_repeat",
        How::ServesTheFirstTenantFirst => "a_noisy_tenant_does_not_hold_up_a_quiet_one",
    }
}

#[test]
fn every_broken_store_breaks_a_promise_by_name() {
    // What is a matter of who comes between may go well a few times.
    const TRIES: u32 = 50;
    for how in How::ALL {
        let promise = broken_by(how);
        let (_, check) = CHECKS.iter().find(|(name, _)| *name == promise).expect("the suite has it");
        let is_caught = (0..TRIES).any(|_| !keeps(*check, Some(how)));
        assert!(is_caught, "a store that {how:?} keeps the promise {promise}");
    }
}
