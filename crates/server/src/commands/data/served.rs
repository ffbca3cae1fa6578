//! The data of a running server.

use super::{Data, check_machines, too_many_activities};
use crate::Refusal;
use crate::house::House;
use crate::sfn::Quotas;
use crate::v1::StoredAnswers;
use perdura_engine::asl::diagnostic::Diagnostic;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, TaskToken, Timestamp};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_runtime::{Door, InputError, RealClock, Start, Started, Taken, Unavailable, Underway, View};
use perdura_store::audit::{Origin, Subject};
use perdura_store::{
    After, Erased, Failure, Filter, Listing, MachineChange, MachineId, Reader, Registered, Registry,
    Retention, Revised, Room, SweepPlace, Swept,
};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The runtime's door, for blocking threads.
#[derive(Clone)]
pub struct Served {
    door: Door,
    handle: Handle,
    clock: Arc<RealClock>,
    arns: Arns,
    quotas: Quotas,
    changed: Arc<dyn Fn(Registry) + Send + Sync>,
    doubts: Option<Doubts>,
    answers: Option<StoredAnswers>,
    house: House,
}

/// Lists what of a machine this server cannot run.
pub type Doubts = Arc<dyn Fn(&Machine) -> Vec<Diagnostic> + Send + Sync>;

impl Served {
    /// Blocks on the given runtime, so it must not be used on one of its threads.
    pub fn new(door: Door, handle: Handle) -> Self {
        Self {
            door,
            handle,
            clock: Arc::default(),
            arns: Arns::default(),
            quotas: Quotas::default(),
            changed: Arc::new(|_| {}),
            doubts: None,
            answers: None,
            house: House::default(),
        }
    }

    /// `changed` is called when an activity, a connection or a token was stored or deleted.
    #[must_use]
    pub fn telling(mut self, changed: impl Fn(Registry) + Send + Sync + 'static) -> Self {
        self.changed = Arc::new(changed);
        self
    }

    /// With ARNs of this partition, region and account.
    #[must_use]
    pub fn with_arns(self, arns: Arns) -> Self {
        Self { arns, ..self }
    }

    /// With so many machines and activities at most.
    #[must_use]
    pub fn with_quotas(self, quotas: Quotas) -> Self {
        Self { quotas, ..self }
    }

    #[must_use]
    pub fn with_doubts(self, doubts: Doubts) -> Self {
        Self { doubts: Some(doubts), ..self }
    }

    /// With what whoever serves brings.
    #[must_use]
    pub fn with_house(self, house: House) -> Self {
        Self { house, ..self }
    }

    pub(crate) fn house(&self) -> &House {
        &self.house
    }

    /// The same for one who asks: what is changed through it is on the audit.
    #[must_use]
    pub fn by(&self, origin: Arc<Origin>) -> Self {
        Self { door: self.door.by(origin), ..self.clone() }
    }

    /// With the stored answers to requests that came with a key.
    #[must_use]
    pub(crate) fn with_answers(self, answers: StoredAnswers) -> Self {
        Self { answers: Some(answers), ..self }
    }

    pub fn door(&self) -> &Door {
        &self.door
    }
}

impl Data for Served {
    fn moment(&self) -> Moment {
        self.clock.moment()
    }

    fn arns(&self) -> &Arns {
        &self.arns
    }

    fn performs(&self) -> bool {
        true
    }

    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure> {
        self.door.read(ask)
    }

    fn view(&mut self, execution: ExecutionId) -> Option<Box<View>> {
        self.handle.block_on(self.door.view(execution))
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        self.handle.block_on(self.door.list(filter, after, most))
    }

    fn unlisted(&mut self) -> Result<u64, Failure> {
        self.handle.block_on(self.door.unlisted())
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal> {
        Ok(self.handle.block_on(self.door.named(machine, name.into()))?)
    }

    fn doubts(&self, machine: &Machine) -> Option<Vec<Diagnostic>> {
        self.doubts.as_ref().map(|doubts| doubts(machine))
    }

    fn revise(&mut self, change: &MachineChange<'_>, machine: Arc<Machine>) -> Result<Revised, Refusal> {
        let _alone = self.door.making();
        self.door.read(|reader| Ok(check_machines(reader, &change.name, &self.quotas)))??;
        Ok(self.door.revise(change, Some(machine))?)
    }

    fn start(&mut self, start: Start) -> Result<Started, Refusal> {
        Ok(self.handle.block_on(self.door.start(start))?)
    }

    fn input(&mut self, execution: ExecutionId, input: Input) -> Result<Taken, Refusal> {
        Ok(self.handle.block_on(self.door.input(execution, input))?)
    }

    fn answer(&mut self, token: TaskToken, outcome: Outcome) -> Result<(), Refusal> {
        Ok(self.handle.block_on(self.door.answer(token, outcome))?)
    }

    fn heartbeat(&mut self, token: TaskToken) -> Result<(), Refusal> {
        Ok(self.handle.block_on(self.door.heartbeat(token))?)
    }

    fn register(&mut self, entry: &Registered) -> Result<(), Refusal> {
        match entry.kind {
            Registry::Activity => {
                if !self.door.activities().put(entry, self.quotas.activities)? {
                    return Err(too_many_activities(&self.quotas));
                }
            }
            Registry::Pause => self.door.pause(entry)?,
            Registry::Connection | Registry::DeletedActivity | Registry::Token => {
                self.door.register(entry)?;
            }
        }
        (self.changed)(entry.kind);
        Ok(())
    }

    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, Refusal> {
        let was_there = match kind {
            Registry::Pause => self.door.resume(name)?,
            Registry::Connection | Registry::Activity | Registry::DeletedActivity | Registry::Token => {
                self.door.unregister(kind, name)?
            }
        };
        (self.changed)(kind);
        Ok(was_there)
    }

    fn underway(&mut self, most: usize) -> Result<Underway, Refusal> {
        let told = self.handle.block_on(self.door.underway(most));
        // While the store cannot be written, calls go on, and the node cannot say which.
        let why = || self.door.trouble().map_or(Unavailable::Closing, Unavailable::Store);
        told.ok_or_else(|| InputError::Unavailable(why()).into())
    }

    fn give_up(&mut self, execution: ExecutionId) -> Result<bool, Refusal> {
        Ok(self.handle.block_on(self.door.give_up(execution))?)
    }

    fn gives_out(&mut self, subject: Subject) -> Result<(), Refusal> {
        let told = self.handle.block_on(self.door.gives_out(subject));
        Ok(told.map_err(InputError::Unavailable)?)
    }

    fn erase(&mut self, ended: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, Refusal> {
        Ok(self.handle.block_on(self.door.erase(ended))?)
    }

    fn erase_answers(&mut self, scopes: &[Scope], key: &str) -> Result<u64, Refusal> {
        let Some(answers) = &self.answers else { return Ok(0) };
        self.handle.block_on(answers.erase(scopes, key))
    }

    fn scrub_answers(&mut self, bytes_max: u64) -> Result<Scrubbed, Refusal> {
        let Some(answers) = &self.answers else { return Ok(Scrubbed::Clean) };
        self.handle.block_on(answers.scrub(bytes_max))
    }

    fn rewrite_small(&mut self, bytes_max: u64) -> Result<bool, Refusal> {
        Ok(self.door.rewrite_small(bytes_max)?)
    }

    fn scrub(&mut self) -> Result<bool, Refusal> {
        Ok(self.door.scrub()?)
    }

    fn give_back(&mut self, pages: u32, reserves: bool) -> Result<Room, Refusal> {
        Ok(self.door.give_back(pages, reserves)?)
    }

    fn sweep(
        &mut self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Refusal> {
        Ok(self.handle.block_on(self.door.sweep(retention, place, most))?)
    }
}
