//! A runtime over a store that fails when it is told to.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_runtime::{Nowhere, Options, RealWorld, Runtime, Start, Steps};
use perdura_store::audit::{AuditPage, AuditRow, Broken, Chain, Hash, Origin, Verified};
use perdura_store::{
    After, Aside, Catalog, ChildStatus, Claim, Clock, CommitError, Due, Erased, Failure, FailureKind, Filter,
    Group, Head, Lease, LedgerFilter, LedgerRow, Left, Listing, MachineChange, MachineId, MachineRecord,
    MapRunRow, MemoryStore, NewMachine, Position, Reader, Recovered, Recovery, Registered, Registry, Renewal,
    Retention, Revised, RevisionId, Row, Shard, Stats, Store, StoredTurn, SweepPlace, Sweepable, Swept,
    Unlisted,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use uuid::Uuid;

/// What takes longer than this hangs.
pub(super) const HANGS: Duration = Duration::from_secs(20);

/// How often something is to fail from now on.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) commits: AtomicUsize,
    pub(super) recoveries: AtomicUsize,
    /// The disk has no room to take the Shards.
    pub(super) acquisitions: AtomicUsize,
    pub(super) definitions: AtomicUsize,
    pub(super) rows: AtomicUsize,
    /// Looking for this name is a mistake.
    pub(super) mistaken: Mutex<Option<Arc<str>>>,
    /// Sweeping is a mistake.
    pub(super) sweeps_panic: AtomicBool,
    /// The longest journal row so far.
    pub(super) longest: AtomicUsize,
}

pub(super) fn fails(count: &AtomicUsize) -> Result<(), Failure> {
    let left = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    let failure = || Failure { what: "the test".into(), why: "it said so".into(), kind: FailureKind::Io };
    left.map_or(Ok(()), |_| Err(failure()))
}

/// A store that fails when told to.
pub(super) struct Faulty {
    pub(super) inner: MemoryStore,
    pub(super) faults: Arc<Faults>,
}

impl Store for Faulty {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError> {
        fails(&self.faults.acquisitions)
            .map_err(|failure| Failure { kind: FailureKind::DiskFull, ..failure })?;
        self.inner.acquire(claim)
    }

    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError> {
        self.inner.renew(lease, renewal)
    }

    fn release(&mut self, lease: &Lease) -> Result<(), CommitError> {
        self.inner.release(lease)
    }

    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError> {
        fails(&self.faults.recoveries)?;
        self.inner.recover(lease)
    }

    /// As SQLite's handle after an error: it answers nothing any more.
    fn newest(&mut self, _lease: &Lease) -> Result<Position, CommitError> {
        Err(CommitError::Busy)
    }

    fn commit(&mut self, group: &Group) -> Result<(), CommitError> {
        fails(&self.faults.commits)?;
        self.faults.longest.fetch_max(group.journal.len(), Ordering::SeqCst);
        self.inner.commit(group)
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

impl Catalog for Faulty {
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
        assert!(!self.faults.sweeps_panic.load(Ordering::SeqCst), "the test's mistake");
        self.inner.sweep(going, ledger_before, ledger_most, by)
    }

    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError> {
        self.inner.cut_audit(before, most, by)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Failure> {
        Ok(Box::new(FaultyReader { inner: self.inner.reader()?, faults: self.faults.clone() }))
    }
}

/// A reader of definitions and rows that fails when told to.
pub(super) struct FaultyReader {
    pub(super) inner: Box<dyn Reader>,
    pub(super) faults: Arc<Faults>,
}

impl Reader for FaultyReader {
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
        fails(&self.faults.definitions)?;
        self.inner.revision(revision)
    }

    fn machine(&mut self, name: &str) -> Result<Option<MachineRecord>, Failure> {
        self.inner.machine(name)
    }

    fn machines(&mut self) -> Result<Vec<MachineRecord>, Failure> {
        self.inner.machines()
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Failure> {
        self.inner.named(machine, name)
    }

    fn reserve(
        &mut self,
        machine: MachineId,
        name: &Arc<str>,
        execution: ExecutionId,
    ) -> Result<ExecutionId, Failure> {
        let mistaken = self.faults.mistaken.lock().unwrap().clone();
        assert_ne!(mistaken.as_ref(), Some(name), "the test's mistake");
        self.inner.reserve(machine, name, execution)
    }

    fn reserved(&mut self, machine: MachineId, name: &Arc<str>) -> Result<Option<ExecutionId>, Failure> {
        self.inner.reserved(machine, name)
    }

    fn holders(&mut self) -> Result<BTreeMap<Shard, Arc<str>>, Failure> {
        self.inner.holders()
    }

    fn execution(&mut self, execution: ExecutionId) -> Result<Option<Recovered>, Failure> {
        self.inner.execution(execution)
    }

    fn row(&mut self, execution: ExecutionId) -> Result<Option<(Row, u64)>, Failure> {
        fails(&self.faults.rows)?;
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
        self.inner.due(shard, clock, after, until, most)
    }

    fn waiting(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<ExecutionId>, Failure> {
        self.inner.waiting(shard, after, most)
    }

    fn held(
        &mut self,
        shard: Shard,
        after: Option<ExecutionId>,
        most: u32,
    ) -> Result<Vec<(ExecutionId, MachineId)>, Failure> {
        self.inner.held(shard, after, most)
    }

    fn held_counts(&mut self) -> Result<BTreeMap<MachineId, u64>, Failure> {
        self.inner.held_counts()
    }

    fn machine_id(&mut self, name: &str) -> Result<Option<MachineId>, Failure> {
        self.inner.machine_id(name)
    }

    fn machine_name(&mut self, machine: MachineId) -> Result<Option<Arc<str>>, Failure> {
        self.inner.machine_name(machine)
    }

    fn head(&mut self, name: &str) -> Result<Option<Head>, Failure> {
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

    fn turns(&mut self, execution: ExecutionId, from: u64, most: usize) -> Result<Vec<StoredTurn>, Failure> {
        self.inner.turns(execution, from, most)
    }

    fn child_statuses(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<ChildStatus>, Failure> {
        self.inner.child_statuses(run, from, most)
    }

    fn children(&mut self, run: Uuid, from: u32, most: u32) -> Result<Vec<Row>, Failure> {
        self.inner.children(run, from, most)
    }

    fn running_map_runs(&mut self, after: Option<Uuid>, most: u32) -> Result<Vec<MapRunRow>, Failure> {
        self.inner.running_map_runs(after, most)
    }

    fn map_run(&mut self, run: Uuid) -> Result<Option<MapRunRow>, Failure> {
        self.inner.map_run(run)
    }

    fn map_runs(&mut self, execution: ExecutionId) -> Result<Vec<MapRunRow>, Failure> {
        self.inner.map_runs(execution)
    }

    fn turns_before(
        &mut self,
        execution: ExecutionId,
        before: Option<u64>,
        bytes_max: usize,
    ) -> Result<Vec<StoredTurn>, Failure> {
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

pub(super) struct Stage {
    pub(super) tokio: tokio::runtime::Runtime,
    pub(super) faults: Arc<Faults>,
    pub(super) runtime: Runtime,
}

impl Stage {
    pub(super) fn new(steps: Steps) -> Self {
        Self::on(MemoryStore::new(1), steps)
    }

    /// A process on what others have left.
    pub(super) fn on(inner: MemoryStore, steps: Steps) -> Self {
        Self::amid(Faults::default(), inner, steps)
    }

    /// The same, and something is wrong from the beginning.
    pub(super) fn amid(faults: Faults, inner: MemoryStore, steps: Steps) -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let faults = Arc::new(faults);
        let world = RealWorld::new(steps, Box::new(Nowhere), tokio.handle().clone());
        let theirs = faults.clone();
        let opener = Box::new(move || {
            Ok(Box::new(Faulty { inner: inner.clone(), faults: theirs.clone() }) as Box<dyn Store>)
        });
        let runtime = Runtime::open(opener, Arc::new(world), &Options::default()).unwrap();
        Self { tokio, faults, runtime }
    }

    pub(super) fn deploy(&self, definition: &str) -> RevisionId {
        self.deploy_as("test", definition)
    }

    pub(super) fn deploy_as(&self, name: &str, definition: &str) -> RevisionId {
        let reading = read(&Source::new(name, definition), &ReadOptions::default());
        let new = NewMachine {
            name: name.into(),
            kind: MachineType::Standard,
            definition: definition.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        self.runtime.door().deploy(&new, Arc::new(reading.machine.unwrap())).unwrap().revision
    }

    /// Closes it, and fails if that takes too long.
    pub(super) fn close(self, grace: Duration) {
        let (sender, closed) = mpsc::channel();
        std::thread::spawn(move || {
            self.runtime.close(grace);
            sender.send(()).unwrap();
        });
        closed.recv_timeout(HANGS).expect("closing comes to an end");
    }
}

pub(super) fn start(revision: RevisionId, input: &str) -> Start {
    Start::new(revision, Payload::from_text(input).unwrap())
}

pub(super) const ONE_STEP: &str = r#"{"StartAt": "A", "States": {
    "A": {"Type": "Task", "Resource": "arn:perdura:step:::step", "End": true}}}"#;

pub(super) const ACTIVITY: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Task",
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:work", "End": true}}}"#;

pub(super) const PARENT: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}"#;

pub(super) const LOOP: &str = r#"{"StartAt": "A", "States": {
    "A": {"Type": "Choice", "Choices": [{"Variable": "$", "NumericEquals": 1, "Next": "A"}], "Default": "B"},
    "B": {"Type": "Succeed"}}}"#;

pub(super) const TWO_STEPS: &str = r#"{"StartAt": "A", "States": {
    "A": {"Type": "Task", "Resource": "arn:perdura:step:::step", "Next": "B"},
    "B": {"Type": "Task", "Resource": "arn:perdura:step:::step", "End": true}}}"#;
