//! What is answered. The same shapes are what `--json` prints.

use super::{Traced, iso, word};
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{ExecutionId, Fault, LedgerStatus, Status, Timestamp, Turn};
use perdura_store::LedgerRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What came of a [`super::Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// Who answers.
    Who {
        /// Its process.
        pid: u32,
        version: String,
    },
    /// A definition is kept.
    Deployed(Deployed),
    /// An execution is on disk.
    Started(Starting),
    /// A page of a list.
    Executions(Page<Listed, Cursor>),
    /// One execution.
    Execution(Box<Shown>),
    /// A page of events, as `GetExecutionHistory` gives them; it goes on with this Turn.
    History(Page<Payload, u64>),
    /// A page of Turns; it goes on with this one.
    Turns(Page<Turn, u64>),
    /// The story of a key.
    Trace(Box<Traced>),
    /// Rows of the ledger; the first key that had no room.
    Ledger(Page<LedgerEntry, Arc<str>>),
    /// Activities.
    Activities(Vec<ActivityListed>),
    /// A task that was taken; none came in time.
    Task(Option<Box<Task>>),
    /// Connections, sealed.
    Connections(Vec<SealedConnection>),
    /// It is done, and there is nothing to say about it.
    Done,
    /// An input was taken.
    Taken(Taken),
    /// How much there is.
    Stats(Box<StatsAnswer>),
    /// What was taken away, or would be.
    Swept(Swept),
    /// What room is free.
    Room(FreeRoom),
    /// A page of what is left of an execution; it goes on with this Turn.
    Left(Page<LeftTurn, u64>),
}

/// A Turn of an execution that cannot be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftTurn {
    pub turn: u64,
    /// As it is stored; what is no text is replaced.
    pub body: String,
}

/// Room inside the data that nothing is stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeRoom {
    /// How much is left.
    pub free_bytes: u64,
    /// There is more to give back: ask again.
    pub more: bool,
}

/// An activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityListed {
    pub name: Arc<str>,
    /// The machines whose newest definition asks for it.
    pub machines: Vec<Arc<str>>,
}

/// A task that a worker has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// To be returned with the answer.
    pub token: String,
    /// Under which key its effect is to be made, as people read it.
    pub key: Arc<str>,
    /// The same as it goes over the wire.
    pub wire_key: String,
    pub input: Payload,
}

/// A connection as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedConnection {
    pub name: Arc<str>,
    /// When it was put.
    #[serde(with = "iso")]
    pub created_at: Timestamp,
    /// What it says, for whoever has the key.
    #[serde(with = "super::hex")]
    pub sealed: Vec<u8>,
}

/// A definition that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    pub machine: Arc<str>,
    /// Its machine's ARN.
    pub arn: String,
    /// Standard or Express.
    pub kind: MachineType,
    /// Which definition; absent where they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// When it was first given.
    #[serde(with = "iso")]
    pub created_at: Timestamp,
    /// What of it cannot be run there; absent where nobody runs anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<Doubt>>,
}

/// A state that calls what cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// Which kind of doubt: a code of `docs/diagnostics.md`.
    pub code: String,
    /// What it is about.
    pub message: String,
    /// Where in the definition: `/States/Pay/Resource`.
    pub location: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<Diagnostic> for Doubt {
    fn from(diagnostic: Diagnostic) -> Self {
        let Diagnostic { code, message, pointer, hint, .. } = diagnostic;
        Self { code: code.to_owned(), message, location: pointer, hint }
    }
}

/// What came of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// By whom it was taken: its id, or its ARN where ids are not told.
    pub execution: Arc<str>,
    /// Why it changed nothing, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<Arc<str>>,
    /// The execution's status after it.
    pub status: Status,
    /// It moves on by itself; otherwise when a server is started.
    pub performs: bool,
}

/// What a slice of a sweep took away, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Executions with their histories.
    pub executions: u64,
    /// Rows of the ledger.
    pub ledger: u64,
    /// There is more.
    pub more: bool,
}

/// An execution that is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Starting {
    /// Its id, or its ARN where ids are not told.
    pub execution: Arc<str>,
    pub arn: Arc<str>,
    /// When it began.
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    /// It began now; otherwise it ran already under this name with this input. Absent where nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
    /// It moves on by itself; otherwise when a server is started.
    pub performs: bool,
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T, N> {
    /// What is in it.
    pub items: Vec<T>,
    /// Where it goes on, if it does.
    pub next: Option<N>,
}

/// A place in the list of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// When that execution began.
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    /// Who it is.
    pub execution: ExecutionId,
}

/// A row of the list of executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// Its id, or its ARN where ids are not told.
    pub execution: Arc<str>,
    /// Its name, or its id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    /// Whether it runs, and how it ended.
    pub status: Status,
    /// When it began.
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How often it was redriven.
    pub redrives: u32,
}

/// An execution in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its id, or its ARN where ids are not told.
    pub execution: Arc<str>,
    pub arn: Arc<str>,
    /// Its name, or its id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    /// Whether it runs, and how it ended.
    pub status: Status,
    /// When it began.
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How often it was redriven.
    pub redrives: u32,
    /// How many Turns it has had. This and the next are absent where nobody tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// How many events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    pub input: Payload,
    /// Its output, once it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// Error and cause, once it ended badly.
    #[serde(flatten)]
    pub fault: Fault,
    /// Where its lines of control stand.
    pub standing: Vec<Standing>,
    /// When it wants to be woken.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// Why it was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Arc<str>>,
}

/// Where one line of control stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// In which state, with its place in Map and Parallel: `Notify[3]`.
    pub state: String,
    /// What it does there: `calling`, `waiting`, `retrying`, `held`, `running`, `ready`.
    pub doing: Arc<str>,
    /// Since when it is in this state.
    #[serde(with = "iso")]
    pub since: Timestamp,
    /// Until when it rests.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The key of its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// That call is being made at this moment.
    #[serde(default)]
    pub live: bool,
    /// How many retries it has had.
    pub retries: u64,
}

/// What was done under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// As people read it.
    pub key: Arc<str>,
    /// As it went over the wire.
    pub wire_key: String,
    pub execution: ExecutionId,
    pub step: Arc<str>,
    /// Which key generation.
    pub round: u32,
    /// What is known.
    #[serde(with = "word")]
    pub status: LedgerStatus,
    /// When it was first sent.
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    /// When it was settled.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<str>>,
    /// Error and cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

impl From<LedgerRow> for LedgerEntry {
    fn from(row: LedgerRow) -> Self {
        Self {
            wire_key: row.wire_key.to_string(),
            key: row.key,
            execution: row.execution,
            step: row.step,
            round: row.round,
            status: row.status,
            started_at: row.started_at,
            completed_at: row.completed_at,
            result: row.result,
            error: row.error,
        }
    }
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsAnswer {
    /// Executions by status.
    pub executions: BTreeMap<String, u64>,
    /// Ledger rows by status.
    pub ledger: BTreeMap<String, u64>,
    /// What has happened since the data was made.
    pub totals: BTreeMap<String, u64>,
    /// When the oldest pending attempt was sent.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub oldest_pending: Option<Timestamp>,
    /// Of all attempts, how many were repeated under their key or answered a second time.
    pub repeated_share: f64,
    pub tables: Vec<Table>,
    /// The data's size on disk.
    pub bytes: u64,
    /// How much of that is free.
    #[serde(default)]
    pub free_bytes: u64,
}

/// A table's size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    pub name: String,
    pub rows: u64,
    pub bytes: u64,
}
