//! What can be asked of a store, and what it answers.

use super::list::{After, Filter, Listing, Unlisted};
use super::{Failure, Left, Recovered, Retention, StoredTurn, SweepPlace, Sweepable};
use crate::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Verified};
use crate::group::{LedgerRow, MachineId, MapRunRow, RevisionId, Row, Totals};
use crate::lease::Shard;
use crate::machine::{Head, MachineRecord, Registered, Registry};
use perdura_engine::{ExecutionId, LedgerStatus, Status, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

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
    /// Sent under this key.
    pub wire_key: Option<Uuid>,
    /// Sent before this.
    pub started_before: Option<Timestamp>,
    /// Behind the row with this time and key.
    pub after: Option<(Timestamp, Arc<str>)>,
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

    /// Sleepers of a Shard that could go on and are held, in the order of their ids, after one of them.
    fn held(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<(ExecutionId, MachineId)>, Failure>;

    /// How many of them each machine has, on all Shards.
    fn held_counts(&mut self) -> Result<BTreeMap<MachineId, u64>, Failure>;

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

    /// A page of the executions that have a row.
    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure>;

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

    /// A page of the audit, from its old end or its new end.
    fn audit(&mut self, page: &AuditPage) -> Result<Vec<AuditRow>, Failure>;

    /// Follows every chain of the audit from its first row to its last, at one moment, and looks whether these hashes are
    /// in them. `told` hears how many rows were followed, now and then.
    fn verify_audit(
        &mut self,
        noted: &[(Chain, Hash)],
        told: &mut dyn FnMut(u64),
    ) -> Result<Result<Vec<Verified>, Broken>, Failure>;

    /// How much there is.
    fn stats(&mut self) -> Result<Stats, Failure>;

    /// 32 random bytes that only this installation and its backups know: what it hands out and wants back unchanged
    /// is signed with them.
    fn secret(&mut self) -> Result<[u8; 32], Failure>;
}
