//! What can be asked of a store, and what it answers.

use super::{Failure, Left, Recovered, Retention, StoredTurn, SweepPlace, Sweepable};
use crate::group::{LedgerRow, MachineId, MapRunRow, RevisionId, Row, Totals};
use crate::lease::Shard;
use crate::machine::{Head, MachineRecord, Registered, Registry};
use crate::record::TurnBody;
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Reserves a name for an execution that is to begin: whose it is from now on, which is another's if that came first.
    /// A reservation counts for everybody at once, and goes with its execution. Where the execution never begins, whoever
    /// wants the name next gets the same id, and may begin it. Only this is written here, and it waits for no commit.
    ///
    /// Where one process holds the data it may be forgotten when that ends before the execution has begun. Whoever holds
    /// all Shards looks at the names of what it recovered first.
    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure>;

    /// The execution that a name is reserved for, whether or not it has begun.
    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure>;

    /// Who holds which Shard; a Shard that is missing has no holder. A holder whose lease ran out is told until another takes over.
    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure>;

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

/// The execution that has this name, also where only the journal knows of it.
pub fn complete_name(
    reader: &mut dyn Reader,
    machine: MachineId,
    name: &str,
) -> Result<Option<ExecutionId>, Failure> {
    let is_meant = |summary: &Summary| summary.machine == machine && summary.name.as_deref() == Some(name);
    let mut unlisted = reader.unlisted()?.into_iter().map(|unlisted| unlisted.summary);
    match unlisted.find(is_meant) {
        Some(found) => Ok(Some(found.execution)),
        None => reader.named(machine, name),
    }
}
