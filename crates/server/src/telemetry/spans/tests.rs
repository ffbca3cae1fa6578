use super::*;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{Certainty, Effect, Execution, Input, Limits, Moment, Outcome as Answer, decide};

/// Runs a machine with answers for its calls, in order, a second apart; its Turns.
fn turns(definition: &str, mut answers: Vec<Answer>) -> (Identity, Vec<Turn>) {
    let reading = read(
        &Source::new("m", definition),
        &ReadOptions { machine_type: MachineType::Standard, strict: false },
    );
    let machine = Arc::new(reading.machine.expect("the definition is good"));
    let identity = Identity {
        id: ExecutionId::from_random(7),
        arn: "arn".into(),
        name: "a".into(),
        machine_arn: "arn:m".into(),
        machine_name: "m".into(),
        role_arn: "role".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        kind: MachineType::Standard,
        flow: Machine::TOP,
        input: Payload::from_text("{}").unwrap(),
        limits: Limits::GENEROUS,
    };
    let mut execution = Execution::new(machine, identity.clone());
    let (mut turns, mut inputs, mut seconds) = (Vec::new(), vec![Input::Start], 0);
    answers.reverse();
    while let Some(input) = inputs.pop() {
        seconds += 1;
        let decision = decide(&execution, &input, &Moment::at(Timestamp(seconds * 1000), 1));
        turns.push(decision.turn.clone());
        for effect in execution.commit(decision) {
            match effect {
                Effect::CallTask(call) => {
                    let outcome = answers.pop().expect("an answer for each call");
                    inputs.insert(0, Input::TaskOutcome { by: call.by(), outcome });
                }
                Effect::SetTimer { wake } if wake.earliest().is_some() => {
                    seconds += 10;
                    inputs.insert(0, Input::Timer);
                }
                _ => {}
            }
        }
        if execution.is_ended() {
            break;
        }
    }
    (identity, turns)
}

fn spans(definition: &str, answers: Vec<Answer>) -> Vec<Span> {
    let (identity, turns) = turns(definition, answers);
    let mut spans = Spans::new(identity, None);
    for turn in &turns {
        spans.turn(turn);
    }
    spans.finish()
}

fn done(output: &str) -> Answer {
    Answer::Succeeded { output: Payload::from_text(output).unwrap() }
}

fn refused(error: &str) -> Answer {
    Answer::Failed { fault: Fault::new(error, "because"), certainty: Certainty::Refused }
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| &*span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

fn value(span: &Span, name: &str) -> Option<String> {
    span.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| match value {
        Attribute::Text(text) => text.to_string(),
        Attribute::Number(number) => number.to_string(),
    })
}

fn happened(span: &Span) -> Vec<&str> {
    span.events.iter().map(|event| &*event.name).collect()
}

const TASK: &str = r#""Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f""#;

#[test]
fn each_step_has_a_span_below_the_executions() {
    let definition = format!(
        r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, "Next": "P"}}, "P": {{"Type": "Pass", "End": true}}}}}}"#
    );
    let spans = spans(&definition, vec![done("1")]);
    let (root, task, pass) = (named(&spans, "m"), named(&spans, "A"), named(&spans, "P"));
    assert_eq!((spans.len(), root.parent, &root.outcome), (3, None, &Outcome::Well));
    assert_eq!((task.parent, pass.parent), (Some(root.id), Some(root.id)));
    assert_eq!((task.started_at, task.ended_at), (Timestamp(1000), Timestamp(2000)));
    assert_eq!((root.started_at, root.ended_at), (Timestamp(1000), Timestamp(2000)));
    assert_eq!((task.is_call, pass.is_call), (true, false));
    assert_eq!(happened(task), ["sent", "succeeded"]);
    assert_eq!(value(task, "perdura.key"), Some(format!("{}:A#1:1", root.trace)));
    assert_eq!(value(root, "perdura.status").as_deref(), Some("SUCCEEDED"));
}

#[test]
fn a_span_is_the_first_half_of_the_key_that_the_call_carried() {
    let definition = format!(
        r#"{{"StartAt": "M", "States": {{"M": {{"Type": "Map", "QueryLanguage": "JSONata", "Items": [1, 2],
            "ItemProcessor": {{"StartAt": "A", "States": {{"A": {{{TASK}, "End": true}}}}}}, "End": true}}}}}}"#
    );
    let (identity, turns) = turns(&definition, vec![done("1"), done("2")]);
    let called: Vec<EffectKey> = turns
        .iter()
        .flat_map(Turn::notes)
        .filter_map(|note| match note {
            Note::Ledger { key, status: perdura_engine::LedgerStatus::Pending, .. } => Some(key.clone()),
            _ => None,
        })
        .collect();
    let mut spans = Spans::new(identity, None);
    for turn in &turns {
        spans.turn(turn);
    }
    let spans = spans.finish();
    let map = named(&spans, "M").id;
    assert_eq!(called.len(), 2);
    for (key, name) in called.iter().zip(["A[0]", "A[1]"]) {
        let span = named(&spans, name);
        assert_eq!((span.id, span.parent), (span_of(key), Some(map)), "{name}");
        assert_eq!(value(span, "perdura.wire_key"), Some(key.wire().to_string()));
    }
}

#[test]
fn a_further_round_has_a_span_of_its_own_below_the_step() {
    let retry = r#""Retry": [{"ErrorEquals": ["Busy"], "MaxAttempts": 3}]"#;
    let definition = format!(r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, {retry}, "End": true}}}}}}"#);
    let spans = spans(&definition, vec![refused("Busy"), done("1")]);
    let (step, round) = (named(&spans, "A"), named(&spans, "A, round 2"));
    let key = EffectKey::try_from(Arc::from(format!("{}:A#1:2", step.trace))).unwrap();
    assert_eq!((round.id, round.parent), (span_of(&key), Some(step.id)));
    assert_eq!(happened(step), ["sent", "failed", "waits for a retry", "sent"]);
    assert_eq!(happened(round), ["succeeded"]);
    assert_eq!((&step.outcome, value(step, "perdura.attempts").as_deref()), (&Outcome::Well, Some("2")));
}

#[test]
fn a_step_that_goes_back_to_a_round_goes_on_with_its_span() {
    let definition = format!(r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, "End": true}}}}}}"#);
    for back_to in [1, 2] {
        let (identity, turns) = turns(&definition, vec![done("1")]);
        let mut spans = Spans::new(identity, None);
        spans.turn(&turns[0]);
        for round in [2, 3, back_to] {
            spans.sent(StrandId::TOP, Round(round), text("f"));
        }
        spans.turn(&turns[1]);
        let spans = spans.finish();
        let ids: std::collections::BTreeSet<[u8; 8]> = spans.iter().map(|span| span.id).collect();
        assert_eq!((spans.len(), ids.len()), (4, 4), "the execution, the step, and two further rounds");
        let name = if back_to == 1 { "A" } else { "A, round 2" };
        assert!(happened(named(&spans, name)).contains(&"succeeded"), "back to round {back_to}");
    }
}

#[test]
fn what_failed_says_so_and_why() {
    let definition = format!(r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, "End": true}}}}}}"#);
    let spans = spans(&definition, vec![refused("No")]);
    for name in ["A", "m"] {
        let span = named(&spans, name);
        assert_eq!(span.outcome, Outcome::Badly("No: because".into()), "{name}");
        assert_eq!(value(span, "perdura.status").as_deref(), Some("FAILED"), "{name}");
        assert_eq!(value(span, "error.type").as_deref(), Some("No"), "{name}");
    }
}

#[test]
fn a_child_is_linked_to_the_step_that_started_it() {
    let (identity, _) =
        turns(r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#, Vec::new());
    let parent = ExecutionId::from_random(9);
    let key = EffectKey::try_from(Arc::from(format!("{parent}:Start#1:1"))).unwrap();
    let spans = Spans::new(identity, Some(&key)).finish();
    assert_eq!(spans[0].link, Some(Link { trace: parent, span: span_of(&key) }));
}

#[test]
fn the_json_is_as_opentelemetry_has_it() {
    let definition = format!(r#"{{"StartAt": "A", "States": {{"A": {{{TASK}, "End": true}}}}}}"#);
    let spans = spans(&definition, vec![refused("No")]);
    let request = crate::telemetry::otlp::request("shop", &spans);
    let resource = &request["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "shop");
    let told = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    let (root, step) = (&told[0], &told[1]);
    assert_eq!(root["traceId"], spans[0].trace.uuid().simple().to_string());
    assert_eq!((&step["parentSpanId"], &root["parentSpanId"]), (&root["spanId"], &serde_json::Value::Null));
    assert_eq!(step["spanId"].as_str().map(str::len), Some(16));
    assert_eq!((&root["kind"], &step["kind"]), (&1.into(), &3.into()));
    assert_eq!(
        (&step["startTimeUnixNano"], &step["endTimeUnixNano"]),
        (&"1000000000".into(), &"2000000000".into())
    );
    assert_eq!((&step["status"]["code"], &step["status"]["message"]), (&2.into(), &"No: because".into()));
    assert_eq!(step["events"][0]["attributes"][0]["value"]["intValue"], "1");
}
