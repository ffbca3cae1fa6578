//! What is recorded and kept grows with what happens, and with nothing else.
//!
//! Time is measured by the benches. Here is counted what can be counted on any machine: records and bytes of
//! Turns, and the size of the stored execution. Twice the work makes twice the records; a loop keeps nothing.

use crate::stage::{START, Stage, identity, machine};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{
    Call, Certainty, Effect, Execution, Fault, Input, Limits, Moment, Outcome, Status, decide,
};

/// What one execution cost.
#[derive(Debug, Default, PartialEq)]
struct Cost {
    turns: usize,
    records: usize,
    events: usize,
    turn_bytes: usize,
    /// The largest record of all Turns' bytes.
    turn_bytes_max: usize,
    /// The largest size at which the execution would have been stored.
    stored_bytes_max: usize,
}

/// Runs a machine to its end, answering calls and passing time at once.
fn cost(definition: &str, input: &str, answer: &mut dyn FnMut(&Call) -> Outcome) -> Cost {
    let machine = machine("cost.json", definition, MachineType::Standard);
    let mut execution = Execution::new(machine.clone(), identity(&machine, input, Limits::GENEROUS));
    let mut cost = Cost::default();
    let mut inputs = vec![Input::Start];
    let mut now = START;
    while let Some(input) = inputs.pop() {
        let decision = decide(&execution, &input, &Moment::at(now, cost.turns as u128));
        cost.turns += 1;
        cost.records += decision.turn.records.len();
        cost.events += decision.turn.events().count();
        let bytes = serde_json::to_vec(&decision.turn).expect("a Turn can be stored").len();
        cost.turn_bytes += bytes;
        cost.turn_bytes_max = cost.turn_bytes_max.max(bytes);
        for effect in execution.commit(decision) {
            match effect {
                Effect::CallTask(call) => {
                    let outcome = answer(&call);
                    inputs.push(Input::TaskOutcome { by: call.by(), outcome });
                }
                Effect::Continue => inputs.push(Input::Continue),
                _ => {}
            }
        }
        if let (true, Some(at)) = (inputs.is_empty(), execution.next_wake().earliest()) {
            now = at;
            inputs.push(Input::Timer);
        }
        if cost.turns.is_multiple_of(50) {
            let mut text = Vec::new();
            let mut serializer = serde_json::Serializer::new(&mut text);
            execution.serialize(&mut serializer).expect("an execution can be stored");
            cost.stored_bytes_max = cost.stored_bytes_max.max(text.len());
        }
    }
    assert_eq!(execution.status(), Status::Succeeded, "{:?}", execution.fault());
    cost
}

fn done(_: &Call) -> Outcome {
    Outcome::Succeeded { output: Payload::from_text("1").expect("JSON") }
}

/// Within a fiftieth: numbers grow longer as they grow.
fn about(left: usize, right: usize) -> bool {
    left.abs_diff(right) * 50 <= left.max(right)
}

#[test]
fn a_loop_of_batches_costs_the_same_for_each() {
    let definition = include_str!("../../../../examples/grades-sync.asl.json");
    let run = |batches: usize| {
        let (mut queries, mut sends) = (0, 0);
        cost(definition, "{}", &mut |call| {
            let text = if call.resource.arn.ends_with(":query-pending-grades") {
                queries += 1;
                if queries <= batches { r#"{"grades":[{"student":"S-1"}]}"# } else { r#"{"grades":[]}"# }
            } else if call.resource.arn.ends_with(":http:invoke") {
                sends += 1;
                if sends % 2 == 1 {
                    let fault = Fault::named("States.Http.StatusCode.503");
                    return Outcome::Failed { fault, certainty: Certainty::Ambiguous };
                }
                r#"{"StatusCode":200,"ResponseBody":{}}"#
            } else {
                "{}"
            };
            Outcome::Succeeded { output: Payload::from_text(text).expect("JSON") }
        })
    };
    let (one, two, three) = (run(200), run(400), run(600));
    assert_eq!(two.records - one.records, three.records - two.records);
    assert_eq!(two.events - one.events, three.events - two.events);
    assert_eq!(two.turns - one.turns, three.turns - two.turns);
    assert!(
        about(two.turn_bytes - one.turn_bytes, three.turn_bytes - two.turn_bytes),
        "{one:?} {two:?} {three:?}"
    );
    assert!(about(one.stored_bytes_max, three.stored_bytes_max), "a loop keeps nothing: {one:?} {three:?}");
}

#[test]
fn a_map_costs_the_same_for_each_item() {
    let definition = r#"{"StartAt":"Each","States":{"Each":{"Type":"Map","ItemProcessor":{"StartAt":"Do",
        "States":{"Do":{"Type":"Task","Resource":"arn:perdura:step:::do","End":true}}},"End":true}}}"#;
    let run = |items: usize| cost(definition, &format!("[{}1]", "1,".repeat(items - 1)), &mut done);
    let (one, two, three) = (run(500), run(1_000), run(1_500));
    assert_eq!(two.records - one.records, three.records - two.records);
    assert_eq!(two.turns - one.turns, three.turns - two.turns);
    assert!(
        about(two.turn_bytes - one.turn_bytes, three.turn_bytes - two.turn_bytes),
        "{one:?} {two:?} {three:?}"
    );
}

#[test]
fn no_turn_is_much_larger_than_its_bound() {
    let definition = r#"{"StartAt":"Each","States":{"Each":{"Type":"Map","ItemProcessor":{"StartAt":"Do",
        "States":{"Do":{"Type":"Pass","End":true}}},"ResultPath":null,"End":true}}}"#;
    let item = format!("\"{}\"", "x".repeat(5_000));
    let items = vec![item; 400];
    let input = format!("[{}]", items.join(","));
    let cost = cost(definition, &input, &mut done);
    // The first Turn holds the input as it came, the state's, and the Map's items; no other holds any of them.
    let most = 3 * input.len() + 4 * Limits::GENEROUS.turn_bytes_max;
    assert!(cost.turn_bytes_max <= most, "{} bytes in a Turn, where {most} are enough", cost.turn_bytes_max);
    assert!(cost.turns > 10, "{cost:?}");
}

#[test]
fn the_laws_hold_for_a_long_run() {
    let definition = r#"{"StartAt":"Each","States":{"Each":{"Type":"Map","ItemProcessor":{"StartAt":"Do",
        "States":{"Do":{"Type":"Pass","End":true}}},"End":true}}}"#;
    let machine = machine("cost.json", definition, MachineType::Standard);
    let identity = identity(&machine, &format!("[{}1]", "1,".repeat(2_000)), Limits::GENEROUS);
    let mut stage = Stage::new(machine, identity);
    let mut input = Input::Start;
    let mut turns = 0;
    while stage.take(&input, &Moment::at(START, turns)).effects.contains(&Effect::Continue) {
        input = Input::Continue;
        turns += 1;
    }
    assert_eq!(stage.execution().status(), Status::Succeeded);
    stage.finish();
}
