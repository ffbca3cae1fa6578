//! Waking up what sleeps, and setting aside what is broken.

use super::{Node, Queued, ReplyTo, Slot, WAKE_AT_ONCE};
use crate::message::{InputError, Reply, Slice, Unavailable, View};
use crate::running::{Running, Unreadable, rebuild};
use perdura_engine::asl::resource::Doer;
use perdura_engine::{Call, Effect, Execution, ExecutionId, Input, Moment, Wake, decide};
use perdura_store::{ChildOf, Recovered, Shard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many of those that wait are resumed at once.
const RESUME_AT_ONCE: u32 = 256;

impl Node {
    /// Whether this node takes the Turns of an execution.
    pub(super) fn held(&self, id: ExecutionId) -> Result<(), Unavailable> {
        let shard = Shard::of(id, self.shard_count);
        if self.shards.contains(&shard) { Ok(()) } else { Err(Unavailable::Elsewhere(shard)) }
    }

    /// Makes sure that an execution is in memory.
    pub(super) fn awake(&mut self, id: ExecutionId, moment: &Moment) -> Result<(), InputError> {
        if self.slots.contains_key(&id) {
            return Ok(());
        }
        self.held(id).map_err(InputError::Unavailable)?;
        self.rebuilding.now = moment.now;
        let running = match self.stored(id)? {
            Ok(running) => running,
            Err(what) => {
                self.park_unreadable(id, what.clone());
                return Err(InputError::Parked(what));
            }
        };
        // Another process had it last: its clocks of silence start again, its calls are made again.
        let resumes = self.performs && self.is_to_be_resumed(&running.execution);
        let awaited = self.run_to_await(&running);
        self.asks_for_parent(&running);
        self.unresumed.remove(&id);
        self.install(running);
        if let Some(child) = awaited {
            self.await_run(id, child);
        } else if resumes {
            let slot = self.slots.get_mut(&id).expect("it was just installed");
            slot.inbox.push_back(Queued { input: Input::Resume, reply: ReplyTo::Nobody });
        }
        Ok(())
    }

    /// One that belongs to a Map Run does not go on without it: nobody may wait for it any more.
    fn run_to_await(&self, running: &Running) -> Option<ChildOf> {
        let goes_on = self.performs && !running.execution.is_ended();
        running.child.filter(|child| goes_on && !self.map_runs.has(*child))
    }

    /// Whether another process had it last, and it runs. The clock on the wall may have been set back since; so until all
    /// that wait are resumed, it is also known who fell asleep here, and after that who could not be resumed yet.
    pub(super) fn is_from_before(&self, execution: &Execution) -> bool {
        let id = execution.identity().id;
        let is_unseen = !self.resuming.is_empty() && !self.slept.contains(&id);
        !execution.is_ended()
            && (execution.last_at() < self.opened_at || is_unseen || self.unresumed.contains(&id))
    }

    /// The same, and something of it was under way.
    fn is_to_be_resumed(&self, execution: &Execution) -> bool {
        self.is_from_before(execution)
            && (execution.calls().next().is_some() || execution.is_attended() || execution.goes_on())
    }

    /// Sleepers of an earlier process that somebody has to look after: a slice of them. One that only waits goes on
    /// sleeping; what it waits for is known here from now on.
    pub(super) fn resume_the_waiting(&mut self, moment: &Moment) {
        if self.ends || !self.has_room() || self.ready.len() >= WAKE_AT_ONCE {
            return;
        }
        let Some((shard, after)) = self.resuming.last().copied() else { return };
        let page = match self.reader.waiting(shard, after, RESUME_AT_ONCE) {
            Ok(page) => page,
            Err(failure) => {
                tracing::error!(%failure, "those that wait cannot be read");
                return;
            }
        };
        let mut last = after;
        for id in &page {
            if !self.has_room() {
                break;
            }
            last = Some(*id);
            match self.resume_waiting(*id, moment) {
                Ok(()) => {}
                // It is woken up as soon as it can be read, and resumed by that.
                Err(InputError::Unavailable(Unavailable::Store(_))) => {
                    self.unresumed.insert(*id);
                    self.unread.push(*id);
                }
                Err(error) => tracing::error!(execution = %id, %error, "it cannot be resumed"),
            }
        }
        self.resuming.pop();
        if !page.is_empty() {
            self.resuming.push((shard, last));
        } else if self.resuming.is_empty() {
            self.slept.clear();
        }
    }

    fn resume_waiting(&mut self, id: ExecutionId, moment: &Moment) -> Result<(), InputError> {
        // One that is in memory was resumed when it came there.
        if self.slots.contains_key(&id) {
            return Ok(());
        }
        self.rebuilding.now = moment.now;
        let running = match self.stored(id)? {
            Ok(running) => running,
            Err(what) => return Err(InputError::Parked(what)),
        };
        if !self.is_to_be_resumed(&running.execution) {
            return Ok(());
        }
        if self.run_to_await(&running).is_some() {
            return self.awake(id, moment);
        }
        self.asks_for_parent(&running);
        let decided = catch_unwind(AssertUnwindSafe(|| decide(&running.execution, &Input::Resume, moment)));
        let only_waits = decided.is_ok_and(|decision| {
            let identity = running.execution.identity();
            let waits = |effect: &Effect| match effect {
                Effect::AwaitTask(call) => !self.rebuilding.destinations.stands_in(identity, call),
                effect => matches!(effect, Effect::SetTimer { .. }),
            };
            let only_waits = decision.turn.records.is_empty() && decision.effects.iter().all(waits);
            if only_waits {
                self.attend(id, decision.effects);
            }
            only_waits
        });
        if !only_waits {
            self.awake(id, moment)?;
            self.make_ready(id);
        }
        Ok(())
    }

    /// Waits again for what an execution waits for.
    fn attend(&mut self, id: ExecutionId, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::AwaitTask(call) = effect {
                self.await_task(id, &call);
            }
        }
    }

    /// Waits again for a worker, or for the end of a job.
    pub(super) fn await_task(&mut self, id: ExecutionId, call: &Call) {
        match call.resource.kind.doer() {
            Doer::Worker => self.queue_task(call),
            Doer::Engine | Doer::Callee | Doer::Program => self.await_job(id, call),
        }
    }

    /// What of a slice may be taken away: nothing that is in memory here, and nothing of a Shard that another node holds.
    /// No Turn may be decided between this look at memory and the deed. Where parents have still to hear of the ends of
    /// their children, those stay as well.
    pub fn sweepable(&mut self, mut slice: Slice) -> Slice {
        let is_behind = !self.performs || !self.has_taken_all_up();
        slice.going.retain(|(id, _)| {
            let is_here = self.held(*id).is_ok();
            is_here && !self.slots.contains_key(id) && !(is_behind && self.is_awaited(*id))
        });
        slice
    }

    /// Everybody who ran or waited in an earlier process was told what became of what they wait for.
    fn has_taken_all_up(&mut self) -> bool {
        if !self.took_all_up {
            let resumes = |slot: &Slot| slot.inbox.iter().any(|queued| queued.input == Input::Resume);
            let is_resuming = !self.resuming.is_empty() || !self.unresumed.is_empty();
            self.took_all_up = !is_resuming && !self.slots.values().any(resumes);
        }
        self.took_all_up && self.errands.is_empty() && self.undone.is_empty()
    }

    /// Whether a step of an execution that runs has started this one, to wait for its end.
    fn is_awaited(&mut self, id: ExecutionId) -> bool {
        let parent = match self.stored(id) {
            Ok(Ok(running)) => running.awaited_by.and_then(|key| key.execution()),
            Ok(Err(_)) | Err(InputError::Unknown) => None,
            Err(_) => return true,
        };
        let Some(parent) = parent else { return false };
        if let Some(slot) = self.slots.get(&parent) {
            return !slot.is_ended();
        }
        match self.stored(parent) {
            Ok(Ok(running)) => !running.execution.is_ended(),
            Ok(Err(_)) | Err(InputError::Unknown) => false,
            Err(_) => true,
        }
    }

    /// An execution as its row has it; the inner error says why it cannot be read.
    pub(super) fn stored(&mut self, id: ExecutionId) -> Result<Result<Running, Arc<str>>, InputError> {
        let unavailable = |failure: perdura_store::Failure| {
            InputError::Unavailable(Unavailable::Store(failure.to_string().into()))
        };
        let Some((row, unsegmented_from)) = self.reader.row(id).map_err(unavailable)? else {
            return Err(InputError::Unknown);
        };
        // It is in some node's memory, and this is not the one: what the row holds is not all.
        if row.awake {
            let shard = Shard::of(id, self.shard_count);
            return Err(InputError::Unavailable(Unavailable::Elsewhere(shard)));
        }
        let stored = Recovered { execution: id, row: Some(row), unsegmented_from, turns: Vec::new() };
        let rebuilt = rebuild(stored, &mut self.library, &mut *self.reader, &self.rebuilding);
        match rebuilt {
            Ok(running) => Ok(Ok(running)),
            Err(Unreadable::Damaged(damage)) => Ok(Err(damage.0.into())),
            Err(Unreadable::Unavailable(failure)) => Err(unavailable(failure)),
        }
    }

    /// Gives a rebuilt execution its place.
    pub(super) fn install(&mut self, running: Running) {
        let id = running.id();
        if running.named {
            self.names.insert((running.machine, running.execution.identity().name.clone()), id);
        }
        let wake = running.execution.next_wake();
        self.set_timer(id, Wake::default(), wake);
        let (machine, child) = (Some(running.machine), running.child);
        // One that sleeps is among those that run.
        let is_counted = !running.execution.is_ended();
        self.room.nest(id, running.nesting.filter(|_| is_counted));
        let slot =
            Slot { running: Some(Box::new(running)), machine, child, wake, is_counted, ..Slot::default() };
        self.slots.insert(id, slot);
        self.weigh(id);
    }

    /// Sets one execution aside; the others go on.
    pub(super) fn park(&mut self, id: ExecutionId, reason: Arc<str>) {
        tracing::error!(execution = %id, %reason, "parked");
        let Some(slot) = self.slots.get_mut(&id) else { return };
        for queued in slot.inbox.drain(..) {
            queued.reply.refuse(InputError::Parked(reason.clone()));
        }
        for show in slot.shows.drain(..) {
            show.send(None);
        }
        let wake = std::mem::take(&mut slot.wake);
        for watcher in self.watchers.take(id) {
            watcher.refuse(InputError::Parked(reason.clone()));
        }
        slot.parked = Some(reason);
        self.parked += 1;
        self.set_timer(id, wake, Wake::default());
        // The journal must not keep rows for the sake of one that does not move.
        self.stale.push(id);
    }

    /// Whether a person may give up this one: it was set aside, and no Turn of it is under way.
    pub fn may_give_up(&mut self, id: ExecutionId, moment: &Moment) -> Result<bool, InputError> {
        match self.awake(id, moment) {
            Ok(()) | Err(InputError::Parked(_)) => {}
            Err(error) => return Err(error),
        }
        let Some(slot) = self.slots.get(&id).filter(|slot| slot.parked.is_some()) else { return Ok(false) };
        // One that a mistake of ours has stopped is first taken down to its row.
        if slot.machine.is_some() && slot.running.as_ref().is_none_or(|running| running.base.is_some()) {
            let why = Unavailable::Store("its row is being written: ask again".into());
            return Err(InputError::Unavailable(why));
        }
        Ok(true)
    }

    /// Nothing of it is left in the store.
    pub fn given_up(&mut self, id: ExecutionId) {
        tracing::warn!(execution = %id, "given up by a person");
        self.forget(id);
    }

    /// One that has not begun is gone, and its name is free.
    pub(super) fn forget(&mut self, id: ExecutionId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.parked -= usize::from(slot.parked.is_some());
        self.room.bytes -= slot.bytes;
        if slot.is_counted {
            self.room.ended(id);
        }
        self.stale.retain(|stale| *stale != id);
        if let Some(running) = slot.running.filter(|running| running.named) {
            self.names.remove(&(running.machine, running.execution.identity().name.clone()));
        }
    }

    /// What is stored of it cannot be read.
    pub(super) fn park_unreadable(&mut self, id: ExecutionId, what: Arc<str>) {
        self.slots.insert(id, Slot::default());
        self.park(id, what);
    }

    pub(super) fn show(&mut self, id: ExecutionId, reply: Reply<Option<Box<View>>>) {
        match self.slots.get_mut(&id) {
            None => reply.send(None),
            // What nobody has on disk yet is not shown: a start under the same name waits for the first one's commit.
            Some(slot) => match slot.view().filter(|view| view.turns > 0 || view.parked.is_some()) {
                Some(view) => reply.send(Some(Box::new(view))),
                None if slot.parked.is_some() => reply.send(None),
                None => slot.shows.push(reply),
            },
        }
    }
}

impl Slot {
    /// As it was last committed; `None` while a commit is under way.
    pub(super) fn view(&self) -> Option<View> {
        let running = self.running.as_ref()?;
        Some(View {
            execution: running.execution.clone(),
            turns: running.turns,
            live: self.live.iter().map(|(_, key, _)| key.clone()).collect(),
            wake: self.wake,
            parked: self.parked.clone(),
            young: running.young(),
        })
    }
}
