//! The node's thread: it takes messages in, decides, hands groups over to be written, and has done what they ask for.

use crate::committer::{Committed, Committer, Prepared, panic_text};
use crate::fetch::{Fetch, Wanted};
use crate::items::ReadOrder;
use crate::message::{AdjustError, InputError, Message, Reply, Slice, StartError, Unavailable};
use crate::node::{Anchor, Deed, Live, Node, Opening};
use crate::runtime::{Event, Opener, Options, Shared, closed};
use crate::world::{Answer, Order, World};
use perdura_engine::{ExecutionId, Moment, Timestamp, Wake};
use perdura_store::{CommitError, Failure, Renewal, Swept};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Groups of up to this many Turns are committed where they were decided.
const COMMIT_HERE: usize = 8;
/// How many Turns one commit takes at most.
const GROUP_MAX: usize = 1_024;
/// With at most so many executions in memory, the next message is awaited awake, for so long.
const LISTENS_FOR_FEW: usize = 4;
const LISTENS_FOR: Duration = Duration::from_micros(60);
/// For so long Turns are decided before what arrived is looked at again.
const DECIDES_FOR: Duration = Duration::from_millis(20);
/// A commit of this many bytes, uncompressed, takes no more Turns: its journal row has to be read again as one.
const GROUP_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many messages are taken in before deciding.
const TAKE_AT_ONCE: usize = 1_024;
/// How long to wait before a store that failed is opened again, at first and at most.
pub(crate) const REOPEN_AFTER: Duration = Duration::from_millis(100);
const REOPEN_AFTER_MAX: Duration = Duration::from_secs(5);
/// How long what is in hand is worked off after the time for closing is up.
const FINISH_FOR: Duration = Duration::from_secs(1);

/// The node's thread.
pub(crate) struct Turner {
    pub(crate) inbox: Receiver<Event>,
    pub(crate) events: Sender<Event>,
    pub(crate) groups: Sender<Prepared>,
    pub(crate) fetches: Sender<Fetch>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) options: Options,
    pub(crate) opener: Opener,
    pub(crate) closing: Option<Instant>,
    /// How long to wait before the store is opened again, should it fail.
    pub(crate) pause: Duration,
}

/// A node, and who gathers for it.
pub(crate) struct Opened {
    pub(crate) node: Node,
    pub(crate) committer: Committer,
    /// A group is being written.
    pub(crate) is_writing: bool,
    /// What is to be taken away between two groups.
    pub(crate) sweeps: VecDeque<(Slice, Reply<Result<Swept, Unavailable>>)>,
    pub(crate) renews_at: Timestamp,
}

impl Opened {
    /// The next group is not full yet.
    pub(crate) fn has_room(&self) -> bool {
        self.committer.gathered() < GROUP_MAX && self.committer.gathered_bytes() < GROUP_BYTES_MAX
    }
}

impl Turner {
    pub(crate) fn open(&mut self, live: Live, anchor: Option<Anchor>) -> Result<Opened, Failure> {
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
            bounds: self.options.bounds,
            anchor,
        };
        let (node, committer) = Node::open(opening).map_err(|error| match error {
            CommitError::Lost(failure) => failure,
            CommitError::Fenced { .. } | CommitError::Busy => Failure {
                what: "the shards cannot be taken".into(),
                why: error.to_string(),
                kind: perdura_store::FailureKind::Held,
            },
        })?;
        // At once: what is committed is never newer than the steady time on record by more than a lease lasts.
        let renews_at = moment.steady;
        Ok(Opened { node, committer, is_writing: false, sweeps: VecDeque::new(), renews_at })
    }

    pub(crate) fn run(mut self, mut opened: Opened) {
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
                    let anchor = opened.node.anchor();
                    let live = opened.node.abandon(&Unavailable::Store(why.clone()));
                    match self.open_again(&live, &anchor, why) {
                        Some(again) => opened = again,
                        None => return,
                    }
                }
            }
        }
    }

    /// Until it is closed or the store fails.
    pub(crate) fn serve(&mut self, opened: &mut Opened) -> Stop {
        loop {
            if let Some(stop) = self.take_in(opened) {
                return stop;
            }
            let moment = self.world.moment();
            if opened.has_room() {
                opened.node.wake(&moment);
            }
            let world = self.world.clone();
            let began = Instant::now();
            while opened.has_room()
                && began.elapsed() < DECIDES_FOR
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
    pub(crate) fn is_over(&self) -> bool {
        self.closing.is_some_and(|by| Instant::now() >= by + FINISH_FOR)
    }

    pub(crate) fn hand_over(&mut self, opened: &mut Opened, moment: &Moment) -> Option<Stop> {
        if opened.is_writing {
            return None;
        }
        if moment.steady >= opened.renews_at {
            opened.renews_at = moment.steady.after_ms(self.options.lease_for_ms / 2);
            let renewal = opened.node.renewal(moment, self.options.lease_for_ms);
            if let Some(stop) = self.renew(&mut opened.committer, renewal) {
                return Some(stop);
            }
        }
        self.sweep(opened);
        let prepared = opened.committer.hand_over()?;
        if prepared.len() > COMMIT_HERE {
            opened.is_writing = true;
            self.groups.send(prepared).expect("the writer lives as long as the node");
            return None;
        }
        let result = self.shared.commit(prepared);
        self.settle(opened, result)
    }

    fn give_up(&self, opened: &mut Opened, execution: ExecutionId) -> Result<bool, InputError> {
        let elsewhere = || InputError::Unavailable(Unavailable::Elsewhere);
        let lease = opened.committer.lease_of(execution).ok_or_else(elsewhere)?.clone();
        let mut guard = self.shared.store();
        let store = guard.as_deref_mut().ok_or(InputError::Unavailable(Unavailable::Closing))?;
        opened.node.give_up(store, &lease, execution, &self.world.moment())
    }

    /// One slice between two groups: nothing is being written, and what was decided since is in memory.
    fn sweep(&self, opened: &mut Opened) {
        let Some((slice, reply)) = opened.sweeps.pop_front() else { return };
        let swept = match self.shared.store().as_deref_mut() {
            Some(store) => opened.node.sweep(store, &slice),
            None => Err(CommitError::Lost(closed())),
        };
        reply.send(swept.map_err(|error| Unavailable::Store(error.to_string().into())));
    }

    pub(crate) fn renew(&self, committer: &mut Committer, renewal: Renewal) -> Option<Stop> {
        let mut guard = self.shared.store();
        let store = guard.as_deref_mut()?;
        for lease in committer.leases() {
            if let Err(error @ (CommitError::Fenced { .. } | CommitError::Lost(_))) =
                store.renew(lease, renewal)
            {
                return Some(Stop::Failed(error.to_string().into()));
            }
        }
        None
    }

    pub(crate) fn settle(
        &mut self,
        opened: &mut Opened,
        result: Result<Committed, CommitError>,
    ) -> Option<Stop> {
        opened.is_writing = false;
        match result {
            Ok(committed) => {
                self.pause = REOPEN_AFTER;
                // Whoever is told of a commit finds it counted.
                self.shared.gauges.set_node(&opened.node, &opened.committer);
                for deed in opened.node.settle(committed) {
                    self.perform(deed);
                }
                None
            }
            Err(error) => Some(Stop::Failed(error.to_string().into())),
        }
    }

    /// A panic outside costs the call, whose answer is dropped and says so, not the node.
    pub(crate) fn perform(&self, deed: Deed) {
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

    pub(crate) fn fetch(&self, fetch: Fetch) {
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
    pub(crate) fn take_in(&mut self, opened: &mut Opened) -> Option<Stop> {
        let has_room = opened.has_room();
        let is_due = opened.committer.gathered() > 0 || !opened.sweeps.is_empty();
        let can_go_on = (opened.node.has_work() && has_room) || (is_due && !opened.is_writing);
        let mut next = if can_go_on {
            self.inbox.try_recv().ok()
        } else {
            self.listen(opened).or_else(|| {
                if !opened.is_writing {
                    self.shared.pulse.rest();
                }
                // While a full group waits for the one before it, timers can wait too.
                let wake = if has_room { opened.node.next_wake() } else { Wake::default() };
                match self.inbox.recv_timeout(self.idle_for(wake)) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => unreachable!("the node holds a sender itself"),
                }
            })
        };
        self.shared.pulse.beat();
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
    pub(crate) fn listen(&self, opened: &Opened) -> Option<Event> {
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

    pub(crate) fn take(&self, opened: &mut Opened, message: Message) {
        let is_new = !matches!(message, Message::Answer { .. } | Message::Fetched { .. });
        if self.closing.is_some() && is_new {
            refuse(message, &Unavailable::Closing);
        } else if let Message::Sweep { slice, reply } = message {
            opened.sweeps.push_back((slice, reply));
        } else if let Message::GiveUp { execution, reply } = message {
            reply.send(self.give_up(opened, execution));
        } else {
            opened.node.take(message, &self.world.moment());
        }
    }

    pub(crate) fn idle_for(&self, wake: Wake) -> Duration {
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
    pub(crate) fn open_again(&mut self, live: &Live, anchor: &Anchor, mut why: Arc<str>) -> Option<Opened> {
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
                self.open(live.clone(), Some(anchor.clone()))
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

    pub(crate) fn release(&self, mut committer: Committer) {
        let mut guard = self.shared.store();
        let Some(store) = guard.as_deref_mut() else { return };
        for lease in committer.leases() {
            if let Err(error) = store.release(lease) {
                tracing::warn!(%error, "a shard could not be given back");
            }
        }
    }

    pub(crate) fn refuse_the_rest(&self, why: &Unavailable) {
        while let Ok(event) = self.inbox.try_recv() {
            if let Event::Message(message) = event {
                refuse(message, why);
            }
        }
    }
}

/// Why a node stopped.
pub(crate) enum Stop {
    Closed,
    Failed(Arc<str>),
}

pub(crate) fn refuse(message: Message, why: &Unavailable) {
    match message {
        Message::Start { reply, .. } => reply.send(Err(StartError::Unavailable(why.clone()))),
        Message::Input { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Watch { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        Message::Poll { reply, .. } => reply.send(Err(why.clone())),
        Message::Show { reply, .. } => reply.send(None),
        Message::Adjust { reply, .. } => reply.send(Err(AdjustError::Unavailable(why.clone()))),
        Message::Sweep { reply, .. } => reply.send(Err(why.clone())),
        Message::GiveUp { reply, .. } => reply.send(Err(InputError::Unavailable(why.clone()))),
        // A reply that is dropped says that nobody is there; that nothing was found would be another answer.
        Message::Named { .. }
        | Message::Young { .. }
        | Message::Unlisted { .. }
        | Message::MapRun { .. }
        | Message::MapRuns { .. }
        | Message::Answer { .. }
        | Message::Deployed { .. }
        | Message::Fetched { .. } => {}
    }
}
