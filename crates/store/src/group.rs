//! What one commit writes: the Turns of a group, and the rows of those executions that leave memory with it.
//!
//! A running execution needs no row: it lives in memory and is rebuilt from the journal. It gets one when it
//! ends, when it falls asleep, when it has run for so long that the journal should not keep its beginning, and,
//! for readers of the tables, when it has run for a second.

use crate::audit::Entries;
use crate::lease::{Lease, Position, Shard};
use perdura_engine::{
    EffectKey, ExecutionId, Labels, LedgerStatus, MapRunBounds, MapRunCounts, Status, Timestamp, Wake,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Which machine: a name, whatever its definition is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineId(pub u64);

/// Which definition of which machine; it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RevisionId(pub u64);

/// One transaction: all of it or nothing.
#[derive(Clone, Debug)]
pub struct Group {
    /// The right to write it.
    pub lease: Lease,
    /// Where its journal row goes: the one after the last of this incarnation. `None`: no Turns, only rows.
    pub position: Option<Position>,
    /// The row, as [`crate::record::JournalWriter`] makes it.
    pub journal: Vec<u8>,
    /// Journal rows before this one, of this incarnation and those before it, are no longer needed for its Shards. Its newest
    /// row always stays: it holds the totals.
    pub keep_from: Position,
    /// Executions that leave memory, or are to be seen by readers.
    pub rows: Vec<Row>,
    /// Parts of histories too long for a row.
    pub segments: Vec<Segment>,
    /// What readers of the ledger table should see.
    pub ledger: Vec<LedgerChange>,
    /// Map Runs as they stand now.
    pub map_runs: Vec<MapRunRow>,
    /// The totals of this incarnation, if the table for readers is to follow them now.
    pub totals: Option<Totals>,
    /// Who asked for what, by the Shard whose chain it goes to.
    pub audit: BTreeMap<Shard, Entries>,
}

impl Group {
    /// Nothing yet.
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

/// An execution as its row says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub execution: ExecutionId,
    pub machine: MachineId,
    pub revision: RevisionId,
    /// Its name; `None`: its id is its name.
    pub name: Option<Arc<str>>,
    /// Whether it runs, and how it ended.
    pub status: Status,
    /// It is in some node's memory, and is loaded when the Shard is taken over.
    pub awake: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it wants to be woken, if it sleeps.
    pub wake: Wake,
    /// It sleeps while a worker or a child works for it: a new process has to resume it.
    pub waits: bool,
    /// It sleeps although it could go on, because its machine is paused.
    pub held: bool,
    /// How often it was redriven.
    pub redrives: u32,
    /// When it was last redriven.
    pub redriven_at: Option<Timestamp>,
    /// The version that it was started under.
    pub version: Option<u32>,
    /// The alias that it was started by.
    pub alias: Option<Arc<str>>,
    pub labels: Labels,
    /// The key of the request that it began with, or that the execution began with that started it.
    pub root_key: Option<Arc<str>>,
    /// The name of the error that it ended with.
    pub error: Option<Arc<str>>,
    /// Whose child it is, if it is one.
    pub child: Option<ChildOf>,
    /// Its content; `None`: all of it is in the journal, or the content that the row has stays as it is.
    pub content: Option<Content>,
}

/// The place of an execution in a Map Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChildOf {
    pub run: Uuid,
    /// Which of its children, from 0.
    pub index: u32,
    /// How many items it is for.
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

/// How far an execution is down a line of children that were let in where there was no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nesting {
    /// From 1, for the first of the line.
    pub depth: u32,
    /// It has a place of its own; only its children go on with the line.
    pub has_place: bool,
}

/// A Map Run as its row says it. While it runs, its numbers may be a second old; which children it has, and how they
/// stand, is told by their own rows.
#[derive(Clone, Debug, PartialEq)]
pub struct MapRunRow {
    /// Its id, which is part of its ARN.
    pub id: Uuid,
    pub arn: Arc<str>,
    /// The execution that waits for it.
    pub execution: ExecutionId,
    /// Whether it runs, and how it ended.
    pub status: Status,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How often it was redriven.
    pub redrives: u32,
    /// When it was last redriven.
    pub redriven_at: Option<Timestamp>,
    pub bounds: MapRunBounds,
    /// The version of what its items are read from, if they are.
    pub source_version: Option<Arc<str>>,
    /// How its items and children fare.
    pub counts: MapRunCounts,
    /// Of how many children the results were written.
    pub results_written: u64,
}

/// From which an execution is rebuilt: a snapshot if there is one, then the Turns after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// How many Turns it has had, all of them covered here.
    pub turns: u64,
    /// Its last event's number.
    pub events: u64,
    /// The state after one of its Turns; absent where the tail begins with the first.
    pub state: Option<Snapshot>,
    /// The number of the first Turn in the tail.
    pub tail_from: u64,
    /// The last Turns, sealed as a history; what came before is in segments.
    pub tail: Vec<u8>,
}

/// An execution's state after one of its Turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// After which Turn.
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
    /// How many Turns.
    pub turns: u64,
    /// Sealed as a history.
    pub bytes: Vec<u8>,
}

/// A change of the ledger table.
#[derive(Clone, Debug, PartialEq)]
pub enum LedgerChange {
    /// Pending, failed or uncertain: there is a row for it.
    Put(Box<LedgerRow>),
    /// Completed, and the execution's record tells the rest.
    Drop {
        /// The readable key.
        key: Arc<str>,
    },
    /// The execution ended: its rows go after a while.
    Ended { execution: ExecutionId, at: Timestamp },
}

/// What was done under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow {
    /// `{execution}:{step}:{round}`
    pub key: Arc<str>,
    /// What went over the wire.
    pub wire_key: Uuid,
    pub execution: ExecutionId,
    /// `SendToGov#17`
    pub step: Arc<str>,
    /// Which key generation.
    pub round: u32,
    /// What is known.
    pub status: LedgerStatus,
    /// When it was first sent.
    pub started_at: Timestamp,
    /// When it was settled.
    pub completed_at: Option<Timestamp>,
    /// The result, as JSON.
    pub result: Option<Arc<str>>,
    /// Error and cause.
    pub error: Option<Arc<str>>,
}

impl LedgerRow {
    /// An attempt, as its key tells; how it was settled is added by whoever knows.
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

/// What has happened since the data was made, as one incarnation and those that it followed counted it. Each journal row
/// holds the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Executions that began.
    pub started: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Ended in error, by a stop or by running out of time.
    pub failed: u64,
    pub turns: u64,
    /// Attempts that were sent.
    pub steps_sent: u64,
    /// Steps that were done.
    pub steps_completed: u64,
    /// Attempts that were certainly not done.
    pub steps_failed: u64,
    /// Attempts of which nobody knows.
    pub steps_uncertain: u64,
    /// Attempts sent again under the same key after a restart.
    pub steps_repeated: u64,
    /// Answers that came for a step that had one already, or was given up.
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

    /// All of them. New ones are added at the end.
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

    /// How many executions run, asleep or not. Each of those that ended was started, or had run again.
    pub fn running(&self) -> u64 {
        (self.started + self.redriven).saturating_sub(self.succeeded + self.failed)
    }

    /// From values in the same order; those that an older record lacks are 0.
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
