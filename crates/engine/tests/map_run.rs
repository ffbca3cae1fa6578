//! A Map Run: its children, how many at once, and when it is over.

use perdura_engine::asl::json::{Payload, Value, parse};
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{
    Arns, Child, Effect, Execution, ExecutionId, Fault, Identity, Input, Known, Limits, MapRun, MapRunBounds,
    MapRunOrder, Moment, Next, Status, Timestamp, decide,
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
    let execution = Execution::new(machine.clone(), identity(input));
    let decision = decide(&execution, &Input::Start, &Moment::at(Timestamp(0), 1));
    let ordered = decision.effects.into_iter().find_map(|effect| match effect {
        Effect::StartMapRun(order) => Some(*order),
        _ => None,
    });
    (machine, ordered.expect("a Map Run is ordered"))
}

fn identity(input: &str) -> Identity {
    let arns = Arns::default();
    Identity {
        id: ExecutionId::from_random(1),
        arn: arns.execution("map", "one", MachineType::Standard, "").into(),
        name: "one".into(),
        machine_arn: arns.machine("map").into(),
        machine_name: "map".into(),
        role_arn: "role".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        kind: MachineType::Standard,
        flow: Machine::TOP,
        input: payload(input),
        limits: Limits::GENEROUS,
    }
}

fn run(fields: &str, input: &str) -> MapRun {
    let (machine, order) = order(fields, input);
    MapRun::new(machine, order, Limits::GENEROUS.payload_bytes_max)
}

/// One whose items are to be offered.
fn reading(fields: &str) -> MapRun {
    let reader = r#""ItemReader":{"Resource":"arn:aws:states:::s3:getObject","ReaderConfig":{"InputType":"JSON"},
        "Parameters":{"Bucket":"b","Key":"k"}},"#;
    run(&format!("{fields}{reader}"), "{}")
}

fn payload(text: &str) -> Payload {
    Payload::from_text(text).expect("JSON")
}

fn values(text: &str) -> Vec<Value> {
    parse(text).expect("JSON").as_array().expect("a list").to_vec()
}

/// All children that may start now, and what comes after them.
fn started(run: &mut MapRun) -> (Vec<Child>, Next) {
    let mut children = Vec::new();
    loop {
        match run.advance() {
            Next::Start(child) => children.push(child),
            Next::Looking => {}
            next @ (Next::NotNow | Next::Over(_)) => return (children, next),
        }
    }
}

fn children(run: &mut MapRun) -> Vec<Child> {
    started(run).0
}

fn indices(run: &mut MapRun) -> Vec<u32> {
    children(run).iter().map(|child| child.index).collect()
}

fn inputs_of(run: &mut MapRun) -> Vec<String> {
    children(run).iter().map(|child| child.input.to_string()).collect()
}

fn inputs(fields: &str, input: &str) -> Vec<String> {
    inputs_of(&mut run(fields, input))
}

fn error(next: &Next) -> Option<&str> {
    match next {
        Next::Over(Err(Fault { error, .. })) => error.as_deref(),
        Next::Over(Ok(())) | Next::Start(_) | Next::Looking | Next::NotNow => None,
    }
}

#[test]
fn children_are_the_same_however_often_they_are_started() {
    let ids = |fields: &str| -> Vec<ExecutionId> {
        children(&mut run(fields, "[1,2,3]")).iter().map(|child| child.id).collect()
    };
    assert_eq!(ids(""), ids(""));
    let mut unique = ids("");
    unique.dedup();
    assert_eq!(unique.len(), 3);
}

#[test]
fn a_child_goes_by_the_names_of_its_run() {
    let (machine, order) = order(r#""Label":"Every","#, "[1]");
    let parent = Identity { limits: Limits::GENEROUS, ..identity("{}") };
    let child = children(&mut MapRun::new(machine, order.clone(), 100)).remove(0);
    let (id, who) = (child.id, order.child_identity(&parent, child));
    assert_eq!(&*who.machine_arn, "arn:aws:states:us-east-1:123456789012:stateMachine:map/Every");
    assert_eq!(&*who.arn, format!("arn:aws:states:us-east-1:123456789012:execution:map/Every:{id}"));
    assert_eq!((&*who.name, who.flow, &who.input), (&*id.to_string(), order.flow, &payload("1")));
}

#[test]
fn a_child_receives_its_item_or_what_the_selector_makes_of_it() {
    assert_eq!(inputs("", r#"["a",{"b":1}]"#), [r#""a""#, r#"{"b":1}"#]);
    let selector = r#""ItemsPath":"$.list","ItemSelector":{"item.$":"$$.Map.Item.Value","at.$":"$$.Map.Item.Index","of.$":"$.id"},"#;
    assert_eq!(
        inputs(selector, r#"{"id":7,"list":["a","b"]}"#),
        [r#"{"item":"a","at":0,"of":7}"#, r#"{"item":"b","at":1,"of":7}"#]
    );
}

#[test]
fn members_of_an_object_are_items_with_a_key() {
    let object = r#"{"map":{"x":1,"y":2}}"#;
    let whole = [r#"{"Key":"x","Value":1}"#, r#"{"Key":"y","Value":2}"#];
    assert_eq!(inputs(r#""ItemsPath":"$.map","#, object), whole);
    let selector = r#""ItemsPath":"$.map","ItemSelector":{"item.$":"$$.Map.Item"},"#;
    assert_eq!(
        inputs(selector, object),
        [
            r#"{"item":{"Index":0,"Key":"x","Value":1,"Source":"STATE_DATA"}}"#,
            r#"{"item":{"Index":1,"Key":"y","Value":2,"Source":"STATE_DATA"}}"#
        ]
    );
}

#[test]
fn the_selector_sees_where_items_come_from() {
    let mut run = reading(r#""ItemSelector":{"from.$":"$$.Map.Item.Source","at.$":"$$.Map.Item.Index"},"#);
    run.comes_from("S3://b/k".into());
    run.offer(values("[1]"));
    run.offer(values("[2]"));
    assert_eq!(inputs_of(&mut run), [r#"{"from":"S3://b/k","at":0}"#, r#"{"from":"S3://b/k","at":1}"#]);
}

#[test]
fn chance_is_the_same_for_an_item_whatever_was_passed_over() {
    let selector = r#""ItemSelector":{"id.$":"States.UUID()"},"#;
    let whole = inputs(selector, "[1,2,3]");
    let mut again = run(selector, "[1,2,3]");
    let mut known = Known::default();
    known.set(0, Status::Succeeded);
    known.set(1, Status::Succeeded);
    again.resume(known);
    assert_eq!(inputs_of(&mut again), whole[2..]);
    assert_ne!(whole[0], whole[1]);
}

#[test]
fn a_selector_that_fails_fails_the_run() {
    let mut run = run(r#""ItemSelector":{"x.$":"$$.Map.Item.Value.x"},"#, r#"[{"x":1},{}]"#);
    let (children, next) = started(&mut run);
    assert_eq!((children.len(), error(&next)), (1, Some("States.Runtime")));
}

#[test]
fn a_child_receives_no_more_than_is_allowed() {
    let (machine, order) = order("", r#"["aaa","aaaa"]"#);
    let (children, next) = started(&mut MapRun::new(machine, order, 5));
    assert_eq!((children.len(), error(&next)), (1, Some("States.DataLimitExceeded")));
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
        let mut piecemeal = reading(&fields);
        let mut made = Vec::new();
        for item in values(r#"["aa","bb","cc","dd","ee"]"#) {
            piecemeal.offer(vec![item]);
            made.extend(inputs_of(&mut piecemeal));
        }
        piecemeal.no_more_items();
        made.extend(inputs_of(&mut piecemeal));
        assert_eq!(made, expected, "{batcher}, one item at a time");
    }
}

#[test]
fn no_more_children_run_at_once_than_asked() {
    let mut run = run(r#""MaxConcurrency":2,"#, "[1,2,3,4]");
    assert_eq!(indices(&mut run), [0, 1]);
    run.child_ended(1, Status::Succeeded);
    assert_eq!(indices(&mut run), [2]);
    assert_eq!(run.counts().items.running, 2);
    run.child_ended(1, Status::Succeeded);
    assert_eq!(indices(&mut run), [], "a child ends once");
    run.adjust(MapRunBounds { max_concurrency: 3, ..run.bounds() });
    assert_eq!(indices(&mut run), [3]);
    for index in [0, 2, 3] {
        run.child_ended(index, Status::Succeeded);
    }
    assert_eq!(run.advance(), Next::Over(Ok(())));
    assert_eq!((run.counts().items.succeeded, run.counts().items.pending()), (4, 0));
}

#[test]
fn a_run_over_nothing_has_ended() {
    assert_eq!(run("", "[]").advance(), Next::Over(Ok(())));
    let mut reading = reading("");
    assert_eq!(reading.advance(), Next::NotNow, "items may still come");
    reading.no_more_items();
    assert_eq!(reading.advance(), Next::Over(Ok(())));
}

#[test]
fn a_run_fails_when_more_items_fail_than_it_tolerates() {
    // Of four items: how many may fail by count and by share, how many do, and whether the run goes on.
    for (tolerated, failures, goes_on) in [
        ("", 1, false),
        (r#""ToleratedFailureCount":0,"#, 1, false),
        (r#""ToleratedFailureCount":2,"#, 2, true),
        (r#""ToleratedFailureCount":2,"#, 3, false),
        (r#""ToleratedFailurePercentage":0,"#, 1, false),
        (r#""ToleratedFailurePercentage":50,"#, 2, true),
        (r#""ToleratedFailurePercentage":50,"#, 3, false),
        (r#""ToleratedFailurePercentage":100,"#, 4, true),
        (r#""ToleratedFailureCount":1,"ToleratedFailurePercentage":100,"#, 2, false),
        (r#""ToleratedFailureCount":3,"ToleratedFailurePercentage":25,"#, 2, false),
    ] {
        let mut run = run(tolerated, "[1,2,3,4]");
        children(&mut run);
        for index in 0..4 {
            let failed = if index % 2 == 0 { Status::Failed } else { Status::TimedOut };
            run.child_ended(index, if index < failures { failed } else { Status::Succeeded });
        }
        let exceeded = Some("States.ExceedToleratedFailureThreshold").filter(|_| !goes_on);
        assert_eq!(error(&run.advance()), exceeded, "{tolerated} {failures}");
    }
}

#[test]
fn a_share_is_judged_when_all_items_are_known() {
    let mut run = reading(r#""ToleratedFailurePercentage":50,"#);
    run.offer(values("[1]"));
    children(&mut run);
    run.child_ended(0, Status::Failed);
    assert_eq!(run.advance(), Next::NotNow, "one of one, but more may come");
    run.no_more_items();
    assert_eq!(error(&run.advance()), Some("States.ExceedToleratedFailureThreshold"));
}

#[test]
fn a_run_that_is_taken_up_again_starts_what_was_not_started() {
    for batcher in ["", r#""ItemBatcher":{"MaxItemsPerBatch":1},"#] {
        let mut run = run(&format!(r#"{batcher}"ToleratedFailureCount":1,"#), "[0,1,2,3,4]");
        let mut known = Known::default();
        for (index, status) in
            [(0, Status::Succeeded), (1, Status::Failed), (2, Status::Running), (3, Status::Running)]
        {
            known.set(index, status);
        }
        run.resume(known);
        run.child_ended(3, Status::Succeeded);
        assert_eq!(indices(&mut run), [4], "{batcher}");
        let items = run.counts().items;
        assert_eq!((items.succeeded, items.failed, items.running), (2, 1, 2), "{batcher}");
        run.child_ended(2, Status::Succeeded);
        run.child_ended(4, Status::Succeeded);
        assert_eq!(run.advance(), Next::Over(Ok(())), "{batcher}");
    }
}

#[test]
fn a_redrive_runs_those_that_did_not_succeed() {
    let (machine, order) = order(r#""ToleratedFailureCount":1,"#, "[0,1,2,3]");
    let mut run =
        MapRun::new(machine, MapRunOrder { redriven_at: Some(perdura_engine::Timestamp(1)), ..order }, 1_000);
    let mut known = Known::default();
    for (index, status) in [(0, Status::Succeeded), (1, Status::Failed), (2, Status::Aborted)] {
        known.set(index, status);
    }
    run.resume(known);
    let again: Vec<_> = children(&mut run).iter().map(|child| (child.index, child.again)).collect();
    assert_eq!(again, [(1, true), (2, true), (3, false)]);
    assert_eq!((run.counts().items.succeeded, run.counts().items.failed), (1, 0));
}

#[test]
fn passing_over_many_gives_others_their_turn() {
    let items: Vec<String> = (0..2_500).map(|item| item.to_string()).collect();
    let mut run = run("", &format!("[{}]", items.join(",")));
    let mut known = Known::default();
    for index in 0..2_500 {
        known.set(index, Status::Succeeded);
    }
    run.resume(known);
    assert_eq!(
        [run.advance(), run.advance(), run.advance()],
        [Next::Looking, Next::Looking, Next::Over(Ok(()))]
    );
}

#[test]
fn results_may_be_flattened() {
    let results = ["[1,[2]]", "3", "[]"].map(payload);
    let writer = r#""ResultWriter":{"WriterConfig":{"OutputType":"JSON","Transformation":"FLATTEN"}},"#;
    assert_eq!(order(writer, "[]").1.gathered(&results), payload("[1,[2],3]"));
    assert_eq!(order("", "[]").1.gathered(&results), payload("[[1,[2]],3,[]]"));
}

#[test]
fn the_selector_of_an_item_has_a_bound_of_work() {
    let selector = r#""QueryLanguage":"JSONata","Items":[1,2],
        "ItemSelector":{"a":"{% $sum([1..2000].($ * 2)) %}","b":"{% $sum([1..2000].($ * 3)) %}"},"#;
    let (machine, order) = order(selector, "{}");
    assert_eq!(order.item_work_max, Limits::GENEROUS.state_work_max);
    let within = |item_work_max: u64| {
        let order = MapRunOrder { item_work_max, ..order.clone() };
        started(&mut MapRun::new(machine.clone(), order, 1_000))
    };
    let (children, next) = within(300_000);
    assert_eq!((children.len(), next), (2, Next::NotNow), "each item has the bound for itself");
    let (children, next) = within(150_000);
    let Next::Over(Err(fault)) = next else { panic!("{next:?}") };
    assert!(children.is_empty());
    assert_eq!(fault.error.as_deref(), Some("States.QueryEvaluationError"));
    assert!(fault.cause.as_deref().is_some_and(|cause| cause.contains("than one state may")), "{fault:?}");
}
