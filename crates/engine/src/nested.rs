//! Executions started by steps: `arn:aws:states:::states:startExecution` in its patterns.
//!
//! This module decides the request, the wait and the result of such a step; the runtime starts the execution.

use crate::arn::{Arns, is_name};
use crate::event::Fault;
use crate::execution::{Execution, Status};
use crate::id::Timestamp;
use crate::identity::{Identity, Limits};
use crate::input::{Certainty, Outcome};
use perdura_asl::diagnostic::explain_in_a_sentence;
use perdura_asl::error::{RUNTIME, TASK_FAILED};
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::object;
use perdura_asl::resource::{Pattern, Resource, TaskKind};
use std::sync::Arc;

/// The wait of a step that starts an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For the start of the child.
    Begin,
    /// Its end, with input and output as text: `.sync`.
    EndAsText,
    /// Its end, with input and output as JSON: `.sync:2`.
    EndAsJson,
    /// For the return of the token.
    Token,
}

impl Wait {
    /// The wait of a call, if it starts an execution.
    pub fn of(resource: &Resource) -> Option<Self> {
        if resource.kind != TaskKind::Child {
            return None;
        }
        match resource.pattern {
            Pattern::RequestResponse => Some(Self::Begin),
            Pattern::Callback => Some(Self::Token),
            Pattern::Sync if resource.arn.ends_with(":2") => Some(Self::EndAsJson),
            Pattern::Sync => Some(Self::EndAsText),
            Pattern::Worker => None,
        }
    }

    /// Whether the child's end is the step's result.
    pub fn is_for_the_end(self) -> bool {
        match self {
            Self::EndAsText | Self::EndAsJson => true,
            Self::Begin | Self::Token => false,
        }
    }

    /// The step's outcome when its child has begun.
    pub fn begun(self, child_arn: &Arc<str>, at: Timestamp) -> Outcome {
        let output =
            Payload::from(object! {"ExecutionArn" => child_arn.clone(), "StartDate" => at.to_string()});
        match self {
            Self::Begin => Outcome::Succeeded { output },
            Self::EndAsText | Self::EndAsJson | Self::Token => Outcome::Submitted { output },
        }
    }

    /// The step's outcome when its child has ended: the child's description, as the result or as the cause of the
    /// failure.
    pub fn ended(self, child: &Execution) -> Outcome {
        let identity = child.identity();
        let payload = |payload: &Payload| match self {
            Self::EndAsJson => payload.value().clone(),
            Self::Begin | Self::EndAsText | Self::Token => payload.text().clone().into(),
        };
        let mut described = Map::new();
        let fault = child.fault();
        for (name, text) in [("Cause", &fault.cause), ("Error", &fault.error)] {
            if let Some(text) = text {
                described.insert(name, text.clone());
            }
        }
        described.insert("ExecutionArn", identity.arn.clone());
        described.insert("Input", payload(&identity.input));
        described.insert("InputDetails", object! {"Included" => true});
        described.insert("Name", identity.name.clone());
        if let Some(output) = child.output() {
            described.insert("Output", payload(output));
            described.insert("OutputDetails", object! {"Included" => true});
        }
        described.insert("StartDate", child.started_at().0.unsigned_abs());
        described.insert("StateMachineArn", identity.machine_arn.clone());
        described.insert("Status", child.status().name());
        described.insert("StopDate", child.ended_at().unwrap_or_default().0.unsigned_abs());
        let described = Value::from(described);
        match child.status() {
            Status::Succeeded => Outcome::Succeeded { output: described.into() },
            Status::Created | Status::Running | Status::Failed | Status::Aborted | Status::TimedOut => {
                refused(Fault::new(TASK_FAILED, described.to_string()))
            }
        }
    }
}

/// The request of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The machine's name.
    pub machine: Arc<str>,
    /// A version or an alias of it.
    pub qualifier: Option<Arc<str>>,
    /// The machine's name or ARN as written.
    pub machine_arn: Arc<str>,
    /// The child's name, if one is given.
    pub name: Option<Arc<str>>,
    /// The child's input.
    pub input: Payload,
    /// The partition, region and account of its parent.
    pub arns: Arns,
    /// The limits of its parent.
    pub limits: Limits,
    /// The client's key of the request that its parent began with.
    pub root_key: Option<Arc<str>>,
}

impl Asked {
    /// Parses the arguments of a step.
    pub fn read(arguments: &Value, parent: &Identity) -> Result<Self, Fault> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let machine_arn = text("StateMachineArn").unwrap_or_default();
        let (machine, qualifier) = machine_of(machine_arn);
        if machine.is_empty() {
            let cause = "StateMachineArn is missing: it names the machine to start.";
            return Err(Fault::new(RUNTIME, cause));
        }
        let input = match arguments.get("Input") {
            None | Some(Value::Null) => Payload::from_text("{}").expect("an empty object is JSON"),
            Some(Value::String(text)) => Payload::from_text(text.clone()).map_err(|error| {
                let reason = explain_in_a_sentence(text, &error, "Invalid execution input.");
                let cause = format!("Invalid State Machine Execution Input: '{reason}'");
                Fault::new("StepFunctions.InvalidExecutionInputException", cause)
            })?,
            Some(other) => other.clone().into(),
        };
        let name = text("Name").map(Arc::from);
        if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
            return Err(of_service("InvalidName", &format!("Invalid Name: '{name}'")));
        }
        let mut parts = parent.machine_arn.split(':').skip(1);
        let arns = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(partition), _, Some(region), Some(account)) => {
                Arns { partition: partition.into(), region: region.into(), account: account.into() }
            }
            _ => Arns::default(),
        };
        let (machine, qualifier) = (machine.into(), qualifier.map(Arc::from));
        let machine_arn = machine_arn.into();
        let root_key = parent.root_key.clone();
        Ok(Self { machine, qualifier, machine_arn, name, input, arns, limits: parent.limits, root_key })
    }

    /// There is no such machine, or no such version or alias of it.
    pub fn no_such_machine(&self) -> Fault {
        let message = format!("State Machine Does Not Exist: '{}'", self.machine_arn);
        of_service("StateMachineDoesNotExist", &message)
    }

    /// The machine is being deleted.
    pub fn machine_is_deleting(&self) -> Fault {
        let message = format!("State Machine is deleting: '{}'", self.machine_arn);
        of_service("StateMachineDeleting", &message)
    }

    /// The name belongs to another execution, with this ARN.
    pub fn name_is_taken(arn: &str) -> Fault {
        of_service("ExecutionAlreadyExists", &format!("Execution Already Exists: '{arn}'"))
    }

    /// Whether a running execution with this name is the requested one: then it is the same start.
    pub fn is(&self, other: &Execution) -> bool {
        !other.is_ended() && other.identity().input.text() == self.input.text()
    }

    /// The machine and the execution in the arguments, if they name one.
    pub fn named(arguments: &Value) -> Option<(&str, &str)> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let (machine, _) = machine_of(text("StateMachineArn")?);
        Some((machine, text("Name")?))
    }
}

/// The name of a machine and its version or alias, from an ARN or a plain name.
pub(crate) fn machine_of(arn: &str) -> (&str, Option<&str>) {
    let machine = arn.rsplit_once(":stateMachine:").map_or(arn, |(_, name)| name);
    machine.split_once(':').map_or((machine, None), |(machine, qualifier)| (machine, Some(qualifier)))
}

/// A start that was certainly not made.
pub fn refused(fault: Fault) -> Outcome {
    Outcome::Failed { fault, certainty: Certainty::Refused }
}

fn of_service(error: &str, message: &str) -> Fault {
    let cause = format!(
        "{message} (Service: AWSStepFunctions; Status Code: 400; Error Code: {error}; Request ID: \
         00000000-0000-0000-0000-000000000000; Proxy: null)"
    );
    Fault::new(format!("StepFunctions.{error}Exception"), cause)
}
