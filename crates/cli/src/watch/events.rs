//! An execution shown from its events, if there are no Turns: one line for each event.
//!
//! Events name a state when it is entered and left, and link to the event before. So an event in between, such as a
//! failed task, belongs to the state that its links lead to. Waits and pauses between tries have no events.

use crate::run::story::{Told, What};
use perdura_asl::json::Value;
use perdura_engine::Fault;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The data of each event, for the events that follow from it.
#[derive(Debug, Default)]
pub(super) struct Events {
    known: BTreeMap<i64, Known>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    state: Arc<str>,
    /// The place in Maps: `[3]`.
    place: String,
    /// It reported a failed try.
    failed: bool,
}

impl Events {
    /// Applies an event; returns its line, if it has one.
    pub(super) fn take(&mut self, event: &Value) -> Option<Told> {
        let number = |name: &str| event.get(name).and_then(Value::as_i64).unwrap_or_default();
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let details = event.as_object()?.iter().find(|(name, _)| name.ends_with("EventDetails"));
        let part = |name: &str| details.and_then(|(_, details)| details.get(name));
        let name = part("name").and_then(Value::as_str);
        let before = self.known.get(&number("previousEventId")).cloned().unwrap_or_default();
        let mut now = Known { failed: false, ..before.clone() };
        let what = match kind {
            _ if kind.ends_with("StateEntered") => {
                now.state = name.unwrap_or_default().into();
                Some(What::Entered)
            }
            _ if kind.ends_with("StateExited") => {
                now.state = name.unwrap_or_default().into();
                let is_quick =
                    ["Pass", "Choice", "Succeed", "Fail"].iter().any(|quick| kind.starts_with(quick));
                (!is_quick && !before.failed).then_some(What::Succeeded)
            }
            "MapIterationStarted" => {
                let index = part("index").map(ToString::to_string).unwrap_or_default();
                now.place.extend(["[", &index, "]"]);
                None
            }
            // All of its iterations have ended.
            "MapStateSucceeded" | "MapStateFailed" | "MapStateAborted" => {
                now.place.truncate(now.place.rfind('[').unwrap_or(0));
                None
            }
            "EvaluationFailed" | "MapRunFailed" => Some(What::Failed(fault(part))),
            _ if is_failure_of_a_task(kind) => Some(What::Failed(fault(part))),
            _ => None,
        };
        now.failed = matches!(what, Some(What::Failed(_)));
        let whose = format!("{}{}", now.state, now.place);
        self.known.insert(number("id"), now);
        Some(Told { at: crate::history::at(event), whose, what: what? })
    }
}

/// `TaskFailed`, `LambdaFunctionTimedOut`, `ActivityScheduleFailed` and the like.
fn is_failure_of_a_task(kind: &str) -> bool {
    let of_a_task = ["Task", "LambdaFunction", "Activity"].iter().any(|family| kind.starts_with(family));
    of_a_task && (kind.ends_with("Failed") || kind.ends_with("TimedOut"))
}

fn fault<'a>(part: impl Fn(&str) -> Option<&'a Value>) -> Fault {
    let text = |name: &str| part(name).and_then(Value::as_str).map(Arc::from);
    Fault { error: text("error"), cause: text("cause") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Timestamp;

    #[test]
    fn what_happened_is_told_of_its_state_and_place() {
        let mut events = Events::default();
        let details = |name: &str, rest: &str| format!(r#", "{name}EventDetails": {{{rest}}}"#);
        let (entered, exited) = ("stateEntered", "stateExited");
        for (id, before, kind, more, expected) in [
            (1, 0, "ExecutionStarted", String::new(), ""),
            (2, 0, "PassStateEntered", details(entered, r#""name": "P""#), "P entered"),
            (3, 2, "PassStateExited", details(exited, r#""name": "P""#), ""),
            (4, 3, "MapStateEntered", details(entered, r#""name": "M""#), "M entered"),
            (5, 4, "MapStateStarted", details("mapStateStarted", r#""length": 2"#), ""),
            (6, 5, "MapIterationStarted", details("mapIterationStarted", r#""name": "M", "index": 1"#), ""),
            (7, 6, "TaskStateEntered", details(entered, r#""name": "T""#), "T[1] entered"),
            (8, 7, "TaskScheduled", details("taskScheduled", r#""resource": "invoke""#), ""),
            (9, 8, "TaskFailed", details("taskFailed", r#""error": "Busy""#), "T[1] failed Busy"),
            (10, 9, "TaskScheduled", String::new(), ""),
            (11, 10, "TaskSucceeded", String::new(), ""),
            (12, 11, "TaskStateExited", details(exited, r#""name": "T""#), "T[1] succeeded"),
            (13, 12, "MapIterationSucceeded", String::new(), ""),
            (14, 13, "MapStateSucceeded", String::new(), ""),
            (15, 14, "MapStateExited", details(exited, r#""name": "M""#), "M succeeded"),
            (16, 15, "TaskStateEntered", details(entered, r#""name": "U""#), "U entered"),
            (17, 16, "LambdaFunctionTimedOut", String::new(), "U failed "),
            (18, 17, "TaskStateExited", details(exited, r#""name": "U""#), ""),
        ] {
            let text = format!(
                r#"{{"id": {id}, "previousEventId": {before}, "timestamp": "1970-01-01T00:00:01.500Z", "type": "{kind}"{more}}}"#
            );
            let told = events.take(&perdura_asl::json::parse(&text).unwrap());
            let told = told.map(|Told { at, whose, what }| {
                assert_eq!(at, Timestamp(1_500));
                match what {
                    What::Entered => format!("{whose} entered"),
                    What::Succeeded => format!("{whose} succeeded"),
                    What::Failed(fault) => format!("{whose} failed {}", fault.error.unwrap_or_default()),
                    other => panic!("{other:?}"),
                }
            });
            assert_eq!(told.unwrap_or_default(), expected, "{kind}");
        }
    }
}
