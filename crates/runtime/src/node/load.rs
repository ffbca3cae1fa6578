//! Waking up what sleeps, and setting aside what is broken.

use super::errands::{Absent, Errand, Heard, Hearing};
use super::slot::{Gate, Weight};
use super::{Erasing, Node, Queued, ReplyTo, Slot, Wish};
use crate::librarian::{Ask, Awaited, Missing, Told};
use crate::message::{InputError, Reply, Slice, Unavailable, View};
use crate::running::Running;
use perdura_engine::asl::resource::Doer;
use perdura_engine::{Call, Destinations, Effect, Execution, ExecutionId, Input, Moment, Wake, decide};
use perdura_store::{ChildOf, Swept};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl Node {
    /// Whether this process makes the calls of an execution that was there before it.
    pub(super) fn performs_for(&self, id: ExecutionId) -> bool {
        self.performs.sees_to_calls() && self.destinations.performs_for(id)
    }

    /// Makes sure that an execution is in memory, if it is or was just read.
    pub(super) fn awake(
        &mut self,
        id: ExecutionId,
        hearing: &mut Hearing,
        moment: &Moment,
    ) -> Result<(), Absent> {
        if self.executions.has(id) {
            return Ok(());
        }
        self.shards.hold(id).map_err(|why| Absent::Not(InputError::Unavailable(why)))?;
        let running = match Heard::take(hearing, id) {
            None => return Err(Absent::Unread),
            Some(Ok(running)) => running,
            Some(Err(missing)) => {
                if let Missing::Damaged(what) = &missing {
                    self.park_unreadable(id, what.clone());
                }
                return Err(Absent::Not((&missing).into()));
            }
        };
        // Another process had it last: its clocks of silence start again, its calls are made again.
        let resumes = self.performs_for(id) && self.is_to_be_resumed(&running.execution);
        let awaited = self.run_to_await(&running);
        let parent = self.parent_of(&running);
        self.sleepers.resuming.is_done(id);
        self.install(running, moment);
        if let Some(slot) = self.executions.get_mut(id) {
            slot.gate.awaits_parent = parent.is_some();
        }
        self.errands.extend(parent);
        if let Some(child) = awaited {
            self.await_run(id, child);
        } else if resumes {
            let slot = self.executions.get_mut(id).expect("it was just installed");
            slot.inbox.push_back(Queued { input: Input::Resume, reply: ReplyTo::Nobody });
        }
        Ok(())
    }

    /// One that belongs to a Map Run does not go on without it: nobody may wait for it any more.
    fn run_to_await(&self, running: &Running) -> Option<ChildOf> {
        let goes_on = self.performs_for(running.id()) && !running.execution.is_ended();
        running.child.filter(|child| goes_on && !self.map_runs.has(*child))
    }

    /// Whether another process had it last, and something of it was under way.
    fn is_to_be_resumed(&self, execution: &Execution) -> bool {
        self.sleepers.resuming.is_from_before(execution)
            && (execution.calls().next().is_some() || execution.is_attended() || execution.goes_on())
    }

    /// One that only waits goes on sleeping; what it waits for is known here from now on.
    pub(super) fn resume(&mut self, id: ExecutionId, hearing: &mut Hearing, moment: &Moment) {
        // One that is in memory was resumed when it came there.
        if self.executions.has(id) || !self.performs_for(id) {
            return self.sleepers.resuming.is_done(id);
        }
        let running = match hearing.as_ref().and_then(|heard| heard.stored(id)) {
            None => return self.errands.wait_for(id, Errand::Resume(id)),
            Some(Ok(running)) => running,
            Some(Err(missing)) => {
                let error = InputError::from(missing);
                tracing::error!(execution = %id, %error, "it cannot be resumed");
                return self.sleepers.resuming.is_done(id);
            }
        };
        if !self.is_to_be_resumed(&running.execution) || self.sleeps_on(running) {
            return self.sleepers.resuming.is_done(id);
        }
        let only_waits =
            if self.run_to_await(running).is_some() { None } else { self.waits(running, moment) };
        if let Some(effects) = only_waits {
            self.errands.extend(self.parent_of(running));
            self.sleepers.resuming.is_done(id);
            self.attend(id, effects);
        } else {
            if let Err(Absent::Not(error)) = self.awake(id, hearing, moment) {
                tracing::error!(execution = %id, %error, "it cannot be resumed");
            }
            self.make_ready(id);
        }
    }

    /// What a sleeper waits for, where nothing else comes of resuming it.
    fn waits(&self, running: &Running, moment: &Moment) -> Option<Vec<Effect>> {
        let decided = catch_unwind(AssertUnwindSafe(|| decide(&running.execution, &Input::Resume, moment)));
        // A mistake of ours parks it in its own Turn, and is told there.
        let decision = decided.ok()?;
        let identity = running.execution.identity();
        let waits = |effect: &Effect| match effect {
            Effect::AwaitTask(call) => !self.destinations.stands_in(identity, call),
            effect => matches!(effect, Effect::SetTimer { .. }),
        };
        let only_waits = decision.turn.records.is_empty() && decision.effects.iter().all(waits);
        only_waits.then_some(decision.effects)
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

    /// What of a slice may be taken away: nothing that is in memory here or on its way there, and nothing of a Shard that
    /// another node holds. No Turn may be decided between this look at memory and the deed.
    pub fn sweepable(&self, mut slice: Slice) -> Slice {
        slice.going.retain(|(id, _)| self.is_at_rest(*id));
        slice
    }

    /// One of these that has not come to rest here, and so cannot be erased. The same holds of this look.
    pub(crate) fn in_use(&self, erasing: &Erasing) -> Option<ExecutionId> {
        erasing.ended.iter().map(|(id, _)| *id).find(|id| !self.is_at_rest(*id))
    }

    fn is_at_rest(&self, id: ExecutionId) -> bool {
        let is_here = self.executions.has(id) || self.errands.asked.is_about(id);
        self.shards.hold(id).is_ok() && !is_here
    }

    /// Nobody is about to ask for one whose name is known only.
    pub(crate) fn may_sweep(&self) -> bool {
        self.errands.is_empty() && !self.errands.asked.is_about_shared()
    }

    /// What has ended is to be taken away. Where parents have still to hear of the ends of their children, those stay.
    pub(super) fn sweep(
        &mut self,
        mut slice: Slice,
        reply: Reply<Result<Swept, Unavailable>>,
        hearing: &Hearing,
    ) {
        let is_behind = !self.performs.sees_to_calls() || !self.has_taken_all_up();
        if is_behind && !slice.going.is_empty() {
            let ask = Ask::Awaited(slice.going.iter().map(|(id, _)| *id).collect());
            let told = hearing.as_ref().and_then(|heard| heard.told(&ask.subject()));
            let Some(Told::Awaited(awaited)) = told else {
                return self.errands.ask(ask, Some(Errand::Sweep { slice, reply }));
            };
            let parent_runs = |it: &Awaited| match it.parent.and_then(|parent| self.executions.get(parent)) {
                Some(parent) => !parent.is_ended(),
                None => it.parent_runs,
            };
            let is_awaited = |id: ExecutionId| awaited.iter().any(|it| it.child == id && parent_runs(it));
            slice.going.retain(|(id, _)| !is_awaited(*id));
        }
        self.outgoing.wishes.push(Wish::Sweep(slice, reply));
    }

    /// Everybody who ran or waited in an earlier process was told what became of what they wait for.
    fn has_taken_all_up(&mut self) -> bool {
        let resuming = &mut self.sleepers.resuming;
        if !resuming.took_all_up {
            let resumes = |slot: &Slot| slot.inbox.iter().any(|queued| queued.input == Input::Resume);
            resuming.took_all_up =
                !resuming.is_under_way() && !self.executions.iter().any(|(_, slot)| resumes(slot));
        }
        resuming.took_all_up && self.errands.is_empty() && !self.errands.asked.has_errands()
    }

    /// Gives a rebuilt execution its place.
    pub(super) fn install(&mut self, mut running: Box<Running>, moment: &Moment) {
        let id = running.id();
        running.since = moment.now;
        let wake = running.execution.next_wake();
        self.set_timer(id, Wake::default(), wake);
        // One that sleeps is among those that run.
        let is_counted = !running.execution.is_ended();
        self.room.nest(id, running.nesting.filter(|_| is_counted));
        let is_anothers = !self.destinations.performs_for(id);
        let gate = Gate { is_anothers, ..Gate::default() };
        let weight = Weight { is_counted, ..Weight::default() };
        // It may have been brought here for something else: it goes on when its machine is resumed.
        let is_held = running.execution.goes_on() && self.pauses.hold(&running);
        self.executions.insert(id, Slot { gate, is_held, wake, weight, ..Slot::here(running) });
        self.weigh(id);
        self.room.read(self.executions.get(id).map_or(0, |slot| slot.weight.bytes));
    }

    /// Sets one execution aside; the others go on.
    pub(super) fn park(&mut self, id: ExecutionId, reason: Arc<str>) {
        tracing::error!(execution = %id, %reason, "parked");
        let Some(slot) = self.executions.get_mut(id) else { return };
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
        self.executions.park(id, reason);
        self.set_timer(id, wake, Wake::default());
        // The journal must not keep rows for the sake of one that does not move.
        self.outgoing.stale.push(id);
    }

    /// A person gives up one that was set aside, unless a Turn of it is under way.
    pub(super) fn give_up(
        &mut self,
        id: ExecutionId,
        reply: Reply<Result<bool, InputError>>,
        hearing: &mut Hearing,
    ) {
        if let Err(why) = self.shards.hold(id) {
            return reply.send(Err(InputError::Unavailable(why)));
        }
        if !self.executions.has(id) {
            match Heard::take(hearing, id) {
                None => return self.errands.wait_for(id, Errand::GiveUp { execution: id, reply }),
                Some(Ok(_)) => return reply.send(Ok(false)),
                Some(Err(Missing::Damaged(what))) => self.park_unreadable(id, what),
                Some(Err(missing)) => return reply.send(Err((&missing).into())),
            }
        }
        let Some(slot) = self.executions.get(id).filter(|slot| slot.parked.is_some()) else {
            return reply.send(Ok(false));
        };
        // One that a mistake of ours has stopped is first taken down to its row.
        if slot.machine.is_some() && slot.running().is_none_or(|running| running.base.is_some()) {
            let why = Unavailable::Store("its row is being written: ask again".into());
            return reply.send(Err(InputError::Unavailable(why)));
        }
        self.outgoing.wishes.push(Wish::GiveUp(id, reply));
    }

    /// Nothing of it is left in the store.
    pub fn given_up(&mut self, id: ExecutionId) {
        tracing::warn!(execution = %id, "given up by a person");
        self.forget(id);
    }

    /// One that has not begun is gone, and its name is free.
    pub(super) fn forget(&mut self, id: ExecutionId) {
        let Some(slot) = self.executions.remove(id) else { return };
        if slot.weight.is_counted {
            self.room.ended(id);
        }
        self.outgoing.stale.retain(|stale| *stale != id);
    }

    /// What is stored of it cannot be read.
    pub(super) fn park_unreadable(&mut self, id: ExecutionId, what: Arc<str>) {
        self.executions.insert(id, Slot::unreadable());
        self.park(id, what);
    }

    pub(super) fn show(&mut self, id: ExecutionId, reply: Reply<Option<Box<View>>>) {
        match self.executions.get_mut(id) {
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
        let running = self.running()?;
        Some(View {
            execution: running.execution.clone(),
            turns: running.turns,
            live: self.calls.live().iter().map(|(_, key, _)| key.clone()).collect(),
            wake: self.wake,
            parked: self.parked.clone(),
            young: running.young(),
        })
    }
}
