//! The story of a key, as it is shown.

use super::{LedgerEntry, iso};
use perdura_engine::{ExecutionId, Fault, Labels, Status, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The execution of a key, and all rounds of its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traced {
    /// The form in which the key was given.
    pub by: TraceBy,
    pub execution: TracedExecution,
    /// The calls of this step, or of all steps where an execution was named.
    pub steps: Vec<TracedStep>,
    /// All that the same request began, at first and second hand, the oldest first; this execution is one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub began: Vec<TracedStart>,
    /// There are more steps than are shown.
    pub more: bool,
}

/// The forms of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TraceBy {
    Key,
    WireKey,
    /// A worker's task token.
    Token,
    /// The `traceparent` header of a call.
    TraceParent,
    /// An execution's id, name or ARN.
    Execution,
    /// The client's key of a request.
    RootKey,
}

/// An execution that a request began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedStart {
    #[serde(rename = "id")]
    pub execution: ExecutionId,
    /// The name, or the id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    pub status: Status,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
}

/// The execution whose key it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedExecution {
    #[serde(rename = "id")]
    pub execution: ExecutionId,
    pub arn: Arc<str>,
    /// The name, or the id.
    pub name: Arc<str>,
    pub machine: Arc<str>,
    pub status: Status,
    #[serde(with = "iso")]
    pub started_at: Timestamp,
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(flatten)]
    pub fault: Fault,
    /// The key of the step that started it, which begins with the parent's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The client's key of the request that it began with, at first or second hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_key: Option<Arc<str>>,
    /// When its data was erased.
    #[serde(default, with = "iso::maybe", skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
}

/// One key: its row of the ledger, and what happened under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedStep {
    #[serde(flatten)]
    pub entry: LedgerEntry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Arc<str>>,
    pub attempts: u64,
    /// The child execution that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionId>,
    /// In order.
    pub events: Vec<TracedEvent>,
}

/// Something that happened under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedEvent {
    #[serde(with = "iso")]
    pub at: Timestamp,
    /// Its number in the history; a Note has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    pub what: Arc<str>,
    #[serde(flatten)]
    pub fault: Fault,
}

impl TracedEvent {
    /// Whether the call was repeated by another process.
    pub fn is_repeat(&self) -> bool {
        self.what.starts_with("repeated")
    }
}
