//! Child executions: started once whatever happens, awaited or not, stopped with their parent where AWS does so.

mod stage;

use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::{ExecutionId, Fault, Input, Outcome, Policy, Status, TaskToken};
use perdura_runtime::{Runtime, Started, StepError, Steps};
use perdura_store::{Catalog, Filter};
use stage::{Stage, json};
use std::sync::Arc;
use tokio::sync::Notify;

fn parent(pattern: &str, arguments: &str) -> String {
    format!(
        r#"{{"StartAt": "Call", "States": {{"Call": {{"Type": "Task", "End": true,
            "Resource": "arn:aws:states:::states:startExecution{pattern}",
            "Parameters": {{"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"{arguments}}}}}}}}}"#
    )
}

const CHILD: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task", "End": true,
    "Resource": "arn:perdura:step:::work"}}}"#;

fn work() -> Steps {
    Steps::default().with("work", Policy::default(), |call| async move {
        match call.input.value().get("fail") {
            Some(_) => Err(StepError::refused("Broken", "as asked")),
            None => Ok(call.input),
        }
    })
}

fn hanging(began: Arc<Notify>) -> Steps {
    Steps::default().with("work", Policy::default(), move |_| {
        let began = began.clone();
        async move {
            began.notify_one();
            std::future::pending().await
        }
    })
}

fn begin(stage: &Stage, runtime: &Runtime, pattern: &str, arguments: &str) -> Started {
    Stage::deploy_as("child", runtime, CHILD);
    let revision = Stage::deploy_as("parent", runtime, &parent(pattern, arguments));
    stage.begin(runtime.door(), revision, "{}")
}

/// The executions of the machine `child`.
fn children(runtime: &Runtime) -> Vec<Status> {
    let door = runtime.door();
    let machine = door.read(|reader| reader.machine("child")).unwrap().unwrap().machine;
    let filter = Filter { machine: Some(machine), ..Filter::default() };
    let list = door.read(|reader| reader.list(&filter, None, 10)).unwrap().rows;
    list.into_iter().map(|summary| summary.status).collect()
}

#[test]
fn a_child_is_started_and_not_waited_for() {
    let stage = Stage::new();
    let runtime = stage.open(hanging(Arc::default()));
    let started = begin(&stage, &runtime, "", r#", "Name": "one", "Input": {"a": 1}"#);
    let output = stage.ending(runtime.door(), &started).output.unwrap();
    let arn = "arn:aws:states:us-east-1:123456789012:execution:child:one";
    assert_eq!(output.value().get("ExecutionArn").and_then(Value::as_str), Some(arn));
    assert!(output.value().get("StartDate").is_some());
}

#[test]
fn the_end_of_a_child_is_its_parents_result_as_text_or_as_json() {
    for (pattern, expected) in [(".sync", r#""{\"a\": 1}""#), (".sync:2", r#"{"a":1}"#)] {
        let stage = Stage::new();
        let runtime = stage.open(work());
        let started = begin(&stage, &runtime, pattern, r#", "Input": "{\"a\": 1}""#);
        let output = stage.ending(runtime.door(), &started).output.unwrap();
        let member = |name: &str| output.value().get(name).map(ToString::to_string).unwrap_or_default();
        assert_eq!(member("Output"), expected, "{pattern}");
        assert_eq!(member("Status"), r#""SUCCEEDED""#);
    }
}

#[test]
fn a_child_that_fails_fails_its_parents_step_and_says_why() {
    let stage = Stage::new();
    let runtime = stage.open(work());
    let started = begin(&stage, &runtime, ".sync:2", r#", "Input": {"fail": true}"#);
    let fault = stage.ending(runtime.door(), &started).fault;
    assert_eq!(fault.error.as_deref(), Some("States.TaskFailed"));
    let cause = json(fault.cause.as_deref().unwrap());
    assert_eq!(cause.value().get("Error").and_then(Value::as_str), Some("Broken"));
    assert_eq!(cause.value().get("Status").and_then(Value::as_str), Some("FAILED"));
}

#[test]
fn a_child_may_hold_its_parents_token() {
    let stage = Stage::new();
    let (sender, tokens) = std::sync::mpsc::channel();
    let steps = Steps::default().with("work", Policy::default(), move |call| {
        let token = call.input.value().get("token").and_then(Value::as_str).and_then(TaskToken::parse);
        sender.send(token.unwrap()).unwrap();
        async move { Ok(call.input) }
    });
    let runtime = stage.open(steps);
    let arguments = r#", "Input": {"token.$": "$$.Task.Token"}"#;
    let started = begin(&stage, &runtime, ".waitForTaskToken", arguments);
    let token = tokens.recv().unwrap();
    let door = runtime.door();
    stage.tokio.block_on(door.answer(token, Outcome::Succeeded { output: json("7") })).unwrap();
    assert_eq!(stage.ending(door, &started).output, Some(json("7")));
}

#[test]
fn a_parent_goes_on_waiting_for_the_same_child_after_a_restart() {
    let stage = Stage::new();
    let began = Arc::new(Notify::new());
    let runtime = stage.open(hanging(began.clone()));
    let started = begin(&stage, &runtime, ".sync:2", r#", "Name": "one", "Input": {"a": 1}"#);
    stage.tokio.block_on(began.notified());
    drop(runtime);
    let runtime = stage.open(work());
    let output = stage.ending(runtime.door(), &started).output.unwrap();
    assert_eq!(output.value().get("Output").map(ToString::to_string).as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(children(&runtime), [Status::Succeeded], "there is one child");
}

#[test]
fn a_parent_that_slept_through_a_restart_is_told_of_its_childs_end_once() {
    let pass = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
    let stage = Stage::new();
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runtime = stage.open(hanging(began.clone()));
    let started = begin(&stage, &runtime, ".sync:2", "");
    stage.tokio.block_on(began.notified());
    drop(runtime);
    let (gate, began_again) = (go.clone(), began.clone());
    let runtime = stage.open(Steps::default().with("work", Policy::default(), move |call| {
        let (began, go) = (began.clone(), gate.clone());
        async move {
            began.notify_one();
            go.notified().await;
            Ok(call.input)
        }
    }));
    let revision = Stage::deploy_as("pass", &runtime, pass);
    let door = runtime.door();
    // Whatever the node has to do by itself is done when another execution has come and gone.
    let another = || stage.ending(door, &stage.begin(door, revision, "{}"));
    stage.tokio.block_on(began_again.notified());
    another();
    go.notify_one();
    stage.ending(door, &started);
    another();
    assert_eq!(door.gauges().totals.outcomes_late, 0);
}

#[test]
fn stopping_a_parent_stops_the_child_that_it_waits_for() {
    for (pattern, expected) in [(".sync:2", Status::Aborted), ("", Status::Running)] {
        let stage = Stage::new();
        let began = Arc::new(Notify::new());
        let runtime = stage.open(hanging(began.clone()));
        let definition = parent(pattern, "").replace(r#""End": true"#, r#""Next": "Rest""#);
        let definition = definition.replace(
            r#""States": {"#,
            r#""States": {"Rest": {"Type": "Wait", "Seconds": 3600, "End": true}, "#,
        );
        Stage::deploy_as("child", &runtime, CHILD);
        let revision = Stage::deploy_as("parent", &runtime, &definition);
        let door = runtime.door().clone();
        let started = stage.begin(&door, revision, "{}");
        stage.tokio.block_on(began.notified());
        let stop = Input::Stop { fault: Fault::new("Enough", "by hand") };
        stage.tokio.block_on(door.input(started.execution, stop)).unwrap();
        let key = perdura_engine::EffectKey::try_from(Arc::from(format!("{}:Call#1:1", started.execution)));
        let child = perdura_engine::ExecutionId::of_child(&key.unwrap(), 0);
        let status = if expected == Status::Aborted {
            stage.tokio.block_on(door.ending(child)).unwrap().status
        } else {
            stage.tokio.block_on(door.view(child)).unwrap().execution.status()
        };
        assert_eq!(status, expected, "{pattern}");
    }
}

#[test]
fn what_cannot_be_started_is_refused_in_the_words_of_aws() {
    for (arguments, error) in [
        (r#", "Input": "{""#, "StepFunctions.InvalidExecutionInputException"),
        (r#", "Name": "a b""#, "StepFunctions.InvalidNameException"),
        ("", "StepFunctions.StateMachineDoesNotExistException"),
    ] {
        let stage = Stage::new();
        let runtime = stage.open(work());
        let revision = Stage::deploy_as("parent", &runtime, &parent("", arguments));
        let started = stage.begin(runtime.door(), revision, "{}");
        let fault = stage.ending(runtime.door(), &started).fault;
        assert_eq!(fault.error.as_deref(), Some(error), "{fault:?}");
    }
}

#[test]
fn the_same_start_under_the_same_name_is_shared_also_after_a_restart() {
    let stage = Stage::new();
    let began = Arc::new(Notify::new());
    let runtime = stage.open(hanging(began.clone()));
    let arguments = r#", "Name": "one", "Input": {"a": 1}"#;
    let first = begin(&stage, &runtime, ".sync:2", arguments);
    stage.tokio.block_on(began.notified());
    let second = begin(&stage, &runtime, ".sync:2", arguments);
    let third = begin(&stage, &runtime, "", arguments);
    let arn = |output: Option<Payload>| output.unwrap().value().get("ExecutionArn").map(ToString::to_string);
    let shared = arn(stage.ending(runtime.door(), &third).output);
    let other = begin(&stage, &runtime, ".sync:2", r#", "Name": "one", "Input": {"a": 2}"#);
    let refused = stage.ending(runtime.door(), &other).fault.error;
    assert_eq!(refused.as_deref(), Some("StepFunctions.ExecutionAlreadyExistsException"));
    drop(runtime);
    let runtime = stage.open(work());
    for started in [first, second] {
        let ending = stage.ending(runtime.door(), &started);
        assert_eq!(ending.status, Status::Succeeded, "{:?}", ending.fault);
        assert_eq!(arn(ending.output), shared);
    }
    assert_eq!(children(&runtime), [Status::Succeeded], "there is one child");
}

#[test]
fn whoever_gives_up_a_shared_child_stops_it() {
    let stage = Stage::new();
    let began = Arc::new(Notify::new());
    let runtime = stage.open(hanging(began.clone()));
    let arguments = r#", "Name": "one""#;
    let first = begin(&stage, &runtime, ".sync:2", arguments);
    stage.tokio.block_on(began.notified());
    let second = begin(&stage, &runtime, ".sync:2", arguments);
    let door = runtime.door();
    stage.tokio.block_on(async {
        // It falls asleep once it is on record that the child was found.
        while door.view(second.execution).await.is_some() {
            tokio::task::yield_now().await;
        }
        door.input(second.execution, Input::Stop { fault: Fault::default() }).await.unwrap();
    });
    assert_eq!(stage.ending(door, &first).status, Status::Failed, "its child was stopped");
    assert_eq!(children(&runtime), [Status::Aborted]);
}

#[test]
fn a_name_that_another_execution_has_is_refused() {
    let stage = Stage::new();
    let runtime = stage.open(work());
    let first = begin(&stage, &runtime, ".sync", r#", "Name": "one""#);
    assert_eq!(stage.ending(runtime.door(), &first).status, Status::Succeeded);
    let second = begin(&stage, &runtime, ".sync", r#", "Name": "one""#);
    let fault = stage.ending(runtime.door(), &second).fault;
    assert_eq!(fault.error.as_deref(), Some("StepFunctions.ExecutionAlreadyExistsException"));
}

/// The reserved id may be of any Shard, so the child is one that the step shares.
#[test]
fn a_child_begins_under_the_id_that_its_name_was_reserved_for() {
    let stage = Stage::new();
    let runtime = stage.open(work());
    Stage::deploy_as("child", &runtime, CHILD);
    let machine = stage.store.reader().unwrap().machine_id("child").unwrap().unwrap();
    let reserved = ExecutionId::from_random(7);
    stage.store.reader().unwrap().reserve(machine, &"one".into(), reserved).unwrap();
    let first = begin(&stage, &runtime, ".sync:2", r#", "Name": "one", "Input": {"a": 1}"#);
    assert_eq!(stage.ending(runtime.door(), &first).status, Status::Succeeded);
    let named = runtime.door().read(|reader| reader.named(machine, "one")).unwrap();
    assert_eq!(named, Some(reserved));
}
