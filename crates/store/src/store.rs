//! The interface to durable memory: verbs shaped like a Turn, and a reader beside them.
//!
//! A Store has no rule of the product in it. It keeps what it is given, all of a commit or nothing, refuses commits of
//! an incarnation that was ended, and returns what it kept.

mod list;
mod reader;

use crate::audit::Origin;
use crate::group::{Group, Row, Totals};
use crate::lease::{Claim, Incarnation, Lease, Position, Renewal};
use crate::machine::{MachineChange, MachineRecord, NewMachine, Registered, Registry, Revised};
use crate::record::JournalWriter;
pub use list::{
    After, Filter, Listing, Order, Summary, Unlisted, complete_list, complete_name, error_in_rows,
};
use perdura_engine::{ExecutionId, Status, Timestamp};
pub use reader::{ChildStatus, Clock, Due, LedgerFilter, Reader, Room, Stats};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another node ended this incarnation, and has its Shards. Drop the Turns; nothing of them was ever visible.
    #[error("the lease is superseded: incarnation {held} has ended, the newest is {newest}")]
    Fenced {
        /// The caller's.
        held: Incarnation,
        /// The other node's.
        newest: Incarnation,
    },
    /// Offer the same commit again after a pause.
    #[error("the store is busy")]
    Busy,
    /// It is unknown whether the commit is on disk. [`Store::newest`] may tell; if it cannot, drop this handle, open
    /// the store again, and read what is there.
    #[error("{0}")]
    Lost(#[from] Failure),
}

/// The store cannot do its work.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Failure {
    /// The failed operation, and its file.
    pub what: String,
    /// The system's message.
    pub why: String,
    /// The remedy.
    pub kind: FailureKind,
}

/// Failures, by their remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The disk is full: make room; the store then continues by itself.
    DiskFull,
    /// The file or the disk is read-only.
    ReadOnly,
    /// The stored bytes are damaged: restore a backup, or run `perdura check`.
    Corrupt,
    /// Another process holds the data.
    Held,
    /// The data was made by a newer perdura.
    Newer,
    /// The disk or the system failed.
    Io,
}

/// The executions that ran on the Shards of a Lease when they were last held.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The position of the next journal row.
    pub next: Position,
    /// The totals of this incarnation and its predecessors.
    pub totals: Totals,
    /// Each execution that was awake, or has Turns in the journal that its row does not cover.
    pub executions: Vec<Recovered>,
    /// Unreadable parts: the execution where it is known, and the problem. Everything else was read.
    pub damaged: Vec<(Option<ExecutionId>, String)>,
    /// The journal's parts of those, to be set aside before it goes on without them.
    pub aside: Vec<Aside>,
}

/// The part of an unreadable execution in one journal row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The execution; `None`: the row itself cannot be read.
    pub execution: Option<ExecutionId>,
    pub position: Position,
    /// Its Turns, sealed as a row of the journal, or the row as it is.
    pub turns: Vec<u8>,
}

impl Aside {
    /// These Turns of an execution.
    pub fn of(execution: ExecutionId, turns: &[(Position, StoredTurn)]) -> Vec<Self> {
        let mut rows: BTreeMap<Position, JournalWriter> = BTreeMap::new();
        for (position, turn) in turns {
            rows.entry(*position).or_default().push(execution, turn.number, &turn.body);
        }
        let aside = |(position, row): (Position, JournalWriter)| Self {
            execution: Some(execution),
            position,
            turns: row.seal(),
        };
        rows.into_iter().map(aside).collect()
    }
}

/// The remains of an execution that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    /// The status in its row, if it has a readable one.
    pub status: Option<Status>,
    /// The Turns that can be read, in order, from its row, its segments and the journal. Some may be missing.
    pub turns: Vec<StoredTurn>,
}

/// A recovered execution.
#[derive(Debug)]
pub struct Recovered {
    pub execution: ExecutionId,
    pub row: Option<Row>,
    /// The number of the first Turn that no segment has; 1 without segments.
    pub unsegmented_from: u64,
    /// The Turns that the row does not cover, in order, each with the position of its journal row.
    pub turns: Vec<(Position, StoredTurn)>,
}

/// A stored Turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its number in its execution, from 1, without gaps.
    pub number: u64,
    /// The bytes of a [`crate::record::TurnBody`].
    pub body: Vec<u8>,
}

/// How long data is kept. Each bound is independent. Children of a Map Run go when their parent has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Executions that ended before this go.
    pub ended_before: Timestamp,
    /// Ledger rows of executions that ended before this go.
    pub ledger_before: Timestamp,
    /// If the data is larger than this, the executions that ended first go; `None`: no bound.
    pub bytes_max: Option<u64>,
}

/// A slice of executions that may be deleted. A reader finds it beside the writer; the sweep itself checks again, as
/// rows may have changed meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweepable {
    /// The executions, each with the end that was seen.
    pub going: Vec<(ExecutionId, Timestamp)>,
    /// Executions below them, which go after them.
    pub children: u64,
    /// Rows of the ledger that go with them, without rows that go by their own age.
    pub ledger: u64,
    /// Where the next slice begins; `None`: there is no more.
    pub next: Option<SweepPlace>,
}

/// The position of a search for deletable executions. The default is after those whose parents are gone and before all
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepPlace {
    /// The end of the last execution that was looked at.
    pub ended_at: Timestamp,
    /// Its id, for several with the same end.
    pub execution: ExecutionId,
    /// The size of the data without the executions found so far.
    pub bytes: Option<u64>,
}

impl Default for SweepPlace {
    fn default() -> Self {
        Self { ended_at: Timestamp(i64::MIN), execution: ExecutionId::from_uuid(Uuid::nil()), bytes: None }
    }
}

/// The result of a sweep, or of a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Executions with their histories.
    pub executions: u64,
    pub ledger: u64,
    /// There is more: sweep again.
    pub more: bool,
}

/// The result of erasing executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// All of their data is erased.
    Done {
        /// How many had data until now.
        executions: u64,
        /// How many of their rows of the ledger had a result or an error.
        ledger: u64,
    },
    /// This execution is not as it was seen: nothing was erased.
    Moved(ExecutionId),
}

/// Verbs that every process may use at any time, whatever Shards it holds: machines, the registry, lists, sweeping,
/// giving space back. If a verb is told the requester, its change and its audit entry are committed together.
pub trait Catalog: Send {
    /// Stores a definition, which counts from now on; creates the machine if it does not exist. If the definition
    /// equals the one that counts, nothing changes.
    fn deploy(
        &mut self,
        machine: &NewMachine,
        by: Option<&Arc<Origin>>,
    ) -> Result<MachineRecord, CommitError>;

    /// Changes a machine as a whole, if it is as it was seen.
    fn revise(
        &mut self,
        change: &MachineChange<'_>,
        by: Option<&Arc<Origin>>,
    ) -> Result<Revised, CommitError>;

    /// Registers an entry by its name, replacing an earlier one.
    fn register(&mut self, entry: &Registered, by: Option<&Arc<Origin>>) -> Result<(), CommitError>;

    /// Removes an entry; `false`: there was none with that name.
    fn unregister(
        &mut self,
        kind: Registry,
        name: &str,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError>;

    /// Deletes the given executions that are still as they were seen: ended, in no node's memory by their rows, and not
    /// in the journal. The holder of their Shards knows that they are not in its memory. With them go a slice of the
    /// ledger rows that are too old by themselves.
    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
        by: Option<&Arc<Origin>>,
    ) -> Result<Swept, CommitError>;

    /// Deletes rows at the old end of the audit's chains, at most so many, whose entries are all older than this.
    /// Returns how many; the cut itself is an entry.
    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError>;

    /// Gives a slice of free space back to the disk, at most so many pages, in one short transaction. With `reserves`,
    /// it keeps the space that will soon be used.
    fn give_back(&mut self, _pages: u32, _reserves: bool) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// Removes deleted and overwritten bytes from every file, and nothing else. `false`: a reader still uses an older
    /// snapshot, so that some bytes stay until it has ended and this is called again.
    fn scrub(&mut self) -> Result<bool, CommitError> {
        Ok(true)
    }

    /// Writes the data anew where it has so many bytes at most, so that nothing of what was deleted or overwritten is left in
    /// the unused parts of pages; then the log has it, until [`scrub`](Self::scrub). `false`: it has more, or there is no room
    /// for it twice, and it stays as it is. Other commits wait.
    fn rewrite_small(&mut self, _bytes_max: u64) -> Result<bool, CommitError> {
        Ok(true)
    }

    /// Rewrites the data without free space, and so that it can give space back from then on. Nothing else can be done
    /// meanwhile.
    fn rewrite(&mut self) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// A reader, which sees every commit that was made before a call to it.
    fn reader(&self) -> Result<Box<dyn Reader>, Failure>;
}

/// Durable memory for a node that holds Shards. One handle writes; readers work beside it.
pub trait Store: Catalog {
    /// The number of Shards of this installation; fixed when it was created.
    fn shards(&self) -> u16;

    /// Begins an incarnation. It ends all expired incarnations, and those of this holder. The new one gets Shards
    /// without a holder, at most as many as it wants, and maybe none.
    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError>;

    /// Holds the Shards for longer.
    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError>;

    /// Ends the incarnation; its Shards have no holder then.
    fn release(&mut self, lease: &Lease) -> Result<(), CommitError>;

    /// Reads the executions that ran on the Shards, for their new holder.
    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError>;

    /// The newest journal row of this incarnation, read under the lock of its commits: a node that lost the answer to a
    /// commit learns here whether it happened.
    fn newest(&mut self, lease: &Lease) -> Result<Position, CommitError>;

    /// Keeps the journal's parts of unreadable executions, until a person has decided. Parts that are kept already stay
    /// unchanged.
    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError>;

    /// Deletes an execution for good: its row, its history, its set-aside parts, and its Turns in the journal. Call it
    /// only for an execution that is in no node's memory. `false`: there is nothing of it.
    fn give_up(
        &mut self,
        lease: &Lease,
        execution: ExecutionId,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError>;

    /// Erases the data of ended executions, each with the end that was seen: rows, histories, the ledger and labels
    /// then only show that there was data, and the journal has nothing of them. All of them in one commit, or none.
    /// Executions that were erased before stay unchanged. Call it only for executions that are in no node's memory.
    fn erase(
        &mut self,
        lease: &Lease,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
        by: Option<&Arc<Origin>>,
    ) -> Result<Erased, CommitError>;

    /// Writes a group: all of it is on disk, or nothing of it ever was.
    fn commit(&mut self, group: &Group) -> Result<(), CommitError>;

    /// When this data was restored from a backup. Calls that were pending then may have been performed since: an
    /// attempt that was sent before this moment is held, not repeated.
    fn restored_at(&self) -> Option<Timestamp> {
        None
    }
}
