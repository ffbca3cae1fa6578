//! Memory and the number of executions are bounded: who waits, who is refused, and who goes on nevertheless.

mod scene;
mod sleepers;

use perdura_engine::{ExecutionId, Fault, Input};
use perdura_runtime::{Bounds, InputError, Message, Reply, StartError, Unavailable};
use scene::{Answered, Scene, large};
use std::sync::mpsc;

const WORK: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task", "End": true,
    "Resource": "arn:perdura:step:::work"}}}"#;
/// Starts one of itself, and waits for its end or not.
const AGAIN: &str = r#"{"StartAt": "Again", "States": {"Again": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecutionPATTERN",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:again"}}}}"#;
/// Starts a `work` and waits for its end.
const PARENT: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:work"}}}}"#;
/// Starts three of itself, and waits for their ends.
const TREE: &str = r#"{"StartAt": "All", "States": {"All": {"Type": "Parallel", "End": true, "Branches": [
    {"StartAt": "A", "States": {"A": BRANCH}}, {"StartAt": "B", "States": {"B": BRANCH}},
    {"StartAt": "C", "States": {"C": BRANCH}}]}}}"#;
const BRANCH: &str = r#"{"Type": "Task", "End": true, "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:tree"}}"#;
/// The same by a Map Run, whose children start the next.
const SPREADING_TREE: &str = r#"{"StartAt": "All", "States": {"All": {"Type": "Map", "End": true, "ItemProcessor": {
    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "A",
    "States": {"A": BRANCH}}}}}"#;
const SPREAD: &str = r#"{"StartAt": "All", "States": {"All": {"Type": "Map", "End": true, "ItemProcessor": {
    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Work",
    "States": {"Work": {"Type": "Task", "End": true, "Resource": "arn:perdura:step:::work"}}}}}}"#;

#[test]
fn starts_wait_for_room_in_memory_and_are_refused_after_a_while() {
    let mut scene = Scene::new(Bounds { bytes_max: 1_000_000, ..Bounds::default() });
    let work = scene.deploy("work", WORK);
    let mut started = 0;
    let waiting = loop {
        let answered = scene.start(work, &large(100_000));
        match answered.try_recv() {
            Ok(Ok(_)) => started += 1,
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => break answered,
        }
        assert!(started < 20, "memory has no bound");
    };
    assert!(started >= 2, "{started}");
    // Many more do not wait: they would have to be kept.
    let refused = scene.start(work, &large(100_000)).try_recv();
    assert_eq!(refused, Ok(Err(StartError::Unavailable(Unavailable::Full))));
    // As soon as one ends, the first that waits begins.
    assert!(scene.answer_one());
    assert!(waiting.try_recv().unwrap().is_ok());
    let late = scene.start(work, &large(100_000));
    scene.pass(4_000);
    assert!(late.try_recv().is_err(), "it waits");
    scene.pass(1_500);
    assert_eq!(late.try_recv(), Ok(Err(StartError::Unavailable(Unavailable::Full))));
    while scene.answer_one() {}
    assert_eq!((scene.in_memory(), scene.made), (0, started + 1));
}

/// A machine that is read takes about this much, and calls out once.
fn heavy(bytes: usize) -> String {
    WORK.replacen('{', &format!("{{\"Comment\": \"{}\", ", "x".repeat(bytes / 40)), 1)
}

#[test]
fn definitions_in_use_fill_memory_as_payloads_do_and_those_that_nobody_uses_make_room() {
    let mut scene = Scene::new(Bounds { bytes_max: 1_000_000, ..Bounds::default() });
    let mut machines = (0..100)
        .map(|n| format!("heavy-{n}"))
        .map(|name| scene.deploy(&name, &heavy(100_000)))
        .collect::<Vec<_>>();
    let mut started = 0;
    let waiting = loop {
        let answered = scene.start(machines.pop().expect("definitions have no bound"), "1");
        match answered.try_recv() {
            Ok(answer) => started += usize::from(answer.is_ok()),
            Err(_) => break answered,
        }
    };
    assert!((5..=12).contains(&started), "{started}");
    while scene.answer_one() {}
    scene.pass(1_100);
    assert!(waiting.try_recv().unwrap().is_ok());
    for machine in machines {
        let answered = scene.start(machine, "1");
        while scene.answer_one() {}
        scene.pass(1_100);
        assert!(answered.try_recv().unwrap().is_ok());
    }
    assert_eq!((scene.in_memory(), scene.made), (0, 100));
}

#[test]
fn a_definition_that_weighs_more_than_there_may_be_has_its_executions_one_after_the_other() {
    let mut scene = Scene::new(Bounds { bytes_max: 1_000_000, ..Bounds::default() });
    let heavy = scene.deploy("heavy", &heavy(2_000_000));
    let answers = [(); 3].map(|()| scene.ask_for(heavy, "1"));
    scene.go_on();
    assert_eq!(scene.calls.len(), 1);
    while scene.answer_one() {}
    assert!(answers.iter().all(|answer| answer.try_recv().unwrap().is_ok()));
}

#[test]
fn a_node_that_finds_more_than_it_may_hold_comes_up_and_takes_it_up_piece_by_piece() {
    let mut scene = Scene::new(Bounds::default());
    let work = scene.deploy("work", WORK);
    for _ in 0..20 {
        scene.start(work, &large(100_000)).try_recv().unwrap().unwrap();
    }
    assert_eq!((scene.in_memory(), scene.made), (20, 20));
    scene.bounds.bytes_max = 1_000_000;
    for _ in 0..2 {
        scene.open();
        assert!(scene.in_memory() <= 4, "{}", scene.in_memory());
        scene.go_on();
        assert!((1..=4).contains(&scene.calls.len()), "{}", scene.calls.len());
    }
    let again = scene.made - scene.calls.len();
    while scene.answer_one() {}
    assert_eq!((scene.stored(), scene.in_memory()), ((0, 20), 0));
    assert_eq!(scene.made - again, 20, "each was called once more, and no more often");
}

#[test]
fn a_machine_that_starts_itself_stays_within_the_quota() {
    for pattern in ["", ".sync:2"] {
        let mut scene = Scene::new(Bounds { executions_max: 10, ..Bounds::default() });
        let again = scene.deploy("again", &AGAIN.replace("PATTERN", pattern));
        let started = scene.ask_for(again, "{}");
        let mut most = 0;
        for _ in 0..1_000 {
            scene.turns(1);
            most = most.max(scene.in_memory());
        }
        assert!(started.try_recv().unwrap().is_ok());
        assert!((2..=10 + 64).contains(&most), "{pattern:?}: {most} at once");
    }
}

#[test]
fn starts_over_the_quota_are_refused_and_parents_that_fill_it_have_their_children_one_after_the_other() {
    let mut scene = Scene::new(Bounds { executions_max: 5, ..Bounds::default() });
    scene.deploy("work", WORK);
    let parent = scene.deploy("parent", PARENT);
    let started: Vec<Answered> = (0..8).map(|_| scene.ask_for(parent, "{}")).collect();
    scene.go_on();
    let (began, refused) = started.split_at(5);
    assert!(began.iter().all(|answered| answered.try_recv().unwrap().is_ok()));
    assert!(refused.iter().all(|answered| answered.try_recv() == Ok(Err(StartError::TooMany(5)))));
    assert_eq!(scene.calls.len(), 1, "there is no place, so one line goes on");
    let mut most = 0;
    while scene.answer_one() {
        most = most.max(scene.calls.len());
    }
    assert_eq!((scene.stored(), scene.made), ((0, 10), 5));
    assert!(most <= 5, "{most}");
}

#[test]
fn children_of_a_map_run_stay_within_the_quota() {
    let mut scene = Scene::new(Bounds { executions_max: 4, ..Bounds::default() });
    let spread = scene.deploy("spread", SPREAD);
    scene.start(spread, "[1,2,3,4,5,6,7,8,9,10]").try_recv().unwrap().unwrap();
    let mut most = 0;
    loop {
        most = most.max(scene.calls.len());
        if !scene.answer_one() {
            break;
        }
    }
    assert_eq!((most, scene.made), (3, 10), "the parent has the fourth place");
}

#[test]
fn starts_that_are_let_in_at_the_same_moment_are_executions_of_their_own() {
    let mut scene = Scene::new(Bounds { bytes_max: 1_000_000, ..Bounds::default() });
    let work = scene.deploy("work", WORK);
    // One large one fills the memory; the small ones wait behind it, and begin together when it has ended.
    scene.start(work, &large(300_000)).try_recv().unwrap().unwrap();
    let waiting: Vec<Answered> = (0..5).map(|number| scene.start(work, &number.to_string())).collect();
    assert!(waiting.iter().all(|answered| answered.try_recv().is_err()), "they wait");
    assert!(scene.answer_one());
    let begun: std::collections::BTreeSet<ExecutionId> =
        waiting.iter().map(|answered| answered.try_recv().unwrap().unwrap().execution).collect();
    assert_eq!((begun.len(), scene.calls.len()), (5, 5), "each is one of its own: {begun:?}");
}

#[test]
fn a_stopped_tree_ends_and_restarts_add_nothing_to_it() {
    for (definition, input) in [(TREE, "{}"), (SPREADING_TREE, "[1,2,3]")] {
        let mut scene = Scene::new(Bounds { executions_max: 20, ..Bounds::default() });
        let branch = match definition {
            TREE => BRANCH.to_owned(),
            _ => BRANCH.replace(r#":tree"}"#, r#":tree", "Input": [1, 2, 3]}"#),
        };
        let tree = scene.deploy("tree", &definition.replace("BRANCH", &branch));
        let root = scene.start(tree, input).try_recv().unwrap().unwrap();
        let (grown, _) = scene.stored();
        assert!((21..=20 + 64).contains(&grown), "{grown} run");
        for restart in 1..=3 {
            scene.open();
            scene.pass(2_000);
            assert_eq!(scene.stored(), (grown, 0), "after restart {restart}");
        }
        scene.stop(root.execution);
        assert_eq!(scene.stored(), (0, grown), "no other began");
        assert_eq!(scene.in_memory(), 0);
    }
}

#[test]
fn a_tree_ends_although_the_process_dies_while_it_is_being_stopped() {
    for turns in 1..8 {
        let mut scene = Scene::new(Bounds { executions_max: 5, ..Bounds::default() });
        let tree = scene.deploy("tree", &TREE.replace("BRANCH", BRANCH));
        let root = scene.start(tree, "{}").try_recv().unwrap().unwrap();
        let (grown, _) = scene.stored();
        let input = Input::Stop { fault: Fault::default() };
        scene.take(Message::Input { execution: root.execution, input, reply: Reply::new(drop) });
        scene.turns(turns);
        scene.open();
        scene.pass(2_000);
        assert_eq!(scene.stored(), (0, grown), "it dies after {turns} Turns");
    }
}

#[test]
fn a_child_that_cannot_begin_takes_no_place_from_others() {
    let mut scene = Scene::new(Bounds { executions_max: 1, ..Bounds::default() });
    let parent = scene.deploy("parent", PARENT);
    let failing = scene.start(parent, "{}");
    assert!(failing.try_recv().unwrap().is_ok());
    assert_eq!(scene.stored(), (0, 1), "there is no machine of that name");
    scene.deploy("work", WORK);
    scene.start(parent, "{}").try_recv().unwrap().unwrap();
    assert!(scene.answer_one(), "its child has begun");
    assert_eq!(scene.stored(), (0, 3));
}

#[test]
fn redrives_take_places_as_starts_do() {
    let mut scene = Scene::new(Bounds { executions_max: 2, ..Bounds::default() });
    let work = scene.deploy("work", WORK);
    let mut begun = Vec::new();
    for _ in 0..5 {
        let started = scene.start(work, "{}").try_recv().unwrap().unwrap();
        scene.stop(started.execution);
        begun.push(started.execution);
    }
    let redriven: Vec<_> = begun
        .into_iter()
        .map(|execution| {
            let (sender, answered) = mpsc::channel();
            let reply = Reply::new(move |answer| drop(sender.send(answer)));
            scene.take(Message::Input { execution, input: Input::Redrive, reply });
            answered
        })
        .collect();
    scene.go_on();
    let answers: Vec<_> = redriven.iter().map(|answered| answered.try_recv().unwrap()).collect();
    let refused = answers.iter().filter(|answer| **answer == Err(InputError::TooMany(2))).count();
    assert_eq!((refused, scene.stored()), (3, (2, 3)), "{answers:?}");
    assert_eq!(scene.start(work, "{}").try_recv().unwrap(), Err(StartError::TooMany(2)));
}

#[test]
fn redriven_children_of_a_map_run_stay_within_the_quota() {
    let mut scene = Scene::new(Bounds::default());
    let spread = scene.deploy("spread", SPREAD);
    let root = scene.start(spread, "[1,2,3,4,5,6,7,8,9,10]").try_recv().unwrap().unwrap();
    scene.stop(root.execution);
    scene.bounds.executions_max = 4;
    scene.open();
    scene.take(Message::Input { execution: root.execution, input: Input::Redrive, reply: Reply::new(drop) });
    scene.pass(2_000);
    let mut most = scene.calls.len();
    while scene.answer_one() {
        most = most.max(scene.calls.len());
    }
    assert_eq!((most, scene.made), (3, 20), "the parent has the fourth place");
}
