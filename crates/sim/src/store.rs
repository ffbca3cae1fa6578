//! A store that fails on purpose, around one that does not.
//!
//! It fails as disks fail: before anything is written, or after all of it is; for a moment, or until there is room. It
//! never writes half of a commit, because the stores behind it do not; their own tests check that.

mod disk;
mod reader;

use crate::observed::Life;
use crate::sabotage::Sabotage;
use disk::lock;
pub(crate) use disk::{Disk, Rates, SharedDisk};
use perdura_engine::{ExecutionId, MapRunCounts, Timestamp};
use perdura_store::audit::Origin;
use perdura_store::{
    Aside, Catalog, Claim, CommitError, Erased, Failure, FailureKind, Group, Lease, MachineChange,
    MachineRecord, NewMachine, Position, Reader, Recovery, Registered, Registry, Renewal, Revised, Store,
    Swept,
};
use reader::SimReader;
use std::sync::{Arc, MutexGuard};

/// One process's handle.
pub(crate) struct SimStore {
    inner: Box<dyn Store>,
    disk: SharedDisk,
    life: Life,
    /// The most Shards that its process takes.
    most: u16,
}

impl SimStore {
    /// Wraps a store.
    pub(crate) fn new(inner: Box<dyn Store>, disk: SharedDisk, life: Life, most: u16) -> Self {
        Self { inner, disk, life, most }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Writes the acknowledged commits.
    pub(crate) fn keep_promises(&mut self) -> Result<(), CommitError> {
        let groups = std::mem::take(&mut self.disk().lazy);
        for group in groups {
            self.inner.commit(&group)?;
        }
        Ok(())
    }

    fn write(&mut self, group: &Group) -> Result<(), CommitError> {
        let sabotage = self.disk().sabotage;
        let Some(sabotage) = sabotage else { return self.inner.commit(group) };
        let mut spoiled = group.clone();
        match sabotage {
            Sabotage::NoFence => {
                let disk = self.disk();
                let shard = spoiled.lease.shards().first();
                let owner = shard.and_then(|shard| disk.leases.get(disk.owners.get(shard)?));
                if let Some((lease, last)) = owner {
                    spoiled.lease = lease.clone();
                    spoiled.position = spoiled.position.map(|_| last.next());
                    spoiled.keep_from = spoiled.keep_from.min(last.next());
                }
            }
            Sabotage::JournalDropped => spoiled.keep_from = spoiled.position.unwrap_or(spoiled.keep_from),
            Sabotage::RowsForgotten => spoiled.rows.retain(|row| row.ended_at.is_some()),
            Sabotage::LedgerForgotten => spoiled.ledger.clear(),
            Sabotage::AuditForgotten => spoiled.audit.clear(),
            Sabotage::CountsForgotten => {
                for run in &mut spoiled.map_runs {
                    run.counts = MapRunCounts::default();
                }
            }
            Sabotage::RedrivesLeaveMapRuns => spoiled.map_runs.retain(|run| run.redrives == 0),
            Sabotage::SweepsBlindly | Sabotage::RedrivesLeaveRows => {
                spoiled.rows.retain(|row| row.redrives == 0 || row.content.is_some());
            }
            Sabotage::EffectsFirst
            | Sabotage::RepliesFirst
            | Sabotage::NewKeyOnRepeat
            | Sabotage::NewBytesOnRepeat
            | Sabotage::ResumeForgotten
            | Sabotage::SleepersForgotten
            | Sabotage::ClockAhead
            | Sabotage::WokenLate
            | Sabotage::CalledAfterwards
            | Sabotage::KeysIgnored
            | Sabotage::ChildrenForgotten
            | Sabotage::MapRunsForgotten
            | Sabotage::WaitingForgotten
            | Sabotage::UnreachableRefuses
            | Sabotage::RedirectsRefuse
            | Sabotage::ExitsRefuse
            | Sabotage::OldFailuresCount
            | Sabotage::RunsForgetKeys
            | Sabotage::ListsOfRows
            | Sabotage::LostMeansNever
            | Sabotage::UnreadIsUnknown
            | Sabotage::SteadyForgotten
            | Sabotage::DoneTwice
            | Sabotage::OldMapBelieved
            | Sabotage::JumpsBelieved
            | Sabotage::HoldIgnored
            | Sabotage::HeldForgotten
            | Sabotage::PausesForgotten
            | Sabotage::ReservedForGood => {}
        }
        if self.disk().is_lazy() {
            self.disk().lazy.push(spoiled);
            return Ok(());
        }
        self.inner.commit(&spoiled)?;
        let by = spoiled.lease.incarnation();
        if let (Some(position), Some((_, last))) = (spoiled.position, self.disk().leases.get_mut(&by)) {
            *last = position;
        }
        Ok(())
    }
}

fn failure(what: &str, kind: FailureKind) -> Failure {
    Failure { what: what.into(), why: "the simulation wants it so".into(), kind }
}

impl Store for SimStore {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError> {
        if self.disk().is_full() {
            return Err(CommitError::Lost(failure("taking the shards", FailureKind::DiskFull)));
        }
        let lease = self.inner.acquire(&Claim { most: self.most, ..claim.clone() })?;
        if self.disk().sabotage == Some(Sabotage::NoFence) {
            let mut disk = self.disk();
            let by = lease.incarnation();
            disk.owners.extend(lease.shards().iter().map(|shard| (*shard, by)));
            disk.leases.insert(by, (lease.clone(), Position::before(by)));
        }
        let mut disk = self.disk();
        let rate = disk.rates.fails_after;
        if disk.strikes(rate, "the shards were taken and nobody was told") {
            return Err(CommitError::Lost(failure("taking the shards", FailureKind::Io)));
        }
        Ok(lease)
    }

    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError> {
        if self.disk().is_full() {
            return Err(CommitError::Lost(failure("renewing", FailureKind::DiskFull)));
        }
        self.inner.renew(lease, renewal)
    }

    fn release(&mut self, lease: &Lease) -> Result<(), CommitError> {
        self.inner.release(lease)
    }

    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError> {
        self.inner.recover(lease)
    }

    /// Some stores can be asked again after an error, others must be opened again.
    fn newest(&mut self, lease: &Lease) -> Result<Position, CommitError> {
        let newest = self.inner.newest(lease)?;
        let mut disk = self.disk();
        if disk.is_full() || disk.is_lazy() || disk.dice.in_thousand(500) {
            return Err(CommitError::Lost(failure("asking", FailureKind::Io)));
        }
        disk.fault("a lost answer was looked for");
        Ok(match disk.sabotage {
            Some(Sabotage::LostMeansNever) => Position::before(lease.incarnation()),
            _ => newest,
        })
    }

    fn commit(&mut self, group: &Group) -> Result<(), CommitError> {
        {
            let mut disk = self.disk();
            let rates = disk.rates;
            if disk.is_full() {
                disk.fault("the disk was full");
                return Err(CommitError::Lost(failure("committing", FailureKind::DiskFull)));
            }
            if disk.strikes(rates.busy, "the store was busy") {
                return Err(CommitError::Busy);
            }
            if disk.strikes(rates.fails_before, "a commit failed with nothing written") {
                return Err(CommitError::Lost(failure("committing", FailureKind::Io)));
            }
        }
        match self.write(group) {
            Ok(()) => {}
            Err(error @ CommitError::Fenced { .. }) => {
                self.disk().fault("a commit was fenced");
                return Err(error);
            }
            Err(error @ (CommitError::Busy | CommitError::Lost(_))) => {
                let complaint = format!("the store refused a commit: {error}");
                self.disk().observed.complaints.push(complaint);
                return Err(error);
            }
        }
        let mut disk = self.disk();
        let (now, rates) = (disk.now, disk.rates);
        disk.observed.see(group, self.life, now);
        if disk.strikes(rates.fails_after, "a commit was written and nobody was told") {
            return Err(CommitError::Lost(failure("committing", FailureKind::Io)));
        }
        Ok(())
    }

    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError> {
        self.inner.set_aside(lease, aside)
    }

    fn erase(
        &mut self,
        lease: &Lease,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
        by: Option<&Arc<Origin>>,
    ) -> Result<Erased, CommitError> {
        self.inner.erase(lease, ended, at, by)
    }

    fn give_up(
        &mut self,
        lease: &Lease,
        execution: ExecutionId,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        self.inner.give_up(lease, execution, by)
    }
}

impl Catalog for SimStore {
    fn deploy(
        &mut self,
        machine: &NewMachine,
        by: Option<&Arc<Origin>>,
    ) -> Result<MachineRecord, CommitError> {
        self.inner.deploy(machine, by)
    }

    fn revise(
        &mut self,
        change: &MachineChange<'_>,
        by: Option<&Arc<Origin>>,
    ) -> Result<Revised, CommitError> {
        self.inner.revise(change, by)
    }

    fn register(&mut self, entry: &Registered, by: Option<&Arc<Origin>>) -> Result<(), CommitError> {
        self.inner.register(entry, by)
    }

    fn unregister(
        &mut self,
        kind: Registry,
        name: &str,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        self.inner.unregister(kind, name, by)
    }

    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
        by: Option<&Arc<Origin>>,
    ) -> Result<Swept, CommitError> {
        self.inner.sweep(going, ledger_before, ledger_most, by)
    }

    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError> {
        self.inner.cut_audit(before, most, by)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Failure> {
        Ok(Box::new(SimReader { inner: self.inner.reader()?, disk: self.disk.clone() }))
    }
}
