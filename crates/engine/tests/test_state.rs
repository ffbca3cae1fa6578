//! States that are tried out: requests and what is answered, as data.
//!
//! A case of `test_state/*.json` has a `promise`, the members of its `request`, and either the `answer` or the words
//! with which it is `refused`. Members that are JSON texts in the API are written as JSON here, on both sides. `*` in
//! an answer stands for anything. A Task that is really called has the `call` that is expected, and the `outcome` of
//! it.

#![allow(clippy::disallowed_methods, reason = "tests read their data; the room itself does not")]

use perdura_engine::asl::json::{Map, Value, parse};
use perdura_engine::asl::object;
use perdura_engine::{
    Arns, Call, Certainty, Exchange, Fault, Moment, Outcome, Prepared, Refused, TestState, TestStatus,
    Timestamp, Verdict,
};
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::sample::Index;
use std::sync::LazyLock;

/// Members of a request whose value is a JSON text.
const TEXTS: [&str; 6] = ["definition", "input", "variables", "context", "result", "mapItemReaderData"];

fn moment() -> Moment {
    Moment::at(Timestamp(1_764_720_000_000), 7)
}

fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/test_state/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    parse(&text)
        .unwrap_or_else(|error| panic!("{path}: {error}"))
        .as_array()
        .expect("a list of cases")
        .to_vec()
}

/// The request as it comes over the wire.
fn wire(request: &Value) -> Value {
    let Value::Object(members) = request else { return request.clone() };
    let written = members.iter().map(|(name, value)| {
        let value = match (TEXTS.contains(&&**name), value) {
            (true, Value::Object(_) | Value::Array(_) | Value::Number(_)) => value.to_string().into(),
            (true, _) => value.clone(),
            (false, value) => wire(value),
        };
        (name.clone(), value)
    });
    written.collect::<Map>().into()
}

/// What is done with one case: refused, answered, or answered after a call.
fn run(case: &Value, called: &mut dyn FnMut(&Call)) -> Result<(Verdict, i64), Refused> {
    let request = wire(case.get("request").expect("a case has a request"));
    match TestState::read(&request)?.prepare(&Arns::default(), &moment())? {
        Prepared::Answered { verdict, after_ms } => Ok((verdict, after_ms)),
        Prepared::Call(calling) => {
            called(calling.call());
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(Into::into);
            let outcome = case.get("outcome").cloned().unwrap_or_default();
            let made = match outcome.get("output") {
                Some(output) => Outcome::Succeeded { output: output.clone().into() },
                None => Outcome::Failed {
                    fault: Fault { error: text(outcome.get("error")), cause: text(outcome.get("cause")) },
                    certainty: Certainty::Refused,
                },
            };
            let part = |name: &str| outcome.get(name).cloned();
            let exchange = part("request").zip(part("response"));
            let exchange = exchange.map(|(request, response)| Exchange { request, response });
            Ok((calling.finish(&made, exchange, &moment()), 0))
        }
    }
}

/// Where an answer differs from what is expected of it.
fn difference(expected: &Value, actual: &Value, at: &str) -> Option<String> {
    let differs = || Some(format!("{at}: expected {expected}, answered {actual}"));
    match (expected, actual) {
        (Value::String(mask), _) if &**mask == "*" => None,
        (Value::Object(wanted), Value::Object(found)) => {
            let names = wanted.keys().chain(found.keys());
            names.into_iter().find_map(|name| match (wanted.get(name), found.get(name)) {
                (Some(wanted), Some(found)) => difference(wanted, found, &format!("{at}/{name}")),
                (Some(wanted), None) => Some(format!("{at}/{name}: missing, expected {wanted}")),
                (None, found) => Some(format!("{at}/{name}: not expected: {found:?}")),
            })
        }
        (Value::String(wanted), Value::String(found)) if wanted == found => None,
        (_, Value::String(found)) => match parse(found) {
            Ok(found) if found.as_str().is_none_or(|_| expected.as_str().is_some()) => {
                difference(expected, &found, at)
            }
            _ => differs(),
        },
        _ if expected == actual => None,
        _ => differs(),
    }
}

fn check(file: &str) {
    let cases = cases(file);
    let mut wrong = Vec::new();
    for case in &cases {
        let promise = case.get("promise").and_then(Value::as_str).expect("a case has a promise");
        let mut call = None;
        let found = run(case, &mut |made| {
            call = Some(
                object! {"resource" => made.resource.arn.clone(), "input" => made.input.value().clone()},
            );
        });
        let problem = match (found, case.get("refused").and_then(Value::as_str)) {
            (Err(refused), Some(words)) => {
                let said = format!("{}: {refused}", refused.name());
                (said != words).then(|| format!("refused as {said}"))
            }
            (Err(refused), None) => Some(format!("refused: {refused}")),
            (Ok((verdict, _)), Some(_)) => Some(format!("answered {}", verdict.to_api())),
            (Ok((verdict, after_ms)), None) => {
                let answer = case.get("answer").expect("a case has an answer or is refused");
                let waited = case.get("after_ms").and_then(Value::as_i64).unwrap_or(0);
                let expected_call = case.get("call").cloned().unwrap_or_default();
                difference(answer, &verdict.to_api(), "")
                    .or_else(|| difference(&expected_call, &call.unwrap_or_default(), "call"))
                    .or_else(|| (waited != after_ms).then(|| format!("it takes {after_ms} ms")))
            }
        };
        wrong.extend(problem.map(|problem| format!("{promise}\n    {problem}")));
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Every value in a request, those inside of others included.
fn parts(value: &Value, into: &mut Vec<Value>) {
    into.push(value.clone());
    match value {
        Value::Object(members) => members.values().for_each(|member| parts(member, into)),
        Value::Array(items) => items.iter().for_each(|item| parts(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The request with its part number `at`, counted as in [`parts`], replaced.
fn with_part(value: &Value, at: &mut usize, part: &Value) -> Value {
    let here = *at;
    *at = at.wrapping_sub(1);
    match value {
        _ if here == 0 => part.clone(),
        Value::Object(members) => {
            let changed = members.iter().map(|(name, member)| (name.clone(), with_part(member, at, part)));
            changed.collect::<Map>().into()
        }
        Value::Array(items) => items.iter().map(|item| with_part(item, at, part)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// All cases, and every part of their requests.
static ALL: LazyLock<(Vec<Value>, Vec<Value>)> = LazyLock::new(|| {
    let files = ["plain", "task", "handlers", "fan", "context", "refused"];
    let all: Vec<Value> = files.into_iter().flat_map(cases).collect();
    let mut pool = Vec::new();
    for case in &all {
        parts(case.get("request").expect("a case has a request"), &mut pool);
    }
    (all, pool)
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Requests of one case with parts of others in them: most are nonsense, and all are answered or refused.
    #[test]
    fn no_request_panics(base: Index, changes in proptest::collection::vec(any::<(Index, Index)>(), 0..4)) {
        let case = base.get(&ALL.0).clone();
        let mut request = case.get("request").cloned().expect("a case has a request");
        for (at, with) in changes {
            let mut here = Vec::new();
            parts(&request, &mut here);
            request = with_part(&request, &mut at.index(here.len()), with.get(&ALL.1));
        }
        let outcome = case.get("outcome").cloned().unwrap_or_default();
        if let Ok((verdict, after_ms)) = run(&object! {"request" => request, "outcome" => outcome}, &mut |_| {}) {
            assert!((0..=300_000).contains(&after_ms));
            let goes_on = matches!(verdict.status, TestStatus::Succeeded | TestStatus::CaughtError);
            assert_eq!(verdict.output.is_some(), goes_on, "{}", verdict.to_api());
            assert!(goes_on || verdict.next_state.is_none(), "{}", verdict.to_api());
        }
    }
}

#[test]
fn a_state_without_a_task_shows_its_stages() {
    check("plain");
}

#[test]
fn a_task_shows_what_is_sent_and_what_becomes_of_its_result() {
    check("task");
}

#[test]
fn an_error_goes_to_the_handler_that_an_execution_would_choose() {
    check("handlers");
}

#[test]
fn map_and_parallel_show_what_their_branches_would_receive() {
    check("fan");
}

#[test]
fn the_context_object_is_made_up_unless_it_is_given() {
    check("context");
}

#[test]
fn a_request_that_makes_no_sense_is_refused_in_words() {
    check("refused");
}
