//! Asks our server what was asked of AWS, in the same order.
//!
//! An execution that the recording calls `exec-3` is the third that was started; its real ARN takes that place.
//! Where the recording shows what came of something, it was waited for: so are we, by asking again.

use super::client::{Answer, Client};
use super::compare;
use super::left_out;
use super::mask::Masks;
use super::recording::{Case, Recorded, Source, is_refusal, text};
use perdura_engine::asl::json::{Map, Value, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// How long an execution may take to get where the recording shows it; the longest waits seconds on purpose.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long a list or a description may lag behind.
const LAG: Duration = Duration::from_secs(2);
/// Between two looks at the same thing.
const PAUSE: Duration = Duration::from_millis(10);

/// Our answers.
pub(crate) struct Replay {
    /// By call.
    pub(crate) answers: Vec<Answer>,
    /// By key, to calls that the recording has not.
    pub(crate) left_out: BTreeMap<String, Answer>,
}

pub(crate) fn play(case: &Case, client: &mut Client) -> Replay {
    let recorded = case.recorded();
    let mut replay = Replay { answers: Vec::new(), left_out: BTreeMap::new() };
    let mut executions = BTreeMap::new();
    let mut machines = BTreeSet::new();
    for (at, call) in case.calls().iter().enumerate() {
        let params = bound(call.get("params").unwrap_or(&Value::Null), &executions);
        let action = text(call, "op");
        let shown = recorded.iter().find(|one| one.source == Source::Call(at) && !is_refusal(one.answer));
        let answer = match (action, shown) {
            ("ListStateMachines", _) => {
                until(LAG, || client.call(action, &params), |answer| lists(answer, &machines))
            }
            ("GetExecutionHistory", _) => history(client, &params, &goal(case, &recorded, at)),
            (_, Some(shown)) if action.starts_with("Describe") || action.starts_with("List") => {
                let same = |answer: &Value| {
                    compare::answer(shown.answer, answer, false, &mut Masks::of(&case.value)).is_empty()
                };
                until(LAG, || client.call(action, &params), same)
            }
            _ => client.call(action, &params),
        };
        match (action, &answer) {
            ("StartExecution" | "StartSyncExecution", Ok(started)) => {
                let name = format!("exec-{}", executions.len() + 1);
                executions.insert(name, text(started, "executionArn").to_owned());
            }
            ("CreateStateMachine", Ok(made)) => {
                machines.insert(text(made, "stateMachineArn").to_owned());
            }
            ("DeleteStateMachine", Ok(_)) => {
                machines.remove(text(&params, "stateMachineArn"));
            }
            _ => {}
        }
        let arn = answer.as_ref().map(|answer| text(answer, "executionArn").to_owned()).unwrap_or_default();
        for (key, action, params) in left_out::after(&recorded, action, &params, &answer) {
            let answer = if key == left_out::LOG {
                let is_logged = |tested: &Value| left_out::logged_end(tested, &arn).is_some();
                let read = until(PATIENCE, || client.call(action, &params), is_logged);
                read.map(|tested| left_out::logged_end(&tested, &arn).unwrap_or(tested))
            } else {
                let answer = client.call(action, &params);
                if action == "TestState" { answer.map(|tested| output(&tested)) } else { answer }
            };
            replay.left_out.insert(key, answer);
        }
        replay.answers.push(answer);
    }
    replay
}

/// What a state that was tried gave.
fn output(tested: &Value) -> Value {
    parse(text(tested, "output")).unwrap_or_else(|_| tested.clone())
}

/// Whether a list shows the machines that the case has made and not deleted.
fn lists(answer: &Value, machines: &BTreeSet<String>) -> bool {
    let listed = answer.get("stateMachines").and_then(Value::as_array).unwrap_or_default();
    listed.len() == machines.len() && listed.iter().all(|one| machines.contains(text(one, "stateMachineArn")))
}

/// Puts the real ARN in the place of the recorded one.
fn bound(params: &Value, executions: &BTreeMap<String, String>) -> Value {
    let recorded = text(params, "executionArn").rsplit(':').next().unwrap_or_default();
    match (executions.get(recorded), params) {
        (Some(arn), Value::Object(members)) => {
            let mut members: Map = (**members).clone();
            members.insert("executionArn", arn.as_str());
            members.into()
        }
        _ => params.clone(),
    }
}

/// What an execution has to show before its history is read.
enum Goal {
    Ended,
    Events(usize),
}

fn goal(case: &Case, recorded: &[Recorded], at: usize) -> Goal {
    let execution = |call: &Value| call.get("params").map(|params| text(params, "executionArn").to_owned());
    let mine = execution(&case.calls()[at]);
    let later = |from: usize, op: &str| {
        let calls = case.calls().iter().enumerate().skip(from);
        let found: Vec<usize> = calls
            .filter(|(_, call)| text(call, "op") == op && execution(call) == mine)
            .map(|(at, _)| at)
            .collect();
        found
    };
    let shown = later(at, "GetExecutionHistory").into_iter().find_map(|asked| {
        let answer = recorded.iter().find(|one| one.source == Source::Call(asked))?.answer;
        Some((asked, answer.get("events")?.as_array()?))
    });
    let stopped = later(at, "StopExecution").into_iter().find(|stop| {
        let is_compared = recorded.iter().any(|one| one.source == Source::Call(*stop));
        is_compared || shown.is_some_and(|(asked, _)| *stop < asked)
    });
    match (shown, stopped) {
        (Some((asked, events)), Some(stop)) if stop < asked => Goal::Events(events.len() - 1),
        (Some((_, events)), _) if !events.iter().any(is_end) => Goal::Events(events.len()),
        (None, Some(_)) => Goal::Events(1),
        _ => Goal::Ended,
    }
}

fn is_end(event: &Value) -> bool {
    let ends = ["ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"];
    ends.contains(&text(event, "type"))
}

/// A whole history, page after page, once it is far enough.
fn history(client: &mut Client, params: &Value, goal: &Goal) -> Answer {
    let is_there = |answer: &Value| {
        let events = answer.get("events").and_then(Value::as_array).unwrap_or_default();
        match goal {
            Goal::Ended => events.iter().any(is_end),
            Goal::Events(count) => events.len() >= *count,
        }
    };
    until(PATIENCE, || whole_history(client, params), is_there)
}

fn whole_history(client: &mut Client, params: &Value) -> Answer {
    let mut events = Vec::new();
    let mut page = params.clone();
    loop {
        let answer = client.call("GetExecutionHistory", &page)?;
        events.extend_from_slice(answer.get("events").and_then(Value::as_array).unwrap_or_default());
        match (answer.get("nextToken"), &page) {
            (Some(token), Value::Object(members)) => {
                let mut members: Map = (**members).clone();
                members.insert("nextToken", token.clone());
                page = members.into();
            }
            _ => break,
        }
    }
    Ok(Map::from_iter([("events", Value::from(events))]).into())
}

/// Asks until the answer is as it should be, is no answer, or has taken too long.
fn until(patience: Duration, mut ask: impl FnMut() -> Answer, is_right: impl Fn(&Value) -> bool) -> Answer {
    let began = Instant::now();
    loop {
        let answer = ask();
        if answer.as_ref().map_or(true, &is_right) || began.elapsed() > patience {
            return answer;
        }
        thread::park_timeout(PAUSE);
    }
}
