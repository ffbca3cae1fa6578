//! The data, locked for a moment by a command that leaves an input there.
//!
//! The input is decided and committed as in a server, but nothing is performed: an execution that comes to a call stands
//! before it, and the next process that runs makes the call. Nothing is on record as sent that was not, so nothing is
//! in doubt.

use super::{Data, check_machines, too_many_activities};
use crate::Refusal;
use crate::commands::activities::no_server;
use crate::sfn::Quotas;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{
    Arns, By, Destinations, ExecutionId, Input, Moment, Outcome, Policy, TaskToken, Timestamp,
};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_runtime::audit::{self, Asking, Witnessed};
use perdura_runtime::{
    Bounds, Core, Event, InputError, Librarian, Live, Message, Next, Node, Opened, Opening, Pause, RealClock,
    Reply, Slice, Start, Started, Taken, TokenError, Unavailable, View,
};
use perdura_store::audit::{Entry, Origin};
use perdura_store::{
    After, CommitError, Erased, Failure, Filter, Listing, MachineChange, MachineId, Reader, Registered,
    Registry, Retention, Revised, Room, Store, SweepPlace, Swept, complete_list,
};
use std::sync::{Arc, mpsc};

/// Longer than any command holds the Shards.
const LEASE_FOR_MS: i64 = 60_000;
/// Calls under way stay as they are: the next process that runs decides, by its own policies.
struct Stay;

impl Destinations for Stay {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy { key_memory_ms: i64::MAX, ..Policy::default() }
    }
}

/// A node that decides and does nothing else.
pub struct Deposit {
    store: Box<dyn Store>,
    reader: Box<dyn Reader>,
    core: Core,
    /// There once the node is open.
    librarian: Option<Librarian>,
    clock: RealClock,
    arns: Arns,
    quotas: Quotas,
    /// Who asks.
    by: Option<Arc<Origin>>,
    answers: Option<Box<dyn KeptAnswers>>,
}

/// The stored answers to requests that came with a key, of a server that does not run.
pub trait KeptAnswers: Send {
    /// Erases those to requests that these callers sent with this key; how many there were.
    fn erase(&self, scopes: &[Scope], key: &str) -> Result<u64, Refusal>;

    /// Takes what was erased out of the file, where it has so many bytes at most.
    fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, Refusal>;
}

impl Deposit {
    pub fn new(store: Box<dyn Store>) -> Result<Self, Failure> {
        let (reader, core) = (store.reader()?, Core::new(LEASE_FOR_MS, Live::default()));
        Ok(Self {
            store,
            reader,
            core,
            librarian: None,
            clock: RealClock::default(),
            arns: Arns::default(),
            quotas: Quotas::default(),
            by: None,
            answers: None,
        })
    }

    /// For one who asks: what is changed is on the audit.
    #[must_use]
    pub fn by(mut self, origin: Arc<Origin>) -> Self {
        self.by = Some(origin);
        self
    }

    /// With ARNs of this partition, region and account.
    #[must_use]
    pub fn with_arns(mut self, arns: Arns) -> Self {
        self.arns = arns;
        self
    }

    /// With so many machines and activities at most.
    #[must_use]
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// With the stored answers to requests that came with a key.
    #[must_use]
    pub fn with_answers(mut self, answers: Box<dyn KeptAnswers>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Gives the node a message and drives it until it answers. Only messages open the node: a definition is stored
    /// without one.
    fn ask<T: Send + 'static>(&mut self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, Refusal> {
        while self.core.open().is_none() {
            self.go_on()?;
        }
        let (sender, answer) = mpsc::channel();
        let reply = Reply::new(move |value| drop(sender.send(value))).by(self.by.clone());
        let message = message(reply);
        self.core.take(Event::Message(message), &self.clock.moment());
        let mut goes_on = true;
        let told = loop {
            match answer.try_recv() {
                Ok(told) => break told,
                // The last step may have answered: an input that changes nothing is not committed.
                Err(mpsc::TryRecvError::Empty) if goes_on => goes_on = self.go_on()?,
                // So many executions run that none can be loaded.
                Err(mpsc::TryRecvError::Empty) => {
                    return Err(Refusal::conflict(
                        "too many executions run here; a server takes it in when there is room",
                    ));
                }
                Err(mpsc::TryRecvError::Disconnected) => {
                    return Err(
                        Refusal::conflict("the input was not taken").but("see what `perdura check` says")
                    );
                }
            }
        };
        // Rows for readers of the tables.
        if let Some(prepared) = self.core.show_all(&self.clock.moment()) {
            let committed = prepared.write(&mut *self.store)?;
            self.core.take(Event::Committed(Ok(committed)), &self.clock.moment());
        }
        Ok(told)
    }

    /// What came to no Turn is on the audit before whoever asked is told.
    fn witness(&mut self, entry: Option<Entry>) -> Result<(), Refusal> {
        let Some(entry) = entry.map(Box::new) else { return Ok(()) };
        let told = self.ask(|reply| Message::Witness(Witnessed { entry, reply }))?;
        Ok(told.map_err(InputError::Unavailable)?)
    }

    /// Takes one step of the loop, and performs nothing. `false`: there is nothing to do now.
    fn go_on(&mut self) -> Result<bool, CommitError> {
        let clock = &self.clock;
        let event = match self.core.next(&mut || clock.moment()) {
            // Nobody is called; nobody is told of an end or of a call that is over.
            Next::Do(_) => return Ok(true),
            Next::Commit(prepared) => Event::Committed(Ok(prepared.write(&mut *self.store)?)),
            Next::Read(questions) => {
                let Some(librarian) = &mut self.librarian else { return Ok(false) };
                for question in questions {
                    self.core.take(Event::Read(librarian.answer(question)), &clock.moment());
                }
                return Ok(true);
            }
            Next::See(chore) => Event::Done(chore.see_to(&mut *self.store)),
            Next::Open(live, anchor) => {
                let moment = clock.moment();
                let opening = Opening {
                    holder: "local".into(),
                    destinations: Arc::new(Stay),
                    moment,
                    expires_at: moment.now.after_ms(LEASE_FOR_MS),
                    store: &mut *self.store,
                    live,
                    performs: false,
                    bounds: Bounds { executions_max: self.quotas.executions, ..Bounds::default() },
                    anchor,
                };
                let Opened { node, committer, librarian } = Node::open(opening)?;
                self.librarian = Some(librarian);
                Event::Opened(Ok(Box::new((node, committer))))
            }
            // One process holds all Shards: there is nobody to ask.
            Next::Pass(pass) => pass.undelivered(),
            Next::Sleep(wake) => return Ok(wake.is_due(&clock.moment())),
            Next::Closed(lease) => {
                if let Some(lease) = &lease {
                    self.store.release(lease)?;
                }
                return Ok(false);
            }
        };
        self.core.take(event, &clock.moment());
        Ok(true)
    }
}

impl Drop for Deposit {
    fn drop(&mut self) {
        // Nothing more is decided: the next process that runs goes on.
        self.core.take(Event::Close { grace_ms: -LEASE_FOR_MS }, &self.clock.moment());
        // If a Shard cannot be released, the next process takes it over all the same.
        while let Ok(true) = self.go_on() {}
    }
}

impl Deposit {
    /// The node knows of pauses too, if it is open; otherwise it reads them when it is.
    fn pace(&mut self, machine: Option<MachineId>, pause: Option<Pause>) -> Result<(), Refusal> {
        if self.core.open().is_some() {
            self.ask(|reply| Message::Pace { machine, pause, reply })?;
        }
        Ok(())
    }
}

impl Data for Deposit {
    fn moment(&self) -> Moment {
        self.clock.moment()
    }

    fn arns(&self) -> &Arns {
        &self.arns
    }

    fn performs(&self) -> bool {
        false
    }

    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure> {
        ask(&mut *self.reader)
    }

    fn view(&mut self, _: ExecutionId) -> Option<Box<View>> {
        None
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        complete_list(&mut *self.reader, filter, after, most)
    }

    fn unlisted(&mut self) -> Result<u64, Failure> {
        Ok(self.reader.unlisted()?.len() as u64)
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal> {
        let here = self.ask(|reply| Message::Named { machine, name: name.into(), reply })?;
        Ok(here.map_or_else(|| self.reader.named(machine, name), |id| Ok(Some(id)))?)
    }

    fn revise(&mut self, change: &MachineChange<'_>, _: Arc<Machine>) -> Result<Revised, Refusal> {
        check_machines(&mut *self.reader, &change.name, &self.quotas)?;
        Ok(self.store.revise(change, self.by.as_ref())?)
    }

    fn start(&mut self, start: Start) -> Result<Started, Refusal> {
        let told = self.ask(|reply| Message::Start { start: Box::new(start), reply, ending: None })?;
        let entry = self.by.as_ref().and_then(|by| audit::of_start(by, &told));
        self.witness(entry)?;
        Ok(told?)
    }

    fn input(&mut self, execution: ExecutionId, input: Input) -> Result<Taken, Refusal> {
        let asking = Asking::of(&input, self.by.as_ref());
        let told = self.ask(|reply| Message::Input { execution, input, reply })?;
        self.witness(audit::of_input(asking, execution, &told))?;
        Ok(told?)
    }

    fn answer(&mut self, token: TaskToken, outcome: Outcome) -> Result<(), Refusal> {
        let input = Input::TaskOutcome { by: By::Token(token), outcome };
        match self.input(token.execution, input)? {
            Taken { late: None, ignored: None, .. } => Ok(()),
            // Only a server looks into the Turns to see whether it is the same answer again.
            Taken { .. } => Err(TokenError::TimedOut.into()),
        }
    }

    fn heartbeat(&mut self, _: TaskToken) -> Result<(), Refusal> {
        Err(no_server())
    }

    fn register(&mut self, entry: &Registered) -> Result<(), Refusal> {
        if entry.kind == Registry::Activity
            && self.reader.registered_one(entry.kind, &entry.name)?.is_none()
            && self.reader.registered(entry.kind, None, u32::MAX)?.len() >= self.quotas.activities
        {
            return Err(too_many_activities(&self.quotas));
        }
        self.store.register(entry, self.by.as_ref())?;
        if entry.kind == Registry::Pause {
            let pause = Pause::read(entry).unwrap_or(Pause { machine: None, now: true });
            self.pace(pause.machine, Some(pause))?;
        }
        Ok(())
    }

    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, Refusal> {
        let known = self.reader.registered_one(kind, name)?;
        let was_there = self.store.unregister(kind, name, self.by.as_ref())?;
        if let Some(entry) = known.filter(|_| kind == Registry::Pause) {
            self.pace(Pause::read(&entry).map_or(None, |pause| pause.machine), None)?;
        }
        Ok(was_there)
    }

    fn give_up(&mut self, execution: ExecutionId) -> Result<bool, Refusal> {
        let told = self.ask(|reply| Message::GiveUp { execution, reply })?;
        told.map_err(|error| match error {
            InputError::Unavailable(Unavailable::Elsewhere(_)) => {
                Refusal::conflict("another process holds this execution's shard")
            }
            error => error.into(),
        })
    }

    fn erase(&mut self, ended: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, Refusal> {
        Ok(self.ask(|reply| Message::Erase { ended, reply })??)
    }

    fn erase_answers(&mut self, scopes: &[Scope], key: &str) -> Result<u64, Refusal> {
        self.answers.as_ref().map_or(Ok(0), |answers| answers.erase(scopes, key))
    }

    fn scrub_answers(&mut self, bytes_max: u64) -> Result<Scrubbed, Refusal> {
        self.answers.as_ref().map_or(Ok(Scrubbed::Clean), |answers| answers.scrub(bytes_max))
    }

    fn rewrite_small(&mut self, bytes_max: u64) -> Result<bool, Refusal> {
        Ok(self.store.rewrite_small(bytes_max)?)
    }

    fn scrub(&mut self) -> Result<bool, Refusal> {
        Ok(self.store.scrub()?)
    }

    fn give_back(&mut self, _: u32, _: bool) -> Result<Room, Refusal> {
        let room = self.store.rewrite()?;
        let answers = self.scrub_answers(u64::MAX)?;
        if !self.store.scrub()? || answers != Scrubbed::Clean {
            return Err(Refusal::conflict(
                "the files are written anew, but a program still reads what was there, so that the log has it",
            )
            .but("run `perdura compact` again when that has ended"));
        }
        Ok(room)
    }

    fn sweep(
        &mut self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Refusal> {
        let found = self.reader.sweepable(retention, *place, most)?;
        let slice = Slice { going: found.going, ledger_before: retention.ledger_before, ledger_most: most };
        let swept = if self.core.open().is_some() {
            self.ask(|reply| Message::Sweep { slice, reply })?.map_err(InputError::Unavailable)?
        } else {
            // No execution is in memory: this process holds the data, and has not opened the node.
            self.store.sweep(&slice.going, slice.ledger_before, slice.ledger_most, self.by.as_ref())?
        };
        *place = found.next;
        Ok(Swept { more: swept.more || found.next.is_some(), ..swept })
    }
}
