//! Sleepers whose time comes where memory is full: who comes in, when, and beside whom.

use super::WORK;
use super::scene::{Answered, Scene, large};
use perdura_runtime::Bounds;
use perdura_store::{Catalog, Filter, RevisionId};

const WAIT: &str = r#"{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 60, "End": true}}}"#;
const PASS: &str = r#"{"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": true}}}"#;
/// Starts a child, and waits for its end.
const PARENT: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}"#;

/// A scene with so many sleepers whose time has just come, each with a payload of so many bytes.
fn with_sleepers(bytes_max: u64, sleepers: usize, bytes: usize) -> (Scene, RevisionId) {
    let mut scene = Scene::new(Bounds { bytes_max, ..Bounds::default() });
    let wait = scene.deploy("wait", WAIT);
    let pass = scene.deploy("pass", PASS);
    for _ in 0..sleepers {
        scene.start(wait, &large(bytes)).try_recv().unwrap().unwrap();
    }
    assert_eq!(scene.in_memory(), 0, "they sleep");
    scene.now += 60_000;
    (scene, pass)
}

/// How many of these have ended, as the store has it.
fn ended(scene: &Scene, machine: &str) -> usize {
    let mut reader = scene.store.reader().unwrap();
    let head = reader.head(machine).unwrap().unwrap();
    let filter = Filter { machine: Some(head.machine), ..Filter::default() };
    let list = reader.list(&filter, None, 10_000).unwrap().rows;
    list.iter().filter(|summary| summary.status.is_ended()).count()
}

fn has_begun(answered: &Answered) -> bool {
    answered.try_recv().is_ok_and(|answer| answer.is_ok())
}

#[test]
fn sleepers_that_wait_for_room_come_in_as_others_leave_and_not_as_time_passes() {
    let (mut scene, _) = with_sleepers(1_000_000, 300, 20_000);
    scene.go_on();
    assert_eq!((ended(&scene, "wait"), scene.in_memory()), (300, 0));
}

#[test]
fn a_start_that_waits_for_room_takes_turns_with_sleepers() {
    let (mut scene, pass) = with_sleepers(1_000_000, 300, 20_000);
    while scene.bytes_in_memory() < 1_000_000 {
        scene.turns(1);
    }
    let starts: Vec<Answered> = (0..5).map(|_| scene.ask_for(pass, &large(20_000))).collect();
    for start in starts {
        let mut turns = 0;
        while !has_begun(&start) {
            scene.turns(1);
            turns += 1;
            assert!(turns < 50, "sleepers take each place that becomes free");
        }
    }
    assert!(ended(&scene, "wait") < 150, "{} went before", ended(&scene, "wait"));
}

#[test]
fn sleepers_take_turns_with_starts_that_never_cease() {
    let (mut scene, pass) = with_sleepers(1_000_000, 100, 20_000);
    let mut starts = Vec::new();
    for turns in 0.. {
        for _ in 0..3 {
            starts.push(scene.ask_for(pass, &large(20_000)));
        }
        scene.turns(1);
        if ended(&scene, "wait") == 100 {
            break;
        }
        assert!(turns < 500, "{} of 100 have ended", ended(&scene, "wait"));
    }
    assert!(starts.iter().filter(|start| has_begun(start)).count() >= 50);
}

#[test]
fn a_start_keeps_its_room_while_its_name_is_looked_up() {
    let (mut scene, pass) = with_sleepers(1_000_000, 300, 20_000);
    while scene.bytes_in_memory() < 1_000_000 {
        scene.turns(1);
    }
    let start = scene.ask_for_named(pass, "a name", &large(20_000));
    let mut turns = 0;
    while !has_begun(&start) {
        // Whatever is asked is answered a Turn later.
        scene.reads = turns % 2 == 1;
        scene.turns(1);
        turns += 1;
        assert!(turns < 100, "sleepers take its room");
    }
}

#[test]
fn sleepers_that_are_due_at_one_instant_do_not_fill_more_than_there_is() {
    const BYTES: u64 = 50_000;
    let (mut scene, _) = with_sleepers(2_000_000, 500, BYTES as usize);
    let mut most = 0;
    while !scene.turns(1) {
        most = most.max(scene.bytes_in_memory());
    }
    // Nobody knows what the first ones weigh, so a few more may come than there is room for. All weigh 220,000,000.
    assert!(most < 40 * 10 * BYTES, "{most} bytes at once");
    assert_eq!(ended(&scene, "wait"), 500);
}

/// Parents that fill memory, each waiting for a place for its child; how many began.
fn with_parents(child: &str) -> (Scene, usize) {
    let mut scene = Scene::new(Bounds { bytes_max: 1_000_000, ..Bounds::default() });
    scene.deploy("child", child);
    let parent = scene.deploy("parent", PARENT);
    let started: Vec<Answered> = (0..18).map(|_| scene.ask_for(parent, &large(20_000))).collect();
    scene.go_on();
    let began = started.iter().filter(|answered| has_begun(answered)).count();
    assert!(began > 10 && scene.in_memory() > 10, "{began} began, {} fill memory", scene.in_memory());
    (scene, began)
}

#[test]
fn parents_that_fill_memory_and_wait_for_a_place_do_not_wait_for_a_child_that_cannot_wake_up() {
    for restarts in [false, true] {
        let (mut scene, began) = with_parents(WAIT);
        if restarts {
            scene.open();
        }
        for _ in 0..40 {
            scene.pass(61_000);
        }
        assert_eq!((ended(&scene, "parent"), ended(&scene, "child")), (began, began), "{restarts}");
    }
}

#[test]
fn parents_that_fill_memory_after_a_restart_do_not_wait_for_a_child_that_cannot_be_resumed() {
    let (mut scene, began) = with_parents(WORK);
    scene.open();
    for _ in 0..40 {
        scene.pass(2_000);
        scene.answer_one();
    }
    assert_eq!((ended(&scene, "parent"), ended(&scene, "child")), (began, began));
}
