//! What of the audit is decided here: which inputs are changes that somebody asked for, and what is told of them.
//!
//! A change is told in the commit of its Turn ([`Asking`]). What came to no Turn, because it was refused or because
//! everything was as it should be, is an entry of its own, which is on disk before whoever asked is told.

use crate::message::{AdjustError, InputError, Reply, StartError, Started, Taken, Unavailable};
use crate::running::Running;
use perdura_engine::{ExecutionId, Input, MapRunBounds, Status};
use perdura_store::MapRunRow;
use perdura_store::audit::{AuditResult, Entry, Origin, Subject, Verb};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Why a start changed nothing.
const RUNS_ALREADY: &str = "it runs already";

/// What somebody asks of an execution.
#[derive(Clone, Debug)]
pub struct Asking {
    origin: Arc<Origin>,
    verb: Verb,
}

impl Asking {
    /// `None`: nobody asked, or it is no change.
    pub fn of(input: &Input, origin: Option<&Arc<Origin>>) -> Option<Self> {
        Some(Self { origin: origin?.clone(), verb: verb(input)? })
    }

    /// The entry of its Turn.
    pub(crate) fn entry(
        self,
        before: Option<Status>,
        running: &Running,
        unchanged: Option<Arc<str>>,
    ) -> Entry {
        let (execution, identity) = (running.id(), running.execution.identity());
        let machine = Some(identity.machine_name.clone());
        let result = if unchanged.is_some() { AuditResult::Unchanged } else { AuditResult::Done };
        Entry {
            before: before.map(|status| status.name().into()),
            after: Some(running.execution.status().name().into()),
            turn: Some(running.turns),
            result,
            why: unchanged,
            ..Entry::done(&self.origin, self.verb, Subject::Execution { execution, machine })
        }
    }
}

/// What somebody does who gives an execution this; `None`: nothing that is asked for by anybody, or no change.
fn verb(input: &Input) -> Option<Verb> {
    match input {
        Input::Start => Some(Verb::Start),
        Input::Stop { .. } => Some(Verb::Stop),
        Input::Redrive | Input::RedriveOnce { .. } => Some(Verb::Redrive),
        Input::Resolve { .. } => Some(Verb::Resolve),
        Input::TaskOutcome { .. } => Some(Verb::Answer),
        Input::Heartbeat { .. }
        | Input::TaskStarted { .. }
        | Input::ChildOutcome { .. }
        | Input::Timer
        | Input::Continue
        | Input::Resume => None,
    }
}

/// The entry of a start that came to no Turn.
pub fn of_start(by: &Arc<Origin>, told: &Result<Started, StartError>) -> Option<Entry> {
    let (subject, error) = match told {
        Ok(Started { fresh: true, .. }) | Err(StartError::Unavailable(_)) => return None,
        Ok(Started { fresh: false, execution, .. }) => {
            return Some(Entry::unchanged(by, Verb::Start, Subject::execution(*execution), RUNS_ALREADY));
        }
        Err(error @ StartError::Exists(execution)) => (Subject::execution(*execution), error),
        Err(error @ (StartError::NoMachine | StartError::TooMany(_) | StartError::Paused)) => {
            (Subject::Installation, error)
        }
    };
    Some(Entry::refused(by, Verb::Start, subject, error.to_string()))
}

/// The entry of an input that came to no Turn.
pub fn of_input(
    asking: Option<Asking>,
    execution: ExecutionId,
    told: &Result<Taken, InputError>,
) -> Option<Entry> {
    let Asking { origin, verb } = asking?;
    let subject = Subject::execution(execution);
    match told {
        Ok(Taken { turn: Some(_), .. }) | Err(InputError::Unavailable(_)) => None,
        Ok(Taken { turn: None, ignored, status, .. }) => {
            let why = ignored.clone().unwrap_or_else(|| "there was nothing to do".into());
            let status: Value = status.name().into();
            let unchanged = Entry::unchanged(&origin, verb, subject, why);
            Some(Entry { before: Some(status.clone()), after: Some(status), ..unchanged })
        }
        Err(error @ (InputError::Unknown | InputError::Parked(_) | InputError::TooMany(_))) => {
            Some(Entry::refused(&origin, verb, subject, error.to_string()))
        }
    }
}

/// The bounds of a Map Run were changed.
pub(crate) fn of_bounds(by: &Arc<Origin>, before: &MapRunBounds, row: &MapRunRow) -> Entry {
    let tell = |bounds: &MapRunBounds| {
        Some(json!({
            "maxConcurrency": bounds.max_concurrency,
            "toleratedFailureCount": bounds.tolerated_count,
            "toleratedFailurePercentage": bounds.tolerated_percentage,
        }))
    };
    let subject = Subject::MapRun { execution: Some(row.execution), map_run: row.id };
    let done = Entry::done(by, Verb::Adjust, subject);
    Entry { before: tell(before), after: tell(&row.bounds), ..done }
}

/// The entry of a change of a Map Run that was refused.
pub(crate) fn of_adjusting(by: &Arc<Origin>, run: Uuid, told: &Result<(), AdjustError>) -> Option<Entry> {
    match told {
        Ok(()) | Err(AdjustError::Unavailable(_)) => None,
        Err(error @ (AdjustError::Unknown | AdjustError::Ended)) => {
            let subject = Subject::MapRun { execution: None, map_run: run };
            Some(Entry::refused(by, Verb::Adjust, subject, error.to_string()))
        }
    }
}

/// An entry of its own, and who is told once it is on disk.
#[derive(Debug)]
pub struct Witnessed {
    pub entry: Box<Entry>,
    pub reply: Reply<Result<(), Unavailable>>,
}
