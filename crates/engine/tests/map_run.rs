//! A Map Run: its children, how many at once, and when it is over.

use perdura_engine::asl::json::{Payload, Value, parse};
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::scope::Dice;
use perdura_engine::asl::source::Source;
use perdura_engine::{
    Arns, Child, Effect, Execution, ExecutionId, Fault, Identity, Input, Limits, MapRun, MapRunOrder,
    MapRunOutcome, Moment, Timestamp, decide,
};
use std::sync::Arc;

/// What the engine orders for a Distributed Map with these fields.
fn order(fields: &str, input: &str) -> (Arc<Machine>, MapRunOrder) {
    let text = format!(
        r#"{{"StartAt":"Each","States":{{"Each":{{"Type":"Map",{fields}"ItemProcessor":{{
            "ProcessorConfig":{{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"}},
            "StartAt":"Do","States":{{"Do":{{"Type":"Pass","End":true}}}}}},"End":true}}}}}}"#
    );
    let reading = read(&Source::new("map.json", text), &ReadOptions::default());
    let machine = Arc::new(reading.machine.unwrap_or_else(|| panic!("{:#?}", reading.diagnostics)));
    let arns = Arns::default();
    let identity = Identity {
        id: ExecutionId::from_random(1),
        arn: arns.execution("map", "one", MachineType::Standard, "").into(),
        name: "one".into(),
        machine_arn: arns.machine("map").into(),
        machine_name: "map".into(),
        role_arn: "role".into(),
        kind: MachineType::Standard,
        flow: Machine::TOP,
        input: payload(input),
        limits: Limits::GENEROUS,
    };
    let execution = Execution::new(machine.clone(), identity);
    let decision = decide(&execution, &Input::Start, &Moment::at(Timestamp(0), 1));
    let ordered = decision.effects.into_iter().find_map(|effect| match effect {
        Effect::StartMapRun(order) => Some(*order),
        _ => None,
    });
    (machine, ordered.expect("a Map Run is ordered"))
}

fn run(fields: &str, input: &str) -> Result<MapRun, Fault> {
    let (machine, order) = order(fields, input);
    let items = order.items.as_ref().expect("the items are in the input").value().clone();
    MapRun::new(machine, order, items.as_array().expect("items are an array"), &Dice::new(0, 1))
}

fn payload(text: &str) -> Payload {
    Payload::from_text(text).expect("JSON")
}

fn value(text: &str) -> Value {
    parse(text).expect("JSON")
}

fn children(run: &mut MapRun) -> Vec<Child> {
    std::iter::from_fn(|| run.next_child()).collect()
}

fn inputs(fields: &str, input: &str) -> Vec<String> {
    let mut run = run(fields, input).expect("a Map Run");
    children(&mut run).iter().map(|child| child.input.to_string()).collect()
}

#[test]
fn children_are_the_same_however_often_they_are_started() {
    let ids = |fields: &str| -> Vec<ExecutionId> {
        children(&mut run(fields, "[1,2,3]").expect("a Map Run")).iter().map(|child| child.id).collect()
    };
    assert_eq!(ids(""), ids(""));
    let mut unique = ids("");
    unique.dedup();
    assert_eq!(unique.len(), 3);
}

#[test]
fn a_child_receives_its_item_or_what_the_selector_makes_of_it() {
    assert_eq!(inputs("", r#"["a",{"b":1}]"#), [r#""a""#, r#"{"b":1}"#]);
    let selector = r#""ItemsPath":"$.list","ItemSelector":{"item.$":"$$.Map.Item.Value","at.$":"$$.Map.Item.Index","of.$":"$.id"},"#;
    assert_eq!(
        inputs(selector, r#"{"id":7,"list":["a","b"]}"#),
        [r#"{"item":"a","at":0,"of":7}"#, r#"{"item":"b","at":1,"of":7}"#]
    );
    let objects = r#""ItemsPath":"$.map","#;
    assert_eq!(
        inputs(objects, r#"{"map":{"x":1,"y":2}}"#),
        [r#"{"Key":"x","Value":1}"#, r#"{"Key":"y","Value":2}"#]
    );
}

#[test]
fn a_selector_that_fails_fails_the_run() {
    let failed = run(r#""ItemSelector":{"x.$":"$$.Map.Item.Value.x"},"#, r#"[{"x":1},{}]"#);
    assert_eq!(failed.err().and_then(|fault| fault.error).as_deref(), Some("States.Runtime"));
}

#[test]
fn batches_are_bounded_by_items_and_bytes() {
    for (batcher, expected) in [
        (
            r#"{"MaxItemsPerBatch":2}"#,
            vec![r#"{"Items":["aa","bb"]}"#, r#"{"Items":["cc","dd"]}"#, r#"{"Items":["ee"]}"#],
        ),
        (
            r#"{"MaxInputBytesPerBatch":15}"#,
            vec![r#"{"Items":["aa","bb","cc"]}"#, r#"{"Items":["dd","ee"]}"#],
        ),
        (
            r#"{"MaxItemsPerBatch":3,"MaxInputBytesPerBatch":10,"BatchInput":{"n":1}}"#,
            vec![
                r#"{"BatchInput":{"n":1},"Items":["aa","bb"]}"#,
                r#"{"BatchInput":{"n":1},"Items":["cc","dd"]}"#,
                r#"{"BatchInput":{"n":1},"Items":["ee"]}"#,
            ],
        ),
        (
            r#"{"MaxInputBytesPerBatch":1}"#,
            vec![
                r#"{"Items":["aa"]}"#,
                r#"{"Items":["bb"]}"#,
                r#"{"Items":["cc"]}"#,
                r#"{"Items":["dd"]}"#,
                r#"{"Items":["ee"]}"#,
            ],
        ),
    ] {
        let fields = format!(r#""ItemBatcher":{batcher},"#);
        assert_eq!(inputs(&fields, r#"["aa","bb","cc","dd","ee"]"#), expected, "{batcher}");
    }
}

#[test]
fn no_more_children_run_at_once_than_asked() {
    let mut run = run(r#""MaxConcurrency":2,"#, "[1,2,3]").expect("a Map Run");
    assert_eq!(children(&mut run).len(), 2);
    assert_eq!(run.child_ended(1, Ok(payload("20"))), None);
    assert_eq!(children(&mut run).iter().map(|child| child.index).collect::<Vec<_>>(), [2]);
    assert_eq!(run.counts().running, 2);
    assert_eq!(run.child_ended(1, Ok(payload("21"))), None, "a child ends once");
    assert_eq!(run.child_ended(2, Ok(payload("30"))), None);
    let output = payload("[10,20,30]");
    assert_eq!(run.child_ended(0, Ok(payload("10"))), Some(MapRunOutcome::Succeeded { output }));
}

#[test]
fn a_run_over_nothing_has_ended() {
    let mut run = run("", "[]").expect("a Map Run");
    assert_eq!(run.next_child(), None);
    assert_eq!(run.ended(), Some(MapRunOutcome::Succeeded { output: payload("[]") }));
}

#[test]
fn a_run_fails_when_more_items_fail_than_it_tolerates() {
    // Of four items: how many may fail by count and by share, how many do, and whether the run goes on.
    for (tolerated, failures, goes_on) in [
        ("", 1, false),
        (r#""ToleratedFailureCount":0,"#, 1, false),
        (r#""ToleratedFailureCount":2,"#, 2, true),
        (r#""ToleratedFailureCount":2,"#, 3, false),
        (r#""ToleratedFailurePercentage":50,"#, 2, true),
        (r#""ToleratedFailurePercentage":50,"#, 3, false),
        (r#""ToleratedFailurePercentage":100,"#, 4, true),
        (r#""ToleratedFailureCount":1,"ToleratedFailurePercentage":100,"#, 2, false),
        (r#""ToleratedFailureCount":3,"ToleratedFailurePercentage":25,"#, 2, false),
    ] {
        let mut run = run(tolerated, "[1,2,3,4]").expect("a Map Run");
        children(&mut run);
        let mut last = None;
        for index in 0..4 {
            let ending = if index < failures { Err(Fault::named("Bad")) } else { Ok(payload("0")) };
            last = last.or(run.child_ended(index, ending));
        }
        match (last, goes_on) {
            (Some(MapRunOutcome::Succeeded { output }), true) => {
                let failed = output.value().as_array().into_iter().flatten();
                let failed = failed.filter(|result| result.get("Error") == Some(&value("\"Bad\""))).count();
                assert_eq!(failed, failures as usize, "{tolerated} {failures}");
            }
            (Some(MapRunOutcome::Failed { fault }), false) => {
                let error = Some("States.ExceedToleratedFailureThreshold");
                assert_eq!(fault.error.as_deref(), error, "{tolerated} {failures}");
            }
            (ended, _) => panic!("{tolerated} {failures}: {ended:?}"),
        }
    }
}

#[test]
fn results_may_be_flattened() {
    let writer = r#""ResultWriter":{"WriterConfig":{"OutputType":"JSON","Transformation":"FLATTEN"}},"#;
    let mut run = run(writer, "[1,2,3]").expect("a Map Run");
    children(&mut run);
    run.child_ended(0, Ok(payload("[1,[2]]")));
    run.child_ended(1, Ok(payload("3")));
    let output = payload("[1,[2],3]");
    assert_eq!(run.child_ended(2, Ok(payload("[]"))), Some(MapRunOutcome::Succeeded { output }));
}
