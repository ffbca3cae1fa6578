//! The door to durable memory: verbs shaped like a Turn, and a read side beside them.
//!
//! No rule of the product lives behind this door. A Store keeps what it is given, all of a commit or nothing,
//! refuses what comes under an old Epoch, and gives back what it kept.

use crate::group::{Group, LedgerRow, MachineId, MapRunRow, RevisionId, Row, Totals};
use crate::lease::{Epoch, Lease, Position, Renewal, Shard};
use crate::machine::{Head, MachineChange, MachineRecord, NewMachine, Registered, Registry, Revised};
use crate::record::{JournalWriter, TurnBody};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A newer Lease exists. Drop the Turns; nothing of them was ever visible.
    #[error("the lease on {shard} is superseded: held epoch {held}, newest {newest}")]
    Fenced {
        shard: Shard,
        /// Ours.
        held: Epoch,
        /// Somebody's.
        newest: Epoch,
    },
    /// Offer the same commit again after a pause.
    #[error("the store is busy")]
    Busy,
    /// Whether it is on disk is not known. Drop this handle, open the store again, and read what is there.
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

/// What ran on a Shard when it was last held.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Where the next journal row goes.
    pub next: Position,
    /// The totals after the last row.
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
    pub row: u64,
    /// How large the data would be without those that may go.
    pub bytes: Option<u64>,
}

impl Default for SweepPlace {
    fn default() -> Self {
        Self { ended_at: Timestamp(i64::MIN), row: 0, bytes: None }
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

/// Durable memory, as one node writes it. One handle writes; readers stand beside it.
pub trait Store: Send {
    /// Into how many Shards this installation is divided; fixed when it was made.
    fn shards(&self) -> u16;

    /// Takes every Shard that nobody holds, whose Lease ran out, or that this holder has; each under a new Epoch.
    fn acquire(
        &mut self,
        holder: &Arc<str>,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Vec<Lease>, CommitError>;

    /// Holds a Shard for longer.
    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError>;

    /// Gives a Shard back.
    fn release(&mut self, lease: &Lease) -> Result<(), CommitError>;

    /// What ran on a Shard, for the one who holds it now.
    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError>;

    /// Keeps what the journal has of executions that cannot be read, until a person has decided. What is kept already stays
    /// as it is.
    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError>;

    /// Gives an execution up for good: its row, its history, what was set aside of it, and what the journal has of it. To
    /// be called for one that nobody has in memory. `false`: there is nothing of it.
    fn give_up(&mut self, lease: &Lease, execution: ExecutionId) -> Result<bool, CommitError>;

    /// Writes a group: all of it is on disk, or nothing of it ever was.
    fn commit(&mut self, group: &Group) -> Result<(), CommitError>;

    /// Keeps a definition, which counts from now on; a machine that is not there is made. What is the same as the one
    /// that counts changes nothing.
    fn deploy(&mut self, machine: &NewMachine) -> Result<MachineRecord, CommitError>;

    /// Changes a machine as a whole, if it stands as it was seen.
    fn revise(&mut self, change: &MachineChange<'_>) -> Result<Revised, CommitError>;

    /// Keeps something by its name, in the place of what had it.
    fn register(&mut self, entry: &Registered) -> Result<(), CommitError>;

    /// Forgets it; `false`: there was nothing of that name.
    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, CommitError>;

    /// Takes those away of which what was seen still holds: they have ended, nobody has them in memory by their rows,
    /// and the journal has nothing of them. Whoever holds their Shards knows that they are in no memory. With them goes
    /// a slice of the ledger rows that are too old by themselves.
    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
    ) -> Result<Swept, CommitError>;

    /// Gives a slice of free room back to the disk, at most so many pages, in one short transaction. With `reserves`, what
    /// will soon be used stays.
    fn give_back(&mut self, _pages: u32, _reserves: bool) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// Writes the data anew, without free room, and so that it gives room back from then on. Nothing else can be done
    /// meanwhile.
    fn rewrite(&mut self) -> Result<Room, CommitError> {
        Ok(Room::default())
    }

    /// A view for reading, which sees every commit that was made before a call to it.
    fn reader(&self) -> Result<Box<dyn Reader>, Failure>;

    /// When this data was restored from a backup. What was pending then may have been done since: an attempt
    /// that was sent before this moment is held, not repeated.
    fn restored_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Which executions a list shows. Children of Map Runs are in no list but that of their run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this machine only.
    pub machine: Option<MachineId>,
    /// With this status only.
    pub status: Option<Status>,
    /// Started under this version only.
    pub version: Option<u32>,
    /// Started by this alias only.
    pub alias: Option<Arc<str>>,
    /// Only those that were redriven, or only those that were not.
    pub redriven: Option<bool>,
    /// The children of this Map Run, the last one first; of the rest, only status and redrives are looked at then. A
    /// further page begins after one of them.
    pub map_run: Option<Uuid>,
    /// Children of that Map Run before this one only.
    pub before_child: Option<u32>,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub execution: ExecutionId,
    pub machine: MachineId,
    pub revision: RevisionId,
    /// Its name; `None`: its id is its name.
    pub name: Option<Arc<str>>,
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
    /// The version that it was started under.
    pub version: Option<u32>,
    /// The alias that it was started by.
    pub alias: Option<Arc<str>>,
    /// Which child of its Map Run it is, if it is one.
    pub child: Option<u32>,
}

impl Filter {
    /// Whether a list that asks for this shows it. Of which Map Run a child is, is for others to look at.
    pub fn shows(&self, summary: &Summary) -> bool {
        let is_meant = match self.map_run {
            Some(_) => {
                summary.child.is_some_and(|child| self.before_child.is_none_or(|before| child < before))
            }
            None => {
                summary.child.is_none()
                    && self.machine.is_none_or(|machine| summary.machine == machine)
                    && self.version.is_none_or(|version| summary.version == Some(version))
                    && self.alias.as_ref().is_none_or(|alias| summary.alias.as_ref() == Some(alias))
            }
        };
        is_meant
            && self.status.is_none_or(|status| summary.status.name() == status.name())
            && self.redriven.is_none_or(|redriven| (summary.redrives > 0) == redriven)
    }

    /// A page of rows, with what is known besides them: what memory or the journal says of an execution counts.
    pub fn complete(
        &self,
        mut rows: Vec<Summary>,
        known: Vec<Summary>,
        after: After,
        most: u32,
    ) -> Vec<Summary> {
        let also: BTreeSet<ExecutionId> = known.iter().map(|summary| summary.execution).collect();
        rows.retain(|summary| !also.contains(&summary.execution));
        let is_wanted =
            |summary: &Summary| self.shows(summary) && (self.map_run.is_some() || summary.comes_after(after));
        rows.extend(known.into_iter().filter(is_wanted));
        match self.map_run {
            Some(_) => rows.sort_unstable_by_key(|summary| Reverse(summary.child)),
            None => rows.sort_unstable_by_key(|summary| Reverse((summary.started_at, summary.execution))),
        }
        rows.truncate(most as usize);
        rows
    }
}

impl Summary {
    /// Whether it belongs on a page of a list that begins after this place.
    pub fn comes_after(&self, place: After) -> bool {
        place.is_none_or(|place| (self.started_at, self.execution) < place)
    }
}

/// How a child of a Map Run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildStatus {
    /// Which child.
    pub index: u32,
    /// As its row says.
    pub status: Status,
    /// How many items it is for.
    pub items: u32,
}

/// An execution that has no row yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlisted {
    /// As a list would show it.
    pub summary: Summary,
    /// The Map Run whose child it is, if it is one.
    pub map_run: Option<Uuid>,
}

impl Unlisted {
    /// What a first Turn says of an execution that has no row; `None`: it is no first Turn, or cannot be read.
    pub(crate) fn of(execution: ExecutionId, turn: &StoredTurn) -> Option<Self> {
        let TurnBody { begun, turn } = TurnBody::read(&turn.body).ok()?;
        let begun = begun?;
        let summary = Summary {
            execution,
            machine: begun.machine,
            revision: begun.revision,
            name: begun.named.then(|| begun.identity.name.clone()),
            status: Status::Running,
            started_at: turn.events().next()?.at,
            ended_at: None,
            redrives: 0,
            redriven_at: None,
            version: begun.identity.version(),
            alias: begun.identity.alias().map(Into::into),
            child: begun.child.map(|child| child.index),
        };
        Some(Self { summary, map_run: begun.child.map(|child| child.run) })
    }
}

/// Where a list goes on: after this execution. Lists are in the order of their start, the newest first.
pub type After = Option<(Timestamp, ExecutionId)>;

/// Which of the two clocks a timer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The one that never steps.
    Steady,
    /// The one on the wall.
    Wall,
}

/// A sleeper that is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub at: Timestamp,
    pub execution: ExecutionId,
}

/// Which rows of the ledger are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// With this status only.
    pub status: Option<LedgerStatus>,
    /// Of this execution only.
    pub execution: Option<ExecutionId>,
    /// Sent before this.
    pub started_before: Option<Timestamp>,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Totals over all Shards, as the last journal rows say.
    pub totals: Totals,
    /// Executions by status, of those that have a row.
    pub executions: Vec<(Status, u64)>,
    /// Rows of the ledger by status.
    pub ledger: Vec<(LedgerStatus, u64)>,
    /// When the oldest pending attempt was sent.
    pub oldest_pending: Option<Timestamp>,
    /// Each table with its rows and bytes.
    pub tables: Vec<(String, u64, u64)>,
    /// The data's size on disk.
    pub bytes: u64,
    /// How much of that is free.
    pub room: Room,
}

/// Room inside the data that nothing is stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// How much.
    pub free_bytes: u64,
    /// It can be given back to the disk while work goes on.
    pub gives_back: bool,
    /// There is more to give back: ask again.
    pub more: bool,
}

/// The read side. It never waits for a writer, and no writer waits for it.
pub trait Reader: Send {
    /// A definition.
    fn revision(&mut self, revision: RevisionId) -> Result<Option<MachineRecord>, Failure>;

    /// The definition of a machine that counts.
    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure>;

    /// The definition of every machine that counts, by name.
    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure>;

    /// Which machine has, or had, this name.
    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure>;

    /// The name of a machine, also of one that is gone.
    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure>;

    /// A machine as it stands.
    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure>;

    /// Machines as they stand, by name, after this one.
    fn heads(&mut self, after: Option<&str>, most: u32) -> Result<Vec<Head>, Failure>;

    /// How many machines there are.
    fn machine_count(&mut self) -> Result<usize, Failure>;

    /// The execution with this name, if it has a row.
    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure>;

    /// One execution with its newest committed Turns: its row and what the journal has beyond it.
    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure>;

    /// The row alone, of one that sleeps or has ended: the way to wake it up.
    fn row(&mut self, execution: ExecutionId) -> Result<Option<(Row, u64)>, Failure>;

    /// Sleepers of a Shard whose time on this clock is after `after` and at most `until`, the earliest first.
    fn due(
        &mut self,
        shard: Shard,
        clock: Clock,
        after: Option<Due>,
        until: Timestamp,
        most: u32,
    ) -> Result<Vec<Due>, Failure>;

    /// Sleepers of a Shard that a new process has to resume, in the order of their ids, after one of them.
    fn waiting(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<ExecutionId>, Failure>;

    /// What is registered of a kind, by name, after this one.
    fn registered(
        &mut self,
        kind: Registry,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<Registered>, Failure>;

    /// What is registered of a kind under this name.
    fn registered_one(&mut self, kind: Registry, name: &str) -> Result<Option<Registered>, Failure>;

    /// Executions that only the journal knows of, in no order: they run, and no list shows them yet. All of the journal
    /// is read for it, so it is for whoever has nobody to ask what is in memory. Children of Map Runs are told too.
    fn unlisted(&mut self) -> Result<Vec<Unlisted>, Failure>;

    /// Executions that have a row, the newest first.
    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Vec<Summary>, Failure>;

    /// How the children of a Map Run stand, in their order, from this one on.
    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure>;

    /// The children of a Map Run that have a row, in their order, from this one on.
    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure>;

    /// One Map Run.
    fn map_run(&mut self, run: Uuid) -> Result<Option<MapRunRow>, Failure>;

    /// Map Runs that have not ended, by their rows, in the order of their ids after this one.
    fn running_map_runs(&mut self, after: Option<Uuid>, most: u32) -> Result<Vec<MapRunRow>, Failure>;

    /// The Map Runs of an execution, in the order of their start.
    fn map_runs(&mut self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure>;

    /// The Turns of an execution from this number on, at most about `bytes_max` of them; empty: there are no more.
    fn turns(
        &mut self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure>;

    /// The Turns of an execution before this number, or from its end, the last one first, at most about `bytes_max` of
    /// them; empty: there are none.
    fn turns_before(
        &mut self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure>;

    /// What is left of an execution, whether or not it fits together.
    fn left(&mut self, execution: ExecutionId) -> Result<Left, Failure>;

    /// Rows of the ledger, the oldest first.
    fn ledger(&mut self, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Failure>;

    /// A slice of the executions that may go by these bounds, those that ended first before the others; without a place
    /// to go on from, children whose parents are gone come first. What stands in the journal stays, whatever its row
    /// says: recovery would take it for one that runs.
    fn sweepable(
        &mut self,
        retention: &Retention,
        after: Option<SweepPlace>,
        most: u32,
    ) -> Result<Sweepable, Failure>;

    /// How many rows of the ledger are too old by themselves.
    fn old_ledger(&mut self, before: Timestamp) -> Result<u64, Failure>;

    /// How much there is.
    fn stats(&mut self) -> Result<Stats, Failure>;

    /// 32 random bytes that only this installation and its backups know: what it hands out and wants back unchanged
    /// is signed with them.
    fn secret(&mut self) -> Result<[u8; 32], Failure>;
}

/// A page of executions, with those that only the journal knows of.
pub fn complete_list(
    reader: &mut dyn Reader,
    filter: &Filter,
    after: After,
    most: u32,
) -> Result<Vec<Summary>, Failure> {
    let mut unlisted = reader.unlisted()?;
    unlisted.retain(|unlisted| unlisted.map_run == filter.map_run);
    let unlisted = unlisted.into_iter().map(|unlisted| unlisted.summary).collect();
    let rows = reader.list(filter, after, most)?;
    Ok(filter.complete(rows, unlisted, after, most))
}
