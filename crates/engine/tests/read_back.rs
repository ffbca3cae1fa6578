//! Whatever is taken as an input or an answer can be read back from the Turns and snapshots that hold it.

#[allow(dead_code, reason = "each test file uses its part")]
mod stage;

use perdura_engine::asl::json::{DEPTH_MAX, Payload, Value};
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::{
    By, Effect, EventKind, Execution, Input, Limits, MapRun, MapRunOutcome, Moment, Next, Outcome, Status,
};
use proptest::prelude::*;
use stage::{START, Stage, identity, laws, machine};
use std::sync::Arc;

/// The input and an answer side by side, in a list, in the iterations of a Map, and put into an object.
const MACHINE: &str = r#"{"StartAt": "Both", "States": {
    "Both": {"Type": "Parallel", "Next": "Each", "ResultPath": "$.both", "Branches": [
        {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": true}}},
        {"StartAt": "Call", "States": {"Call": {"Type": "Task", "Resource": "arn:perdura:step:::f", "End": true}}}]},
    "Each": {"Type": "Map", "ItemsPath": "$.both", "End": true,
        "ItemProcessor": {"StartAt": "Again", "States": {"Again": {"Type": "Task", "Resource": "arn:perdura:step:::g", "End": true}}}}}}"#;

/// Plays a machine to its end: the laws read every Turn and every state back. Each call is answered with `answer`.
fn play(machine: Arc<Machine>, input: &Payload, answer: &Payload) -> Execution {
    let mut who = identity(&machine, "{}", Limits::GENEROUS);
    who.input = input.clone();
    let mut stage = Stage::new(machine, who);
    let mut clock: u64 = 0;
    let mut moment = || {
        clock += 1;
        Moment::at(START.after_seconds(clock), u128::from(clock))
    };
    stage.take(&Input::Start, &moment());
    let mut answered = 0;
    while answered < stage.calls().len() {
        let call = stage.calls()[answered].clone();
        answered += 1;
        stage.restart(&moment());
        let by = call.by();
        let outcome = Outcome::Succeeded { output: answer.clone() };
        stage.take(&Input::TaskOutcome { by, outcome }, &moment());
    }
    assert!(stage.execution().is_ended(), "{input} {answer}");
    let shown = laws::stored(stage.execution());
    let policies = stage::Policies::default();
    let read = laws::restored(stage.execution().machine().clone(), &shown, &policies);
    assert_eq!(read.identity().input.text(), input.text(), "byte for byte");
    stage.finish();
    stage.execution().clone()
}

fn taken(text: &str) -> Option<Payload> {
    Payload::from_text(text).ok()
}

#[test]
fn an_input_and_an_answer_of_any_text_that_is_taken_are_read_back() {
    let machine = machine("both.json", MACHINE, MachineType::Standard);
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let texts = [
        "\u{feff}{}",
        "\u{feff}1",
        "\"\u{feff}\"",
        r#"{"a":"\ud800"}"#,
        r#"{"\ud800":1,"\ud801":2}"#,
        r#"{"a":1,"a":2}"#,
        "[-0,-0.0,1e-7,9007199254740993]",
        r#""\u0000""#,
        " { } ",
        &deep(DEPTH_MAX - 3),
        &deep(DEPTH_MAX),
    ];
    let object = taken(r#"{"a": 1}"#).unwrap();
    for text in texts {
        let Some(payload) = taken(text) else { continue };
        play(machine.clone(), &object, &payload);
        let wrapped = Payload::from_text(format!(r#"{{"in": {text}}}"#));
        play(machine.clone(), &wrapped.unwrap_or_else(|_| object.clone()), &payload);
        play(machine.clone(), &payload, &object);
    }
}

#[test]
fn a_child_of_a_map_run_gets_nothing_that_is_too_deep_to_be_read_back() {
    for (more, fits) in [
        ("", true),
        (r#""ItemSelector": {"a": {"item.$": "$$.Map.Item.Value"}},"#, false),
        (r#""ItemBatcher": {"MaxItemsPerBatch": 2},"#, false),
    ] {
        let text = format!(
            r#"{{"StartAt": "Far", "States": {{"Far": {{"Type": "Map", "End": true, {more}
                "ItemProcessor": {{"ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}},
                    "StartAt": "P", "States": {{"P": {{"Type": "Pass", "End": true}}}}}}}}}}}}"#
        );
        let machine = machine("far.json", &text, MachineType::Standard);
        let input = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        let mut stage = Stage::new(machine.clone(), identity(&machine, &input, Limits::GENEROUS));
        let taken = stage.take(&Input::Start, &Moment::at(START, 1));
        let order = taken.effects.into_iter().find_map(|effect| match effect {
            Effect::StartMapRun(order) => Some(*order),
            _ => None,
        });
        match MapRun::new(machine, order.expect("a Map Run is started"), 1 << 20).advance() {
            Next::Start(child) => assert!(fits && child.input.depth() <= DEPTH_MAX, "{more}"),
            Next::Over(Err(fault)) => {
                assert!(!fits && fault.cause.is_some_and(|cause| cause.contains("deep")), "{more}");
            }
            other => panic!("{more}: {other:?}"),
        }
    }
}

#[test]
fn results_of_a_map_run_that_are_too_deep_together_fail_the_state_and_nothing_else() {
    let text = r#"{"StartAt": "Far", "States": {"Far": {"Type": "Map", "End": true, "ResultSelector": {"all.$": "$"},
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}}}}"#;
    let machine = machine("far.json", text, MachineType::Standard);
    let mut execution = Execution::new(machine.clone(), identity(&machine, "[1]", Limits::GENEROUS));
    let started = perdura_engine::decide(&execution, &Input::Start, &Moment::at(START, 1));
    let order = started.effects.iter().find_map(|effect| match effect {
        Effect::StartMapRun(order) => Some((**order).clone()),
        _ => None,
    });
    execution.commit(started);
    let order = order.expect("a Map Run is started");
    let result = Payload::from_text("[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX)).unwrap();
    let outcome = MapRunOutcome::Succeeded { output: order.gathered(&[result]) };
    let by = By::Key { strand: order.strand, key: order.key, attempt: None };
    let ended =
        perdura_engine::decide(&execution, &Input::ChildOutcome { by, outcome }, &Moment::at(START, 2));
    let turn = ended.turn.clone();
    laws::commit_is_apply(&execution, &turn, &{
        let mut after = execution.clone();
        after.commit(ended);
        after
    });
    let failed = turn.events().any(|event| {
        matches!(&event.kind, EventKind::ExecutionFailed(fault)
        if fault.error.as_deref() == Some("States.DataLimitExceeded"))
    });
    assert!(failed, "{turn:?}");
}

/// A list by paths, templates, variables, Parallel and Map, each item for itself.
const WAYS: &str = r#"{"StartAt": "Pass", "States": {
    "Pass": {"Type": "Pass", "Parameters": {"list.$": "$.list", "first.$": "$.list[0]"}, "Next": "Keep"},
    "Keep": {"Type": "Pass", "Assign": {"list.$": "$.list"}, "Next": "Both"},
    "Both": {"Type": "Parallel", "Next": "Each", "ResultSelector": {"list.$": "$[0].list", "first.$": "$[1]"}, "Branches": [
        {"StartAt": "All", "States": {"All": {"Type": "Pass", "End": true}}},
        {"StartAt": "One", "States": {"One": {"Type": "Pass", "OutputPath": "$.first", "End": true}}}]},
    "Each": {"Type": "Map", "ItemsPath": "$.list", "ResultPath": "$.list", "Next": "Out", "ItemProcessor": {
        "StartAt": "Item", "States": {"Item": {"Type": "Pass", "End": true}}}},
    "Out": {"Type": "Pass", "Parameters": {"list.$": "$.list", "kept.$": "$list", "first.$": "$.first"}, "End": true}}}"#;

#[test]
fn a_number_that_is_not_computed_with_comes_out_as_it_is_written_by_every_path() {
    let numbers = [
        "0",
        "-0",
        "-0.0",
        "-0e5",
        "0e0",
        "1e-400",
        "-1e-400",
        "1",
        "1.0",
        "1.50",
        "1E5",
        "1e5",
        "1e+21",
        "1e-7",
        "0.00001",
        "100.0",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
    ];
    let machine = machine("ways.json", WAYS, MachineType::Standard);
    let list = numbers.join(",");
    for first in numbers {
        let input = taken(&format!(r#"{{"list":[{first},{list}]}}"#)).unwrap();
        let ended = play(machine.clone(), &input, &input);
        let expected = format!(r#"{{"list":[{first},{list}],"kept":[{first},{list}],"first":{first}}}"#);
        assert_eq!(ended.output().map(|output| output.text().to_string()), Some(expected));
    }
}

fn text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "-0",
            "-0.0",
            "1e-7",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "\"\u{feff}\"",
            "\u{feff}1",
            "null"
        ])
        .prop_map(str::to_owned),
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {}]", items.join(" ,"))),
            prop::collection::vec(("[ab]|\\\\ud8[0-9]{2}|\u{feff}", inner), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_input_and_answer_that_are_taken_are_read_back(input in text(), answer in text()) {
        if let (Some(input), Some(answer)) = (taken(&input), taken(&answer)) {
            let machine = machine("both.json", MACHINE, MachineType::Standard);
            let ended = play(machine, &input, &answer);
            prop_assert!(matches!(ended.status(), Status::Succeeded | Status::Failed));
        }
    }
}
