//! The door to durable memory: verbs shaped like a Turn, and a read side beside them.
//!
//! No rule of the product lives behind this door. A Store keeps what it is given, all of a commit or nothing,
//! refuses what comes of an incarnation that was ended, and gives back what it kept.

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
    /// Somebody ended this incarnation, and has its Shards. Drop the Turns; nothing of them was ever visible.
    #[error("the lease is superseded: incarnation {held} has ended, the newest is {newest}")]
    Fenced {
        /// Ours.
        held: Incarnation,
        /// Somebody's.
        newest: Incarnation,
    },
    /// Offer the same commit again after a pause.
    #[error("the store is busy")]
    Busy,
    /// Whether it is on disk is not known. [`Store::newest`] may tell; if it cannot, drop this handle, open the store again,
    /// and read what is there.
    #[error("{0}")]
    Lost(#[from] Failure),
}

/// The store cannot do its work: what is wrong, and where.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Failure {
    /// What was to be done, on which file.
    pub what: String,
    /// What the system says.
    pub why: String,
    /// What a person can do about it.
    pub kind: FailureKind,
}

/// Failures by what can be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The disk is full: make room; it goes on by itself.
    DiskFull,
    /// The file or the disk can only be read.
    ReadOnly,
    /// What is stored is not what was written: restore a backup, or run `perdura check`.
    Corrupt,
    /// Another process holds the data.
    Held,
    /// Made by a newer perdura.
    Newer,
    /// The disk or the system failed.
    Io,
}

/// What ran on the Shards of a Lease when they were last held.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Where the next journal row goes.
    pub next: Position,
    /// The totals so far, of this incarnation and those that it follows.
    pub totals: Totals,
    /// Each execution that was awake, or has Turns in the journal that its row does not cover.
    pub executions: Vec<Recovered>,
    /// What could not be read: the execution where it is known, and what is wrong. Everything else is there.
    pub damaged: Vec<(Option<ExecutionId>, String)>,
    /// What the journal has of those, to be set aside before it goes on without them.
    pub aside: Vec<Aside>,
}

/// What one row of the journal has of an execution that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Whose; `None`: the row itself cannot be read.
    pub execution: Option<ExecutionId>,
    /// Where it stands.
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

/// What is left of an execution that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    /// What its row says, where it has one that can be read.
    pub status: Option<Status>,
    /// The Turns that can be read, in order, from its row, its segments and the journal. Some may be missing.
    pub turns: Vec<StoredTurn>,
}

/// One of them.
#[derive(Debug)]
pub struct Recovered {
    pub execution: ExecutionId,
    /// Its row, where it has one.
    pub row: Option<Row>,
    /// The number of the first Turn that no segment holds; 1 without segments.
    pub unsegmented_from: u64,
    /// The Turns that the row does not cover, in order, each with the journal row in which it stands.
    pub turns: Vec<(Position, StoredTurn)>,
}

/// A Turn as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its number in its execution, from 1, without gaps.
    pub number: u64,
    /// As [`crate::record::TurnBody`] is written.
    pub body: Vec<u8>,
}

/// How long things are kept. Each is a bound of its own. Children of a Map Run go when their parent has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Executions that ended before this go.
    pub ended_before: Timestamp,
    /// Ledger rows of executions that ended before this go.
    pub ledger_before: Timestamp,
    /// If the data is larger than this, the executions that ended first go; `None`: no bound.
    pub bytes_max: Option<u64>,
}

/// A slice of what may go. It is found beside the writer; the sweep itself looks again, at rows that may have changed
/// meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweepable {
    /// Those that may go, each with the end that was seen of it.
    pub going: Vec<(ExecutionId, Timestamp)>,
    /// Executions below them, which go after them.
    pub children: u64,
    /// Rows of the ledger that go with them, those aside that go by their own age.
    pub ledger: u64,
    /// Where the next slice begins; `None`: there is no more.
    pub next: Option<SweepPlace>,
}

/// How far a search for what may go has come. The default is behind those whose parents are gone and before all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepPlace {
    /// The end of the last that was looked at.
    pub ended_at: Timestamp,
    /// Which of those with that end.
    pub execution: ExecutionId,
    /// How large the data would be without those that may go.
    pub bytes: Option<u64>,
}

impl Default for SweepPlace {
    fn default() -> Self {
        Self { ended_at: Timestamp(i64::MIN), execution: ExecutionId::from_uuid(Uuid::nil()), bytes: None }
    }
}

/// What a sweep took away, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Executions with their histories.
    pub executions: u64,
    /// Rows of the ledger.
    pub ledger: u64,
    /// There is more: sweep again.
    pub more: bool,
}

/// What came of erasing executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// Nothing of their data is left.
    Done {
        /// How many had data until now.
        executions: u64,
        /// How many rows of the ledger had a result or an error of theirs.
        ledger: u64,
    },
    /// This one is not as it was seen: nothing was erased.
    Moved(ExecutionId),
}

/// What everybody may ask for at any time, whoever holds which Shard: machines, what is registered, lists,
/// sweeping, giving room back. Where a verb is told who asked, what it did is on the audit with it, or neither is.
pub trait Catalog: Send {
    /// Keeps a definition, which counts from now on; a machine that is not there is made. What is the same as the one
    /// that counts changes nothing.
    fn deploy(
        &mut self,
        machine: &NewMachine,
        by: Option<&Arc<Origin>>,
    ) -> Result<MachineRecord, CommitError>;

    /// Changes a machine as a whole, if it stands as it was seen.
    fn revise(
        &mut self,
        change: &MachineChange<'_>,
        by: Option<&Arc<Origin>>,
    ) -> Result<Revised, CommitError>;

    /// Keeps something by its name, in the place of what had it.
    fn register(&mut self, entry: &Registered, by: Option<&Arc<Origin>>) -> Result<(), CommitError>;

    /// Forgets it; `false`: there was nothing of that name.
    fn unregister(
        &mut self,
        kind: Registry,
        name: &str,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError>;

    /// Takes those away of which what was seen still holds: they have ended, nobody has them in memory by their rows,
    /// and the journal has nothing of them. Whoever holds their Shards knows that they are in no memory. With them goes
    /// a slice of the ledger rows that are too old by themselves.
    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
        by: Option<&Arc<Origin>>,
    ) -> Result<Swept, CommitError>;

    /// Takes away rows of the audit at the old end of its chains, at most so many, that have nothing as new as this. How
    /// many; that they went is an entry.
    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError>;

    /// Gives a slice of free room back to the disk, at most so many pages, in one short transaction. With `reserves`, what
    /// will soon be used stays.
    fn give_back(&mut self, _pages: u32, _reserves: bool) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// Takes what was deleted or overwritten out of every file, and nothing that is there. `false`: a reader still looks
    /// at what was there before it, so that some of it stays until that has ended and this is called again.
    fn scrub(&mut self) -> Result<bool, CommitError> {
        Ok(true)
    }

    /// Writes the data anew where it has so many bytes at most, so that nothing of what was deleted or overwritten is left in
    /// the unused parts of pages; then the log has it, until [`scrub`](Self::scrub). `false`: it has more, or there is no room
    /// for it twice, and it stays as it is. Other commits wait.
    fn rewrite_small(&mut self, _bytes_max: u64) -> Result<bool, CommitError> {
        Ok(true)
    }

    /// Writes the data anew, without free room, and so that it gives room back from then on. Nothing else can be done
    /// meanwhile.
    fn rewrite(&mut self) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// A view for reading, which sees every commit that was made before a call to it.
    fn reader(&self) -> Result<Box<dyn Reader>, Failure>;
}

/// Durable memory, as the holder of Shards writes it. One handle writes; readers stand beside it.
pub trait Store: Catalog {
    /// Into how many Shards this installation is divided; fixed when it was made.
    fn shards(&self) -> u16;

    /// Begins an incarnation. All that ran out are ended, and those of this holder; it gets Shards that nobody holds then, as
    /// many as it wants at most, and maybe none.
    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError>;

    /// Holds the Shards for longer.
    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError>;

    /// Ends the incarnation: its Shards are nobody's.
    fn release(&mut self, lease: &Lease) -> Result<(), CommitError>;

    /// What ran on the Shards, for the one who holds them now.
    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError>;

    /// The newest journal row of this incarnation, read under the lock that its commits take: whoever lost the answer to a
    /// commit learns here whether it happened.
    fn newest(&mut self, lease: &Lease) -> Result<Position, CommitError>;

    /// Keeps what the journal has of executions that cannot be read, until a person has decided. What is kept already stays
    /// as it is.
    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError>;

    /// Gives an execution up for good: its row, its history, what was set aside of it, and what the journal has of it. To
    /// be called for one that nobody has in memory. `false`: there is nothing of it.
    fn give_up(
        &mut self,
        lease: &Lease,
        execution: ExecutionId,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError>;

    /// Erases the data of executions that have ended, each with the end that was seen of it: rows, histories, the ledger and
    /// labels say from now on that there was something, and the journal has nothing of them. All of them in one commit, or
    /// none. Those that were erased before stay as they are. To be called for what nobody has in memory.
    fn erase(
        &mut self,
        lease: &Lease,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
        by: Option<&Arc<Origin>>,
    ) -> Result<Erased, CommitError>;

    /// Writes a group: all of it is on disk, or nothing of it ever was.
    fn commit(&mut self, group: &Group) -> Result<(), CommitError>;

    /// When this data was restored from a backup. What was pending then may have been done since: an attempt
    /// that was sent before this moment is held, not repeated.
    fn restored_at(&self) -> Option<Timestamp> {
        None
    }
}
