//! A recorded case: what was asked, and which answer of AWS belongs to which question.
//!
//! Most recorded answers name the call that they belong to. Cases that also used other services count the calls that
//! they made there first, and that are not here: then all numbers are too large by as many, which the shapes of the
//! answers tell. Refusals that name no call are in the order in which they came.

use super::left_out;
use perdura_engine::asl::json::{Map, Value};

pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) tier: String,
    pub(crate) category: String,
    pub(crate) value: Value,
}

/// One recorded answer.
pub(crate) struct Recorded<'c> {
    pub(crate) key: &'c str,
    pub(crate) answer: &'c Value,
    pub(crate) outcome: Option<&'c Value>,
    pub(crate) source: Source,
}

/// Where our counterpart of a recorded answer comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The answer to this call.
    Call(usize),
    /// A refusal; they come in the order of the calls.
    Refusal,
    /// All histories that were asked for, of which the outputs are compared.
    Histories,
    /// A list that one of the calls answered with.
    List,
    /// A call that is not in the recording; see `left_out`.
    LeftOut,
}

/// The member of a call or an answer that is a text; empty where there is none.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Case {
    pub(crate) fn calls(&self) -> &[Value] {
        self.value.get("calls").and_then(Value::as_array).unwrap_or_default()
    }

    /// Whether other cases would be seen in the answers, so that it needs a server of its own.
    pub(crate) fn counts_all(&self) -> bool {
        self.calls().iter().any(|call| matches!(text(call, "op"), "ListStateMachines" | "ListActivities"))
    }

    /// Whether events of branches may come in another order than recorded.
    pub(crate) fn has_concurrency(&self) -> bool {
        let machines = self.calls().iter().filter_map(|call| call.get("params")?.get("definition")?.as_str());
        let parsed = machines.filter_map(|text| perdura_engine::asl::json::parse(text).ok());
        parsed.into_iter().any(|machine| branches(&machine))
    }

    pub(crate) fn recorded(&self) -> Vec<Recorded<'_>> {
        let part = |part: &str| self.value.get("expected").and_then(|all| all.get(part)?.as_object());
        let outcomes = part("outcome");
        let shift = part("history").map_or(0, |answers| self.shift(answers));
        let entries = part("history").into_iter().flat_map(Map::iter);
        let recorded = entries.map(|(key, answer)| Recorded {
            key,
            answer,
            outcome: outcomes.and_then(|outcomes| outcomes.get(key)),
            source: self.source(key, answer, shift),
        });
        recorded.collect()
    }

    /// The number of the call that an answer belongs to, as it is recorded.
    fn number(&self, key: &str) -> Option<usize> {
        let matches = self.value.get("matches").and_then(Value::as_array).unwrap_or_default();
        let named = matches.iter().find(|found| text(found, "key") == key)?;
        usize::try_from(named.get("call")?.as_i64()?).ok()
    }

    /// By how much the recorded numbers are too large.
    fn shift(&self, answers: &Map) -> usize {
        let here = || answers.iter().filter(|(key, _)| !left_out::is_left_out(key));
        let numbered = || here().filter_map(|(key, answer)| Some((self.number(key)?, answer)));
        let fits = |shift: &usize| {
            numbered().all(|(number, answer)| {
                let call = number.checked_sub(*shift).and_then(|at| self.calls().get(at));
                call.is_some_and(|call| gives(call, answer))
            })
        };
        (0..=self.calls().len()).find(fits).unwrap_or(0)
    }

    fn source(&self, key: &str, answer: &Value, shift: usize) -> Source {
        let number = self.number(key).filter(|_| !left_out::is_left_out(key));
        let found = number.and_then(|number| number.checked_sub(shift));
        match found {
            Some(call) => Source::Call(call),
            None if left_out::is_left_out(key) => Source::LeftOut,
            None if is_refusal(answer) => Source::Refusal,
            None if key == "cases" => Source::Histories,
            None if key == "get_execution_history" => {
                let asked = self.calls().iter().position(|call| text(call, "op") == "GetExecutionHistory");
                asked.map_or(Source::LeftOut, Source::Call)
            }
            None if answer.as_array().is_some() => Source::List,
            None => Source::LeftOut,
        }
    }
}

/// Whether a recorded answer is a no: an error as the service gave it, or as the client raised it.
pub(crate) fn is_refusal(answer: &Value) -> bool {
    let raised = ["An error occurred (", "Parameter validation failed"];
    answer.get("Error").is_some()
        || answer.get("exception_value").is_some()
        || answer.as_str().is_some_and(|text| raised.iter().any(|start| text.starts_with(start)))
}

/// Whether such a call can have such an answer.
fn gives(call: &Value, answer: &Value) -> bool {
    if is_refusal(answer) || call.get("expects_error").is_some() {
        return is_refusal(answer) && call.get("expects_error").is_some();
    }
    let has = |name: &str| answer.get(name).is_some();
    let only = |count: usize| answer.as_object().is_some_and(|members| members.len() == count);
    let op = text(call, "op");
    match op {
        "CreateStateMachine" => has("stateMachineArn") && has("creationDate") && !has("definition"),
        "StartExecution" => has("executionArn") && has("startDate") && !has("status"),
        "GetExecutionHistory" => has("events"),
        "DescribeStateMachine" => has("definition") && has("status"),
        "DescribeStateMachineForExecution" => has("definition") && !has("status"),
        "DescribeExecution" => has("executionArn") && has("status"),
        "UpdateStateMachine" => has("updateDate"),
        "StopExecution" => has("stopDate") && !has("executionArn"),
        "ListMapRuns" => has("mapRuns"),
        "ListExecutions" => has("executions"),
        _ if op.starts_with("Delete") || op.starts_with("Tag") || op.starts_with("Untag") => {
            only(usize::from(has("ResponseMetadata")))
        }
        _ => true,
    }
}

fn branches(state: &Value) -> bool {
    let unbounded = || state.get("MaxConcurrency").or_else(|| state.get("MaxConcurrencyPath")).is_none();
    match text(state, "Type") {
        "Parallel" => true,
        "Map" if unbounded() => true,
        _ => match state {
            Value::Object(members) => members.values().any(branches),
            Value::Array(items) => items.iter().any(branches),
            _ => false,
        },
    }
}
