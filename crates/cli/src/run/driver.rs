//! The loop of one run: the server's engine, on one thread, over a store in memory or on disk.
//!
//! It passes events to the [`Core`], carries out its actions, and reports every recorded Turn. When there is nothing to
//! do it waits for the next event, or moves its clock if time is skipped.

use super::Ending;
use super::clock::Clock;
use super::outside::Outside;
use super::telling::Telling;
use anyhow::{Context, Result, anyhow, bail};
use perdura_asl::machine::Machine;
use perdura_engine::{ExecutionId, Fault, Input, Status};
use perdura_runtime::{
    Anchor, Bounds, Committed, Committer, Core, Deed, Event, InputError, Librarian, Live, Message, Next,
    Node, Opened, Opener, Opening, Reply, Start, StartError,
};
use perdura_server::Refusal;
use perdura_server::fold::fold;
use perdura_server::who::Caller;
use perdura_store::audit::{DoorKind, Origin};
use perdura_store::{
    Claim, Failure, FailureKind, Filter, MachineId, MachineRecord, NewMachine, Reader, Store, complete_list,
    complete_name,
};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tokio::sync::watch;

/// The name of this process as holder of the Shards.
const HOLDER: &str = "local";
/// How long the Shards are leased at a time.
const LEASE_FOR_MS: i64 = 60_000;
/// The error when nothing can be read or written.
const CLOSED: &str = "the store is closed";
/// How many running executions to look at.
const OTHERS_AT_ONCE: u32 = 1_000;
/// The longest time between two looks at the picture and at signals.
const EVERY: Duration = Duration::from_millis(100);

/// A node, its store, and its calls.
pub(super) struct Driver {
    core: Core,
    /// `None` while it cannot be opened.
    store: Option<(Box<dyn Store>, Box<dyn Reader>)>,
    /// Present once the node is open.
    librarian: Option<Librarian>,
    opener: Opener,
    inbox: Receiver<Event>,
    outside: Outside,
    clock: Clock,
    telling: Telling,
    /// Definitions to give to the node once it is open.
    deployed: Vec<Message>,
}

/// The end of a run.
pub(super) enum Ended {
    Yes(Ending),
    /// It was interrupted, and the next process will continue it.
    Left,
}

impl Driver {
    /// Opens the store.
    pub(super) fn open(
        opener: Opener,
        (outside, inbox): (Outside, Receiver<Event>),
        clock: Clock,
        telling: Telling,
    ) -> Result<Self> {
        let core = Core::new(LEASE_FOR_MS, Live::default());
        let (store, librarian, deployed) = (None, None, Vec::new());
        let mut driver = Self { core, store, librarian, opener, inbox, outside, clock, telling, deployed };
        driver.open_store().map_err(Refusal::from)?;
        let (store, _) = driver.store.as_mut().context(CLOSED)?;
        let now = driver.clock.moment().now;
        let claim =
            Claim { holder: HOLDER.into(), most: u16::MAX, now, expires_at: now.after_ms(LEASE_FOR_MS) };
        // If the Shards cannot be taken, opening the node reports why.
        let lease = store.acquire(&claim).ok();
        driver.clock.begin_after(lease.and_then(|lease| lease.steady_at()));
        Ok(driver)
    }

    fn open_store(&mut self) -> Result<(), Failure> {
        self.store = None;
        let store = (self.opener)()?;
        self.outside.read_by(store.reader()?);
        let reader = store.reader()?;
        self.store = Some((store, reader));
        Ok(())
    }

    /// Takes up the execution with this name, if there is one, and its children; others stay unchanged.
    pub(super) fn take_up(&mut self, machine: MachineId, name: Option<&Arc<str>>) -> Result<()> {
        let (_, reader) = self.store.as_mut().context(CLOSED)?;
        if let Some(name) = name
            && let Some(top) = complete_name(&mut **reader, machine, name).map_err(Refusal::from)?
        {
            self.outside.mean(top);
        }
        let opened = self.open_node(Live::default(), None).map_err(Refusal::from)?;
        let moment = self.clock.moment();
        self.core.take(Event::Opened(Ok(opened)), &moment);
        for deployed in std::mem::take(&mut self.deployed) {
            self.core.take(Event::Message(deployed), &moment);
        }
        Ok(())
    }

    fn open_node(&mut self, live: Live, anchor: Option<Anchor>) -> Result<Box<(Node, Committer)>, Failure> {
        let closed =
            || Failure { what: CLOSED.into(), why: "it was not opened".into(), kind: FailureKind::Io };
        let (store, _) = self.store.as_mut().ok_or_else(closed)?;
        let moment = self.clock.moment();
        let opening = Opening {
            holder: HOLDER.into(),
            destinations: self.outside.destinations(),
            moment,
            expires_at: moment.now.after_ms(LEASE_FOR_MS),
            store: &mut **store,
            live,
            performs: true,
            bounds: Bounds::default(),
            anchor,
        };
        let Opened { node, mut committer, librarian } = opening.open()?;
        committer.keep_turns();
        self.librarian = Some(librarian);
        Ok(Box::new((node, committer)))
    }

    fn store(&mut self) -> Result<&mut dyn Store> {
        Ok(&mut *self.store.as_mut().context(CLOSED)?.0)
    }

    /// The requester for the audit.
    fn origin(&self) -> Arc<Origin> {
        Arc::new(Caller::owner().origin(DoorKind::Command, "run", self.clock.moment().now))
    }

    /// Stores a definition, before the node is opened.
    pub(super) fn deploy(&mut self, new: NewMachine, machine: Arc<Machine>) -> Result<MachineRecord> {
        let moment = self.clock.moment();
        let by = self.origin();
        let new = NewMachine { at: moment.now, ..new };
        let record = self.store()?.deploy(&new, Some(&by)).map_err(Refusal::from)?;
        self.deployed.push(Message::Deployed { record: record.clone(), machine });
        Ok(record)
    }

    /// Whether other executions run here than this one and its children.
    pub(super) fn has_others(&mut self) -> Result<bool> {
        let (_, reader) = self.store.as_mut().context(CLOSED)?;
        let filter = Filter { status: Some(Status::Running), ..Filter::default() };
        let running = complete_list(&mut **reader, &filter, None, OTHERS_AT_ONCE).map_err(Refusal::from)?;
        Ok(running.rows.iter().any(|one| !self.outside.is_meant(one.execution)))
    }

    /// Starts it, or finds the one with its name and its input, and runs it to its end. If it is interrupted, it is
    /// left for the next process with `--data`, and stopped otherwise.
    pub(super) fn run(
        &mut self,
        start: Start,
        signals: &watch::Receiver<bool>,
    ) -> Result<(ExecutionId, Ended)> {
        let (sender, ended) = mpsc::channel();
        let ending = Some(Reply::new(move |ending| drop(sender.send(ending))));
        let id = self.begin(start, ending)?;
        self.outside.mean(id);
        let (_, reader) = self.store.as_mut().context(CLOSED)?;
        self.telling.begin(id, &mut **reader, &self.clock.moment())?;
        let mut is_stopping = false;
        let told = loop {
            if let Ok(told) = ended.try_recv() {
                break told;
            }
            if *signals.borrow() && !is_stopping {
                if self.outside.keeps() {
                    return Ok((id, Ended::Left));
                }
                is_stopping = true;
                let fault = Fault { error: None, cause: Some("stopped by an interrupt".into()) };
                self.outside.give(id, Input::Stop { fault });
            }
            self.go_on()?;
        };
        let ended = told.map_err(Refusal::from).context("the execution cannot go on")?;
        let ending = Ending {
            status: ended.status,
            output: ended.output,
            fault: ended.fault,
            took_ms: ended.ended_at.0.saturating_sub(ended.started_at.0),
            skipped_ms: self.clock.skipped_ms(),
        };
        Ok((id, Ended::Yes(ending)))
    }

    fn begin(
        &mut self,
        start: Start,
        ending: Option<Reply<Result<perdura_runtime::Ending, InputError>>>,
    ) -> Result<ExecutionId> {
        let (name, input) = (start.name.clone(), start.input.clone());
        let (sender, started) = mpsc::channel();
        let reply = Reply::new(move |started| drop(sender.send(started))).by(Some(self.origin()));
        let message = Message::Start { start: Box::new(start), reply, ending };
        self.core.take(Event::Message(message), &self.clock.moment());
        let started = loop {
            match started.try_recv() {
                Ok(started) => break started,
                Err(mpsc::TryRecvError::Empty) => self.go_on()?,
                Err(mpsc::TryRecvError::Disconnected) => bail!("nothing came of it"),
            }
        };
        let id = match started {
            Ok(started) => return Ok(started.execution),
            Err(StartError::Exists(id)) => id,
            Err(error) => return Err(Refusal::from(error).into()),
        };
        let (_, reader) = self.store.as_mut().context(CLOSED)?;
        let found = fold(&mut **reader, id)?;
        if found.is_some_and(|found| found.execution.identity().input.text() == input.text()) {
            return Ok(id);
        }
        let name = name.as_deref().unwrap_or_default();
        Err(anyhow!(
            "an execution named {name} has another input: choose another --name, or see `perdura show {id}`"
        ))
    }

    /// Passes new events to the core, and carries out its actions.
    fn go_on(&mut self) -> Result<()> {
        while let Ok(event) = self.inbox.try_recv() {
            self.core.take(event, &self.clock.moment());
        }
        let clock = &self.clock;
        let event = match self.core.next(&mut || clock.moment()) {
            Next::Do(deed) => return self.perform(deed),
            Next::Commit(prepared) => {
                let mut committed = prepared.write(self.store()?);
                let turned = committed.as_mut().map(Committed::turned).unwrap_or_default();
                let moment = self.clock.moment();
                self.core.take(Event::Committed(committed), &moment);
                for turned in &turned {
                    self.telling.take(turned, &moment);
                }
                self.telling.draw_if_due(&moment);
                return Ok(());
            }
            Next::Read(questions) => {
                let librarian = self.librarian.as_mut().context(CLOSED)?;
                for question in questions {
                    self.core.take(Event::Read(librarian.answer(question)), &self.clock.moment());
                }
                return Ok(());
            }
            Next::See(chore) => Event::Done(chore.see_to(self.store()?)),
            Next::Open(live, anchor) => {
                Event::Opened(self.open_store().and_then(|()| self.open_node(live, anchor)))
            }
            // One process holds all Shards: there is no other node.
            Next::Pass(pass) => pass.undelivered(),
            Next::Sleep(wake) => {
                let idle = if self.clock.skips() { self.core.idles_until() } else { None };
                // The next event may have to be read first.
                if !idle.is_some_and(|until| self.clock.skip_to(until)) && !self.core.asks() {
                    self.telling.draw(&self.clock.moment());
                    let most =
                        self.clock.until(wake).map_or(EVERY, |ms| Duration::from_millis(ms.unsigned_abs()));
                    if let Ok(event) = self.inbox.recv_timeout(most.min(EVERY)) {
                        self.core.take(event, &self.clock.moment());
                    }
                }
                return Ok(());
            }
            Next::Closed(lease) => {
                let (mut store, _) = self.store.take().context(CLOSED)?;
                // A failed release does no harm: the next process can take the Shards all the same.
                let _ = lease.map(|lease| store.release(&lease));
                return Ok(());
            }
        };
        self.core.take(event, &self.clock.moment());
        Ok(())
    }

    fn perform(&mut self, deed: Deed) -> Result<()> {
        match deed {
            Deed::Perform { execution, call } => {
                if let Some(hint) = self.outside.call(execution, call) {
                    self.telling.hint(&hint);
                }
            }
            Deed::StandIn { execution, call } => self.outside.stand_in(execution, &call),
            Deed::Cancel { execution, strand, key } => self.outside.cancel(execution, strand, &key),
            Deed::Fetch(fetch) => {
                let (store, _) = self.store.as_mut().context(CLOSED)?;
                self.outside.fetch(fetch, store.reader());
            }
            Deed::Publish { .. } => {}
        }
        Ok(())
    }

    /// Stops reporting, and ends all calls. Stored data keeps the results so far.
    pub(super) fn close(mut self) -> Result<()> {
        self.telling.finish(&self.clock.moment());
        self.outside.end_all();
        self.clock.stop_skipping();
        if self.outside.keeps() {
            self.core.take(Event::Close { grace_ms: 0 }, &self.clock.moment());
            while self.store.is_some() {
                self.go_on()?;
            }
        }
        Ok(())
    }
}
