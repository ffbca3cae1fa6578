//! The laws of the engine, on random machines under random fates. The laws themselves are in `stage/laws.rs`,
//! and hold on every Turn of the stories too.

mod cost;
mod random;
mod stage;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use random::fate::fates;
use random::machines::{definition, machines};
use stage::laws::TYPES;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_whatever_happens(machine in machines(), fate in fates()) {
        fate.befall(&definition(&machine, fate.timeout()));
    }
}

/// Every type of event, and the notes that are rare.
fn wanted() -> impl Iterator<Item = &'static str> {
    let notes = ["Repeated", "Held", "ResolvedCompleted", "ResolvedFailed", "ResolvedAgain"];
    let late = ["LateUnknown", "LateDuplicate", "LateGivenUp"];
    TYPES.iter().copied().chain(notes).chain(late)
}

/// Laws that hold where nothing happens say little, so the runs must come around.
#[test]
fn random_runs_come_to_every_type_of_event_and_every_hold() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut seen = BTreeSet::new();
    for _ in 0..2_000 {
        if wanted().all(|name| seen.contains(name)) {
            break;
        }
        let drawn = (machines(), fates()).new_tree(&mut runner).expect("a machine and a fate");
        let (machine, fate) = drawn.current();
        seen.extend(fate.befall(&definition(&machine, fate.timeout())));
    }
    let missing: Vec<&str> = wanted().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}
