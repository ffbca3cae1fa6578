//! The entries of lists, ledgers and histories.

use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use perdura_store::{LedgerRow, MachineId, Summary};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A filter for a list of executions.
///
/// ```
/// use perdura::{Query, Status};
///
/// let failed = Query { workflow: Some("claim".into()), status: Some(Status::Failed), ..Query::default() };
/// assert_eq!(failed.most, 100);
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    /// Of this workflow only.
    pub workflow: Option<String>,
    /// With this status only.
    pub status: Option<Status>,
    /// The page after the one that ended with this entry.
    pub after: Option<Listed>,
    /// The number of entries; at most 1,000.
    pub most: u32,
}

impl Default for Query {
    /// The newest hundred of all.
    fn default() -> Self {
        Self { workflow: None, status: None, after: None, most: 100 }
    }
}

/// An execution in a list.
///
/// ```
/// fn tell(listed: &perdura::Listed) {
///     println!("{}/{}: {}", listed.workflow, listed.name, listed.status.name());
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub execution: ExecutionId,
    pub workflow: Arc<str>,
    pub name: Arc<str>,
    pub status: Status,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Listed {
    pub(crate) fn of(row: Summary, names: &BTreeMap<MachineId, Arc<str>>) -> Self {
        Self {
            execution: row.execution,
            // A machine is never removed, but one that was deployed between two reads is not in the list yet.
            workflow: names.get(&row.machine).cloned().unwrap_or_else(|| "?".into()),
            name: row.name.unwrap_or_else(|| row.execution.to_string().into()),
            status: row.status,
            started_at: row.started_at,
            ended_at: row.ended_at,
        }
    }
}

/// The record of a call.
///
/// ```
/// fn tell(entry: &perdura::Entry) {
///     println!("{} {:?} under {}", entry.step, entry.status, entry.wire_key);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The readable key: execution, step and round.
    pub key: Arc<str>,
    /// The key that the receiver saw.
    pub wire_key: String,
    /// The execution that made the call.
    pub execution: ExecutionId,
    /// The step and its visit.
    pub step: Arc<str>,
    /// The round: it grows by one with each definite refusal, from 1.
    pub round: u32,
    /// Whether the call is under way, done, certainly not done, or in doubt.
    pub status: LedgerStatus,
    /// When the call was first made.
    pub started_at: Timestamp,
}

impl From<LedgerRow> for Entry {
    fn from(row: LedgerRow) -> Self {
        Self {
            key: row.key,
            wire_key: row.wire_key.to_string(),
            execution: row.execution,
            step: row.step,
            round: row.round,
            status: row.status,
            started_at: row.started_at,
        }
    }
}

/// A part of the events of an execution.
///
/// ```
/// fn tell(history: &perdura::History) {
///     for event in &history.events {
///         println!("{} {}", event["id"], event["type"]);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Events with the names and members that Step Functions gives them, in order.
    pub events: Vec<serde_json::Value>,
    /// Where the next part begins; `None`: this is all.
    pub next: Option<u64>,
}

/// How a held call went, as a person found out.
///
/// ```
/// use perdura::Verdict;
///
/// let verdict = Verdict::Completed(serde_json::json!({"receipt": "R-1"}));
/// # drop(verdict);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It was made, and this is the step's output.
    Completed(serde_json::Value),
    /// It was certainly not made. The step has failed with this; a retry gets a new key.
    Failed {
        /// The error's name.
        error: String,
        /// The error's text.
        cause: String,
    },
    /// Make it again, under the same key.
    Again,
}
