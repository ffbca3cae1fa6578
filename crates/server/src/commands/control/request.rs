//! The requests of the command line.

use super::answer::{AuditPlace, Cursor, LedgerPlace};
use crate::who::Role;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Certainty, Labels, LedgerStatus, Status, Timestamp};
use perdura_store::Order;
use perdura_store::audit::Verb;
use serde::{Deserialize, Serialize};

/// A request. An execution is named by its id, its ARN, `machine/name`, or a name that only one execution has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    Who,
    /// Store a definition.
    Deploy {
        machine: String,
        kind: MachineType,
        /// JSON.
        definition: String,
        /// The ARN of its role on AWS.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    Start {
        machine: String,
        /// `None`: its id is its name.
        name: Option<String>,
        input: Payload,
        /// AWS's limits hold.
        strict: bool,
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        labels: Labels,
        /// The client's own key for this request, which everything that follows is found by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Executions, the newest first.
    List(ListQuestion),
    Show {
        execution: String,
    },
    /// A page of an execution's events.
    History {
        execution: String,
        /// From this Turn on; 1 is the first.
        from: u64,
    },
    /// A page of an execution's Turns.
    Turns {
        execution: String,
        /// From this Turn on; 1 is the first.
        from: u64,
    },
    /// The story of a key, a token or an execution.
    Trace {
        /// A readable key, a wire key, a task token, a `traceparent`, or an execution.
        key: String,
    },
    Ledger(LedgerQuestion),
    /// Resolve a call in doubt.
    Resolve(Resolving),
    Activities,
    /// Create an activity; one that exists stays as it is.
    PutActivity {
        name: String,
    },
    /// Wait for a task of an activity, up to a minute.
    Poll {
        /// The name or the ARN.
        activity: String,
        worker: Option<String>,
    },
    Succeed {
        token: String,
        output: Payload,
    },
    Fail {
        token: String,
        error: Option<String>,
        cause: Option<String>,
        /// Whether the task may have been performed.
        certainty: Certainty,
    },
    Heartbeat {
        token: String,
    },
    /// Store a connection, or replace it.
    PutConnection {
        name: String,
        /// Encrypted.
        #[serde(with = "super::hex")]
        sealed: Vec<u8>,
    },
    Connections,
    DeleteConnection {
        name: String,
    },
    /// Keep a token, of which the command line has the secret.
    CreateToken(NewToken),
    Tokens,
    RevokeToken {
        id: String,
    },
    Audit(AuditQuestion),
    /// Hold a machine, or all of them: what is started waits.
    Pause {
        machine: Option<String>,
        /// What runs stops at its next state.
        now: bool,
    },
    /// Let it go on.
    Resume {
        machine: Option<String>,
    },
    /// What is paused, and what is under way.
    Pauses,
    Stats,
    Stop {
        execution: String,
        error: Option<String>,
        cause: Option<String>,
    },
    /// Run the unsuccessful part of an ended execution again.
    Redrive {
        execution: String,
    },
    /// Show the stored Turns of an execution that cannot be read.
    Left {
        execution: String,
        /// From this Turn on.
        from: u64,
    },
    /// Delete an execution that cannot be read.
    GiveUp {
        execution: String,
    },
    /// Erase the data of an execution that has ended, and of all that it started.
    Erase {
        execution: String,
    },
    /// The same of all that began with a client's key.
    EraseKey {
        key: String,
    },
    /// Give free pages back to the disk.
    Compact,
    /// Delete what is too old.
    Cleanup {
        /// Executions that ended longer ago than this go.
        ended_for_ms: i64,
        /// Ledger rows of executions that ended longer ago than this go.
        ledger_for_ms: i64,
        /// The most bytes of the data.
        bytes_max: Option<u64>,
        /// Only count.
        dry_run: bool,
    },
}

/// What a request does to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only reads, so that no lock on the data is needed.
    Looks,
    /// It stores something, and creates the data directory where there is none.
    Keeps,
    /// It starts an execution, and may have to wait for room in memory.
    Starts,
    /// It changes what exists.
    Changes,
}

/// A token to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    pub id: String,
    /// The SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    pub name: String,
    pub role: Role,
    pub tenant: String,
    pub machines: Option<String>,
    /// `None`: it has no end.
    pub ends_in_ms: Option<i64>,
}

/// Which executions to list, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListQuestion {
    pub machine: Option<String>,
    pub status: Option<Status>,
    /// `key:value`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The beginning of a name that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// The name of the error that it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Not before this, by the time that the list is sorted by.
    #[serde(with = "super::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Before this, by the same time.
    #[serde(with = "super::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// By the start, or by the end of those that have ended.
    pub sort: Order,
    pub after: Option<Cursor>,
    pub most: u32,
}

/// Which rows of the ledger to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LedgerQuestion {
    pub status: Option<LedgerStatus>,
    /// Only rows that are pending for long without an attempt under way.
    pub stuck: bool,
    /// All rows of this execution, completed ones included.
    pub execution: Option<String>,
    /// A readable key or a wire key.
    pub key: Option<String>,
    pub after: Option<LedgerPlace>,
    pub most: u32,
}

/// Which entries of the audit to show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AuditQuestion {
    #[serde(with = "super::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// At or before this.
    #[serde(with = "super::iso::maybe", skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The principal.
    pub who: Option<String>,
    pub verb: Option<Verb>,
    pub execution: Option<String>,
    pub machine: Option<String>,
    /// The key of the request.
    pub key: Option<String>,
    pub oldest_first: bool,
    pub after: Option<AuditPlace>,
    pub most: u32,
}

/// A person's word on a call in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolving {
    /// The readable key.
    pub key: String,
    /// It was performed, with this result.
    pub completed: Option<Payload>,
    /// It was certainly not performed: the error, and perhaps the cause.
    pub failed: Option<(String, Option<String>)>,
    /// It is to be called again under the same key.
    pub again: bool,
    /// How the person knows.
    pub reason: String,
}
