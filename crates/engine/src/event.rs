//! The events of a History, with Step Functions' names.

use crate::id::{Round, Secret, Seq, StrandId, Timestamp};
use crate::input::Certainty;
use perdura_asl::error::{HEARTBEAT_TIMEOUT, TIMEOUT};
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::machine::{Kind, StateIx};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One event, never edited. Its JSON is stored: a changed meaning gets a new variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1, without gaps.
    pub id: Seq,
    /// The event it follows from; 0 for the first ones.
    pub previous: Seq,
    /// The Moment of its Turn.
    pub at: Timestamp,
    /// The same instant by the steady clock, if that differs. Deadlines are counted from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Timestamp>,
    /// The line of control that it belongs to.
    pub strand: StrandId,
    pub kind: EventKind,
}

impl Event {
    /// Its instant by the steady clock.
    pub fn steady(&self) -> Timestamp {
        self.steady.unwrap_or(self.at)
    }
}

/// Error and cause; each may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The name that Retry and Catch match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Arc<str>>,
}

impl Fault {
    /// With both.
    pub fn new(error: impl Into<Arc<str>>, cause: impl Into<Arc<str>>) -> Self {
        Self { error: Some(error.into()), cause: Some(cause.into()) }
    }

    /// The form for the history. A missed heartbeat is a timeout: only Retry and Catch know it by a name of its own.
    pub(crate) fn told(&self) -> Self {
        match self.error.as_deref() {
            Some(HEARTBEAT_TIMEOUT) => Self { error: Some(TIMEOUT.into()), cause: self.cause.clone() },
            _ => self.clone(),
        }
    }

    /// The error output for Catch. It always has both members: a timeout has an empty cause, and a missing name is
    /// null.
    pub(crate) fn error_output(&self) -> Value {
        let text = |text: &Option<Arc<str>>| text.clone().map_or(Value::Null, Value::from);
        let cause = match (&self.cause, self.error.as_deref()) {
            (None, Some(TIMEOUT)) => "".into(),
            (cause, _) => text(cause),
        };
        Map::from_iter([("Error", text(&self.error)), ("Cause", cause)]).into()
    }

    /// `{"Error": …, "Cause": …}`, with the members that are known.
    pub fn to_value(&self) -> Value {
        let parts = [("Error", &self.error), ("Cause", &self.cause)];
        let there = parts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?)));
        there.collect::<Map>().into()
    }

    /// The fault of a failed key under which a success came late.
    pub fn contradicted() -> Self {
        let cause = "The call was refused, and then somebody who had it reported that it was done.";
        Self::new("Perdura.Contradicted", cause)
    }

    /// With a name alone.
    pub fn named(error: impl Into<Arc<str>>) -> Self {
        Self { error: Some(error.into()), cause: None }
    }
}

/// The kinds of states, as event names spell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum StateType {
    Pass,
    Task,
    Choice,
    Wait,
    Succeed,
    Fail,
    Parallel,
    Map,
}

impl From<&Kind> for StateType {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::Pass(_) => Self::Pass,
            Kind::Task(_) => Self::Task,
            Kind::Choice(_) => Self::Choice,
            Kind::Wait(_) => Self::Wait,
            Kind::Succeed => Self::Succeed,
            Kind::Fail(_) => Self::Fail,
            Kind::Parallel(_) => Self::Parallel,
            Kind::Map(_) => Self::Map,
        }
    }
}

/// The family of a task's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskFamily {
    /// `LambdaFunction…`: the bare function ARN.
    Lambda {
        /// The ARN.
        resource: Arc<str>,
    },
    /// `Activity…`
    Activity {
        /// The ARN.
        resource: Arc<str>,
    },
    /// `Task…`: everything else.
    Task {
        /// `lambda`, `aws-sdk:sfn`, …
        resource_type: Arc<str>,
        /// `invoke`, `startExecution.sync:2`, …
        resource: Arc<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// The execution began.
    ExecutionStarted { input: Payload },
    /// It ended well.
    ExecutionSucceeded { output: Payload },
    /// It failed.
    ExecutionFailed(Fault),
    /// Somebody stopped it.
    ExecutionAborted(Fault),
    /// It took too long.
    ExecutionTimedOut(Fault),
    /// It was run again from where it had failed.
    ExecutionRedriven {
        /// How often so far.
        redrive_count: u32,
        /// Its token, if one was given: the same token again is the same redrive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Arc<str>>,
    },
    /// `…StateEntered`
    StateEntered {
        state: StateIx,
        /// Its kind.
        state_type: StateType,
        name: Arc<str>,
        input: Payload,
    },
    /// `…StateExited`
    StateExited {
        /// Its kind.
        state_type: StateType,
        name: Arc<str>,
        output: Payload,
        /// The variables it set.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        assigned: Vec<(Arc<str>, Payload)>,
    },
    /// `TaskStateAborted`, `WaitStateAborted`, `MapStateAborted`, `ParallelStateAborted`
    StateAborted {
        /// Its kind.
        state_type: StateType,
    },
    /// `MapStateFailed`, `ParallelStateFailed`
    StateFailed {
        /// Its kind.
        state_type: StateType,
    },
    /// `MapStateSucceeded`, `ParallelStateSucceeded`
    StateSucceeded {
        /// Its kind.
        state_type: StateType,
    },
    /// `ParallelStateStarted`
    ParallelStateStarted,
    /// `MapStateStarted`
    MapStateStarted {
        /// How many items.
        length: u64,
    },
    /// `MapIterationStarted`
    MapIterationStarted(Iteration),
    /// `MapIterationSucceeded`
    MapIterationSucceeded(Iteration),
    /// `MapIterationFailed`
    MapIterationFailed(Iteration),
    /// `MapIterationAborted`
    MapIterationAborted(Iteration),
    /// `MapRunStarted`
    MapRunStarted { arn: Arc<str> },
    /// `MapRunSucceeded`
    MapRunSucceeded,
    /// `MapRunFailed`
    MapRunFailed(Fault),
    /// `MapRunAborted`
    MapRunAborted,
    /// `MapRunRedriven`
    MapRunRedriven {
        arn: Arc<str>,
        /// How often so far.
        redrive_count: u32,
    },
    /// `TaskScheduled`, `LambdaFunctionScheduled`, `ActivityScheduled`
    TaskScheduled(Box<Scheduled>),
    /// `TaskStarted`, `LambdaFunctionStarted`, `ActivityStarted`
    TaskStarted {
        family: TaskFamily,
        /// The worker (activities).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<Arc<str>>,
    },
    /// `TaskSubmitted`
    TaskSubmitted {
        family: TaskFamily,
        /// The answer of the service.
        output: Payload,
    },
    /// `TaskSucceeded`, `LambdaFunctionSucceeded`, `ActivitySucceeded`
    TaskSucceeded { family: TaskFamily, output: Payload },
    /// `TaskFailed`, `LambdaFunctionFailed`, `ActivityFailed`
    TaskFailed {
        family: TaskFamily,
        /// Error and cause.
        fault: Fault,
        /// Whether the effect was performed.
        certainty: Certainty,
    },
    /// `TaskSubmitFailed`
    TaskSubmitFailed {
        family: TaskFamily,
        /// Error and cause.
        fault: Fault,
        /// Whether the effect was performed.
        certainty: Certainty,
    },
    /// `TaskTimedOut`, `LambdaFunctionTimedOut`, `ActivityTimedOut`
    TaskTimedOut {
        family: TaskFamily,
        /// Error and cause.
        fault: Fault,
    },
    /// `LambdaFunctionScheduleFailed`, `LambdaFunctionStartFailed`, `ActivityScheduleFailed`, `TaskStartFailed`
    TaskNotStarted {
        family: TaskFamily,
        /// Whether it got as far as being scheduled.
        scheduled: bool,
        /// Error and cause.
        fault: Fault,
    },
    /// `EvaluationFailed`
    EvaluationFailed {
        /// The state's name.
        state: Arc<str>,
        /// The field, where it is known.
        location: Option<Arc<str>>,
        /// Error and cause.
        fault: Fault,
    },
}

/// Which iteration of which Map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    /// The Map's name.
    pub name: Arc<str>,
    /// The item's index.
    pub index: u32,
}

/// A call to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scheduled {
    pub family: TaskFamily,
    /// The bytes to send.
    pub input: Payload,
    /// Its time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Its heartbeat timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_seconds: Option<u64>,
    /// `Credentials`, evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Payload>,
    /// The round of the step's key.
    pub round: Round,
    /// The secret of its token, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
}
