//! One node: the executions of its Shards that are in memory, and the one path on which they move.
//!
//! A node does nothing by itself. Messages are given to it, it decides, hands a group over to be committed, takes it
//! back, and says what is to be done outside. Threads, channels and clocks are elsewhere; so the same node runs on a
//! real machine and in a simulation, and a crash is nothing but the loss of this value.

mod activities;
mod anchor;
mod asked;
mod calls;
mod children;
mod deleted;
mod errands;
mod load;
mod map_run;
mod open;
mod passed;
mod pauses;
mod ready;
mod resuming;
mod room;
mod settle;
mod shared;
mod slot;
mod start;
mod turning;
mod watchers;

use crate::audit::Witnessed;
use crate::committer::Item;
use crate::fetch::Fetch;
use crate::librarian::Question;
use crate::library::{Definition, Library};
use crate::message::{InputError, Message, Reply, Slice, Unavailable};
use crate::peers::{Asked, Patience, Stray};
use crate::running::{Running, SEEN_AFTER_MS};
use crate::timers::Timers;
use activities::Activities;
pub use anchor::Anchor;
use asked::Questions;
use children::ChildOrder;
use deleted::Deleted;
use errands::Errand;
use map_run::MapRuns;
pub use open::{Live, Opened, Opening};
use pauses::Pauses;
pub use perdura_engine::LiveCall;
use perdura_engine::{
    By, Call, Destinations, EffectKey, ExecutionId, Input, Moment, Outcome, Status, StrandId, Timestamp, Wake,
};
use perdura_store::{Erased, MachineId, Renewal, Shard, Swept};
use ready::Ready;
use resuming::Resuming;
pub use room::Bounds;
use room::Room;
use shared::Mail;
use slot::{Queued, ReplyTo, Slot};
use start::Starting;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use watchers::{Watcher, Watchers};

/// How many sleepers are woken at once.
const WAKE_AT_ONCE: usize = 1_024;
/// How many are woken even if as many are ready already.
const WAKE_AT_LEAST: usize = 64;
/// How often the tables for readers follow.
const SHOW_EVERY_MS: i64 = 1_000;

/// Something to do outside; its Turn is on disk.
#[derive(Debug)]
pub enum Deed {
    /// Make a call.
    Perform { execution: ExecutionId, call: Call },
    /// The same for one who stands in for a worker, a child, or whoever else is called.
    StandIn { execution: ExecutionId, call: Call },
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
    shards: Vec<Shard>,
    shard_count: u16,
    library: Library,
    destinations: Arc<dyn Destinations>,
    /// What its destinations know of activities.
    deleted: Arc<Deleted>,
    /// What was committed before is another process's.
    opened_at: Timestamp,
    performs: bool,
    /// The process is about to end, or performs nothing: nothing is begun outside.
    ends: bool,
    slots: ById<Slot>,
    watchers: Watchers,
    activities: Activities,
    errands: VecDeque<Errand>,
    asked: Questions,
    resuming: Resuming,
    pauses: Pauses,
    /// How many ids were drawn.
    drawn: u64,
    names: BTreeMap<(MachineId, Arc<str>), ExecutionId>,
    ready: Ready,
    gathered: Vec<Item>,
    wishes: Vec<Wish>,
    /// Entries of the audit that stand for themselves.
    witnessed: Vec<Witnessed>,
    timers: Timers,
    anchor: Anchor,
    stale: Vec<ExecutionId>,
    /// Sleepers whose time has come and that are not in memory yet.
    late: VecDeque<ExecutionId>,
    room: Room,
    shows_at: Timestamp,
    parked: usize,
    map_runs: MapRuns,
    /// Messages for executions that other nodes hold.
    strays: Vec<Stray>,
    mail: Mail,
    /// Who holds which Shard, as was just read.
    holders: Option<BTreeMap<Shard, Arc<str>>>,
    /// What cannot be told here now, and is looked at again in a while.
    later: Vec<Errand>,
    /// The number of the last time that a Map Run was taken up; other nodes count elsewhere.
    tickets: u128,
}

/// Something that the store is to be asked to do, between two commits.
#[derive(Debug)]
pub enum Wish {
    /// Take away what has ended.
    Sweep(Slice, Reply<Result<Swept, Unavailable>>),
    /// Forget one that cannot be read.
    GiveUp(ExecutionId, Reply<Result<bool, InputError>>),
    /// Erase the data of what has ended.
    Erase(Erasing),
}

/// Executions that are to lose their data.
#[derive(Debug)]
pub struct Erasing {
    /// Each with the end that was seen of it.
    pub(crate) ended: Vec<(ExecutionId, Timestamp)>,
    /// When that is.
    pub(crate) at: Timestamp,
    pub(crate) reply: Reply<Result<Erased, InputError>>,
}

impl Wish {
    pub(crate) fn refuse(self, why: &Unavailable) {
        match self {
            Self::Sweep(_, reply) => reply.send(Err(why.clone())),
            Self::GiveUp(_, reply) => reply.send(Err(InputError::Unavailable(why.clone()))),
            Self::Erase(erasing) => erasing.reply.send(Err(InputError::Unavailable(why.clone()))),
        }
    }
}

impl Node {
    /// Takes in what arrived.
    pub fn take(&mut self, message: Message, moment: &Moment) {
        self.take_in(message, None, moment);
    }

    /// Takes in what another node could not do, with so much patience left.
    pub(crate) fn take_again(&mut self, message: Message, patience: Patience, moment: &Moment) {
        self.take_in(message, Some(patience), moment);
    }

    fn take_in(&mut self, message: Message, patience: Option<Patience>, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        match message {
            Message::Start { start, reply, ending } => {
                let starting = Box::new(Starting { start, reply, ending, under: None, patience });
                // Whoever waits for room goes first.
                if self.room.is_short {
                    self.wait_for_room(starting, moment);
                } else {
                    self.start(starting, &None, moment);
                }
            }
            Message::Passed { request, reply } => self.take_passed(request, reply, moment),
            Message::Input { execution, input, reply } if self.held(execution).is_err() => {
                self.stray(execution, Asked::Input { input, reply }, patience);
            }
            Message::Watch { execution, reply } if self.held(execution).is_err() => {
                self.stray(execution, Asked::Watch { reply }, patience);
            }
            Message::Input { execution, input, reply } => {
                self.queue(execution, input, ReplyTo::Taken(reply), moment);
            }
            Message::Answer { execution, by, outcome } => self.answer(execution, by, outcome, moment),
            Message::Watch { execution, reply } => self.watch(execution, reply, &None),
            Message::Poll { activity, worker, reply } => self.poll(&activity, worker, reply),
            Message::Activity { name, deleted } => self.deleted.mark(name, deleted),
            Message::Pace { machine, pause, reply } => self.pace(machine, pause, reply),
            Message::Underway { most, reply } => reply.send(self.underway(most)),
            Message::Show { execution, reply } => self.show(execution, reply),
            Message::Named { machine, name, reply } => {
                reply.send(self.names.get(&(machine, name)).copied());
            }
            Message::Young { filter, after, most, reply } => reply.send(self.young(&filter, after, most)),
            Message::Unlisted { reply } => reply.send(self.unlisted()),
            Message::MapRuns { execution, reply } => reply.send(self.runs_of(execution)),
            Message::MapRun { run, reply } => self.show_map_run(run, reply),
            Message::Adjust { run, change, reply } => self.adjust_map_run(run, change, reply),
            Message::Deployed { record, machine } => {
                self.library.put(Arc::new(Definition { record, machine }));
            }
            Message::GiveUp { execution, reply } => self.give_up(execution, reply, &mut None),
            Message::Erase { ended, reply } => {
                self.wishes.push(Wish::Erase(Erasing { ended, at: moment.now, reply }));
            }
            Message::Sweep { slice, reply } => self.sweep(slice, reply, &None),
            Message::Witness(witnessed) => self.witnessed.push(witnessed),
            Message::Fetched { ticket, fetched } => self.fetched(ticket, *fetched),
        }
    }

    fn answer(&mut self, execution: ExecutionId, by: By, outcome: Outcome, moment: &Moment) {
        if let Some(slot) = self.slots.get_mut(&execution)
            && slot.parked.is_some()
        {
            slot.calls.answered(&by);
        }
        self.queue(execution, Input::TaskOutcome { by, outcome }, ReplyTo::Nobody, moment);
    }

    /// Gives an execution an input, waking it up if it sleeps.
    fn queue(&mut self, execution: ExecutionId, input: Input, reply: ReplyTo, moment: &Moment) {
        self.run(Errand::Input { execution, input, reply }, &mut None, moment);
    }

    /// Puts an input into the inbox of one that is in memory.
    fn put(&mut self, id: ExecutionId, input: Input, reply: ReplyTo) {
        let slot = self.slots.get_mut(&id).expect("it is awake");
        if let Some(reason) = &slot.parked {
            return reply.refuse(InputError::Parked(reason.clone()));
        }
        let stops = matches!(input, Input::Stop { .. });
        slot.queue(Queued { input, reply });
        // It has its place from now on: others may be redriven before this is decided.
        if slot.is_redriven() && !std::mem::replace(&mut slot.weight.is_counted, true) {
            self.room.running += 1;
        }
        // It stands in line already: it leaves that place empty.
        if stops && slot.line.is_ready {
            self.ready.push_urgent(id);
        }
        self.make_ready(id);
    }

    fn make_ready(&mut self, id: ExecutionId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let may_go_on = slot.parked.is_none() && slot.gate.is_open();
        if !slot.line.is_ready && slot.running().is_some() && may_go_on && !slot.inbox.is_empty() {
            slot.line.is_ready = true;
            if slot.is_stopping() {
                self.ready.push_urgent(id);
            } else {
                self.ready.push(slot.machine, id, slot.line.place);
            }
        }
    }

    /// Time has passed.
    pub fn wake(&mut self, moment: &Moment) {
        let moment = &self.anchor.see(moment);
        for ask in self.timers.look_ahead(moment) {
            self.asked.ask(ask, None);
        }
        // Hardly more than can be decided soon: the others cost nothing where they are.
        let busy = self.ready.len() + self.asked.executions();
        let most = WAKE_AT_ONCE.saturating_sub(busy).max(WAKE_AT_LEAST);
        for _ in 0..most {
            let Some(id) = self.timers.pop_due(moment) else { break };
            if self.slots.contains_key(&id) {
                self.queue(id, Input::Timer, ReplyTo::Nobody, moment);
            } else {
                self.late.push_back(id);
            }
        }
        // Stops come before starts: a tree that is stopped does not grow into the places that it leaves.
        self.run_errands(moment);
        self.let_in(moment);
        if moment.steady >= self.shows_at {
            self.shows_at = moment.steady.after_ms(SHOW_EVERY_MS);
            self.asked.ask_again();
            self.errands.extend(self.later.drain(..));
            self.show_to_readers(moment);
            self.look_after_map_runs();
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
        let begins = self.performs && !self.ends;
        let is_unseen = |slot: &Slot| {
            let unseen = |running: &Running| running.is_unseen(moment.now);
            slot.running().is_some_and(unseen) || slot.is_at_rest(moment, begins)
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
        let begins = self.performs && !self.ends;
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let is_idle = slot.is_at_rest(moment, begins);
        let Some(running) = slot.take() else { return };
        self.gathered.push(Item { is_idle, is_stale, ..Item::as_it_is(running, moment) });
    }

    /// A Turn of it changed nothing that is on record: it leaves memory if it only waits. The row of one that has ended is
    /// there already.
    fn rest(&mut self, id: ExecutionId, moment: &Moment) {
        let begins = self.performs && !self.ends;
        let Some(slot) = self.slots.get(&id).filter(|slot| slot.is_at_rest(moment, begins)) else { return };
        match slot.running().map(|running| (running.rests_on_row(), running.execution.is_ended())) {
            Some((true, true)) => self.leave(id),
            Some((false, _)) => self.gather_as_it_is(id, moment, false),
            // Signs of life may have moved its deadlines: its row follows with the others.
            Some((true, false)) | None => {}
        }
    }

    /// What is to be written although nothing was decided.
    pub(crate) fn gathered(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.gathered)
    }

    /// What is to be on the audit by itself.
    pub(crate) fn witnessed(&mut self) -> Vec<Witnessed> {
        std::mem::take(&mut self.witnessed)
    }

    /// What is to be read for it.
    pub fn questions(&mut self) -> Vec<Question> {
        self.asked.questions()
    }

    /// Something is to be read for it.
    pub(crate) fn has_questions(&self) -> bool {
        self.asked.has_questions()
    }

    /// What the store is to be asked to do.
    pub fn wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// Somebody waits for something that is being read.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.has_errands()
    }

    /// Whether there is something to decide.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.gathered.is_empty() || !self.errands.is_empty() || self.spreads()
    }

    /// When it wants to be woken, if nothing else happens.
    pub fn next_wake(&self) -> Wake {
        let mut wake = self.timers.next();
        let is_quiet = self.slots.is_empty() && self.late.is_empty() && self.watchers.is_empty();
        if !is_quiet
            || self.resuming.is_under_way()
            || self.asked.has_failed()
            || !self.later.is_empty()
            || self.activities.counts().1 > 0
            || self.map_runs.are_there()
        {
            wake.steady = Some(wake.steady.map_or(self.shows_at, |at| at.min(self.shows_at)));
        }
        // Whoever asks has the process's own clock.
        wake.steady = wake.steady.map(|at| at.after_ms(-self.anchor.ahead_ms()));
        wake
    }

    /// The next deadline of all executions, if nothing but time can bring anything: nobody was called, and nothing is to be
    /// decided or read.
    pub(crate) fn idles_until(&mut self) -> Option<Wake> {
        let reads = self.map_runs.are_reading() || self.resuming.is_under_way() || !self.asked.is_idle();
        if self.has_work()
            || self.live_calls() > 0
            || reads
            || !self.late.is_empty()
            || !self.later.is_empty()
        {
            return None;
        }
        let wake = match self.timers.first() {
            Ok(wake) => wake,
            Err(ask) => {
                if let Some(ask) = ask {
                    self.asked.ask(ask, None);
                }
                return None;
            }
        };
        Some(Wake { steady: wake.steady.map(|at| at.after_ms(-self.anchor.ahead_ms())), ..wake })
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

    /// The process is about to end: from now on nothing is begun outside. Answers to calls under way are still taken.
    pub(crate) fn begin_no_more(&mut self) {
        self.ends = true;
    }

    /// How many executions are in memory.
    pub fn in_memory(&self) -> usize {
        self.slots.len()
    }

    /// How many calls this process has under way.
    pub fn live_calls(&self) -> usize {
        self.slots.values().map(|slot| slot.calls.live().len()).sum()
    }

    /// How many tasks wait for a worker, and how many workers for a task.
    pub fn activities(&self) -> (usize, usize) {
        self.activities.counts()
    }

    /// Whether sleepers of an earlier process are still to be asked what they wait for.
    pub fn is_resuming(&self) -> bool {
        self.resuming.is_under_way()
    }

    /// How many executions are parked.
    pub fn parked(&self) -> usize {
        self.parked
    }
}
