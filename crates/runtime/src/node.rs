//! One node: the executions of its Shards that are in memory, and the one path on which they move.
//!
//! A node does nothing by itself. Messages are given to it, it decides, hands a group over to be committed, takes it
//! back, and says what is to be done outside. Threads, channels and clocks are elsewhere; so the same node runs on a
//! real machine and in a simulation, and a crash is nothing but the loss of this value.

mod activities;
mod anchor;
mod children;
mod load;
mod map_run;
mod ready;
mod room;
mod settle;
mod start;
mod watchers;

use crate::committer::{Committer, Item, base_of, panic_text, rests};
use crate::fetch::Fetch;
use crate::library::Library;
use crate::message::{Ending, InputError, Message, Reply, StartError, Started, Taken, Unavailable, View};
use crate::naming::Start;
use crate::running::{Rebuilding, Running, SEEN_AFTER_MS, Unreadable, rebuild};
use crate::timers::Timers;
use activities::{Activities, Handing};
pub use anchor::Anchor;
use children::{ChildOrder, ParentStep};
use map_run::MapRuns;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{
    Attempt, By, Call, Destinations, Effect, EffectKey, ExecutionId, Input, Moment, Outcome, Policy, Status,
    StrandId, Timestamp, Wake, decide,
};
use perdura_store::record::Begun;
use perdura_store::{Aside, ChildOf, CommitError, Failure, MachineId, Reader, Renewal, Shard, Store};
use ready::Ready;
pub use room::Bounds;
use room::Room;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use watchers::{Watcher, Watchers};

/// How many sleepers are woken at once.
const WAKE_AT_ONCE: usize = 1_024;
/// How many are woken even if as many are ready already.
const WAKE_AT_LEAST: usize = 64;
/// What finds no room at the start is written in groups of about this size.
const PUT_OFF_BYTES: u64 = 4 * 1024 * 1024;
/// How often the tables for readers follow.
const SHOW_EVERY_MS: i64 = 1_000;

/// Something to do outside; its Turn is on disk.
#[derive(Debug)]
pub enum Deed {
    /// Make a call.
    Perform { execution: ExecutionId, call: Call },
    /// Tell those who listen that an execution ended.
    Publish { execution: ExecutionId, status: Status },
    /// Nobody waits for a call any more.
    Cancel { execution: ExecutionId, strand: StrandId, key: EffectKey },
    /// Fetch something for a Map Run, beside the node's thread.
    Fetch(Fetch),
}

/// Ids are random: they need no further mixing, and the order of a map must not differ between two runs.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

pub(crate) type ById<V> = HashMap<ExecutionId, V, BuildHasherDefault<IdHasher>>;

/// A node on its Shards.
pub struct Node {
    reader: Box<dyn Reader>,
    shards: Vec<Shard>,
    shard_count: u16,
    library: Library,
    rebuilding: Rebuilding,
    /// What was committed before is another process's.
    opened_at: Timestamp,
    performs: bool,
    slots: ById<Slot>,
    watchers: Watchers,
    activities: Activities,
    errands: VecDeque<Errand>,
    /// Those for which somebody could not be read; they are run again a little later.
    undone: Vec<Errand>,
    /// Up to whom the sleepers of an earlier process were resumed, for each Shard where there may be more.
    resuming: Vec<(Shard, Option<ExecutionId>)>,
    /// Who fell asleep here while there may be more.
    slept: BTreeSet<ExecutionId>,
    /// Those that wait and could not be read when they were to be resumed.
    unresumed: BTreeSet<ExecutionId>,
    names: BTreeMap<(MachineId, Arc<str>), ExecutionId>,
    ready: Ready,
    gathered: Vec<Item>,
    timers: Timers,
    anchor: Anchor,
    stale: Vec<ExecutionId>,
    /// Sleepers whose time has come and that could not be read.
    unread: Vec<ExecutionId>,
    room: Room,
    shows_at: Timestamp,
    parked: usize,
    map_runs: MapRuns,
    /// The number of the last time that a Map Run was taken up; other nodes count elsewhere.
    tickets: u128,
}

/// What a node does next of its own accord: what one execution means for another.
enum Errand {
    /// Something for an execution.
    Input { execution: ExecutionId, input: Input, reply: ReplyTo },
    /// A child to start.
    Child(Box<ChildOrder>),
    /// The end of a child to wait for.
    Await(Box<ParentStep>),
    /// A child of an earlier process: does its step wait for it?
    Parent { child: ExecutionId, key: EffectKey },
}

/// A start for which there is no room yet.
type WaitingStart =
    (Box<Start>, Reply<Result<Started, StartError>>, Option<Reply<Result<Ending, InputError>>>);

/// An execution's place in memory.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not whatever the others are")]
struct Slot {
    /// `None` while it is being committed.
    running: Option<Box<Running>>,
    begun: Option<Box<Begun>>,
    inbox: VecDeque<Queued>,
    /// Of which machine it is; `None`: it cannot be read.
    machine: Option<MachineId>,
    /// Whose child it is, if it is one.
    child: Option<ChildOf>,
    /// Its Map Run is not here yet: until then it does not move, and must not be thought to rest.
    awaits_run: bool,
    /// Who is told when the commit under way is done.
    told: Option<ReplyTo>,
    shows: Vec<Reply<Option<Box<View>>>>,
    /// Steps that ask for it as their child, to be answered when the commit under way is done.
    asked: Vec<ChildOrder>,
    /// Calls that this process makes, until their answer is decided upon: a Turn before that must not repeat them.
    live: BTreeSet<LiveCall>,
    /// The answer to such a call whose Turn is being committed.
    answer: Option<(By, Outcome)>,
    /// Children that are being started, until that is decided upon.
    starting: BTreeSet<(StrandId, EffectKey)>,
    /// A stop of it is on its way: it starts no more children.
    stops: bool,
    wake: Wake,
    is_ready: bool,
    /// Where its last Turn ended in the line of its machine.
    place: Option<u64>,
    /// What it weighs.
    bytes: u64,
    /// It is among those that run.
    is_counted: bool,
    parked: Option<Arc<str>>,
}

impl Slot {
    /// Nothing waits for it here, and no call of it is under way, or would be if this process performed.
    fn is_idle(&self, running: &Running, performs: bool) -> bool {
        let has_no_call = performs || running.execution.calls().next().is_none();
        let nothing_leaves = self.live.is_empty() && self.starting.is_empty();
        let may_rest = self.parked.is_none() && !self.awaits_run;
        self.inbox.is_empty() && nothing_leaves && may_rest && has_no_call
    }

    /// A stop overtakes all that waits, but not what an execution begins with.
    fn queue(&mut self, queued: Queued) {
        let begins = |first: &Queued| matches!(first.input, Input::Start | Input::Resume);
        match queued.input {
            Input::Stop { .. } => {
                self.stops = true;
                let at = usize::from(self.inbox.front().is_some_and(begins));
                self.inbox.insert(at, queued);
            }
            _ => self.inbox.push_back(queued),
        }
    }

    /// It is to be stopped, now or after it has begun.
    fn is_stopping(&self) -> bool {
        self.inbox.iter().take(2).any(|queued| matches!(queued.input, Input::Stop { .. }))
    }

    /// Whether this process makes the call that this answers.
    fn is_live(&self, by: &By) -> bool {
        match by {
            By::Key { strand, key, attempt: Some(attempt) } => {
                self.live.contains(&(*strand, key.clone(), *attempt))
            }
            _ => false,
        }
    }

    /// A call is not under way any more.
    fn answered(&mut self, by: &By) {
        let By::Key { strand, key, attempt } = by else { return };
        // Not all of them are looked at: a Map may have tens of thousands.
        if let Some(attempt) = attempt {
            self.live.remove(&(*strand, key.clone(), *attempt));
        } else {
            let first = (*strand, key.clone(), Attempt(0));
            let is_its = |(of, under, _): &&LiveCall| (of, under) == (strand, key);
            let its: Vec<LiveCall> = self.live.range(first..).take_while(is_its).cloned().collect();
            for call in &its {
                self.live.remove(call);
            }
        }
        if !self.starting.is_empty() {
            self.starting.remove(&(*strand, key.clone()));
        }
    }

    fn is_ended(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.execution.is_ended())
    }

    /// It only waits, and for long: it need not be in memory.
    fn is_at_rest(&self, moment: &Moment, performs: bool) -> bool {
        let Some(running) = &self.running else { return false };
        let execution = &running.execution;
        running.turns > 0
            && self.is_idle(running, performs)
            && (execution.is_ended() || rests(&[], execution.next_wake(), moment))
    }
}

/// An input on its way.
struct Queued {
    input: Input,
    reply: ReplyTo,
}

/// Who is told.
enum ReplyTo {
    Nobody,
    Taken(Reply<Result<Taken, InputError>>),
    Started(Reply<Result<Started, StartError>>),
    /// The step that started it.
    Parent(Box<ParentStep>),
    /// The worker that takes its task.
    Worker(Box<Handing>),
}

impl ReplyTo {
    fn refuse(self, error: InputError) {
        match self {
            // A step makes its call again when it is resumed.
            Self::Nobody | Self::Parent(_) => {}
            Self::Worker(handing) => handing.refuse(match error {
                InputError::Unavailable(why) => why,
                InputError::Unknown | InputError::Parked(_) => Unavailable::Store(error.to_string().into()),
            }),
            Self::Taken(reply) => reply.send(Err(error)),
            Self::Started(reply) => reply.send(Err(match error {
                InputError::Unavailable(why) => StartError::Unavailable(why),
                InputError::Unknown | InputError::Parked(_) => {
                    StartError::Unavailable(Unavailable::Store(error.to_string().into()))
                }
            })),
        }
    }
}

/// Policies over data that was restored from a backup.
struct Restored {
    inner: Arc<dyn Destinations>,
    at: Timestamp,
}

impl Destinations for Restored {
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        self.inner.policy(resource, input)
    }

    fn restored_at(&self) -> Option<Timestamp> {
        Some(self.at)
    }
}

/// What this process has in hand, for a node that is opened again in it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Calls under way.
    pub calls: BTreeMap<ExecutionId, Vec<LiveCall>>,
    /// Answers that came and are not on disk: their calls need not be made again.
    pub answers: BTreeMap<ExecutionId, Vec<(By, Outcome)>>,
}

/// One attempt of a call that a process makes.
pub type LiveCall = (StrandId, EffectKey, Attempt);

/// What a node is opened with.
pub struct Opening<'a> {
    /// Who opens it.
    pub holder: Arc<str>,
    /// The policies of those who are called.
    pub destinations: Arc<dyn Destinations>,
    /// Now.
    pub moment: Moment,
    /// Until when the Leases are good.
    pub expires_at: Timestamp,
    /// Where it reads and writes.
    pub store: &'a mut dyn Store,
    /// What this process has in hand already.
    pub live: Live,
    /// Whether this process performs effects; one that does not leaves what is under way to the next.
    pub performs: bool,
    /// How much it may hold.
    pub bounds: Bounds,
    /// The steady time of the node that this process had before; `None`: the process begins.
    pub anchor: Option<Anchor>,
}

impl Node {
    /// Takes the Shards that can be had, and rebuilds what ran on them.
    pub fn open(opening: Opening<'_>) -> Result<(Self, Committer), CommitError> {
        let Opening { holder, destinations, moment, expires_at, store, mut live, performs, .. } = opening;
        let (bounds, anchor) = (opening.bounds, opening.anchor);
        let leases = store.acquire(&holder, moment.now, expires_at)?;
        let lease_for_ms = expires_at.0.saturating_sub(moment.now.0);
        let mut newest = leases.iter().filter_map(perdura_store::Lease::steady_at).max();
        // Whoever held them went on for no longer without saying so.
        let newest_max = newest.map(|at| at.after_ms(lease_for_ms));
        let shards: Vec<Shard> = leases.iter().map(perdura_store::Lease::shard).collect();
        let destinations = match store.restored_at() {
            Some(at) => Arc::new(Restored { inner: destinations, at }),
            None => destinations,
        };
        let room = Room::within(bounds);
        let mut node = Self {
            reader: store.reader()?,
            timers: Timers::new(&shards),
            shards,
            shard_count: store.shards(),
            library: Library::within(room.library_bytes_max()),
            rebuilding: Rebuilding { destinations, now: moment.now },
            opened_at: moment.now,
            performs,
            slots: ById::default(),
            watchers: Watchers::default(),
            activities: Activities::default(),
            errands: VecDeque::new(),
            undone: Vec::new(),
            resuming: Vec::new(),
            slept: BTreeSet::new(),
            unresumed: BTreeSet::new(),
            names: BTreeMap::new(),
            ready: Ready::default(),
            gathered: Vec::new(),
            anchor: Anchor::default(),
            stale: Vec::new(),
            unread: Vec::new(),
            room,
            shows_at: moment.steady.after_ms(SHOW_EVERY_MS),
            parked: 0,
            map_runs: MapRuns::default(),
            tickets: moment.entropy,
        };
        if performs {
            node.search_map_runs();
            for shard in node.shards.clone() {
                if !node.reader.waiting(shard, None, 1)?.is_empty() {
                    node.resuming.push((shard, None));
                }
            }
        }
        let mut committer = Committer::new(node.shard_count);
        for lease in leases {
            let mut recovery = store.recover(&lease)?;
            // Before the journal goes on without them.
            if !recovery.aside.is_empty() {
                store.set_aside(&lease, &std::mem::take(&mut recovery.aside))?;
            }
            let (mut aside, mut unreadable) = (Vec::new(), Vec::new());
            node.room.running += recovery.totals.running();
            let shard = lease.shard();
            committer.hold(lease.clone(), &recovery);
            for (execution, what) in &recovery.damaged {
                tracing::error!(execution = execution.map(tracing::field::display), what, "damaged");
                if let Some(execution) = execution {
                    node.park_unreadable(*execution, what.as_str().into());
                }
            }
            let mut is_put_off = false;
            for stored in recovery.executions {
                let (id, base) = (stored.execution, base_of(&stored));
                let left = node.recover(stored, &mut committer, (&mut live, &moment))?;
                unreadable.extend(base.filter(|_| !left.is_empty()));
                aside.extend(left);
                let running = node.slots.get(&id).and_then(|slot| slot.running.as_ref());
                // Histories are told by the wall, which may have been wrong.
                let last_at = running.map(|running| running.execution.last_at());
                let is_plausible = |at: &Timestamp| newest_max.is_none_or(|most| *at <= most);
                newest = newest.max(last_at.filter(is_plausible));
                is_put_off |= committer.gathered() > 0;
                if committer.gathered_bytes() > PUT_OFF_BYTES {
                    Self::put_off(&mut committer, store)?;
                }
            }
            if !aside.is_empty() {
                store.set_aside(&lease, &aside)?;
                committer.unpin(shard, &unreadable);
            }
            Self::put_off(&mut committer, store)?;
            if is_put_off && node.resuming.iter().all(|(of, _)| *of != shard) {
                node.resuming.push((shard, None));
            }
        }
        node.anchor = anchor.unwrap_or_else(|| Anchor::begin(&moment, newest));
        node.shows_at = node.shows_at.after_ms(node.anchor.ahead_ms());
        Ok((node, committer))
    }

    /// Rebuilds one. What is to be set aside of it, should that not be possible.
    fn recover(
        &mut self,
        stored: perdura_store::Recovered,
        committer: &mut Committer,
        (live, moment): (&mut Live, &Moment),
    ) -> Result<Vec<Aside>, Failure> {
        let id = stored.execution;
        let turns = stored.turns.clone();
        match rebuild(stored, &mut self.library, &mut *self.reader, &self.rebuilding) {
            // There is no room for it now: it sleeps until there is.
            Ok(running) if self.performs && !self.has_room() && !live.calls.contains_key(&id) => {
                committer.rest_on_journal(&running);
                self.room.nest(id, running.nesting.filter(|_| !running.execution.is_ended()));
                committer.add(Item { is_put_off: true, ..Item::as_it_is(Box::new(running), moment) });
            }
            Ok(running) => {
                committer.rest_on_journal(&running);
                let is_ended = running.execution.is_ended();
                self.asks_for_parent(&running);
                self.install(running);
                let slot = self.slots.get_mut(&id).expect("it was just installed");
                slot.live = live.calls.remove(&id).into_iter().flatten().collect();
                match slot.child {
                    _ if is_ended || !self.performs => {}
                    Some(child) => self.await_run(id, child),
                    None => slot.inbox.push_back(Queued { input: Input::Resume, reply: ReplyTo::Nobody }),
                }
                let slot = self.slots.get_mut(&id).expect("it was just installed");
                for (by, outcome) in live.answers.remove(&id).into_iter().flatten() {
                    let input = Input::TaskOutcome { by, outcome };
                    slot.inbox.push_back(Queued { input, reply: ReplyTo::Nobody });
                }
                self.make_ready(id);
            }
            Err(Unreadable::Damaged(damage)) => {
                self.park_unreadable(id, damage.0.into());
                return Ok(Aside::of(id, &turns));
            }
            // The journal would go on without it, and forget what it needs: better not to open at all.
            Err(Unreadable::Unavailable(failure)) => return Err(failure),
        }
        Ok(Vec::new())
    }

    /// Writes those for which there is no room.
    fn put_off(committer: &mut Committer, store: &mut dyn Store) -> Result<(), CommitError> {
        if let Some(prepared) = committer.hand_over() {
            let put_off = prepared.len();
            prepared.write(store)?;
            tracing::info!(put_off, "there is no room in memory: they go on as soon as there is");
        }
        Ok(())
    }

    /// Takes in what arrived.
    pub fn take(&mut self, message: Message, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        match message {
            Message::Start { start, reply, ending } if !self.has_room() => {
                self.wait_for_room((start, reply, ending), moment);
            }
            Message::Start { start, reply, ending } => self.start(&start, reply, ending, moment),
            Message::Input { execution, input, reply } => {
                self.queue(execution, input, ReplyTo::Taken(reply), moment);
            }
            Message::Answer { execution, by, outcome } => self.answer(execution, by, outcome, moment),
            Message::Watch { execution, reply } => self.watch(execution, reply),
            Message::Poll { activity, worker, reply } => self.poll(&activity, worker, reply),
            Message::Show { execution, reply } => self.show(execution, reply),
            Message::Named { machine, name, reply } => {
                reply.send(self.names.get(&(machine, name)).copied());
            }
            Message::Young { filter, after, most, reply } => reply.send(self.young(&filter, after, most)),
            Message::Unlisted { reply } => reply.send(self.unlisted()),
            Message::MapRuns { execution, reply } => reply.send(self.runs_of(execution)),
            Message::MapRun { run, reply } => reply.send(self.map_run(run)),
            Message::Adjust { run, change, reply } => self.adjust_map_run(run, change, reply),
            Message::Deployed { record, machine } => self.library.put(record, machine),
            Message::GiveUp { reply, .. } => {
                let why = Unavailable::Store("whoever has the store at hand gives up".into());
                reply.send(Err(InputError::Unavailable(why)));
            }
            Message::Sweep { reply, .. } => {
                reply.send(Err(Unavailable::Store("whoever has the store at hand sweeps it".into())));
            }
            Message::Fetched { ticket, fetched } => self.fetched(ticket, *fetched),
        }
    }

    fn answer(&mut self, execution: ExecutionId, by: By, outcome: Outcome, moment: &Moment) {
        if let Some(slot) = self.slots.get_mut(&execution)
            && slot.parked.is_some()
        {
            slot.answered(&by);
        }
        self.queue(execution, Input::TaskOutcome { by, outcome }, ReplyTo::Nobody, moment);
    }

    /// Puts an input into an execution's inbox, waking it up if it sleeps.
    fn queue(&mut self, id: ExecutionId, input: Input, reply: ReplyTo, moment: &Moment) {
        if let Err(error) = self.awake(id, moment) {
            return reply.refuse(error);
        }
        let slot = self.slots.get_mut(&id).expect("it is awake");
        if let Some(reason) = &slot.parked {
            return reply.refuse(InputError::Parked(reason.clone()));
        }
        let stops = matches!(input, Input::Stop { .. });
        slot.queue(Queued { input, reply });
        // It stands in line already: it leaves that place empty.
        if stops && slot.is_ready {
            self.ready.push_urgent(id);
        }
        self.make_ready(id);
    }

    fn make_ready(&mut self, id: ExecutionId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let may_go_on = slot.parked.is_none() && !slot.awaits_run;
        if !slot.is_ready && slot.running.is_some() && may_go_on && !slot.inbox.is_empty() {
            slot.is_ready = true;
            if slot.is_stopping() {
                self.ready.push_urgent(id);
            } else {
                self.ready.push(slot.machine, id, slot.place);
            }
        }
    }

    /// Time has passed.
    pub fn wake(&mut self, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        if let Err(failure) = self.timers.read_ahead(moment, &mut *self.reader) {
            tracing::error!(%failure, "sleepers cannot be read");
        }
        let waiting = std::mem::take(&mut self.unread);
        let mut due = Vec::new();
        // Hardly more than can be decided soon: the others cost nothing where they are.
        let most = WAKE_AT_ONCE.saturating_sub(self.ready.len()).max(WAKE_AT_LEAST);
        while due.len() < most
            && let Some(id) = self.timers.pop_due(moment)
        {
            due.push(id);
        }
        for id in due.into_iter().chain(waiting) {
            // Those that sleep go on sleeping while there is no room.
            if !self.has_room() && !self.slots.contains_key(&id) {
                self.unread.push(id);
                continue;
            }
            match self.awake(id, moment) {
                // Its timer is spent: without this it would sleep until the next restart.
                Err(InputError::Unavailable(Unavailable::Store(_))) => self.unread.push(id),
                Ok(()) | Err(_) => self.queue(id, Input::Timer, ReplyTo::Nobody, moment),
            }
        }
        self.resume_the_waiting(moment);
        // Stops come before starts: a tree that is stopped does not grow into the places that it leaves.
        self.run_errands(moment);
        self.let_in(moment);
        if moment.steady >= self.shows_at {
            self.shows_at = moment.steady.after_ms(SHOW_EVERY_MS);
            self.errands.extend(self.undone.drain(..));
            self.show_to_readers(moment);
            self.look_after_map_runs(moment);
            self.watchers.forget_the_gone();
            self.activities.forget_the_gone();
            self.library.shrink();
        }
        for id in std::mem::take(&mut self.stale) {
            self.gather_as_it_is(id, moment, true);
        }
        self.spread_some(moment);
    }

    /// All that run get their rows, as if they had run for a while.
    pub(crate) fn show_all(&mut self, moment: &Moment) {
        let moment = self.anchor.see(moment);
        self.show_to_readers(&Moment { now: moment.now.after_ms(SEEN_AFTER_MS), ..moment });
    }

    /// Those that have run for a while get their rows.
    fn show_to_readers(&mut self, moment: &Moment) {
        let is_unseen = |slot: &Slot| {
            let unseen = |running: &Running| running.is_unseen(moment.now);
            slot.running.as_deref().is_some_and(unseen) || slot.is_at_rest(moment, self.performs)
        };
        let mut unseen: Vec<ExecutionId> =
            self.slots.iter().filter(|(_, slot)| is_unseen(slot)).map(|(id, _)| *id).collect();
        unseen.sort_unstable();
        for id in unseen {
            self.gather_as_it_is(id, moment, false);
        }
    }

    /// Nothing is decided, but its rows are written.
    fn gather_as_it_is(&mut self, id: ExecutionId, moment: &Moment, is_stale: bool) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let is_idle = slot.is_at_rest(moment, self.performs);
        let Some(running) = slot.running.take() else { return };
        self.gathered.push(Item { is_idle, is_stale, ..Item::as_it_is(running, moment) });
    }

    /// Does what one execution meant for another.
    fn run_errands(&mut self, moment: &Moment) {
        while let Some(errand) = self.errands.pop_front() {
            match errand {
                Errand::Child(order) => self.start_child(*order, moment),
                Errand::Await(step) => self.await_end(*step),
                Errand::Parent { child, key } => self.ask_for_parent(child, key),
                Errand::Input { execution, input, reply } => match (self.awake(execution, moment), reply) {
                    (Ok(()), reply) => self.queue(execution, input, reply, moment),
                    // Nobody would say it again: the end of a child, a stop, a task for a worker.
                    (Err(InputError::Unavailable(Unavailable::Store(_))), reply) => {
                        self.undone.push(Errand::Input { execution, input, reply });
                    }
                    (Err(error), ReplyTo::Worker(handing)) => {
                        tracing::warn!(%execution, %error, "its task cannot be handed to a worker");
                        self.not_handed_over(*handing);
                    }
                    (Err(error), reply) => reply.refuse(error),
                },
            }
        }
    }

    /// What is to be written although nothing was decided.
    pub(crate) fn gathered(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.gathered)
    }

    /// Decides for those that are ready, at most so many; what comes of it is to be committed.
    pub fn decide(&mut self, most: usize, moment: &mut dyn FnMut() -> Moment) -> Vec<Item> {
        let now = self.anchor.see(&moment());
        self.run_errands(&now);
        while self.gathered.len() < most
            && let Some(id) = self.next_ready(moment)
        {
            let now = self.anchor.see(&moment());
            self.take_turn(id, &now);
        }
        std::mem::take(&mut self.gathered)
    }

    /// Decides for the next that is ready: what is to be committed, one by one. `None`: there is nothing to decide.
    pub fn decide_next(&mut self, moment: &mut dyn FnMut() -> Moment) -> Option<Item> {
        if !self.errands.is_empty() {
            let now = self.anchor.see(&moment());
            self.run_errands(&now);
        }
        while self.gathered.is_empty() {
            let id = self.next_ready(moment)?;
            let now = self.anchor.see(&moment());
            self.take_turn(id, &now);
        }
        self.gathered.pop()
    }

    /// Who is to be decided next. Where nobody waits for that, Map Runs start more children; what arrives meanwhile is
    /// looked at after the work of about one Turn, also where it made no child.
    fn next_ready(&mut self, moment: &mut dyn FnMut() -> Moment) -> Option<ExecutionId> {
        if self.ready.is_empty() && self.map_runs.are_eager() {
            let now = self.anchor.see(&moment());
            self.spread(1, &now);
        }
        self.ready.pop()
    }

    /// One Turn, up to the commit, and what it cost is counted.
    fn take_turn(&mut self, id: ExecutionId, moment: &Moment) {
        let work = self.turn(id, moment);
        let place = self.ready.charge(work);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.place = place.or(slot.place);
        }
    }

    /// One Turn; how much work it took to decide.
    fn turn(&mut self, id: ExecutionId, moment: &Moment) -> u64 {
        let Some(slot) = self.slots.get_mut(&id) else { return 0 };
        // It had its Turn already, out of line.
        if !std::mem::take(&mut slot.is_ready) {
            return 0;
        }
        let Some(mut running) = slot.running.take() else { return 0 };
        let Some(Queued { input, reply }) = slot.inbox.pop_front() else {
            slot.running = Some(running);
            return 0;
        };
        if let Input::TaskOutcome { by, outcome } = &input {
            slot.answer = slot.is_live(by).then(|| (by.clone(), outcome.clone()));
            slot.answered(by);
        }
        let waits_for = running.execution.next_wake();
        let moment = &self.anchor.moment_of(id, waits_for, moment);
        let decided = catch_unwind(AssertUnwindSafe(|| decide(&running.execution, &input, moment)));
        let decision = match decided {
            Ok(decision) => decision,
            Err(panic) => {
                let reason = panic_text(&*panic);
                let has_begun = running.turns > 0;
                slot.running = Some(running);
                reply.refuse(InputError::Parked(reason.clone()));
                self.park(id, reason);
                if !has_begun {
                    // Nothing of it is on disk: it never was.
                    self.forget(id);
                }
                return 0;
            }
        };
        let work = decision.work;
        let sets_deadline =
            |effect: &Effect| matches!(effect, Effect::SetTimer { wake } if wake.steady.is_some());
        if waits_for.steady.is_none() && decision.effects.iter().any(sets_deadline) {
            self.anchor.sets_deadline(id);
        }
        if decision.turn.records.is_empty() {
            // Nothing happened that would have to be remembered: a timer that came early, a sign of life.
            let ignored = decision.ignored.clone();
            let effects = running.execution.commit(decision);
            let status = running.execution.status();
            let redriven_at = match &input {
                Input::RedriveOnce { token } => running.execution.redriven_under(token),
                _ => running.execution.redriven_at(),
            };
            slot.running = Some(running);
            slot.answer = None;
            match reply {
                ReplyTo::Taken(reply) => reply.send(Ok(Taken { ignored, late: None, status, redriven_at })),
                // The execution has ended, and its task with it.
                ReplyTo::Worker(handing) => self.not_handed_over(*handing),
                ReplyTo::Nobody | ReplyTo::Started(_) | ReplyTo::Parent(_) => {}
            }
            let mut deeds = Vec::new();
            self.follow(id, effects, &mut deeds);
            self.may_start_again(id);
            debug_assert!(deeds.is_empty(), "what leaves is on record");
            self.make_ready(id);
            return work;
        }
        slot.told = Some(reply);
        let is_taken = decision.effects.iter().any(|effect| match effect {
            Effect::CallTask(call) => self.activities.has_poller(call),
            _ => false,
        });
        let is_idle = !is_taken && slot.is_idle(&running, self.performs);
        let begun = slot.begun.take();
        self.gathered.push(Item {
            running,
            decision: Some(decision),
            begun,
            is_idle,
            is_stale: false,
            is_put_off: false,
            moment: *moment,
        });
        work
    }

    /// Whether there is something to decide.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.gathered.is_empty()
            || !self.errands.is_empty()
            || self.map_runs.are_eager()
    }

    /// When it wants to be woken, if nothing else happens.
    pub fn next_wake(&self) -> Wake {
        let mut wake = self.timers.next();
        let is_quiet = self.slots.is_empty() && self.unread.is_empty() && self.watchers.is_empty();
        if !is_quiet
            || !self.undone.is_empty()
            || !self.resuming.is_empty()
            || self.activities.counts().1 > 0
            || self.map_runs.are_there()
        {
            wake.steady = Some(wake.steady.map_or(self.shows_at, |at| at.min(self.shows_at)));
        }
        // Whoever asks has the process's own clock.
        wake.steady = wake.steady.map(|at| at.after_ms(-self.anchor.ahead_ms()));
        wake
    }

    /// How the Leases are renewed at this moment.
    pub fn renewal(&mut self, moment: &Moment, lease_for_ms: i64) -> Renewal {
        Renewal { expires_at: moment.now.after_ms(lease_for_ms), steady_at: self.anchor.see(moment).steady }
    }

    /// How steady time follows from this process's clock, for a node that is opened again in it.
    pub fn anchor(&self) -> Anchor {
        self.anchor.clone()
    }

    /// How far steady time is ahead of this process's clock.
    pub fn steady_ahead_ms(&self) -> i64 {
        self.anchor.ahead_ms()
    }

    /// The same for deadlines that are set now.
    pub fn new_ahead_ms(&self) -> i64 {
        self.anchor.ahead_of_new_ms()
    }

    /// An execution waits for something else than before.
    fn set_timer(&mut self, id: ExecutionId, before: Wake, after: Wake) {
        self.timers.replace(id, self.anchor.due(id, before), self.anchor.due(id, after));
    }

    /// How many executions are in memory.
    pub fn in_memory(&self) -> usize {
        self.slots.len()
    }

    /// How many calls this process has under way.
    pub fn live_calls(&self) -> usize {
        self.slots.values().map(|slot| slot.live.len()).sum()
    }

    /// How many tasks wait for a worker, and how many workers for a task.
    pub fn activities(&self) -> (usize, usize) {
        self.activities.counts()
    }

    /// Whether sleepers of an earlier process are still to be asked what they wait for.
    pub fn is_resuming(&self) -> bool {
        !self.resuming.is_empty()
    }

    /// How many executions are parked.
    pub fn parked(&self) -> usize {
        self.parked
    }

    /// The node goes down: everybody who waits is told, and what this process has under way is handed on.
    pub fn abandon(self, why: &Unavailable) -> Live {
        let mut live = Live::default();
        for (id, mut slot) in self.slots {
            let mut answers: Vec<(By, Outcome)> = slot.answer.take().into_iter().collect();
            for queued in std::mem::take(&mut slot.inbox) {
                match queued.input {
                    Input::TaskOutcome { by, outcome } if slot.is_live(&by) => answers.push((by, outcome)),
                    _ => queued.reply.refuse(InputError::Unavailable(why.clone())),
                }
            }
            for (by, _) in &answers {
                if let By::Key { strand, key, attempt: Some(attempt) } = by {
                    slot.live.insert((*strand, key.clone(), *attempt));
                }
            }
            if let Some(reply) = slot.told {
                reply.refuse(InputError::Unavailable(why.clone()));
            }
            for reply in slot.shows {
                reply.send(None);
            }
            if !slot.live.is_empty() {
                live.calls.insert(id, slot.live.into_iter().collect());
            }
            if !answers.is_empty() {
                live.answers.insert(id, answers);
            }
        }
        self.room.abandon(why);
        for errand in self.errands.into_iter().chain(self.undone) {
            if let Errand::Input { reply, .. } = errand {
                reply.refuse(InputError::Unavailable(why.clone()));
            }
        }
        for watcher in self.watchers.into_all() {
            watcher.refuse(InputError::Unavailable(why.clone()));
        }
        self.activities.abandon(why);
        live
    }
}
