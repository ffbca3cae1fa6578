//! Events in the form of the Step Functions API.

use crate::event::{Event, EventKind, Fault, Iteration, Scheduled, TaskFamily};
use crate::identity::Identity;
use perdura_asl::error::TIMEOUT;
use perdura_asl::json::{Map, Number, Payload, Value};

impl Event {
    /// Its `type`, one of the 62 names.
    pub fn type_name(&self) -> String {
        self.kind.type_name()
    }

    /// The event as `GetExecutionHistory` gives it; `timestamp` is in seconds.
    pub fn to_api(&self, identity: &Identity) -> Value {
        self.shown(Value::Number(Number::Float(self.at.0 as f64 / 1000.0)), identity)
    }

    /// The same with its time as RFC 3339 writes it.
    pub fn to_v1(&self, identity: &Identity) -> Value {
        self.shown(self.at.to_string().into(), identity)
    }

    fn shown(&self, at: Value, identity: &Identity) -> Value {
        let mut event = Map::new();
        event.insert("timestamp", at);
        event.insert("type", self.type_name());
        event.insert("id", self.id.0);
        event.insert("previousEventId", self.previous.0);
        if let Some((name, details)) = self.kind.details(identity) {
            event.insert(name, details);
        }
        event.into()
    }
}

impl EventKind {
    fn type_name(&self) -> String {
        match self {
            Self::StateEntered { state_type, .. } => format!("{state_type:?}StateEntered"),
            Self::StateExited { state_type, .. } => format!("{state_type:?}StateExited"),
            Self::StateAborted { state_type } => format!("{state_type:?}StateAborted"),
            Self::StateFailed { state_type } => format!("{state_type:?}StateFailed"),
            Self::StateSucceeded { state_type } => format!("{state_type:?}StateSucceeded"),
            Self::TaskScheduled(scheduled) => scheduled.family.named("Scheduled"),
            Self::TaskStarted { family, .. } => family.named("Started"),
            Self::TaskSubmitted { family, .. } => family.named("Submitted"),
            Self::TaskSucceeded { family, .. } => family.named("Succeeded"),
            Self::TaskFailed { family, .. } => family.named("Failed"),
            Self::TaskSubmitFailed { family, .. } => family.named("SubmitFailed"),
            Self::TaskTimedOut { family, .. } => family.named("TimedOut"),
            Self::TaskNotStarted { family, scheduled, .. } => match (family, scheduled) {
                (TaskFamily::Activity { .. }, _) | (TaskFamily::Lambda { .. }, false) => {
                    family.named("ScheduleFailed")
                }
                (TaskFamily::Task { .. }, _) | (TaskFamily::Lambda { .. }, true) => {
                    family.named("StartFailed")
                }
            },
            Self::ExecutionStarted { .. } => "ExecutionStarted".into(),
            Self::ExecutionSucceeded { .. } => "ExecutionSucceeded".into(),
            Self::ExecutionFailed(_) => "ExecutionFailed".into(),
            Self::ExecutionAborted(_) => "ExecutionAborted".into(),
            Self::ExecutionTimedOut(_) => "ExecutionTimedOut".into(),
            Self::ExecutionRedriven { .. } => "ExecutionRedriven".into(),
            Self::ParallelStateStarted => "ParallelStateStarted".into(),
            Self::MapStateStarted { .. } => "MapStateStarted".into(),
            Self::MapIterationStarted(_) => "MapIterationStarted".into(),
            Self::MapIterationSucceeded(_) => "MapIterationSucceeded".into(),
            Self::MapIterationFailed(_) => "MapIterationFailed".into(),
            Self::MapIterationAborted(_) => "MapIterationAborted".into(),
            Self::MapRunStarted { .. } => "MapRunStarted".into(),
            Self::MapRunSucceeded => "MapRunSucceeded".into(),
            Self::MapRunFailed(_) => "MapRunFailed".into(),
            Self::MapRunAborted => "MapRunAborted".into(),
            Self::MapRunRedriven { .. } => "MapRunRedriven".into(),
            Self::EvaluationFailed { .. } => "EvaluationFailed".into(),
        }
    }

    /// The name and content of the details member; some events have none.
    fn details(&self, identity: &Identity) -> Option<(String, Value)> {
        let details = match self {
            Self::ExecutionStarted { input } => {
                let mut details = with_payload("input", input);
                details.insert("roleArn", identity.role_arn.clone());
                for (name, arn) in [
                    ("stateMachineAliasArn", &identity.alias_arn),
                    ("stateMachineVersionArn", &identity.version_arn),
                ] {
                    if let Some(arn) = arn {
                        details.insert(name, arn.clone());
                    }
                }
                details
            }
            Self::ExecutionSucceeded { output } => with_payload("output", output),
            Self::ExecutionFailed(fault) | Self::ExecutionAborted(fault) | Self::MapRunFailed(fault) => {
                with_fault(Map::new(), fault)
            }
            // The execution itself has no error then: only its history names one.
            Self::ExecutionTimedOut(fault) => {
                let mut details = with_fault(Map::new(), fault);
                if fault.error.is_none() {
                    details.insert("error", TIMEOUT);
                }
                details
            }
            Self::ExecutionRedriven { redrive_count, token: _ } => {
                [("redriveCount", *redrive_count)].into_iter().collect()
            }
            Self::StateEntered { name, input, .. } => {
                let mut details = with_payload("input", input);
                details.insert("name", name.clone());
                return Some(("stateEnteredEventDetails".into(), details.into()));
            }
            Self::StateExited { name, output, assigned, .. } => {
                let mut details = with_payload("output", output);
                details.insert("name", name.clone());
                if !assigned.is_empty() {
                    let variables = assigned.iter().map(|(name, value)| (name.clone(), value.text().clone()));
                    details.insert("assignedVariables", variables.collect::<Map>());
                    details.insert("assignedVariablesDetails", not_truncated());
                }
                return Some(("stateExitedEventDetails".into(), details.into()));
            }
            Self::MapStateStarted { length } => [("length", *length)].into_iter().collect(),
            Self::MapIterationStarted(iteration)
            | Self::MapIterationSucceeded(iteration)
            | Self::MapIterationFailed(iteration)
            | Self::MapIterationAborted(iteration) => iteration_details(iteration),
            Self::MapRunStarted { arn } => [("mapRunArn", arn.clone())].into_iter().collect(),
            Self::MapRunRedriven { arn, redrive_count } => {
                let mut details: Map = [("mapRunArn", arn.clone())].into_iter().collect();
                details.insert("redriveCount", *redrive_count);
                details
            }
            Self::TaskScheduled(scheduled) => scheduled_details(scheduled, identity),
            Self::TaskStarted { family, worker } => match family {
                TaskFamily::Lambda { .. } => return None,
                TaskFamily::Activity { .. } => {
                    worker.iter().map(|worker| ("workerName", worker.clone())).collect()
                }
                TaskFamily::Task { .. } => family.details(),
            },
            Self::TaskSubmitted { family, output } | Self::TaskSucceeded { family, output } => {
                let mut details = family.details();
                for (name, value) in with_payload("output", output).iter() {
                    details.insert(name.clone(), value.clone());
                }
                details
            }
            Self::TaskFailed { family, fault, .. }
            | Self::TaskSubmitFailed { family, fault, .. }
            | Self::TaskTimedOut { family, fault }
            | Self::TaskNotStarted { family, fault, .. } => with_fault(family.details(), fault),
            Self::EvaluationFailed { state, location, fault } => {
                let mut details = with_fault(Map::new(), fault);
                if let Some(location) = location {
                    details.insert("location", location.clone());
                }
                details.insert("state", state.clone());
                details
            }
            Self::StateAborted { .. }
            | Self::StateFailed { .. }
            | Self::StateSucceeded { .. }
            | Self::ParallelStateStarted
            | Self::MapRunSucceeded
            | Self::MapRunAborted => return None,
        };
        let name = self.type_name();
        let mut chars = name.chars();
        let first = chars.next().map(|char| char.to_ascii_lowercase()).into_iter();
        Some((first.chain(chars).chain("EventDetails".chars()).collect(), details.into()))
    }
}

impl TaskFamily {
    fn named(&self, what: &str) -> String {
        match self {
            Self::Lambda { .. } => format!("LambdaFunction{what}"),
            Self::Activity { .. } => format!("Activity{what}"),
            Self::Task { .. } => format!("Task{what}"),
        }
    }

    fn details(&self) -> Map {
        match self {
            Self::Lambda { .. } | Self::Activity { .. } => Map::new(),
            Self::Task { resource_type, resource } => {
                [("resourceType", resource_type.clone()), ("resource", resource.clone())]
                    .into_iter()
                    .collect()
            }
        }
    }
}

fn scheduled_details(scheduled: &Scheduled, identity: &Identity) -> Map {
    let mut details = match &scheduled.family {
        TaskFamily::Lambda { resource } | TaskFamily::Activity { resource } => {
            let mut details = with_payload("input", &scheduled.input);
            details.insert("resource", resource.clone());
            details
        }
        family @ TaskFamily::Task { .. } => {
            let mut details = family.details();
            details.insert("region", crate::arn::region(&identity.machine_arn));
            details.insert("parameters", scheduled.input.text().clone());
            details
        }
    };
    if let Some(seconds) = scheduled.timeout_seconds {
        details.insert("timeoutInSeconds", seconds);
    }
    if let (Some(seconds), false) =
        (scheduled.heartbeat_seconds, matches!(scheduled.family, TaskFamily::Lambda { .. }))
    {
        details.insert("heartbeatInSeconds", seconds);
    }
    if let Some(role) =
        scheduled.credentials.as_ref().and_then(|credentials| credentials.value().get("RoleArn"))
        && !matches!(scheduled.family, TaskFamily::Activity { .. })
    {
        details.insert("taskCredentials", [("roleArn", role.clone())].into_iter().collect::<Map>());
    }
    details
}

fn not_truncated() -> Map {
    [("truncated", false)].into_iter().collect()
}

fn with_payload(name: &'static str, payload: &Payload) -> Map {
    let mut details = Map::new();
    details.insert(name, payload.text().clone());
    details.insert(format!("{name}Details"), not_truncated());
    details
}

fn with_fault(mut details: Map, fault: &Fault) -> Map {
    for (name, text) in [("error", &fault.error), ("cause", &fault.cause)] {
        if let Some(text) = text {
            details.insert(name, text.clone());
        }
    }
    details
}

fn iteration_details(iteration: &Iteration) -> Map {
    let mut details = Map::new();
    details.insert("name", iteration.name.clone());
    details.insert("index", iteration.index);
    details
}
