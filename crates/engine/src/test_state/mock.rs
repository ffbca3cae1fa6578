//! Mocked results, and the states that can have one.

use super::{Refused, shapes};
use crate::event::Fault;
use crate::input::{Certainty, Outcome};
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::{Kind, State};
use perdura_asl::resource::{Pattern, Target};

/// A mocked result of a Task, Map or Parallel.
#[derive(Clone)]
pub enum Mock {
    /// A result, checked against the service's model.
    Result {
        result: Payload,
        /// How strictly.
        strictness: Strictness,
    },
    /// An error.
    Error(Fault),
}

/// `fieldValidationMode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// `STRICT`: required members must be present, and present ones must have their type.
    #[default]
    Strict,
    /// `PRESENT`: present members must have their type.
    Present,
    /// `NONE`: nothing is checked.
    Unchecked,
}

impl Mock {
    /// The mock as an outcome.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Result { result, .. } => Outcome::Succeeded { output: result.clone() },
            Self::Error(fault) => Outcome::Failed { fault: fault.clone(), certainty: Certainty::Refused },
        }
    }
}

/// Checks that the state can be tested with this mock, or without one.
pub(super) fn admit(state: &State, mock: Option<&Mock>, has_role: bool) -> Result<(), Refused> {
    match mock {
        Some(mock) => admit_mocked(&state.kind, mock),
        None => admit_real(&state.kind, has_role),
    }
}

fn refuse(message: impl Into<String>) -> Result<(), Refused> {
    Err(Refused::ValidationException(message.into()))
}

fn admit_mocked(kind: &Kind, mock: &Mock) -> Result<(), Refused> {
    match kind {
        Kind::Pass(_) | Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_) => {
            refuse(format!("State type '{}' is not supported when a mock is specified", kind.name()))
        }
        Kind::Task(_) | Kind::Parallel(_) | Kind::Map(_) => match mock {
            Mock::Error(_) | Mock::Result { strictness: Strictness::Unchecked, .. } => Ok(()),
            Mock::Result { result, strictness } => {
                misfit(kind, result.value(), *strictness).map_or(Ok(()), refuse)
            }
        },
    }
}

fn admit_real(kind: &Kind, has_role: bool) -> Result<(), Refused> {
    match kind {
        Kind::Parallel(_) | Kind::Map(_) => Err(Refused::InvalidDefinition(
            "TestState API does not support Map or Parallel states. Supported state types include: [Task, Wait, \
             Pass, Succeed, Fail, Choice]"
                .into(),
        )),
        Kind::Task(task) if task.resource.pattern.has_token() => refuse(
            "TestState API does not support Activity tasks or the .sync and .waitForTaskToken service \
             integration patterns unless a mock is specified",
        ),
        Kind::Task(_) if !has_role => refuse("RoleArn must be specified when testing a Task state"),
        Kind::Task(_) | Kind::Pass(_) | Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_) => Ok(()),
    }
}

/// Why such a state cannot have this result.
fn misfit(kind: &Kind, result: &Value, strictness: Strictness) -> Option<String> {
    match kind {
        Kind::Task(task) => match &task.resource.target {
            // The answer by a token is whatever its holder sends.
            Target::Service { service, action } if task.resource.pattern != Pattern::Callback => {
                shapes::complaint(service, action, result, strictness)
            }
            Target::Service { .. }
            | Target::Function { .. }
            | Target::Activity { .. }
            | Target::Step { .. } => None,
        },
        Kind::Parallel(parallel) => match result.as_array() {
            None => Some("Mocked result must be an array.".into()),
            Some(results) if results.len() != parallel.branches.len() => Some(
                "Mocked result must contain the same number of items as number of Parallel branches.".into(),
            ),
            Some(_) => None,
        },
        Kind::Map(map) => {
            let writes = map.writer.as_ref().is_some_and(|writer| writer.resource.is_some());
            match (writes, result) {
                (true, Value::Object(_)) | (false, Value::Array(_)) => None,
                (true, _) => Some("Mocked result must be a JSON object.".into()),
                (false, _) => Some("Mocked result must be an array.".into()),
            }
        }
        Kind::Pass(_) | Kind::Choice(_) | Kind::Wait(_) | Kind::Succeed | Kind::Fail(_) => None,
    }
}
