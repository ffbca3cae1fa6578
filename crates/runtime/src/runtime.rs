//! The node on real threads: one decides, one writes, and the calls run elsewhere.
//!
//! While a commit is under way the next group gathers; nothing waits for a clock. A group of a few Turns is committed
//! by the thread that decided it, because handing it over would cost more than it saves.

use crate::committer::{Committed, Committer, Prepared, panic_text};
use crate::door::Door;
use crate::fetch::{Fetch, Fetched, Wanted, bring_results, recall};
use crate::items::ReadOrder;
use crate::message::{AdjustError, InputError, Message, StartError, Unavailable, Young};
use crate::naming::Resolver;
use crate::node::{Deed, Live, Node, Opening};
use crate::watch::Gauges;
use crate::world::{Answer, Order, World};
use perdura_engine::{Moment, Timestamp, Wake};
use perdura_store::{CommitError, Failure, Store};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Groups of up to this many Turns are committed where they were decided.
const COMMIT_HERE: usize = 8;
/// How many Turns one commit takes at most.
const GROUP_MAX: usize = 1_024;
/// With at most so many executions in memory, the next message is awaited awake, for so long.
const LISTENS_FOR_FEW: usize = 4;
const LISTENS_FOR: Duration = Duration::from_micros(60);
/// A commit of this many bytes, uncompressed, takes no more Turns: its journal row has to be read again as one.
const GROUP_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many messages are taken in before deciding.
const TAKE_AT_ONCE: usize = 1_024;
/// How long to wait before a store that failed is opened again, at first and at most.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
const REOPEN_AFTER_MAX: Duration = Duration::from_secs(5);

/// How long what is in hand is worked off after the time for closing is up.
const FINISH_FOR: Duration = Duration::from_secs(1);

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
    /// What versions and aliases stand for, where a step starts an execution.
    pub resolver: Resolver,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            holder: "local".into(),
            lease_for_ms: 60_000,
            arrivals_max: 4_096,
            resolver: Resolver::default(),
        }
    }
}

/// What reaches the node's thread.
pub(crate) enum Event {
    Message(Message),
    Committed(Result<Committed, CommitError>),
    Close { by: Instant },
}

/// What the threads share.
pub(crate) struct Shared {
    store: Mutex<Option<Box<dyn Store>>>,
    pub(crate) gauges: Gauges,
    /// How often a machine was changed since the start.
    pub(crate) machine_changes: AtomicU64,
    /// Why nothing can be written at the moment.
    pub(crate) trouble: Mutex<Option<Arc<str>>>,
}

impl Shared {
    pub(crate) fn store(&self) -> MutexGuard<'_, Option<Box<dyn Store>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_trouble(&self, why: Option<Arc<str>>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn commit(&self, prepared: Prepared) -> Result<Committed, CommitError> {
        let began = Instant::now();
        let turns = prepared.len() as u64;
        let result = catch_unwind(AssertUnwindSafe(|| match self.store().as_deref_mut() {
            Some(store) => prepared.write(store),
            None => Err(CommitError::Lost(closed())),
        }));
        // Whoever waits for it must hear of it; what is on disk is read anew.
        let result = result.unwrap_or_else(|panic| {
            let why = panic_text(&*panic).to_string();
            let kind = perdura_store::FailureKind::Io;
            Err(CommitError::Lost(Failure { what: "writing panicked".into(), why, kind }))
        });
        self.gauges.committed(turns, began.elapsed());
        result
    }
}

fn closed() -> Failure {
    Failure { what: "the store".into(), why: "it is closed".into(), kind: perdura_store::FailureKind::Io }
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
    writer: Option<JoinHandle<()>>,
    fetcher: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Opens the store, rebuilds what ran, and goes on with it.
    pub fn open(mut opener: Opener, world: Arc<dyn World>, options: &Options) -> Result<Self, Failure> {
        let (events, inbox) = mpsc::channel();
        let (groups, taken) = mpsc::channel::<Prepared>();
        let (fetches, wanted) = mpsc::channel::<Fetch>();
        let shared = Arc::new(Shared {
            store: Mutex::new(Some(opener()?)),
            gauges: Gauges::default(),
            machine_changes: AtomicU64::new(0),
            trouble: Mutex::new(None),
        });
        let mut turner = Turner {
            inbox,
            events: events.clone(),
            groups,
            fetches,
            shared: shared.clone(),
            world: world.clone(),
            options: options.clone(),
            opener,
            closing: None,
            pause: REOPEN_AFTER,
        };
        let opened = turner.open(Live::default())?;
        shared.gauges.set_node(&opened.node, &opened.committer);
        let taken_up = opened.node.in_memory();
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
        let fetcher = {
            let (shared, events) = (shared.clone(), events.clone());
            spawn("perdura-fetcher", move || {
                while let Ok(fetch) = wanted.recv() {
                    let (ticket, is_of_children) = (fetch.ticket, matches!(fetch.wanted, Wanted::Children));
                    let work = AssertUnwindSafe(|| fetch_from(&shared, &*world, fetch, &events));
                    let Err(panic) = catch_unwind(work) else { continue };
                    let why = panic_text(&*panic).to_string();
                    tracing::error!(why, "reading for a Map Run panicked");
                    // Results say so themselves; the run asks again.
                    if is_of_children {
                        let kind = perdura_store::FailureKind::Io;
                        let failure = Failure { what: "reading panicked".into(), why, kind };
                        let told = ticket.tell(Fetched::Children(Err(failure)));
                        drop(events.send(Event::Message(told)));
                    }
                }
            })?
        };
        let alarm = Alarm(shared.clone());
        let node = spawn("perdura-node", move || {
            let _alarm = alarm;
            turner.run(opened);
        })?;
        let door = Door::new(events.clone(), shared, reader, options.arrivals_max);
        Ok(Self { door, events, taken_up, node: Some(node), writer: Some(writer), fetcher: Some(fetcher) })
    }

    /// How many executions ran when the store was opened, and go on.
    pub fn taken_up(&self) -> usize {
        self.taken_up
    }

    /// The way in.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Takes nothing new, waits this long for calls under way, commits what came of them, and ends. What is still
    /// under way then is made again after the next start, under the same keys.
    pub fn close(mut self, grace: Duration) {
        self.end(grace);
    }

    fn end(&mut self, grace: Duration) {
        let _ = self.events.send(Event::Close { by: Instant::now() + grace });
        for thread in [self.node.take(), self.writer.take(), self.fetcher.take()].into_iter().flatten() {
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
        kind: perdura_store::FailureKind::Io,
    })
}

/// Reads for a Map Run; what came of it is sent to the node.
fn fetch_from(shared: &Shared, world: &dyn World, fetch: Fetch, events: &Sender<Event>) {
    let Fetch { ticket, wanted } = fetch;
    let reader = shared.store().as_ref().ok_or_else(closed).and_then(|store| store.reader());
    let events = events.clone();
    // If nobody receives it, the node is gone, and asks again when it is opened.
    let send = move |message| drop(events.send(Event::Message(message)));
    match (wanted, reader) {
        (Wanted::Children, Ok(mut reader)) => {
            send(ticket.tell(Fetched::Children(recall(&mut *reader, ticket.run))));
        }
        (Wanted::Children, Err(failure)) => send(ticket.tell(Fetched::Children(Err(failure)))),
        (Wanted::Results { order, bytes_max }, Ok(reader)) => {
            bring_results(ticket, reader, (&order, bytes_max), |order| world.write(order), send);
        }
        (Wanted::Results { .. }, Err(failure)) => send(ticket.tell(Fetched::Results(Err(failure)))),
        (Wanted::Items { .. }, _) => unreachable!("items are read by the world"),
    }
}

/// The node's thread.
struct Turner {
    inbox: Receiver<Event>,
    events: Sender<Event>,
    groups: Sender<Prepared>,
    fetches: Sender<Fetch>,
    shared: Arc<Shared>,
    world: Arc<dyn World>,
    options: Options,
    opener: Opener,
    closing: Option<Instant>,
    /// How long to wait before the store is opened again, should it fail.
    pause: Duration,
}

/// A node, and who gathers for it.
struct Opened {
    node: Node,
    committer: Committer,
    /// A group is being written.
    is_writing: bool,
    renews_at: Timestamp,
}

impl Opened {
    /// The next group is not full yet.
    fn has_room(&self) -> bool {
        self.committer.gathered() < GROUP_MAX && self.committer.gathered_bytes() < GROUP_BYTES_MAX
    }
}

impl Turner {
    fn open(&mut self, live: Live) -> Result<Opened, Failure> {
        let moment = self.world.moment();
        let mut guard = self.shared.store();
        let store = guard.as_deref_mut().ok_or_else(closed)?;
        let opening = Opening {
            holder: self.options.holder.clone(),
            destinations: self.world.destinations(),
            moment,
            expires_at: moment.now.after_ms(self.options.lease_for_ms),
            store,
            live,
            performs: true,
            resolver: self.options.resolver.clone(),
        };
        let (node, committer) = Node::open(opening).map_err(|error| match error {
            CommitError::Lost(failure) => failure,
            CommitError::Fenced { .. } | CommitError::Busy => Failure {
                what: "the shards cannot be taken".into(),
                why: error.to_string(),
                kind: perdura_store::FailureKind::Held,
            },
        })?;
        let renews_at = moment.steady.after_ms(self.options.lease_for_ms / 2);
        Ok(Opened { node, committer, is_writing: false, renews_at })
    }

    fn run(mut self, mut opened: Opened) {
        loop {
            match self.serve(&mut opened) {
                Stop::Closed => {
                    opened.node.abandon(&Unavailable::Closing);
                    self.release(opened.committer);
                    self.shared.store().take();
                    return self.refuse_the_rest(&Unavailable::Closing);
                }
                Stop::Failed(why) => {
                    tracing::error!(%why, "nothing can be written; the store is opened again");
                    self.shared.set_trouble(Some(why.clone()));
                    let live = opened.node.abandon(&Unavailable::Store(why.clone()));
                    match self.open_again(&live, why) {
                        Some(again) => opened = again,
                        None => return,
                    }
                }
            }
        }
    }

    /// Until it is closed or the store fails.
    fn serve(&mut self, opened: &mut Opened) -> Stop {
        loop {
            if let Some(stop) = self.take_in(opened) {
                return stop;
            }
            let moment = self.world.moment();
            if opened.has_room() {
                opened.node.wake(&moment);
            }
            let world = self.world.clone();
            while opened.has_room()
                && !self.is_over()
                && let Some(item) = opened.node.decide_next(&mut || world.moment())
            {
                opened.committer.add(item);
            }
            opened.committer.add_map_runs(opened.node.map_run_rows());
            for deed in opened.node.fetches() {
                self.perform(deed);
            }
            if let Some(stop) = self.hand_over(opened, &moment) {
                return stop;
            }
            self.shared.gauges.set_node(&opened.node, &opened.committer);
            if let Some(by) = self.closing
                && !opened.is_writing
                && opened.committer.gathered() == 0
                && (self.is_over()
                    || !opened.node.has_work() && (opened.node.live_calls() == 0 || Instant::now() >= by))
            {
                return Stop::Closed;
            }
        }
    }

    /// It closes, and has waited long enough: nothing more is decided. One that never rests must not hold up the end.
    fn is_over(&self) -> bool {
        self.closing.is_some_and(|by| Instant::now() >= by + FINISH_FOR)
    }

    fn hand_over(&mut self, opened: &mut Opened, moment: &Moment) -> Option<Stop> {
        if opened.is_writing {
            return None;
        }
        if moment.steady >= opened.renews_at {
            opened.renews_at = moment.steady.after_ms(self.options.lease_for_ms / 2);
            let expires_at = moment.now.after_ms(self.options.lease_for_ms);
            if let Some(stop) = self.renew(&mut opened.committer, expires_at) {
                return Some(stop);
            }
        }
        let prepared = opened.committer.hand_over()?;
        if prepared.len() > COMMIT_HERE {
            opened.is_writing = true;
            self.groups.send(prepared).expect("the writer lives as long as the node");
            return None;
        }
        let result = self.shared.commit(prepared);
        self.settle(opened, result)
    }

    fn renew(&self, committer: &mut Committer, expires_at: Timestamp) -> Option<Stop> {
        let mut guard = self.shared.store();
        let store = guard.as_deref_mut()?;
        for lease in committer.leases() {
            if let Err(error @ (CommitError::Fenced { .. } | CommitError::Lost(_))) =
                store.renew(lease, expires_at)
            {
                return Some(Stop::Failed(error.to_string().into()));
            }
        }
        None
    }

    fn settle(&mut self, opened: &mut Opened, result: Result<Committed, CommitError>) -> Option<Stop> {
        opened.is_writing = false;
        match result {
            Ok(committed) => {
                self.pause = REOPEN_AFTER;
                for deed in opened.node.settle(committed) {
                    self.perform(deed);
                }
                None
            }
            Err(error) => Some(Stop::Failed(error.to_string().into())),
        }
    }

    /// A panic outside costs the call, whose answer is dropped and says so, not the node.
    fn perform(&self, deed: Deed) {
        let performed = catch_unwind(AssertUnwindSafe(|| match deed {
            Deed::Perform { execution, call } => {
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
        let Fetch { ticket, wanted } = fetch;
        match wanted {
            Wanted::Items { reader, room } => {
                let events = Mutex::new(self.events.clone());
                // If nobody receives them, the node is gone, and the feed is closed with its run.
                let send = move |message| {
                    let _ =
                        events.lock().unwrap_or_else(PoisonError::into_inner).send(Event::Message(message));
                };
                self.world.read(ReadOrder { reader, feed: ticket.feed(room, send) });
            }
            wanted @ (Wanted::Children | Wanted::Results { .. }) => {
                let fetch = Fetch { ticket, wanted };
                self.fetches.send(fetch).expect("whoever fetches lives as long as the node");
            }
        }
    }

    /// Waits for the next event, unless there is work, and takes in all that are there.
    fn take_in(&mut self, opened: &mut Opened) -> Option<Stop> {
        let has_room = opened.has_room();
        let can_go_on =
            (opened.node.has_work() && has_room) || (opened.committer.gathered() > 0 && !opened.is_writing);
        let mut next = if can_go_on {
            self.inbox.try_recv().ok()
        } else {
            self.listen(opened).or_else(|| {
                // While a full group waits for the one before it, timers can wait too.
                let wake = if has_room { opened.node.next_wake() } else { Wake::default() };
                match self.inbox.recv_timeout(self.idle_for(wake)) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => unreachable!("the node holds a sender itself"),
                }
            })
        };
        for _ in 0..TAKE_AT_ONCE {
            // Only what is taken in is received: what is left over stays in the channel.
            let Some(event) = next.take().or_else(|| self.inbox.try_recv().ok()) else { break };
            match event {
                Event::Message(message) => self.take(opened, message),
                Event::Committed(result) => {
                    if let Some(stop) = self.settle(opened, result) {
                        return Some(stop);
                    }
                }
                Event::Close { by } => self.closing = Some(by),
            }
        }
        None
    }

    /// With little to do, an answer may be on its way already: waiting awake for a moment is quicker than being woken.
    fn listen(&self, opened: &Opened) -> Option<Event> {
        if !(1..=LISTENS_FOR_FEW).contains(&opened.node.in_memory()) {
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

    fn take(&self, opened: &mut Opened, message: Message) {
        let is_new = !matches!(message, Message::Answer { .. } | Message::Fetched { .. });
        if self.closing.is_some() && is_new {
            refuse(message, &Unavailable::Closing);
        } else {
            opened.node.take(message, &self.world.moment());
        }
    }

    fn idle_for(&self, wake: Wake) -> Duration {
        let moment = self.world.moment();
        let until = |at: Option<Timestamp>, now: Timestamp| at.map(|at| at.0.saturating_sub(now.0).max(0));
        let wait = [until(wake.steady, moment.steady), until(wake.wall, moment.now), Some(1_000)];
        let most = Duration::from_millis(wait.into_iter().flatten().min().unwrap_or(1_000).unsigned_abs());
        match self.closing {
            Some(by) => most.min(by.saturating_duration_since(Instant::now())),
            None => most,
        }
    }

    /// Opens the store again until it works, answering everybody meanwhile.
    fn open_again(&mut self, live: &Live, mut why: Arc<str>) -> Option<Opened> {
        let mut answers: VecDeque<Message> = VecDeque::new();
        loop {
            if self.closing.is_some() {
                self.shared.store().take();
                self.refuse_the_rest(&Unavailable::Closing);
                return None;
            }
            let until = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(REOPEN_AFTER_MAX);
            while let Ok(event) = self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                match event {
                    Event::Message(answer @ Message::Answer { .. }) => answers.push_back(answer),
                    Event::Message(message) => refuse(message, &Unavailable::Store(why.clone())),
                    Event::Committed(_) => {}
                    Event::Close { by } => {
                        self.closing = Some(by);
                        break;
                    }
                }
            }
            if self.closing.is_some() {
                continue;
            }
            self.shared.store().take();
            let opened = (self.opener)().and_then(|store| {
                *self.shared.store() = Some(store);
                self.open(live.clone())
            });
            match opened {
                Ok(mut opened) => {
                    tracing::info!("the store is open again");
                    self.shared.set_trouble(None);
                    let moment = self.world.moment();
                    for answer in answers {
                        opened.node.take(answer, &moment);
                    }
                    return Some(opened);
                }
                Err(failure) => {
                    why = failure.to_string().into();
                    self.shared.set_trouble(Some(why.clone()));
                }
            }
        }
    }

    fn release(&self, mut committer: Committer) {
        let mut guard = self.shared.store();
        let Some(store) = guard.as_deref_mut() else { return };
        for lease in committer.leases() {
            if let Err(error) = store.release(lease) {
                tracing::warn!(%error, "a shard could not be given back");
            }
        }
    }

    fn refuse_the_rest(&self, why: &Unavailable) {
        while let Ok(event) = self.inbox.try_recv() {
            if let Event::Message(message) = event {
                refuse(message, why);
            }
        }
    }
}

/// Why a node stopped.
enum Stop {
    Closed,
    Failed(Arc<str>),
}

fn refuse(message: Message, why: &Unavailable) {
    match message {
        Message::Start { reply, .. } => reply.send(Err(StartError::Unavailable(why.clone()))),
        Message::Input { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Watch { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Poll { reply, .. } => reply.send(Err(why.clone())),
        Message::Show { reply, .. } => reply.send(None),
        Message::Named { reply, .. } => reply.send(None),
        Message::Young { reply, .. } => reply.send(Young::default()),
        Message::MapRun { reply, .. } => reply.send(None),
        Message::Adjust { reply, .. } => reply.send(Err(AdjustError::Unavailable(why.clone()))),
        Message::Answer { .. } | Message::Deployed { .. } | Message::Fetched { .. } => {}
    }
}
