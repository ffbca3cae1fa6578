//! The laws of the engine, on random machines under random fates. The laws themselves are in `stage/laws.rs`,
//! and hold on every Turn of the stories too.

mod cost;
mod random;
mod stage;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use random::fate::{Fate, Move, fates};
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

/// Two iterations of a Map hold what timed out in the Map inside them; the third item of one was begun while it waited,
/// and nobody went on after that.
#[test]
fn a_map_that_waits_for_what_is_held_begins_no_further_items() {
    let definition = r#"{
        "StartAt": "Items",
        "States": {
            "Items": {"Type": "Pass", "Assign": {"items": [1, 2, 3]}, "Next": "Outer"},
            "Outer": {
                "Type": "Map", "ItemsPath": "$items", "MaxConcurrency": 2, "End": true,
                "ItemProcessor": {"StartAt": "Both", "States": {"Both": {
                    "Type": "Parallel", "End": true,
                    "Branches": [
                        {"StartAt": "A", "States": {"A": {
                            "Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:a", "End": true}}},
                        {"StartAt": "B", "States": {"B": {
                            "Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:b", "End": true}}},
                        {"StartAt": "Inner", "States": {"Inner": {
                            "Type": "Map", "ItemsPath": "$items", "MaxConcurrency": 2, "End": true,
                            "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 3, "MaxAttempts": 1}],
                            "ItemProcessor": {"StartAt": "Wait", "States": {"Wait": {
                                "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                                "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "TimeoutSeconds": 14, "End": true
                            }}}
                        }}}
                    ]
                }}}
            }
        }
    }"#;
    let moves = vec![
        Move::Timer { when: 0 },
        Move::Answer { which: 0, how: 27, by_token: false },
        Move::Timer { when: 1 },
        Move::Answer { which: 0, how: 0, by_token: false },
        Move::Plain { which: 119 },
    ];
    Fate::met(moves, 3, 4_437_785_942_043_082_429).befall(definition);
}

/// Two calls of a Parallel time out in one Turn, and nobody can say what became of them: the first fails the Parallel, so
/// that the second is held. Its Catch went on with it all the same.
#[test]
fn a_call_that_is_held_because_its_parallel_failed_is_not_caught() {
    let definition = r#"{
        "StartAt": "Items",
        "States": {
            "Items": {"Type": "Pass", "Assign": {"items": [1, 2, 3]}, "Next": "Outer"},
            "Outer": {
                "Type": "Map", "ItemsPath": "$items", "MaxConcurrency": 1, "End": true,
                "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 3, "MaxAttempts": 1}],
                "ItemProcessor": {"StartAt": "Both", "States": {"Both": {
                    "Type": "Parallel", "End": true,
                    "Branches": [
                        {"StartAt": "A", "States": {"A": {
                            "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                            "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "TimeoutSeconds": 18,
                            "Catch": [{"ErrorEquals": ["States.Timeout"], "Next": "A"}], "End": true}}},
                        {"StartAt": "B", "States": {"B": {
                            "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                            "Parameters": {"QueueUrl": "q", "MessageBody": {"once.$": "States.UUID()"}},
                            "TimeoutSeconds": 6, "End": true}}}
                    ]
                }}}
            }
        }
    }"#;
    let moves = vec![
        Move::Timer { when: 209 },
        Move::Answer { which: 175, how: 16, by_token: false },
        Move::Answer { which: 0, how: 0, by_token: false },
    ];
    Fate::met(moves, 6, 12_197_562_011_152_221_427).befall(definition);
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
