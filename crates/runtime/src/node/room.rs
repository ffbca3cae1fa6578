//! Room: how much may be in memory at once, how many executions may run, and who waits for a place.
//!
//! Memory is counted in bytes of payload, roughly: what an execution weighs follows from its largest Turn. Definitions
//! that are read count beside them. Where there is no room, starts wait for a while and are refused after that, sleepers
//! sleep on, and children wait as long as it takes. Sleepers whose time has come and starts take turns. Children count like all executions. So that parents that fill every place cannot wait for each other for
//! ever, one line of descent goes on where there is no place: one child at a time, and children of that one. How far
//! down its line a child is stands in its first Turn, so a process that begins adds nothing to a line that is full.

use super::children::ChildOrder;
use super::errands::Errand;
use super::start::Starting;
use super::{Node, ReplyTo, Slot, WAKE_AT_ONCE};
use crate::message::{InputError, StartError, Unavailable};
use perdura_engine::{ExecutionId, Input, Moment, Timestamp};
use perdura_store::Nesting;
use std::collections::{BTreeMap, VecDeque};

/// With this many executions in memory, starts wait.
const IN_MEMORY_MAX: usize = 100_000;
/// How long a start waits for room before it is refused.
const STARTS_WAIT_FOR_MS: i64 = 5_000;
/// Starts that wait hold at most this share of what may be in memory.
const WAITING_SHARE: u64 = 8;
/// By this share of the bound executions may weigh more that come in where nobody else would move.
const SPARE_SHARE: u64 = 4;
/// Definitions that nobody uses weigh at most this share.
const LIBRARY_SHARE: u64 = 8;
/// How many sleepers are read at once because their time has come: what they weigh is known when they are here.
const LOADS_AT_ONCE: usize = 32;
/// How deep a line of descent may go where there is no place.
const NESTED_MAX: u32 = 64;

/// How much a node may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many executions may run at once, children and sleepers included, before starts are
    /// refused and children wait.
    pub executions_max: u64,
    /// How many bytes executions in memory may weigh, roughly, before starts wait.
    pub bytes_max: u64,
}

impl Default for Bounds {
    /// None.
    fn default() -> Self {
        Self { executions_max: u64::MAX, bytes_max: u64::MAX }
    }
}

/// A child has to wait.
pub(super) struct NoPlace;

/// What there is in memory and what runs, against the bounds.
#[derive(Default)]
pub(super) struct Room {
    pub(super) bounds: Bounds,
    /// What one that is being read may weigh: as much as the heaviest of late.
    expected: u64,
    /// How many executions run, in memory or not.
    pub(super) running: u64,
    /// Children that were let in where there was no place, and how far down their line they are.
    nested: BTreeMap<ExecutionId, u32>,
    /// Children that wait for a place.
    children: VecDeque<Box<ChildOrder>>,
    /// Somebody made room since the children were last looked at.
    pub(super) has_changed: bool,
    starts: VecDeque<(Timestamp, Box<Starting>)>,
    start_bytes: u64,
    /// Sleepers that came in although there was no room.
    beyond: Vec<ExecutionId>,
    /// The next place that becomes free is for a start.
    is_for_a_start: bool,
    /// Somebody waits for room, so whoever comes now waits behind.
    pub(super) is_short: bool,
}

impl Room {
    pub(super) fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// One of this weight was read.
    pub(super) fn read(&mut self, bytes: u64) {
        self.expected = bytes.max(self.expected - self.expected / 16);
    }

    /// What definitions may weigh before those that nobody uses go.
    pub(super) fn library_bytes_max(&self) -> u64 {
        self.bounds.bytes_max / LIBRARY_SHARE
    }

    pub(super) fn ended(&mut self, execution: ExecutionId) {
        self.running = self.running.saturating_sub(1);
        self.nested.remove(&execution);
        self.has_changed = true;
    }

    /// An execution runs; it may be one that was let in without a place.
    pub(super) fn nest(&mut self, execution: ExecutionId, nesting: Option<Nesting>) {
        let nesting = nesting.filter(|nesting| !nesting.has_place);
        self.nested.extend(nesting.map(|nesting| (execution, nesting.depth)));
    }

    /// A child may begin although there is no place, of a parent that is so far down its line.
    fn may_nest(&self, depth: u32) -> bool {
        let deepest = self.nested.values().max().copied().unwrap_or(0);
        (deepest..NESTED_MAX).contains(&depth) && self.nested.len() < NESTED_MAX as usize
    }

    /// Whoever waits for room is told that there will be none.
    pub(super) fn abandon(self, why: &Unavailable) {
        for (_, start) in self.starts {
            start.reply.send(Err(StartError::Unavailable(why.clone())));
        }
    }
}

impl Node {
    /// There is room in memory for one more.
    pub(super) fn has_room(&self) -> bool {
        // Those that are being read come soon, and each may weigh as much as others did.
        let coming = self.errands.asked.executions();
        let bytes = self.executions.bytes() + self.library.bytes();
        let (starts, start_bytes) = self.errands.asked.starts();
        let bytes = bytes.saturating_add(coming as u64 * self.room.expected).saturating_add(start_bytes);
        let count = self.executions.len() + coming + starts;
        // One alone has room, however much it weighs.
        count == 0 || count < IN_MEMORY_MAX && bytes < self.room.bounds.bytes_max
    }

    /// How many bytes the executions in memory weigh, roughly.
    pub fn bytes_in_memory(&self) -> u64 {
        self.executions.bytes()
    }

    /// What an execution weighs now, and whether it runs.
    pub(super) fn weigh(&mut self, id: ExecutionId) {
        let Some(slot) = self.executions.weigh(id) else { return };
        match (slot.weight.is_counted, slot.is_ended()) {
            (true, true) if slot.is_redriven() => {}
            (true, true) => {
                slot.weight.is_counted = false;
                self.room.ended(id);
                self.anchor.forget(id);
            }
            (false, false) => {
                slot.weight.is_counted = true;
                self.room.running += 1;
            }
            (true, false) | (false, true) => {}
        }
    }

    /// How a child may begin now, whose parent is so far down its line. One that is not waited for takes the place of its
    /// parent in the line, which goes on and ends.
    pub(super) fn admits(&self, depth: u32, is_awaited: bool) -> Result<Option<Nesting>, NoPlace> {
        if self.has_place() {
            return Ok((depth > 0).then_some(Nesting { depth, has_place: true }));
        }
        let depth_of_child = if is_awaited { depth + 1 } else { depth.max(1) };
        let nesting = Nesting { depth: depth_of_child, has_place: false };
        if self.may_nest(depth) { Ok(Some(nesting)) } else { Err(NoPlace) }
    }

    /// One more may run; who begins it may have to wait for room.
    pub(super) fn may_run_one_more(&self) -> Result<(), u64> {
        let most = self.room.bounds.executions_max;
        if self.room.running < most { Ok(()) } else { Err(most) }
    }

    /// Whether one that is in memory may run again, if it is to be redriven: that takes a place, as a start does. One that
    /// changes nothing takes none.
    pub(super) fn may_be_redriven(&self, id: ExecutionId, input: &Input) -> Result<(), InputError> {
        let slot = self.executions.get(id).filter(|slot| !slot.weight.is_counted);
        let Some(running) = slot.and_then(Slot::running) else { return Ok(()) };
        let execution = &running.execution;
        let is_said_again =
            matches!(input, Input::RedriveOnce { token } if execution.redriven_under(token).is_some());
        match self.may_run_one_more() {
            Err(most) if execution.redrivable().is_ok() && !is_said_again => Err(InputError::TooMany(most)),
            _ => Ok(()),
        }
    }

    /// One more may run, and there is room for it.
    pub(super) fn has_place(&self) -> bool {
        let coming = self.map_runs.redriven_soon();
        self.has_room() && self.room.running + coming < self.room.bounds.executions_max
    }

    /// A child may begin although there is no place, of a parent that is so far down its line.
    pub(super) fn may_nest(&self, depth: u32) -> bool {
        self.room.may_nest(depth)
    }

    /// A child waits for a place.
    pub(super) fn wait_for_place(&mut self, order: Box<ChildOrder>) {
        self.room.children.push_back(order);
    }

    /// A start waits for room, and is refused at once if too much waits already.
    pub(super) fn wait_for_room(&mut self, start: Box<Starting>, moment: &Moment) {
        let bytes = start.start.input.len() as u64;
        if self.room.start_bytes + bytes > (self.room.bounds.bytes_max / WAITING_SHARE).max(bytes) {
            return start.reply.send(Err(StartError::Unavailable(Unavailable::Full)));
        }
        self.room.start_bytes += bytes;
        self.room.starts.push_back((moment.steady.after_ms(STARTS_WAIT_FOR_MS), start));
    }

    /// Lets in whoever waits, as far as there is room, and refuses starts that have waited too long.
    pub(super) fn let_in(&mut self, moment: &Moment) {
        if std::mem::take(&mut self.room.has_changed) {
            self.let_children_in(moment);
            self.wake_blocked_runs();
        }
        while self.let_one_in(moment) {}
        while self.room.starts.front().is_some_and(|(until, _)| *until <= moment.steady) {
            if let Some(start) = self.next_start() {
                start.reply.send(Err(StartError::Unavailable(Unavailable::Full)));
            }
        }
        let somebody_waits = !self.room.starts.is_empty() || !self.sleepers.late.is_empty();
        self.room.is_short = somebody_waits && !self.has_room();
        if self.performs.begins() {
            let resuming = &mut self.sleepers.resuming;
            let asks = [resuming.look_ahead(), resuming.look_for_more_held()];
            asks.into_iter().flatten().for_each(|ask| self.errands.ask(ask, None));
        }
    }

    /// Sleepers and starts take turns, so that neither waits for long because there are many of the other.
    fn let_one_in(&mut self, moment: &Moment) -> bool {
        let is_in = self.room.is_for_a_start && self.let_a_start_in(moment);
        is_in || self.let_a_sleeper_in(moment) || self.let_a_start_in(moment)
    }

    fn let_a_start_in(&mut self, moment: &Moment) -> bool {
        if !self.has_room() {
            return false;
        }
        let Some(start) = self.next_start() else { return false };
        self.room.is_for_a_start = false;
        self.start(start, &None, moment);
        true
    }

    fn next_start(&mut self) -> Option<Box<Starting>> {
        let (_, start) = self.room.starts.pop_front()?;
        self.room.start_bytes -= start.start.input.len() as u64;
        Some(start)
    }

    /// One whose time has come, or one of an earlier process that somebody has to look after.
    fn let_a_sleeper_in(&mut self, moment: &Moment) -> bool {
        let has_room = self.has_room();
        let coming = self.errands.asked.executions();
        let may_load =
            coming < LOADS_AT_ONCE && (has_room || !self.sleepers.late.is_empty() && self.may_come_beyond());
        let errand = if let Some(execution) = self.sleepers.late.pop_front_if(|_| may_load) {
            if !has_room {
                self.room.beyond.push(execution);
            }
            Errand::Input { execution, input: Input::Timer, reply: ReplyTo::Nobody }
        } else if has_room
            && self.performs.begins()
            && self.ready.len() + coming < WAKE_AT_ONCE
            && let Some(execution) = self.sleepers.resuming.next()
        {
            Errand::Resume(execution)
        } else if has_room
            && self.performs.begins()
            && self.ready.len() + coming < WAKE_AT_ONCE
            && let Some(execution) = self.sleepers.resuming.next_released()
        {
            Errand::Release(execution)
        } else {
            return false;
        };
        self.room.is_for_a_start = true;
        self.run(errand, &mut None, moment);
        true
    }

    /// A sleeper whose time has come may come into memory although there is no room: nobody moves, and those in memory may wait for what it
    /// does. How much they themselves weigh does not count, or they would wait for ever.
    fn may_come_beyond(&mut self) -> bool {
        if !self.ready.is_empty() || !self.outgoing.items.is_empty() || self.errands.asked.executions() > 0 {
            return false;
        }
        let Self { executions, room, .. } = self;
        room.beyond.retain(|id| executions.has(*id));
        let slots = room.beyond.iter().filter_map(|id| executions.get(*id));
        let bytes: u64 = slots.map(|slot| slot.weight.bytes).sum();
        room.beyond.is_empty() || bytes < room.bounds.bytes_max / SPARE_SHARE
    }

    fn let_children_in(&mut self, moment: &Moment) {
        while !self.room.children.is_empty() {
            // Those that are being read take theirs as soon as they begin.
            let coming = self.errands.asked.children();
            let free = self.room.bounds.executions_max.saturating_sub(self.room.running);
            let has_place = self.has_place() && coming < free;
            let may_begin = |depth: u32| has_place || coming == 0 && self.room.may_nest(depth);
            let next = self.room.children.iter().position(|order| may_begin(order.depth));
            let waiting = self.room.children.len();
            let Some(order) = next.and_then(|at| self.room.children.remove(at)) else { return };
            self.start_child(order, &None, moment);
            // It waits again: the line of descent is as deep as it may be.
            if self.room.children.len() >= waiting {
                return;
            }
        }
    }
}
