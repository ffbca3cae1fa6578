//! A reader that fails now and then, and that sabotage makes miss data.

use super::disk::{SharedDisk, lock};
use super::failure;
use crate::sabotage::Sabotage;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_store::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Verified};
use perdura_store::{
    After, ChildStatus, Clock, Due, Failure, FailureKind, Filter, Head, LedgerFilter, LedgerRow, Left,
    Listing, MachineId, MachineRecord, MapRunRow, Reader, Recovered, Registered, Registry, Retention,
    RevisionId, Row, Shard, Stats, StoredTurn, SweepPlace, Sweepable, Unlisted,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// A reader that fails now and then.
pub(super) struct SimReader {
    pub(super) inner: Box<dyn Reader>,
    pub(super) disk: SharedDisk,
}

impl SimReader {
    fn may_fail(&self) -> Result<(), Failure> {
        let rate = lock(&self.disk).rates.read_fails;
        if lock(&self.disk).strikes(rate, "a read failed") {
            return Err(failure("reading", FailureKind::Io));
        }
        Ok(())
    }
}

impl Reader for SimReader {
    fn audit(&mut self, page: &AuditPage) -> Result<Vec<AuditRow>, Failure> {
        self.inner.audit(page)
    }

    fn verify_audit(
        &mut self,
        noted: &[(Chain, Hash)],
        told: &mut dyn FnMut(u64),
    ) -> Result<Result<Vec<Verified>, Broken>, Failure> {
        self.inner.verify_audit(noted, told)
    }

    fn revision(&mut self, revision: RevisionId) -> Result<Option<MachineRecord>, Failure> {
        self.inner.revision(revision)
    }

    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure> {
        self.inner.machine(name)
    }

    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure> {
        self.inner.machines()
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure> {
        self.may_fail()?;
        self.inner.named(machine, name)
    }

    /// The answer to a reservation may be lost.
    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure> {
        let whose = self.inner.reserve(machine, name, execution)?;
        self.may_fail()?;
        let disk = lock(&self.disk);
        let is_blocked = whose != execution && !disk.observed.has_begun(whose);
        if disk.sabotage == Some(Sabotage::ReservedForGood) && is_blocked {
            return Err(failure("reserving a name", FailureKind::Held));
        }
        Ok(whose)
    }

    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure> {
        self.may_fail()?;
        if let Some(lie) = lock(&self.disk).lies.get(name) {
            return Ok(Some(*lie));
        }
        self.inner.reserved(machine, name)
    }

    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure> {
        self.may_fail()?;
        let holders = self.inner.holders()?;
        let mut disk = lock(&self.disk);
        if disk.sabotage == Some(Sabotage::OldMapBelieved) {
            return Ok(disk.first_holders.get_or_insert(holders).clone());
        }
        Ok(holders)
    }

    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure> {
        self.may_fail()?;
        self.inner.execution(execution)
    }

    fn row(&mut self, execution: ExecutionId) -> Result<Option<(Row, u64)>, Failure> {
        if let Err(failure) = self.may_fail() {
            let is_sabotaged = lock(&self.disk).sabotage == Some(Sabotage::UnreadIsUnknown);
            return if is_sabotaged { Ok(None) } else { Err(failure) };
        }
        self.inner.row(execution)
    }

    fn due(
        &mut self,
        shard: Shard,
        clock: Clock,
        after: Option<Due>,
        until: Timestamp,
        most: u32,
    ) -> Result<Vec<Due>, Failure> {
        self.may_fail()?;
        if lock(&self.disk).sabotage == Some(Sabotage::SleepersForgotten) {
            return Ok(Vec::new());
        }
        self.inner.due(shard, clock, after, until, most)
    }

    fn waiting(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<ExecutionId>, Failure> {
        self.may_fail()?;
        if lock(&self.disk).sabotage == Some(Sabotage::WaitingForgotten) {
            return Ok(Vec::new());
        }
        self.inner.waiting(shard, after, most)
    }

    fn held(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<(ExecutionId, MachineId)>, Failure> {
        self.may_fail()?;
        if lock(&self.disk).sabotage == Some(Sabotage::HeldForgotten) {
            return Ok(Vec::new());
        }
        self.inner.held(shard, after, most)
    }

    fn held_counts(&mut self) -> Result<BTreeMap<MachineId, u64>, Failure> {
        self.may_fail()?;
        self.inner.held_counts()
    }

    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure> {
        self.may_fail()?;
        if lock(&self.disk).sabotage == Some(Sabotage::ChildrenForgotten) {
            return Ok(Vec::new());
        }
        self.inner.child_statuses(run, from, most)
    }

    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure> {
        self.may_fail()?;
        self.inner.children(run, from, most)
    }

    fn running_map_runs(&mut self, after: Option<Uuid>, most: u32) -> Result<Vec<MapRunRow>, Failure> {
        self.may_fail()?;
        if lock(&self.disk).sabotage == Some(Sabotage::MapRunsForgotten) {
            return Ok(Vec::new());
        }
        self.inner.running_map_runs(after, most)
    }

    fn map_run(&mut self, run: Uuid) -> Result<Option<MapRunRow>, Failure> {
        self.may_fail()?;
        self.inner.map_run(run)
    }

    fn map_runs(&mut self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure> {
        self.may_fail()?;
        self.inner.map_runs(execution)
    }

    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure> {
        self.may_fail()?;
        self.inner.machine_id(name)
    }

    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure> {
        self.inner.machine_name(machine)
    }

    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure> {
        self.may_fail()?;
        self.inner.head(name)
    }

    fn machine_count(&mut self) -> Result<usize, Failure> {
        self.inner.machine_count()
    }

    fn heads(&mut self, after: Option<&str>, most: u32) -> Result<Vec<Head>, Failure> {
        self.inner.heads(after, most)
    }

    fn registered(
        &mut self,
        kind: Registry,
        after: Option<&str>,
        most: u32,
    ) -> Result<Vec<Registered>, Failure> {
        if kind == Registry::Pause && lock(&self.disk).sabotage == Some(Sabotage::PausesForgotten) {
            return Ok(Vec::new());
        }
        self.inner.registered(kind, after, most)
    }

    fn registered_one(&mut self, kind: Registry, name: &str) -> Result<Option<Registered>, Failure> {
        self.inner.registered_one(kind, name)
    }

    fn unlisted(&mut self) -> Result<Vec<Unlisted>, Failure> {
        self.inner.unlisted()
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        self.inner.list(filter, after, most)
    }

    fn turns(
        &mut self,
        execution: ExecutionId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        self.may_fail()?;
        self.inner.turns(execution, from, bytes_max)
    }

    fn turns_before(
        &mut self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
        self.may_fail()?;
        self.inner.turns_before(execution, before, bytes_max)
    }

    fn secret(&mut self) -> Result<[u8; 32], Failure> {
        self.inner.secret()
    }

    fn left(&mut self, execution: ExecutionId) -> Result<Left, Failure> {
        self.inner.left(execution)
    }

    fn ledger(&mut self, filter: &LedgerFilter, most: u32) -> Result<Vec<LedgerRow>, Failure> {
        self.inner.ledger(filter, most)
    }

    fn sweepable(
        &mut self,
        retention: &Retention,
        after: Option<SweepPlace>,
        most: u32,
    ) -> Result<Sweepable, Failure> {
        self.inner.sweepable(retention, after, most)
    }

    fn old_ledger(&mut self, before: Timestamp) -> Result<u64, Failure> {
        self.inner.old_ledger(before)
    }

    fn stats(&mut self) -> Result<Stats, Failure> {
        self.inner.stats()
    }
}
