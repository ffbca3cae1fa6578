//! A store that fails on purpose, around one that does not.
//!
//! It fails as disks fail: before anything is written, or after all of it is; for a moment, or until somebody makes
//! room. It never writes half of a commit, because the stores behind it do not; their own tests hold them to that.

use crate::dice::Dice;
use crate::observed::{Life, Observed};
use crate::sabotage::Sabotage;
use perdura_engine::{ExecutionId, MapRunCounts, Timestamp};
use perdura_store::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Origin, Verified};
use perdura_store::{
    After, Aside, Catalog, ChildStatus, Claim, Clock, CommitError, Due, Erased, Failure, FailureKind, Filter,
    Group, Head, Incarnation, Lease, LedgerFilter, LedgerRow, Left, Listing, MachineChange, MachineId,
    MachineRecord, MapRunRow, NewMachine, Position, Reader, Recovered, Recovery, Registered, Registry,
    Renewal, Retention, Revised, RevisionId, Row, Shard, Stats, Store, StoredTurn, SweepPlace, Sweepable,
    Swept, Unlisted,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// How often something goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Nothing is written, and an error says so.
    pub(crate) fails_before: u32,
    /// All is written, and an error says otherwise.
    pub(crate) fails_after: u32,
    /// Nothing is written; it is to be offered again.
    pub(crate) busy: u32,
    pub(crate) read_fails: u32,
}

/// What the disk is like at the moment.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Rates while faults are on.
    pub(crate) rates: Rates,
    /// Faults are on.
    pub(crate) fails: bool,
    /// No room until then.
    pub(crate) full_until: i64,
    /// True time.
    pub(crate) now: i64,
    /// The truth.
    pub(crate) observed: Observed,
    /// How often each kind of fault happened.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Commits that were promised and are not written yet.
    lazy: Vec<Group>,
    dice: Dice,
    sabotage: Option<Sabotage>,
    /// For sabotage: who holds what, and up to where each of them has written.
    owners: BTreeMap<Shard, Incarnation>,
    leases: BTreeMap<Incarnation, (Lease, Position)>,
    /// For sabotage: whose a name is said to be.
    pub(crate) lies: BTreeMap<Arc<str>, ExecutionId>,
    /// For sabotage: who held what at first.
    first_holders: Option<BTreeMap<Shard, Arc<str>>>,
}

impl Disk {
    /// A disk that works until told otherwise.
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self {
            rates: Rates::default(),
            fails: false,
            full_until: 0,
            now: 0,
            observed: Observed::default(),
            faults: BTreeMap::new(),
            lazy: Vec::new(),
            dice: Dice::new(seed, "disk"),
            sabotage,
            owners: BTreeMap::new(),
            leases: BTreeMap::new(),
            lies: BTreeMap::new(),
            first_holders: None,
        }
    }

    /// Counts a fault.
    pub(crate) fn fault(&mut self, what: &'static str) {
        *self.faults.entry(what).or_default() += 1;
    }

    /// The power fails: what was promised and not written is gone.
    pub(crate) fn lose_promises(&mut self) {
        self.lazy.clear();
    }

    /// Whether something was promised and is not written.
    pub(crate) fn has_promises(&self) -> bool {
        !self.lazy.is_empty()
    }

    fn is_full(&self) -> bool {
        self.now < self.full_until
    }

    fn strikes(&mut self, rate: u32, what: &'static str) -> bool {
        let strikes = self.fails && self.dice.in_thousand(rate);
        if strikes {
            self.fault(what);
        }
        strikes
    }

    fn is_lazy(&self) -> bool {
        matches!(self.sabotage, Some(Sabotage::EffectsFirst | Sabotage::RepliesFirst))
    }
}

/// What all handles share.
pub(crate) type SharedDisk = Arc<Mutex<Disk>>;

/// One process's handle.
pub(crate) struct SimStore {
    inner: Box<dyn Store>,
    disk: SharedDisk,
    life: Life,
    /// How many Shards its process takes at most.
    most: u16,
}

impl SimStore {
    /// Around a store.
    pub(crate) fn new(inner: Box<dyn Store>, disk: SharedDisk, life: Life, most: u16) -> Self {
        Self { inner, disk, life, most }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Writes what was promised.
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

fn lock(disk: &SharedDisk) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Some stores can be asked again after an error, others have to be opened again.
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

/// A reader that fails now and then.
struct SimReader {
    inner: Box<dyn Reader>,
    disk: SharedDisk,
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

    /// Whoever reserves may not hear of it.
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
