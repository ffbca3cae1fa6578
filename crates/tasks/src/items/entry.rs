//! The entries of children in files of results. Pure.

use super::writing::{Output, Transformation};
use perdura_engine::Status;
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_runtime::ChildResult;

/// The file that a child's entry goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Failed, stopped, or timed out.
    Failed,
    /// Never begun, or not ended.
    Pending,
    /// Succeeded.
    Succeeded,
}

impl Class {
    /// In the order of a manifest.
    pub(super) const ALL: [Self; 3] = [Self::Failed, Self::Pending, Self::Succeeded];

    /// The name in files and manifests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Pending => "PENDING",
            Self::Succeeded => "SUCCEEDED",
        }
    }

    fn of(status: Status) -> Self {
        match status {
            Status::Succeeded => Self::Succeeded,
            Status::Failed | Status::Aborted | Status::TimedOut => Self::Failed,
            Status::Created | Status::Running => Self::Pending,
        }
    }
}

/// The entries of a child, and their file. Only outputs are transformed; other children get a complete entry.
pub(super) fn entries(child: &ChildResult, transformation: Transformation) -> (Class, Vec<String>) {
    let class = Class::of(child.status);
    let texts = match (class, transformation, &child.output) {
        (Class::Succeeded, Transformation::Compact, Some(output)) => vec![output.text().to_string()],
        (Class::Succeeded, Transformation::Flatten, Some(output)) => match output.value() {
            Value::Array(items) => items.iter().map(Value::to_string).collect(),
            _ => vec![output.text().to_string()],
        },
        (_, _, _) => vec![whole(child, class).to_string()],
    };
    (class, texts)
}

/// Everything about a child, with AWS's member names.
fn whole(child: &ChildResult, class: Class) -> Value {
    let included = || -> Value { [("Included", true)].into_iter().collect::<Map>().into() };
    let text = |payload: &Payload| Value::from(payload.text().clone());
    let status = match (class, child.status) {
        (Class::Pending, Status::Created) => "PENDING",
        (_, status) => status.name(),
    };
    let (redrive, reason) = match class {
        Class::Succeeded => ("NOT_REDRIVABLE", Some(format!("Execution is {status} and cannot be redriven"))),
        Class::Pending if child.status == Status::Running => {
            ("NOT_REDRIVABLE", Some(format!("Execution is {status} and cannot be redriven")))
        }
        Class::Failed | Class::Pending => ("REDRIVABLE_BY_MAP_RUN", None),
    };
    let has_begun = child.status != Status::Created;
    let members = [
        ("Cause", child.fault.cause.clone().map(Value::from)),
        ("Error", child.fault.error.clone().map(Value::from)),
        ("ExecutionArn", Some(child.arn.clone().into())),
        ("Input", Some(text(&child.input))),
        ("InputDetails", Some(included())),
        ("Name", Some(child.name.clone().into())),
        ("Output", child.output.as_ref().map(text)),
        ("OutputDetails", child.output.as_ref().map(|_| included())),
        ("RedriveCount", Some(child.redrives.into())),
        ("RedriveStatus", Some(redrive.into())),
        ("RedriveStatusReason", reason.map(Value::from)),
        ("StartDate", has_begun.then(|| child.started_at.to_string().into())),
        ("StateMachineArn", Some(child.machine_arn.clone().into())),
        ("Status", Some(status.into())),
        ("StopDate", child.ended_at.map(|at| at.to_string().into())),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect::<Map>().into()
}

/// The text before an entry.
pub(super) fn before(output: Output, is_first: bool) -> &'static str {
    match (output, is_first) {
        (Output::Json, true) => "[",
        (Output::Json, false) => ",",
        (Output::JsonLines, _) => "",
    }
}

/// The text after an entry.
pub(super) fn behind(output: Output) -> &'static str {
    match output {
        Output::Json => "",
        Output::JsonLines => "\n",
    }
}

/// The text at the end of a file.
pub(super) fn closing(output: Output) -> &'static str {
    match output {
        Output::Json => "]",
        Output::JsonLines => "",
    }
}

/// The key of a file.
pub(super) fn key(folder: &str, class: Class, number: usize, output: Output) -> String {
    let extension = match output {
        Output::Json => "json",
        Output::JsonLines => "jsonl",
    };
    format!("{folder}{}_{number}.{extension}", class.name())
}
