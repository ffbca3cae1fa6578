//! What can be asked.

use super::answer::Cursor;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Certainty, LedgerStatus, Status};
use serde::{Deserialize, Serialize};

/// One question, or one thing to do. An execution is named by its id, its ARN, `machine/name`, or a name that only
/// one has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Who answers here?
    Who,
    /// Keep a definition.
    Deploy {
        machine: String,
        /// Standard or Express.
        kind: MachineType,
        /// The definition, in JSON.
        definition: String,
        /// The role that it has on AWS, where somebody names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// Start an execution.
    Start {
        machine: String,
        /// Its name; none: its id.
        name: Option<String>,
        input: Payload,
        /// Hold to AWS's limits.
        strict: bool,
    },
    /// Executions, the newest first.
    List {
        /// Of this machine only.
        machine: Option<String>,
        /// With this status only.
        status: Option<Status>,
        /// After this one.
        after: Option<Cursor>,
        /// So many at most.
        most: u32,
    },
    /// One execution.
    Show { execution: String },
    /// A page of an execution's events.
    History {
        execution: String,
        /// From this Turn on; 1 is the first.
        from: u64,
    },
    /// A page of an execution's Turns.
    Turns {
        execution: String,
        /// From this one on; 1 is the first.
        from: u64,
    },
    /// The story of a key, a token or an execution.
    Trace {
        /// As people read it, as it went over the wire, a task token, a `traceparent`, or an execution.
        key: String,
    },
    /// What was done under which key.
    Ledger(LedgerQuestion),
    /// Say how a call went of which nobody knows.
    Resolve(Resolving),
    /// Activities.
    Activities,
    /// Keep an activity; one that is there already stays as it is.
    PutActivity { name: String },
    /// Wait for a task of an activity, up to a minute.
    Poll {
        /// Its name or ARN.
        activity: String,
        /// Who asks.
        worker: Option<String>,
    },
    /// A task is done.
    Succeed {
        token: String,
        /// Its result.
        output: Payload,
    },
    /// A task failed.
    Fail {
        token: String,
        /// Why, as a name.
        error: Option<String>,
        /// Why, as a sentence.
        cause: Option<String>,
        /// What that says of the deed.
        certainty: Certainty,
    },
    /// A task is still worked on.
    Heartbeat { token: String },
    /// Keep a connection, in the place of one of this name.
    PutConnection {
        name: String,
        /// What it says, sealed.
        #[serde(with = "super::hex")]
        sealed: Vec<u8>,
    },
    /// Connections, as they are kept.
    Connections,
    /// Forget a connection.
    DeleteConnection { name: String },
    /// How much there is.
    Stats,
    /// End an execution.
    Stop {
        execution: String,
        /// Why, as a name.
        error: Option<String>,
        /// Why, as a sentence.
        cause: Option<String>,
    },
    /// Run the unsuccessful part of an ended execution again.
    Redrive { execution: String },
    /// Show what is left of an execution that cannot be read.
    Left {
        execution: String,
        /// From this Turn on.
        from: u64,
    },
    /// Give an execution up that was set aside: nothing of it is kept.
    GiveUp { execution: String },
    /// Give free room back to the disk.
    Compact,
    /// Take away what is too old.
    Cleanup {
        /// Executions that ended longer ago than this, in milliseconds.
        ended_for_ms: i64,
        /// Ledger rows of executions that ended longer ago than this.
        ledger_for_ms: i64,
        /// The most bytes that the data may have.
        bytes_max: Option<u64>,
        /// Only count.
        dry_run: bool,
    },
}

/// What a request does to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only looks, so that nobody has to hold the data for it.
    Looks,
    /// It keeps something, and the data is made where there is none.
    Keeps,
    /// It starts an execution, and may have to wait for room in memory.
    Starts,
    /// It changes what is there.
    Changes,
}

/// Which rows of the ledger are asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LedgerQuestion {
    /// With this status only.
    pub status: Option<LedgerStatus>,
    /// Pending for long, without an attempt under way.
    pub stuck: bool,
    /// Of this execution: all of them, those that are done included.
    pub execution: Option<String>,
    /// The one with this key, as people read it or as it goes over the wire.
    pub key: Option<String>,
    /// So many at most.
    pub most: u32,
}

/// How a call went, as somebody says who knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolving {
    /// Under which key it was made, as people read it.
    pub key: String,
    /// It was performed, with this result.
    pub completed: Option<Payload>,
    /// It was certainly not performed: the error, and perhaps the cause.
    pub failed: Option<(String, Option<String>)>,
    /// It is to be called again under the same key.
    pub again: bool,
    /// How they know.
    pub reason: String,
}
