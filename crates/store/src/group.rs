//! The content of one commit: the Turns of a group, and the rows of executions that leave memory with it.
//!
//! A running execution needs no row: it lives in memory and is rebuilt from the journal. It gets a row when it ends,
//! when it falls asleep, when it has run for so long that the journal should not keep its beginning, and, for readers
//! of the tables, when it has run for a second.

use crate::audit::Entries;
use crate::lease::{Lease, Position, Shard};
use perdura_engine::{
    EffectKey, ExecutionId, Labels, LedgerStatus, MapRunBounds, MapRunCounts, Status, Timestamp, Wake,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The id of a machine: it belongs to the name, not to one definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineId(pub u64);

/// The id of one definition of a machine; a definition never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RevisionId(pub u64);

/// One transaction: all of it or nothing.
#[derive(Clone, Debug)]
pub struct Group {
    /// The right to write it.
    pub lease: Lease,
    /// The position of its journal row: the one after the last of this incarnation. `None`: no Turns, only rows.
    pub position: Option<Position>,
    /// The row, as [`crate::record::JournalWriter`] builds it.
    pub journal: Vec<u8>,
    /// Journal rows before this one, of this incarnation and those before it, are no longer needed for its Shards. Its
    /// newest row always stays: it has the totals.
    pub keep_from: Position,
    /// Executions that leave memory, or that readers should see.
    pub rows: Vec<Row>,
    /// Parts of histories too long for a row.
    pub segments: Vec<Segment>,
    /// Changes of the ledger table for its readers.
    pub ledger: Vec<LedgerChange>,
    /// Map Runs in their current state.
    pub map_runs: Vec<MapRunRow>,
    /// The totals of this incarnation, if this commit should write them to the table for readers.
    pub totals: Option<Totals>,
    /// Audit entries, by the Shard of their chain.
    pub audit: BTreeMap<Shard, Entries>,
}

impl Group {
    /// An empty group.
    pub fn under(lease: Lease) -> Self {
        Self {
            lease,
            position: None,
            journal: Vec::new(),
            keep_from: Position::default(),
            rows: Vec::new(),
            segments: Vec::new(),
            ledger: Vec::new(),
            map_runs: Vec::new(),
            totals: None,
            audit: BTreeMap::new(),
        }
    }
}

/// An execution's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub execution: ExecutionId,
    pub machine: MachineId,
    pub revision: RevisionId,
    /// `None`: its id is its name.
    pub name: Option<Arc<str>>,
    pub status: Status,
    /// It is in some node's memory, and is loaded when the Shard is taken over.
    pub awake: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When to wake it, if it sleeps.
    pub wake: Wake,
    /// It sleeps while a worker or a child works for it: a new process must resume it.
    pub waits: bool,
    /// It sleeps although it could go on, because its machine is paused.
    pub held: bool,
    pub redrives: u32,
    pub redriven_at: Option<Timestamp>,
    /// The version that it was started under.
    pub version: Option<u32>,
    /// The alias that it was started by.
    pub alias: Option<Arc<str>>,
    pub labels: Labels,
    /// The key of the client's request that started it, or that started the execution that started it.
    pub root_key: Option<Arc<str>>,
    /// The name of the error that it ended with.
    pub error: Option<Arc<str>>,
    /// Its place in a Map Run, if it is a child.
    pub child: Option<ChildOf>,
    /// Its content; `None`: all of it is in the journal, or the content of the existing row stays.
    pub content: Option<Content>,
}

/// The place of an execution in a Map Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChildOf {
    pub run: Uuid,
    /// The number of the child, from 0.
    pub index: u32,
    /// The number of its items.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub items: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_one(items: &u32) -> bool {
    *items == 1
}

/// The place of an execution in a line of children that may run without a place of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nesting {
    /// From 1, for the first of the line.
    pub depth: u32,
    /// It has a place of its own; only its children continue the line.
    pub has_place: bool,
}

/// A Map Run's row. While it runs, its numbers may be a second old; the children's own rows say which children exist
/// and how they stand.
#[derive(Clone, Debug, PartialEq)]
pub struct MapRunRow {
    /// Its id, which is part of its ARN.
    pub id: Uuid,
    pub arn: Arc<str>,
    /// The execution that waits for it.
    pub execution: ExecutionId,
    pub status: Status,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub redrives: u32,
    pub redriven_at: Option<Timestamp>,
    pub bounds: MapRunBounds,
    /// The version of the file or list that its items come from, if they do.
    pub source_version: Option<Arc<str>>,
    /// The counts of its items and children.
    pub counts: MapRunCounts,
    /// The number of children with written results.
    pub results_written: u64,
}

/// The data to rebuild an execution: a snapshot if there is one, then the Turns after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The number of its Turns, all of them covered here.
    pub turns: u64,
    /// The number of its last event.
    pub events: u64,
    /// The state after one of its Turns; absent if the tail begins with the first.
    pub state: Option<Snapshot>,
    pub tail_from: u64,
    /// The last Turns, sealed as a history; earlier ones are in segments.
    pub tail: Vec<u8>,
}

/// An execution's state after one of its Turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The Turn before the snapshot.
    pub turn: u64,
    /// Sealed.
    pub bytes: Vec<u8>,
}

/// Part of a long history.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub execution: ExecutionId,
    /// The number of its first Turn.
    pub first: u64,
    pub turns: u64,
    /// Sealed as a history.
    pub bytes: Vec<u8>,
}

/// A change of the ledger table.
#[derive(Clone, Debug, PartialEq)]
pub enum LedgerChange {
    /// Pending, failed or uncertain: the key has a row.
    Put(Box<LedgerRow>),
    /// Completed: the row goes, the execution's record has the rest.
    Drop {
        /// The readable key.
        key: Arc<str>,
    },
    /// The execution ended: its rows go after a while.
    Ended { execution: ExecutionId, at: Timestamp },
}

/// The ledger's record of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow {
    /// `{execution}:{step}:{round}`
    pub key: Arc<str>,
    /// The key on the wire.
    pub wire_key: Uuid,
    pub execution: ExecutionId,
    /// `SendToGov#17`
    pub step: Arc<str>,
    pub round: u32,
    pub status: LedgerStatus,
    /// When the call was first sent.
    pub started_at: Timestamp,
    /// When the call was settled.
    pub completed_at: Option<Timestamp>,
    /// The result, as JSON.
    pub result: Option<Arc<str>>,
    /// Error and cause.
    pub error: Option<Arc<str>>,
}

impl LedgerRow {
    /// An attempt, from its key; the caller adds how it was settled.
    pub fn of(key: &EffectKey, execution: ExecutionId, status: LedgerStatus, started_at: Timestamp) -> Self {
        Self {
            key: key.readable().into(),
            wire_key: key.wire(),
            execution,
            step: key.step().into(),
            round: key.round().0,
            status,
            started_at,
            completed_at: None,
            result: None,
            error: None,
        }
    }
}

/// Counters since the installation was made, over one incarnation and its predecessors. Each journal row has the
/// newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Executions that began.
    pub started: u64,
    /// Executions that succeeded.
    pub succeeded: u64,
    /// Executions that failed, were stopped or timed out.
    pub failed: u64,
    pub turns: u64,
    pub steps_sent: u64,
    pub steps_completed: u64,
    /// Attempts that were certainly not performed.
    pub steps_failed: u64,
    /// Attempts with an unknown outcome.
    pub steps_uncertain: u64,
    /// Attempts sent again under the same key after a restart.
    pub steps_repeated: u64,
    /// Answers to a step that had one already, or was given up.
    pub outcomes_late: u64,
    /// Executions that had ended and run again.
    pub redriven: u64,
}

impl Totals {
    /// The names of the counters, in the order of [`Totals::values`]; the format and the tables rely on it.
    pub const NAMES: [&str; 11] = [
        "started",
        "succeeded",
        "failed",
        "turns",
        "steps_sent",
        "steps_completed",
        "steps_failed",
        "steps_uncertain",
        "steps_repeated",
        "outcomes_late",
        "redriven",
    ];

    /// All counters. New ones are added at the end.
    pub fn values(&self) -> [u64; 11] {
        [
            self.started,
            self.succeeded,
            self.failed,
            self.turns,
            self.steps_sent,
            self.steps_completed,
            self.steps_failed,
            self.steps_uncertain,
            self.steps_repeated,
            self.outcomes_late,
            self.redriven,
        ]
    }

    /// How many executions run, asleep or not. Each one that ended was started before, or had run again.
    pub fn running(&self) -> u64 {
        (self.started + self.redriven).saturating_sub(self.succeeded + self.failed)
    }

    /// From values in the same order; counters that an older record lacks are 0.
    pub fn from_values(values: &[u64]) -> Self {
        let at = |index: usize| values.get(index).copied().unwrap_or(0);
        Self {
            started: at(0),
            succeeded: at(1),
            failed: at(2),
            turns: at(3),
            steps_sent: at(4),
            steps_completed: at(5),
            steps_failed: at(6),
            steps_uncertain: at(7),
            steps_repeated: at(8),
            outcomes_late: at(9),
            redriven: at(10),
        }
    }
}
