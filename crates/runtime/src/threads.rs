//! The loop on real threads: one takes in and decides, one writes, one reads what is asked for, one reads for Map Runs, and
//! calls run elsewhere.

use crate::committer::{Committer, Prepared, panic_text};
use crate::core::{Core, Event, Next};
use crate::fetch::{Fetch, FetchKind};
use crate::items::ReadOrder;
use crate::librarian::{Librarian, Question};
use crate::node::{Anchor, Deed, Live, Node, Opened, Opening};
use crate::runtime::{Opener, Options, Shared, closed};
use crate::world::{Answer, Order, World};
use perdura_engine::{Timestamp, Wake};
use perdura_store::{Failure, Lease};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Groups of up to this many Turns are committed where they were decided.
const COMMIT_HERE: usize = 8;
/// With at most so many executions in memory, the next message is awaited awake, for so long.
const LISTENS_FOR_FEW: usize = 4;
const LISTENS_FOR: Duration = Duration::from_micros(60);
/// How many messages are taken in before deciding.
const TAKE_AT_ONCE: usize = 1_024;
/// How long nobody looks at the clock at most.
const SLEEPS_FOR_MAX: Duration = Duration::from_secs(1);

/// What the thread that reads is given.
pub(crate) enum Reading {
    /// The store was opened: from now on this one answers.
    Librarian(Box<Librarian>),
    Questions(Vec<Question>),
}

/// The thread that decides, and its ways to the others.
pub(crate) struct Decider {
    pub(crate) core: Core,
    pub(crate) inbox: Receiver<Event>,
    pub(crate) events: Sender<Event>,
    pub(crate) groups: Sender<Box<Prepared>>,
    pub(crate) questions: Sender<Reading>,
    pub(crate) fetches: Sender<Fetch>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) options: Options,
    pub(crate) opener: Opener,
    /// Others were told, or are to be told, that nothing can be written.
    pub(crate) is_troubled: bool,
}

impl Decider {
    /// Until it is closed.
    pub(crate) fn run(mut self) {
        let mut sleeps = None;
        loop {
            self.take_in(sleeps.take());
            sleeps = loop {
                let world = &self.world;
                match self.core.next(&mut || world.moment()) {
                    Next::Do(deed) => self.perform(deed),
                    Next::Commit(prepared) if prepared.len() <= COMMIT_HERE => {
                        let committed = self.shared.commit(prepared);
                        self.take(Event::Committed(committed));
                        break None;
                    }
                    Next::Commit(prepared) => {
                        self.groups.send(prepared).expect("the writer lives as long as the node");
                        break None;
                    }
                    Next::Read(questions) => self.have_read(Reading::Questions(questions)),
                    Next::See(chore) => {
                        let done = match self.shared.store().as_deref_mut() {
                            Some(store) => chore.see_to(store),
                            None => unreachable!("it is there while the node is open"),
                        };
                        self.take(Event::Done(done));
                    }
                    // One process holds all Shards: there is nobody to ask.
                    Next::Pass(pass) => self.take(pass.undelivered()),
                    Next::Open(live, anchor) => {
                        let opened = self.open_again(live, anchor);
                        self.take(Event::Opened(opened));
                    }
                    Next::Sleep(wake) => break Some(wake),
                    Next::Closed(lease) => return self.close(lease.as_ref()),
                }
            };
        }
    }

    /// Takes in what happened. Whoever is told of a commit finds it counted, and whoever is refused finds out why.
    fn take(&mut self, event: Event) {
        if let Event::Committed(told) = &event {
            match told {
                Ok(_) => self.show(),
                Err(error) => {
                    self.is_troubled = true;
                    self.shared.set_trouble(Some(error.to_string().into()));
                }
            }
        }
        let moved = match &event {
            Event::Committed(Ok(committed)) if !self.shared.followed.is_empty() => committed.executions(),
            _ => Vec::new(),
        };
        self.core.take(event, &self.world.moment());
        if !moved.is_empty() {
            self.shared.followed.moved(&moved);
        }
        self.is_troubled |= self.core.open().is_none();
    }

    fn show(&self) {
        if let Some((node, committer)) = self.core.open() {
            self.shared.gauges.set_node(node, committer);
        }
    }

    /// Takes in what is there; with nothing else to do, waits for it.
    fn take_in(&mut self, sleeps: Option<Wake>) {
        self.show();
        if self.is_troubled {
            self.shared.set_trouble(self.core.trouble().cloned());
            self.is_troubled = self.core.open().is_none();
        }
        let mut next = match sleeps {
            None => self.inbox.try_recv().ok(),
            Some(wake) => self.wait(wake),
        };
        self.shared.pulse.beat();
        for _ in 0..TAKE_AT_ONCE {
            // Only what is taken in is received: what is left over stays in the channel.
            let Some(event) = next.take().or_else(|| self.inbox.try_recv().ok()) else { break };
            self.take(event);
        }
    }

    fn wait(&self, wake: Wake) -> Option<Event> {
        let moment = self.world.moment();
        let until = |at: Option<Timestamp>, now: Timestamp| at.map(|at| at.0.saturating_sub(now.0).max(0));
        let waits = [until(wake.steady, moment.steady), until(wake.wall, moment.now)];
        let most = waits.into_iter().flatten().min();
        let most = most.map_or(SLEEPS_FOR_MAX, |ms| Duration::from_millis(ms.unsigned_abs()));
        if most.is_zero() {
            return self.inbox.try_recv().ok();
        }
        self.listen().or_else(|| {
            if !self.core.is_busy() {
                self.shared.pulse.rest();
            }
            match self.inbox.recv_timeout(most.min(SLEEPS_FOR_MAX)) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the node holds a sender itself"),
            }
        })
    }

    /// With little to do, an answer may be on its way already: waiting awake for a moment is quicker than being woken.
    fn listen(&self) -> Option<Event> {
        let in_memory = self.core.open().map_or(0, |(node, _)| node.in_memory());
        if !(1..=LISTENS_FOR_FEW).contains(&in_memory) {
            return None;
        }
        let began = Instant::now();
        while began.elapsed() < LISTENS_FOR {
            if let Ok(event) = self.inbox.try_recv() {
                return Some(event);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Opens the store that is there.
    pub(crate) fn open(&self, live: Live, anchor: Option<Anchor>) -> Result<Box<(Node, Committer)>, Failure> {
        let Opened { node, committer, librarian } = self.open_node(live, anchor)?;
        self.have_read(Reading::Librarian(Box::new(librarian)));
        Ok(Box::new((node, committer)))
    }

    fn have_read(&self, reading: Reading) {
        self.questions.send(reading).expect("whoever reads lives as long as the node");
    }

    fn open_node(&self, live: Live, anchor: Option<Anchor>) -> Result<Opened, Failure> {
        let moment = self.world.moment();
        let mut guard = self.shared.store();
        let store = guard.as_deref_mut().ok_or_else(closed)?;
        Opening {
            holder: self.options.holder.clone(),
            destinations: self.world.destinations(),
            moment,
            expires_at: moment.now.after_ms(self.options.lease_for_ms),
            store,
            live,
            performs: true,
            bounds: self.options.bounds,
            anchor,
        }
        .open()
    }

    fn open_again(&mut self, live: Live, anchor: Option<Anchor>) -> Result<Box<(Node, Committer)>, Failure> {
        self.shared.store().take();
        let store = (self.opener)()?;
        *self.shared.store() = Some(store);
        self.open(live, anchor)
    }

    /// The Shards are given back, and nobody is left to wait.
    fn close(&mut self, lease: Option<&Lease>) {
        if let (Some(mut store), Some(lease)) = (self.shared.store().take(), lease)
            && let Err(error) = store.release(lease)
        {
            tracing::warn!(%error, "the shards could not be given back");
        }
        while let Ok(event) = self.inbox.try_recv() {
            self.core.take(event, &self.world.moment());
        }
    }

    /// A panic outside costs the call, whose answer is dropped and says so, not the node.
    fn perform(&self, deed: Deed) {
        let performed = catch_unwind(AssertUnwindSafe(|| match deed {
            Deed::Perform { execution, call } | Deed::StandIn { execution, call } => {
                let answer = Answer::new(execution, &call, self.events.clone());
                self.world.perform(Order { call, answer });
            }
            Deed::Publish { execution, status } => self.world.publish(execution, status),
            Deed::Cancel { execution, strand, key } => self.world.cancel(execution, strand, &key),
            Deed::Fetch(fetch) => self.fetch(fetch),
        }));
        if let Err(panic) = performed {
            tracing::error!(panic = &*panic_text(&*panic), "a call could not be handed over");
        }
    }

    fn fetch(&self, fetch: Fetch) {
        let Fetch { ticket, kind } = fetch;
        match kind {
            FetchKind::Items { reader, room, .. } => {
                let events = Mutex::new(self.events.clone());
                // If nobody receives them, the node is gone, and the feed is closed with its run.
                let send = move |message| {
                    let _ =
                        events.lock().unwrap_or_else(PoisonError::into_inner).send(Event::Message(message));
                };
                self.world.read(ReadOrder { reader, feed: ticket.feed(room, send) });
            }
            kind @ (FetchKind::Children | FetchKind::Results { .. }) => {
                let fetch = Fetch { ticket, kind };
                self.fetches.send(fetch).expect("whoever fetches lives as long as the node");
            }
        }
    }
}
