//! The story of a key, as it is told.

use super::{LedgerEntry, iso};
use perdura_engine::{ExecutionId, Fault, Status, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is known of a key: whose it is, and all rounds of its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traced {
    /// As what the text was known.
    pub by: TraceBy,
    /// Whose it is.
    pub execution: TracedExecution,
    /// What was sent under the keys of this step, or of all steps where an execution was named.
    pub steps: Vec<TracedStep>,
    /// There are more steps than are told.
    pub more: bool,
}

/// The forms of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TraceBy {
    /// As people read it.
    Key,
    /// As it went over the wire.
    WireKey,
    /// What a worker has.
    Token,
    /// The header of a call.
    TraceParent,
    /// An execution's id, name or ARN.
    Execution,
}

/// The execution whose key it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedExecution {
    pub execution: ExecutionId,
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
    /// Error and cause, once it ended badly.
    #[serde(flatten)]
    pub fault: Fault,
    /// The key of the step that started it, which begins with the parent's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
}

/// One key: its row of the ledger, and what happened under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedStep {
    /// What the ledger says.
    #[serde(flatten)]
    pub entry: LedgerEntry,
    /// What was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Arc<str>>,
    /// How often it was sent under this key.
    pub attempts: u64,
    /// The execution that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionId>,
    /// In the order in which it happened.
    pub events: Vec<TracedEvent>,
}

/// Something that happened under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedEvent {
    /// When.
    #[serde(with = "iso")]
    pub at: Timestamp,
    /// Its number in the history, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    pub what: Arc<str>,
    /// Error and cause.
    #[serde(flatten)]
    pub fault: Fault,
}

impl TracedEvent {
    /// Whether it says that the call was made again by another process.
    pub fn is_repeat(&self) -> bool {
        self.what.starts_with("repeated")
    }
}
