//! What a story says arrives.
//!
//! ```text
//! start | continue | timer | resume | redrive [TOKEN] | stop [ERROR ["cause"]]
//! outcome WHO ANSWER          by key, as a call that was made answers
//! callback WHO ANSWER         by token, as a worker or a person answers
//! started WHO [by NAME]       a worker took it
//! heartbeat WHO
//! child WHO ok JSON | fails … a Map Run ended
//! resolve WHO completed JSON | failed ERROR ["cause"] | again, then `because` and why
//!
//! WHO     a state: its newest call; with its place `Notify[3]`, its visit `Send#2` or its whole key `Send#2:1`,
//!         just that one; `Send/1` is the first attempt of its round. What was never called gets a made-up key.
//! ANSWER  ok JSON | fails ERROR ["cause"] refused|not-sent|ambiguous
//!         not-started ERROR ["cause"] scheduled|unscheduled
//!         submitted JSON | not-submitted ERROR ["cause"] refused|not-sent|ambiguous
//! ```

use crate::stage::Stage;
use perdura_engine::asl::json::Payload;
use perdura_engine::{
    Attempt, By, Call, Certainty, EffectKey, Fault, Input, MapRunOutcome, Outcome, Resolution, Secret,
    StrandId, TaskToken,
};
use std::sync::Arc;

/// The input that a line means.
pub(crate) fn input(line: &str, stage: &Stage) -> Input {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (who, what) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "start" => Input::Start,
        "continue" => Input::Continue,
        "timer" => Input::Timer,
        "resume" => Input::Resume,
        "redrive" if rest.is_empty() => Input::Redrive,
        "redrive" => Input::RedriveOnce { token: rest.into() },
        "stop" => Input::Stop { fault: fault(rest).0 },
        "outcome" => Input::TaskOutcome { by: by_key(who, stage), outcome: outcome(what) },
        "callback" => Input::TaskOutcome { by: by_token(who, stage), outcome: outcome(what) },
        "started" => {
            let worker = what.strip_prefix("by ").map(Into::into);
            Input::TaskStarted { by: by_token(who, stage), worker }
        }
        "heartbeat" => Input::Heartbeat { by: by_token(who, stage) },
        "resolve" | "resolve-by-token" => {
            let (resolution, reason) = what.split_once(" because ").expect("a person has a reason");
            let by = if verb == "resolve" { by_key(who, stage) } else { by_token(who, stage) };
            Input::Resolve { by, resolution: self::resolution(resolution), reason: reason.into() }
        }
        "child" => Input::ChildOutcome { by: by_map_run(who, stage), outcome: map_run_outcome(what) },
        _ => panic!("nothing arrives like this: {line}"),
    }
}

/// The part of a key after the execution.
pub(crate) fn step_of(key: &EffectKey) -> &str {
    key.readable().split_once(':').map_or(key.readable(), |(_, step)| step)
}

fn is_meant(who: &str, key: &EffectKey) -> bool {
    let step = step_of(key);
    match (who.contains(':') && !who.contains('['), who.contains('#')) {
        (true, _) => step == who,
        (false, true) => step == who || step.rsplit_once(':').is_some_and(|(visit, _)| visit == who),
        (false, false) => {
            let place = step.rsplit_once('#').map_or(step, |(place, _)| place);
            place == who || place.split('[').next() == Some(who)
        }
    }
}

/// The last call that is meant; `Charge/1` means the first attempt of its round.
fn call_of<'s>(who: &str, stage: &'s Stage) -> Option<&'s Call> {
    let (who, attempt) = match who.rsplit_once('/') {
        Some((who, attempt)) => (who, Some(Attempt(attempt.parse().expect("an attempt is a number")))),
        None => (who, None),
    };
    let is_it = |call: &&Call| attempt.is_none_or(|attempt| call.attempt == attempt);
    stage.calls().iter().rev().filter(is_it).find(|call| is_meant(who, &call.key))
}

fn by_key(who: &str, stage: &Stage) -> By {
    match call_of(who, stage) {
        Some(call) => call.by(),
        None => By::Key { strand: StrandId::TOP, key: made_up(who), attempt: None },
    }
}

fn by_token(who: &str, stage: &Stage) -> By {
    match call_of(who, stage).and_then(|call| call.token) {
        Some(token) => By::Token(token),
        None => By::Token(TaskToken {
            execution: stage.execution().identity().id,
            strand: StrandId::TOP,
            secret: Secret(0),
        }),
    }
}

fn by_map_run(who: &str, stage: &Stage) -> By {
    match stage.map_runs().iter().rev().find(|(_, key)| is_meant(who, key)) {
        Some((strand, key)) => By::Key { strand: *strand, key: key.clone(), attempt: None },
        None => By::Key { strand: StrandId::TOP, key: made_up(who), attempt: None },
    }
}

fn made_up(who: &str) -> EffectKey {
    serde_json::from_value(format!("nobody:{who}#1:1").into()).expect("a key is a text")
}

fn outcome(text: &str) -> Outcome {
    let (how, what) = text.split_once(' ').unwrap_or((text, ""));
    match how {
        "ok" => Outcome::Succeeded { output: payload(what) },
        "submitted" => Outcome::Submitted { output: payload(what) },
        "not-started" => {
            let (fault, rest) = fault(what);
            Outcome::NotStarted { fault, scheduled: rest == "scheduled" }
        }
        "fails" | "not-submitted" => {
            let (fault, rest) = fault(what);
            let certainty = match rest {
                "refused" => Certainty::Refused,
                "ambiguous" => Certainty::Ambiguous,
                "not-sent" => Certainty::NotSent,
                _ => panic!("a failure is refused, not-sent or ambiguous: {text}"),
            };
            if how == "fails" {
                Outcome::Failed { fault, certainty }
            } else {
                Outcome::SubmitFailed { fault, certainty }
            }
        }
        _ => panic!("not an answer: {text}"),
    }
}

fn resolution(text: &str) -> Resolution {
    let (how, what) = text.split_once(' ').unwrap_or((text, ""));
    match how {
        "completed" => Resolution::Completed { output: payload(what) },
        "failed" => Resolution::Failed { fault: fault(what).0 },
        "again" => Resolution::Again,
        _ => panic!("not a resolution: {text}"),
    }
}

fn map_run_outcome(text: &str) -> MapRunOutcome {
    match text.split_once(' ') {
        Some(("ok", output)) => MapRunOutcome::Succeeded { output: payload(output) },
        Some(("fails", what)) => MapRunOutcome::Failed { fault: fault(what).0 },
        _ => panic!("a Map Run is ok or fails: {text}"),
    }
}

fn payload(text: &str) -> Payload {
    Payload::from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `ERROR "cause"`, each of which may be missing, and what comes after.
fn fault(text: &str) -> (Fault, &str) {
    let (error, rest) = match text.split_once(' ') {
        Some((error, rest)) => (error, rest),
        None => (text, ""),
    };
    let error = (!error.is_empty() && error != "-").then(|| Arc::from(error));
    let Some(quoted) = rest.strip_prefix('"') else { return (Fault { error, cause: None }, rest) };
    let (cause, rest) = quoted.split_once('"').expect("a cause ends with a quote");
    (Fault { error, cause: Some(cause.into()) }, rest.trim_start())
}
