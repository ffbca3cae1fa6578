//! What an execution costs: decide and commit, Turn by Turn, to the end.
//!
//! Each bench is a series over sizes and counts states, items, rules or events, so that a step that is not
//! linear shows as a rate that falls. `cargo bench -p perdura-engine`; with `-- --test` each runs once.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{
    Arns, Call, Certainty, Effect, Execution, ExecutionId, Fault, Identity, Input, Limits, Moment, Outcome,
    Status, Timestamp, decide,
};
use std::fmt::Write;
use std::sync::Arc;

fn main() {
    divan::main();
}

fn machine(text: &str) -> Arc<Machine> {
    let reading = read(&Source::new("bench.json", text), &ReadOptions::default());
    Arc::new(reading.machine.unwrap_or_else(|| panic!("{:#?}", reading.diagnostics)))
}

fn execution(machine: &Arc<Machine>, input: &str) -> Execution {
    let arns = Arns::default();
    let identity = Identity {
        id: ExecutionId::from_random(1),
        arn: arns.execution("bench", "one", machine.machine_type, "").into(),
        name: "one".into(),
        machine_arn: arns.machine("bench").into(),
        machine_name: "bench".into(),
        role_arn: "arn:aws:iam::123456789012:role/bench".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        kind: machine.machine_type,
        flow: Machine::TOP,
        input: Payload::from_text(input).expect("the input is JSON"),
        limits: Limits::GENEROUS,
    };
    Execution::new(machine.clone(), identity)
}

/// Runs an execution to its end: calls are answered at once, timers pass at once. Returns its events.
fn run(mut execution: Execution, answer: &mut dyn FnMut(&Call) -> Outcome) -> u64 {
    let mut now = Timestamp(1_767_225_600_000);
    let mut inputs = vec![Input::Start];
    let mut turns = 0_u128;
    while let Some(input) = inputs.pop() {
        turns += 1;
        let decision = decide(&execution, &input, &Moment::at(now, turns));
        for effect in execution.commit(black_box(decision)) {
            match effect {
                Effect::CallTask(call) => {
                    let outcome = answer(&call);
                    let by = call.by();
                    inputs.push(Input::TaskOutcome { by, outcome });
                }
                Effect::Continue => inputs.push(Input::Continue),
                Effect::SetTimer { .. }
                | Effect::AwaitTask(_)
                | Effect::CancelTask { .. }
                | Effect::StartMapRun(_)
                | Effect::StopMapRun { .. }
                | Effect::Publish { .. } => {}
            }
        }
        if let (true, Some(at)) = (inputs.is_empty(), execution.next_wake().earliest()) {
            now = at;
            inputs.push(Input::Timer);
        }
    }
    assert_eq!(execution.status(), Status::Succeeded, "{:?}", execution.fault());
    execution.last_event().0
}

fn succeeds(_: &Call) -> Outcome {
    Outcome::Succeeded { output: Payload::from_text(r#"{"done":true}"#).expect("JSON") }
}

/// An order of 1 KiB.
fn one_kib() -> String {
    let mut lines = String::new();
    for at in 0..17 {
        let comma = if at == 0 { "" } else { "," };
        write!(lines, r#"{comma}{{"sku":"article-{at:04}","count":{at},"price":12.5}}"#)
            .expect("a String takes all");
    }
    format!(r#"{{"id":"order-7","customer":{{"name":"Ada","city":"Santiago"}},"lines":[{lines}]}}"#)
}

/// `count` states in a row, each made of `fields`.
fn chain(count: usize, fields: &str) -> Arc<Machine> {
    let mut states = String::new();
    for at in 0..count {
        let next = if at + 1 == count { r#""End":true"#.into() } else { format!(r#""Next":"S{}""#, at + 1) };
        let comma = if at == 0 { "" } else { "," };
        write!(states, r#"{comma}"S{at}":{{{fields},{next}}}"#).expect("a String takes all");
    }
    machine(&format!(r#"{{"StartAt":"S0","States":{{{states}}}}}"#))
}

fn bench_chain(bencher: Bencher<'_, '_>, count: usize, fields: &str) {
    let machine = chain(count, fields);
    let input = one_kib();
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| execution(&machine, &input))
        .bench_local_values(|execution| run(execution, &mut succeeds));
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn pass_states(bencher: Bencher<'_, '_>, count: usize) {
    bench_chain(bencher, count, r#""Type":"Pass""#);
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn pass_states_that_write(bencher: Bencher<'_, '_>, count: usize) {
    bench_chain(bencher, count, r#""Type":"Pass","Result":{"seen":true},"ResultPath":"$.extra""#);
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn pass_states_in_jsonata(bencher: Bencher<'_, '_>, count: usize) {
    let fields =
        r#""Type":"Pass","QueryLanguage":"JSONata","Output":"{% $merge([$states.input, {'seen': true}]) %}""#;
    bench_chain(bencher, count, fields);
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn pass_states_that_assign(bencher: Bencher<'_, '_>, count: usize) {
    bench_chain(bencher, count, r#""Type":"Pass","Assign":{"id.$":"$.id"}"#);
}

#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn task_states(bencher: Bencher<'_, '_>, count: usize) {
    bench_chain(bencher, count, r#""Type":"Task","Resource":"arn:perdura:step:::call","ResultPath":null"#);
}

/// A Choice of 20 rules, of which the last holds, visited again and again.
#[divan::bench(args = [10, 100, 1_000, 10_000])]
fn choices_of_20_rules(bencher: Bencher<'_, '_>, count: usize) {
    let mut states = String::new();
    for at in 0..count {
        let next = if at + 1 == count { "End".into() } else { format!("S{}", at + 1) };
        let mut rules = String::new();
        for rule in 0..20 {
            let comma = if rule == 0 { "" } else { "," };
            write!(
                rules,
                r#"{comma}{{"Variable":"$.id","StringEquals":"order-{}","Next":"{next}"}}"#,
                rule + 988
            )
            .expect("a String takes all");
        }
        write!(states, r#""S{at}":{{"Type":"Choice","Choices":[{rules}],"Default":"End"}},"#)
            .expect("a String takes all");
    }
    let machine = machine(&format!(r#"{{"StartAt":"S0","States":{{{states}"End":{{"Type":"Succeed"}}}}}}"#));
    let input = one_kib().replace("order-7", "order-1007");
    bencher
        .counter(ItemsCount::new(count * 20))
        .with_inputs(|| execution(&machine, &input))
        .bench_local_values(|execution| run(execution, &mut succeeds));
}

fn map_of(processor: &str, fields: &str) -> Arc<Machine> {
    machine(&format!(
        r#"{{"StartAt":"Each","States":{{"Each":{{"Type":"Map",{fields}"ItemProcessor":{{"StartAt":"Do","States":{{"Do":{{{processor},"End":true}}}}}},"End":true}}}}}}"#
    ))
}

fn items(count: usize) -> String {
    let items: Vec<String> = (0..count).map(|at| format!(r#"{{"id":{at},"name":"item-{at}"}}"#)).collect();
    format!("[{}]", items.join(","))
}

fn bench_map(bencher: Bencher<'_, '_>, count: usize, machine: &Arc<Machine>) {
    let input = items(count);
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| execution(machine, &input))
        .bench_local_values(|execution| run(execution, &mut succeeds));
}

#[divan::bench(args = [100, 1_000, 10_000, 40_000], sample_count = 10)]
fn map_items(bencher: Bencher<'_, '_>, count: usize) {
    bench_map(bencher, count, &map_of(r#""Type":"Pass""#, ""));
}

#[divan::bench(args = [100, 1_000, 10_000, 40_000], sample_count = 10)]
fn map_items_that_are_selected(bencher: Bencher<'_, '_>, count: usize) {
    let fields = r#""ItemSelector":{"item.$":"$$.Map.Item.Value","at.$":"$$.Map.Item.Index"},"#;
    bench_map(bencher, count, &map_of(r#""Type":"Pass""#, fields));
}

#[divan::bench(args = [100, 1_000, 10_000, 40_000], sample_count = 10)]
fn map_items_that_call(bencher: Bencher<'_, '_>, count: usize) {
    bench_map(bencher, count, &map_of(r#""Type":"Task","Resource":"arn:perdura:step:::call""#, ""));
}

/// The grades sync of the examples, in one execution. Each batch is sent at the fourth attempt, which makes 30
/// events; 10,000 batches make 300,000.
#[divan::bench(args = [10, 100, 1_000, 10_000], sample_count = 5)]
fn events_of_the_grades_sync(bencher: Bencher<'_, '_>, batches: usize) {
    let machine = machine(include_str!("../../../examples/grades-sync.asl.json"));
    bencher
        .counter(ItemsCount::new(batches * 30))
        .with_inputs(|| execution(&machine, "{}"))
        .bench_local_values(|execution| {
            let (mut queries, mut sends) = (0, 0);
            let events = run(execution, &mut |call| grades(call, batches, &mut queries, &mut sends));
            assert_eq!(events, batches as u64 * 30 + 13);
        });
}

fn grades(call: &Call, batches: usize, queries: &mut usize, sends: &mut usize) -> Outcome {
    let text = if call.resource.arn.ends_with(":query-pending-grades") {
        *queries += 1;
        if *queries <= batches {
            r#"{"grades":[{"student":"S-1","grade":6.1},{"student":"S-2","grade":5.4}]}"#
        } else {
            r#"{"grades":[]}"#
        }
    } else if call.resource.arn.ends_with(":http:invoke") {
        *sends += 1;
        if !(*sends).is_multiple_of(4) {
            let fault = Fault::new("States.Http.StatusCode.503", "Service Unavailable");
            return Outcome::Failed { fault, certainty: Certainty::Ambiguous };
        }
        r#"{"StatusCode":200,"ResponseBody":{"accepted":2}}"#
    } else {
        r#"{"marked":true}"#
    };
    Outcome::Succeeded { output: Payload::from_text(text).expect("JSON") }
}

/// A sleeping execution is stored and read back: what a Map with half its items done weighs.
#[divan::bench(args = [100, 1_000, 10_000])]
fn store_and_read_back_items(bencher: Bencher<'_, '_>, count: usize) {
    let machine = map_of(r#""Type":"Task","Resource":"arn:perdura:step:::call""#, "");
    let mut execution = execution(&machine, &items(count));
    let moment = Moment::at(Timestamp(0), 1);
    let mut inputs = vec![Input::Start];
    let mut answered = 0;
    while let Some(input) = inputs.pop() {
        let decision = decide(&execution, &input, &moment);
        for effect in execution.commit(decision) {
            if let (Effect::CallTask(call), true) = (effect, answered < count / 2) {
                answered += 1;
                let outcome = succeeds(&call);
                let by = call.by();
                inputs.push(Input::TaskOutcome { by, outcome });
            }
        }
    }
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut text = Vec::new();
        black_box(&execution)
            .serialize(&mut serde_json::Serializer::new(&mut text))
            .expect("an execution can be stored");
        Execution::deserialize(machine.clone(), &mut serde_json::Deserializer::from_slice(&text))
            .expect("what was stored can be read")
    });
}
