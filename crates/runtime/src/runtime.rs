//! The node on real threads: one decides, one writes, and the calls run elsewhere.
//!
//! While a commit is under way the next group gathers; nothing waits for a clock. A group of a few Turns is committed
//! by the thread that decided it, because handing it over would cost more than it saves.

use crate::committer::{Committed, Prepared, panic_text};
use crate::core::{Core, Event};
use crate::door::Door;
use crate::fetch::{Fetch, Fetched};
use crate::follow::Followed;
use crate::node::{Bounds, Live};
use crate::threads::{Decider, Reading};
use crate::watch::{Gauges, Pulse};
use crate::world::World;
use perdura_store::{CommitError, Failure, FailureKind, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Opens the store: at the beginning, and again after it failed.
pub type Opener = Box<dyn FnMut() -> Result<Box<dyn Store>, Failure> + Send>;

/// How a runtime behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who holds the Shards: the same name may take them over at once.
    pub holder: Arc<str>,
    /// For how long a Lease is good.
    pub lease_for_ms: i64,
    /// How many requests may wait for their commit; more wait outside.
    pub arrivals_max: usize,
    /// How much may be in memory and run at once.
    pub bounds: Bounds,
    /// Whether what is given out of stored results is on the audit, too.
    pub audits_reads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            holder: "local".into(),
            lease_for_ms: 60_000,
            arrivals_max: 4_096,
            bounds: Bounds::default(),
            audits_reads: true,
        }
    }
}

/// What the threads share.
pub(crate) struct Shared {
    store: Mutex<Option<Box<dyn Store>>>,
    pub(crate) gauges: Gauges,
    pub(crate) pulse: Pulse,
    /// How often a machine was changed since the start.
    pub(crate) machine_changes: AtomicU64,
    /// How many activities there are, once somebody has counted; held while one is made, changed or deleted.
    pub(crate) activities: Mutex<Option<usize>>,
    /// Held while a machine is made.
    pub(crate) making: Mutex<()>,
    /// Held while a machine is paused or resumed, so that the node hears of it in the order in which it is on disk.
    pub(crate) pacing: Mutex<()>,
    /// Why nothing can be written at the moment.
    pub(crate) trouble: Mutex<Option<Arc<str>>>,
    pub(crate) followed: Arc<Followed>,
    pub(crate) audits_reads: bool,
}

impl Shared {
    pub(crate) fn store(&self) -> MutexGuard<'_, Option<Box<dyn Store>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_trouble(&self, why: Option<Arc<str>>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(crate) fn commit(&self, prepared: Box<Prepared>) -> Result<Committed, CommitError> {
        let began = Instant::now();
        let turns = prepared.len() as u64;
        let result = catch_unwind(AssertUnwindSafe(|| match self.store().as_deref_mut() {
            Some(store) => prepared.write(store),
            None => Err(CommitError::Lost(closed())),
        }));
        // Whoever waits for it must hear of it; what is on disk is read anew.
        let result = result.unwrap_or_else(|panic| {
            let why = panic_text(&*panic).to_string();
            let kind = FailureKind::Io;
            Err(CommitError::Lost(Failure { what: "writing panicked".into(), why, kind }))
        });
        self.gauges.committed(turns, began.elapsed());
        result
    }
}

pub(crate) fn closed() -> Failure {
    Failure { what: "the store".into(), why: "it is closed".into(), kind: FailureKind::Io }
}

/// Says so, should the node's thread be ended by a mistake of ours.
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let why =
                "a mistake in perdura ended the thread that decides: start it again, nothing on disk is lost";
            tracing::error!(why);
            self.0.set_trouble(Some(why.into()));
        }
    }
}

/// A node that runs.
pub struct Runtime {
    door: Door,
    events: Sender<Event>,
    taken_up: usize,
    node: Option<JoinHandle<()>>,
    /// Those who write and read for it.
    others: Vec<JoinHandle<()>>,
}

impl Runtime {
    /// Opens the store, rebuilds what ran, and goes on with it. On a full disk that comes when there is room.
    pub fn open(mut opener: Opener, world: Arc<dyn World>, options: &Options) -> Result<Self, Failure> {
        let (events, inbox) = mpsc::channel();
        let (groups, taken) = mpsc::channel::<Box<Prepared>>();
        let (questions, asked) = mpsc::channel::<Reading>();
        let (fetches, wanted) = mpsc::channel::<Fetch>();
        let shared = Arc::new(Shared {
            store: Mutex::new(Some(opener()?)),
            gauges: Gauges::default(),
            pulse: Pulse::default(),
            machine_changes: AtomicU64::new(0),
            activities: Mutex::default(),
            making: Mutex::default(),
            pacing: Mutex::default(),
            trouble: Mutex::new(None),
            followed: Arc::default(),
            audits_reads: options.audits_reads,
        });
        let mut decider = Decider {
            core: Core::new(options.lease_for_ms, Live::default()),
            inbox,
            events: events.clone(),
            groups,
            questions,
            fetches,
            shared: shared.clone(),
            world: world.clone(),
            options: options.clone(),
            opener,
            is_troubled: false,
        };
        let opened = match decider.open(Live::default(), None) {
            // What is stored can be read meanwhile; it goes on when there is room.
            Err(failure) if failure.kind == FailureKind::DiskFull => Err(failure),
            opened => Ok(opened?),
        };
        let taken_up = opened.as_ref().map_or(0, |opened| opened.0.in_memory());
        match &opened {
            Ok(opened) => shared.gauges.set_node(&opened.0, &opened.1),
            Err(failure) => {
                tracing::error!(%failure, "nothing can be written; the store is opened again");
                decider.is_troubled = true;
                shared.set_trouble(Some(failure.to_string().into()));
            }
        }
        decider.core.take(Event::Opened(opened), &world.moment());
        let reader = shared.store().as_ref().ok_or_else(closed)?.reader()?;
        let writer = {
            let (shared, events) = (shared.clone(), events.clone());
            spawn("perdura-writer", move || {
                while let Ok(prepared) = taken.recv() {
                    if events.send(Event::Committed(shared.commit(prepared))).is_err() {
                        return;
                    }
                }
            })?
        };
        let librarian = {
            let events = events.clone();
            spawn("perdura-reader", move || answer_all(&asked, &events))?
        };
        let fetcher = {
            let (shared, events) = (shared.clone(), events.clone());
            spawn("perdura-fetcher", move || {
                while let Ok(fetch) = wanted.recv() {
                    let (ticket, is_told) = (fetch.ticket, fetch.kind.tells_of_failure());
                    let work = AssertUnwindSafe(|| fetch_from(&shared, &*world, fetch, &events));
                    let Err(panic) = catch_unwind(work) else { continue };
                    let why = panic_text(&*panic).to_string();
                    tracing::error!(why, "reading for a Map Run panicked");
                    // Whoever asked asks again.
                    if !is_told {
                        let kind = FailureKind::Io;
                        let failure = Failure { what: "reading panicked".into(), why, kind };
                        let fetched = Fetched::Children(Err(failure));
                        drop(events.send(Event::Message(ticket.tell(fetched))));
                    }
                }
            })?
        };
        let alarm = Alarm(shared.clone());
        let node = spawn("perdura-node", move || {
            let _alarm = alarm;
            decider.run();
        })?;
        let door = Door::new(events.clone(), shared, reader, options.arrivals_max);
        Ok(Self { door, events, taken_up, node: Some(node), others: vec![writer, librarian, fetcher] })
    }

    /// How many executions ran when the store was first opened, and go on.
    pub fn taken_up(&self) -> usize {
        self.taken_up
    }

    /// The way in.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Takes nothing new, begins no call, waits this long for those under way, commits what came of them, and ends. What is
    /// still under way then is made again after the next start, under the same keys.
    pub fn close(mut self, grace: Duration) {
        self.end(grace);
    }

    fn end(&mut self, grace: Duration) {
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX / 4);
        let _ = self.events.send(Event::Close { grace_ms });
        for thread in self.node.take().into_iter().chain(self.others.drain(..)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the runtime panicked");
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.node.is_some() {
            self.end(Duration::ZERO);
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    thread::Builder::new().name(name.into()).spawn(run).map_err(|error| Failure {
        what: format!("the thread {name} cannot be started"),
        why: error.to_string(),
        kind: FailureKind::Io,
    })
}

/// Answers what a node asks, until it is gone.
fn answer_all(readings: &Receiver<Reading>, events: &Sender<Event>) {
    let mut librarian = None;
    while let Ok(reading) = readings.recv() {
        let questions = match reading {
            Reading::Librarian(opened) => {
                librarian = Some(opened);
                continue;
            }
            Reading::Questions(questions) => questions,
        };
        let Some(librarian) = &mut librarian else { unreachable!("a node that asks was opened") };
        for question in questions {
            let finding = librarian.answer(question);
            if events.send(Event::Read(finding)).is_err() {
                return;
            }
        }
    }
}

/// Reads for a Map Run; what came of it is sent to the node.
fn fetch_from(shared: &Shared, world: &dyn World, fetch: Fetch, events: &Sender<Event>) {
    let reader = shared.store().as_ref().ok_or_else(closed).and_then(|store| store.reader());
    let events = events.clone();
    // If nobody receives it, the node is gone, and asks again when it is opened.
    fetch.bring(
        reader,
        |order| world.write(order),
        move |message| drop(events.send(Event::Message(message))),
    );
}
