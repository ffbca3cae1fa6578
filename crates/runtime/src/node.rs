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
mod errands;
mod executions;
mod hearing;
mod here;
mod load;
mod map_run;
mod open;
mod outgoing;
mod passed;
mod pauses;
mod ready;
mod resuming;
mod room;
mod settle;
mod shards;
mod shared;
mod sleepers;
mod slot;
mod start;
mod turning;
mod watchers;

use crate::committer::Item;
use crate::fetch::Fetch;
use crate::library::{Definition, Library};
use crate::message::{InputError, Message, Reply};
use crate::peers::{Asked, Patience};
use crate::running::{Running, SEEN_AFTER_MS};
use activities::Activities;
pub use anchor::Anchor;
use children::ChildOrder;
use errands::{Errand, Errands};
use executions::Executions;
pub(crate) use executions::{ById, IdHasher};
use here::Here;
use map_run::MapRuns;
pub use open::{Live, Opened, Opening};
use outgoing::Outgoing;
pub use outgoing::{Erasing, Wish};
use pauses::Pauses;
pub use perdura_engine::LiveCall;
use perdura_engine::{
    By, Call, EffectKey, ExecutionId, Input, Moment, Outcome, Status, StrandId, Timestamp, Wake,
};
use perdura_store::Renewal;
use ready::Ready;
pub use room::Bounds;
use room::Room;
use shards::Shards;
use sleepers::Sleepers;
use slot::{Queued, ReplyTo, Slot};
use start::Starting;
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

/// A node on its Shards.
pub struct Node {
    shards: Shards,
    library: Library,
    destinations: Arc<Here>,
    performs: Performs,
    anchor: Anchor,
    /// When it looks next after what wants it once a second.
    shows_at: Timestamp,
    executions: Executions,
    ready: Ready,
    room: Room,
    sleepers: Sleepers,
    errands: Errands,
    watchers: Watchers,
    activities: Activities,
    pauses: Pauses,
    map_runs: MapRuns,
    outgoing: Outgoing,
}

/// Whether this process makes the calls of its executions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Performs {
    Yes,
    /// The process is about to end: nothing is begun, and answers to what is under way are still taken.
    NoMore,
    /// It leaves what is under way to the next process, and begins nothing: a call that is on record as sent would be in
    /// doubt.
    Never,
}

impl Performs {
    /// Something may be begun outside.
    fn begins(self) -> bool {
        self == Self::Yes
    }

    /// What was begun is this process's to see to.
    fn sees_to_calls(self) -> bool {
        self != Self::Never
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
            Message::Input { execution, input, reply } if self.shards.hold(execution).is_err() => {
                self.stray(execution, Asked::Input { input, reply }, patience);
            }
            Message::Watch { execution, reply } if self.shards.hold(execution).is_err() => {
                self.stray(execution, Asked::Watch { reply }, patience);
            }
            Message::Input { execution, input, reply } => {
                self.queue(execution, input, ReplyTo::Taken(reply), moment);
            }
            Message::Answer { execution, by, outcome } => self.answer(execution, by, outcome, moment),
            Message::Watch { execution, reply } => self.watch(execution, reply, &None),
            Message::Poll { activity, worker, reply } => self.poll(&activity, worker, reply),
            Message::Activity { name, deleted } => self.destinations.mark(name, deleted),
            Message::Pace { machine, pause, reply } => self.pace(machine, pause, reply),
            Message::Underway { most, reply } => reply.send(self.underway(most)),
            Message::Show { execution, reply } => self.show(execution, reply),
            Message::Named { machine, name, reply } => {
                reply.send(self.executions.named(machine, name));
            }
            Message::Young { filter, after, most, reply } => reply.send(self.young(&filter, after, most)),
            Message::Unlisted { reply } => reply.send(self.unlisted()),
            Message::MapRuns { execution, reply } => reply.send(self.runs_of(execution)),
            Message::MapRun { run, reply } => self.show_map_run(run, reply, &None),
            Message::Adjust { run, change, reply } => self.adjust_map_run(run, change, reply, &None),
            Message::Deployed { record, machine } => {
                self.library.put(Arc::new(Definition { record, machine }));
            }
            Message::GiveUp { execution, reply } => self.give_up(execution, reply, &mut None),
            Message::Erase { ended, reply } => {
                self.outgoing.wishes.push(Wish::Erase(Erasing { ended, at: moment.now, reply }));
            }
            Message::Sweep { slice, reply } => self.sweep(slice, reply, &None),
            Message::Witness(witnessed) => self.outgoing.witnessed.push(witnessed),
            Message::Fetched { ticket, fetched } => self.fetched(ticket, *fetched),
        }
    }

    fn answer(&mut self, execution: ExecutionId, by: By, outcome: Outcome, moment: &Moment) {
        if let Some(slot) = self.executions.get_mut(execution)
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
        let slot = self.executions.get_mut(id).expect("it is awake");
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
        let Some(slot) = self.executions.get_mut(id) else { return };
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
        for ask in self.sleepers.timers.look_ahead(moment) {
            self.errands.ask(ask, None);
        }
        // Hardly more than can be decided soon: the others cost nothing where they are.
        let busy = self.ready.len() + self.errands.asked.executions();
        let most = WAKE_AT_ONCE.saturating_sub(busy).max(WAKE_AT_LEAST);
        for _ in 0..most {
            let Some(id) = self.sleepers.timers.pop_due(moment) else { break };
            if self.executions.has(id) {
                self.queue(id, Input::Timer, ReplyTo::Nobody, moment);
            } else {
                self.sleepers.late.push_back(id);
            }
        }
        // Stops come before starts: a tree that is stopped does not grow into the places that it leaves.
        self.run_errands(moment);
        self.let_in(moment);
        if moment.steady >= self.shows_at {
            self.shows_at = moment.steady.after_ms(SHOW_EVERY_MS);
            self.errands.look_again();
            self.show_to_readers(moment);
            self.look_after_map_runs();
            self.watchers.forget_the_gone();
            self.activities.forget_the_gone();
            self.library.shrink();
        }
        for id in std::mem::take(&mut self.outgoing.stale) {
            self.gather_as_it_is(id, moment, true);
        }
        self.move_some_runs(moment);
    }

    /// All that run get their rows, as if they had run for a while.
    pub(crate) fn show_all(&mut self, moment: &Moment) {
        let moment = self.anchor.see(moment);
        self.show_to_readers(&Moment { now: moment.now.after_ms(SEEN_AFTER_MS), ..moment });
    }

    /// Those that have run for a while get their rows.
    fn show_to_readers(&mut self, moment: &Moment) {
        let begins = self.performs.begins();
        let is_unseen = |slot: &Slot| {
            let unseen = |running: &Running| running.is_unseen(moment.now);
            slot.running().is_some_and(unseen) || slot.is_at_rest(moment, begins)
        };
        let mut unseen: Vec<ExecutionId> =
            self.executions.iter().filter(|(_, slot)| is_unseen(slot)).map(|(id, _)| id).collect();
        unseen.sort_unstable();
        for id in unseen {
            self.gather_as_it_is(id, moment, false);
        }
    }

    /// Nothing is decided, but its rows are written.
    fn gather_as_it_is(&mut self, id: ExecutionId, moment: &Moment, is_stale: bool) {
        let begins = self.performs.begins();
        let Some(slot) = self.executions.get_mut(id) else { return };
        let is_idle = slot.is_at_rest(moment, begins);
        let Some(running) = slot.take() else { return };
        self.outgoing.items.push(Item { is_idle, is_stale, ..Item::as_it_is(running, moment) });
    }

    /// A Turn of it changed nothing that is on record: it leaves memory if it only waits. The row of one that has ended is
    /// there already.
    fn rest(&mut self, id: ExecutionId, moment: &Moment) {
        let begins = self.performs.begins();
        let Some(slot) = self.executions.get(id).filter(|slot| slot.is_at_rest(moment, begins)) else {
            return;
        };
        match slot.running().map(|running| (running.rests_on_row(), running.execution.is_ended())) {
            Some((true, true)) => self.leave(id),
            Some((false, _)) => self.gather_as_it_is(id, moment, false),
            // Signs of life may have moved its deadlines: its row follows with the others.
            Some((true, false)) | None => {}
        }
    }

    /// Whether there is something to decide.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.outgoing.items.is_empty()
            || !self.errands.is_empty()
            || self.runs_may_move()
    }

    /// When it wants to be woken, if nothing else happens.
    pub fn next_wake(&self) -> Wake {
        let mut wake = self.sleepers.timers.next();
        let is_quiet =
            self.executions.is_empty() && self.sleepers.late.is_empty() && self.watchers.is_empty();
        if !is_quiet
            || self.sleepers.resuming.is_under_way()
            || self.errands.asked.has_failed()
            || self.errands.are_put_off()
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
        let reads = self.map_runs.are_reading()
            || self.sleepers.resuming.is_under_way()
            || !self.errands.asked.is_idle();
        if self.has_work()
            || self.live_calls() > 0
            || reads
            || !self.sleepers.late.is_empty()
            || self.errands.are_put_off()
        {
            return None;
        }
        let wake = match self.sleepers.timers.first() {
            Ok(wake) => wake,
            Err(ask) => {
                if let Some(ask) = ask {
                    self.errands.ask(ask, None);
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
        self.sleepers.timers.replace(id, self.anchor.due(id, before), self.anchor.due(id, after));
    }

    /// The process is about to end: from now on nothing is begun outside. Answers to calls under way are still taken.
    pub(crate) fn begin_no_more(&mut self) {
        if self.performs == Performs::Yes {
            self.performs = Performs::NoMore;
        }
    }

    /// How many executions are in memory.
    pub fn in_memory(&self) -> usize {
        self.executions.len()
    }

    /// How many calls this process has under way.
    pub fn live_calls(&self) -> usize {
        self.executions.iter().map(|(_, slot)| slot.calls.live().len()).sum()
    }

    /// How many tasks wait for a worker, and how many workers for a task.
    pub fn activities(&self) -> (usize, usize) {
        self.activities.counts()
    }

    /// Whether sleepers of an earlier process are still to be asked what they wait for.
    pub fn is_resuming(&self) -> bool {
        self.sleepers.resuming.is_under_way()
    }

    /// How many executions are parked.
    pub fn parked(&self) -> usize {
        self.executions.parked()
    }
}
