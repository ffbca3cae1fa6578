//! The reader of a store: queries and their results.

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

/// The status of a child of a Map Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildStatus {
    /// Its number.
    pub index: u32,
    /// The status in its row.
    pub status: Status,
    /// The number of its items.
    pub items: u32,
}

/// The clock of a timer: steady or wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// The clock that never steps.
    Steady,
    /// The wall clock.
    Wall,
}

/// A sleeper to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub at: Timestamp,
    pub execution: ExecutionId,
}

/// A filter for rows of the ledger.
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
    /// After the row with this time and key.
    pub after: Option<(Timestamp, Arc<str>)>,
}

/// Statistics of the stored data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Totals over all Shards, from the last journal rows.
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
    /// The free space in it.
    pub room: Room,
}

/// Unused space inside the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    pub free_bytes: u64,
    /// It can be given back to the disk while work goes on.
    pub gives_back: bool,
    /// There is more to give back: call again.
    pub more: bool,
}

/// Reads. A reader never waits for a writer, and no writer waits for a reader.
pub trait Reader: Send {
    /// A definition.
    fn revision(&mut self, revision: RevisionId) -> Result<Option<MachineRecord>, Failure>;

    /// The machine's definition that counts.
    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure>;

    /// The definition that counts, of every machine, sorted by name.
    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure>;

    /// The id of the machine that has, or had, this name.
    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure>;

    /// The name of a machine, also of a deleted one.
    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure>;

    /// The current state of a machine.
    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure>;

    /// The current states of machines, sorted by name, after this one.
    fn heads(&mut self, after: Option<&str>, most: u32) -> Result<Vec<Head>, Failure>;

    fn machine_count(&mut self) -> Result<usize, Failure>;

    /// The execution with this name, if it has a row.
    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure>;

    /// Reserves a name for an execution that is about to begin. Returns the execution that has the name now, which is
    /// another one if that was first. All processes see a reservation at once, and it is deleted with its execution. If
    /// the execution never begins, the next request for the name gets the same id, and may begin it. This is the only
    /// write of a reader, and it waits for no commit.
    ///
    /// Where one process holds the data, a reservation may be forgotten if that process ends before the execution has
    /// begun. A node that holds all Shards first checks the names of the executions that it recovered.
    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure>;

    /// The execution that a name is reserved for, whether or not it has begun.
    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure>;

    /// The holder of each Shard; a Shard that is missing has no holder. An expired holder is listed until another takes
    /// over.
    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure>;

    /// One execution with its newest committed Turns: its row and the journal's Turns beyond it.
    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure>;

    /// Only the row, of a sleeping or ended execution: used to wake it up.
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

    /// Sleepers of a Shard that a new process must resume, sorted by id, after one of them.
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

    /// The registered entries of a kind, sorted by name, after this one.
    fn registered(
        &mut self,
        kind: Registry,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<Registered>, Failure>;

    /// The registered entry of a kind with this name.
    fn registered_one(&mut self, kind: Registry, name: &str) -> Result<Option<Registered>, Failure>;

    /// Running executions that only the journal has, in no order; no list shows them yet. This reads all of the
    /// journal, so use it only where no node can be asked for its memory. Includes children of Map Runs.
    fn unlisted(&mut self) -> Result<Vec<Unlisted>, Failure>;

    /// A page of the executions that have a row.
    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure>;

    /// The statuses of the children of a Map Run, in their order, from this one on.
    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure>;

    /// The children of a Map Run that have a row, in their order, from this one on.
    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure>;

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

    /// The remains of an execution, even if they do not fit together.
    fn left(&mut self, execution: ExecutionId) -> Result<Left, Failure>;

    /// Rows of the ledger, the oldest first.
    fn ledger(&mut self, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Failure>;

    /// A slice of the executions that these bounds allow to delete, those that ended first before the others. Without a
    /// starting position, children whose parents are gone come first. Executions in the journal stay, whatever their
    /// row says: recovery would take them for running ones.
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

    /// Follows every chain of the audit from its first row to its last, on one snapshot, and checks whether these
    /// hashes are in them. `told` gets the number of followed rows, now and then.
    fn verify_audit(
        &mut self,
        noted: &[(Chain, Hash)],
        told: &mut dyn FnMut(u64),
    ) -> Result<Result<Vec<Verified>, Broken>, Failure>;

    fn stats(&mut self) -> Result<Stats, Failure>;

    /// 32 random bytes that only this installation and its backups have. They sign tokens that clients must return
    /// unchanged.
    fn secret(&mut self) -> Result<[u8; 32], Failure>;
}
