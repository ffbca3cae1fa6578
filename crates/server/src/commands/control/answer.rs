//! The answers of commands. `--json` prints the same shapes.

use super::{Traced, iso, word};
use crate::who::token::Token;
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{ExecutionId, Fault, Labels, LedgerStatus, Status, Timestamp, Turn};
use perdura_store::LedgerRow;
use perdura_store::audit::{Chain, Entry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answer to a [`super::Request`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    Who {
        pid: u32,
        version: String,
    },
    Deployed(Deployed),
    Started(Starting),
    Executions(Page<Listed, Cursor>),
    Execution(Box<Shown>),
    /// Events, as `GetExecutionHistory` gives them, but for their times. The next page begins with this Turn.
    History(Page<Payload, u64>),
    /// The next page begins with this Turn.
    Turns(Page<Turn, u64>),
    Trace(Box<Traced>),
    /// The oldest first.
    Ledger(Page<LedgerEntry, LedgerPlace>),
    Audit(Page<AuditEntry, AuditPlace>),
    Activities(Vec<ActivityListed>),
    /// `None`: no task came in time.
    Task(Option<Box<Task>>),
    Connections(Vec<SealedConnection>),
    Token(Box<Token>),
    Tokens(Vec<Token>),
    Done,
    Taken(Taken),
    Pauses(Box<Pauses>),
    Stats(Box<StatsAnswer>),
    Swept(Swept),
    Erased(Erased),
    Room(FreeRoom),
    /// Turns of a damaged execution. The next page begins with this Turn.
    Left(Page<LeftTurn, u64>),
}

/// A Turn of an execution that cannot be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftTurn {
    pub turn: u64,
    /// As stored; bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// Free pages inside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeRoom {
    pub free_bytes: u64,
    /// There is more to give back: ask again.
    pub more: bool,
}

/// A row of the list of activities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityListed {
    pub name: Arc<str>,
    /// The machines whose newest definition names it.
    pub machines: Vec<Arc<str>>,
}

/// A task that a worker has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The worker returns it with its answer.
    pub token: String,
    /// The readable key of its effect.
    pub key: Arc<str>,
    /// The same as sent over the wire.
    pub wire_key: String,
    pub input: Payload,
}

/// A connection, encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedConnection {
    pub name: Arc<str>,
    #[serde(with = "iso")]
    pub created_at: Timestamp,
    #[serde(with = "super::hex")]
    pub sealed: Vec<u8>,
}

/// A definition that was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployed {
    pub machine: Arc<str>,
    pub arn: String,
    pub kind: MachineType,
    /// Absent where revisions are not numbered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// When this definition was first stored.
    #[serde(with = "iso")]
    pub created_at: Timestamp,
    /// What of it the server cannot run; absent without a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<Doubt>>,
}

/// A warning: this server cannot run a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// A code of `docs/diagnostics.md`.
    pub code: String,
    pub message: String,
    /// Where in the definition: `/States/Pay/Resource`.
    pub location: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<Diagnostic> for Doubt {
    fn from(diagnostic: Diagnostic) -> Self {
        let Diagnostic { code, message, pointer, hint, .. } = diagnostic;
        Self { code: code.to_owned(), message, location: pointer, hint }
    }
}

/// The result of a stop, a redrive or a resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// The id, or the ARN where ids are not known.
    #[serde(rename = "id")]
    pub execution: Arc<str>,
    /// Why it changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<Arc<str>>,
    pub status: Status,
    /// A server performs its calls now; otherwise when one is started.
    pub performs: bool,
}

/// What a cleanup deleted, or would delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    pub executions: u64,
    pub ledger: u64,
    /// There is more to delete.
    pub more: bool,
}

/// What was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Erased {
    /// How many executions had data until now.
    pub executions: u64,
    /// How many belong together; the others were erased before.
    pub of: u64,
    /// Rows of the ledger that had a result or an error.
    pub ledger: u64,
    /// Stored answers to requests with a key.
    pub answers: u64,
    /// A reader still looks at what was there, so that the log has some of it: ask again.
    pub more: bool,
    /// A file is too large to be written anew beside a server, so that copies of small rows may lie in unused parts of its
    /// pages until it is: `perdura compact` does it while no server runs.
    #[serde(default)]
    pub rewrite: bool,
}

/// Where a page of the ledger ended; the next one begins after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerPlace {
    #[serde(with = "iso")]
    pub at: Timestamp,
    pub key: Arc<str>,
}

/// An entry of the audit, and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub chain: Chain,
    /// In its chain, from 1.
    pub number: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPlace {
    pub row: i64,
    pub number: u64,
}

/// An execution that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Starting {
    /// The id, or the ARN where ids are not known.
    #[serde(rename = "id")]
    pub execution: Arc<str>,
    pub arn: Arc<str>,
    /// The name, or the id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    pub status: Status,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// It is new; otherwise it already ran under this name with this input. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
    /// A server performs its calls now; otherwise when one is started.
    pub performs: bool,
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T, N> {
    pub items: Vec<T>,
    /// Where the next page begins.
    pub next: Option<N>,
}

/// Where a page ended; the next one begins after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// The time that the list is sorted by.
    #[serde(with = "iso")]
    pub at: Timestamp,
    pub execution: ExecutionId,
}

/// A row of the list of executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// The id, or the ARN where ids are not known.
    #[serde(rename = "id")]
    pub execution: Arc<str>,
    /// The name, or the id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    pub status: Status,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    pub redrives: u32,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The name of the error that it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// When its data was erased.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
}

/// An execution in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// The id, or the ARN where ids are not known.
    #[serde(rename = "id")]
    pub execution: Arc<str>,
    pub arn: Arc<str>,
    /// The name, or the id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    pub status: Status,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    pub redrives: u32,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The key of the request that it began with, or that the execution began with that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_key: Option<Arc<str>>,
    /// How many; absent where that is not known, as is `events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    pub input: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    #[serde(flatten)]
    pub fault: Fault,
    /// One for each strand with a step.
    pub standing: Vec<Standing>,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<Timestamp>,
    /// Why it was parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Arc<str>>,
    /// When its data was erased.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
}

/// Where one strand stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The state, with its index in Map and Parallel: `Notify[3]`.
    pub state: String,
    /// `calling`, `waiting`, `retrying`, `held`, `running` or `ready`.
    pub doing: Arc<str>,
    /// When it entered the state.
    #[serde(with = "iso")]
    pub since: Timestamp,
    /// When it goes on, or times out.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// This process is making the call.
    #[serde(default)]
    pub live: bool,
    pub retries: u64,
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// The readable form.
    pub key: Arc<str>,
    pub wire_key: String,
    pub execution: ExecutionId,
    pub step: Arc<str>,
    pub round: u32,
    #[serde(with = "word")]
    pub status: LedgerStatus,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<str>>,
    /// Error and cause in one line.
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

/// What is paused, and what is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pauses {
    /// All machines together first.
    pub items: Vec<Paused>,
    /// How many executions sleep because their machine is paused.
    pub held: u64,
    /// How many calls the server makes.
    pub calls: u64,
    /// How many executions move.
    pub moving: u64,
    /// Some of those calls.
    pub waits_for: Vec<Call>,
    /// Everything is to stand, and stands.
    pub drained: bool,
}

/// A machine that is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Absent: all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Arc<str>>,
    /// What runs stops at its next state.
    pub now: bool,
    #[serde(with = "iso")]
    pub since: Timestamp,
    /// How many of its executions sleep because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
}

/// A call that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub execution: ExecutionId,
    pub step: String,
    pub key: String,
}

/// What `perdura stats` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsAnswer {
    pub executions: BTreeMap<String, u64>,
    pub ledger: BTreeMap<String, u64>,
    /// Counted since the data directory was created.
    pub totals: BTreeMap<String, u64>,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub oldest_pending: Option<Timestamp>,
    /// The share of attempts that were repeated under their key, or answered twice.
    pub repeated_share: f64,
    pub tables: Vec<Table>,
    /// Size on disk.
    pub bytes: u64,
    #[serde(default)]
    pub free_bytes: u64,
    /// What is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<Paused>,
    /// How many executions sleep because their machine is paused.
    #[serde(default)]
    pub held: u64,
}

/// Rows and bytes of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    pub name: String,
    pub rows: u64,
    pub bytes: u64,
}
