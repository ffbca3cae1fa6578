//! After the commit: who is told, what is done, who leaves memory.

use super::slot::Body;
use super::{ChildOrder, Deed, Errand, Node, Queued, ReplyTo, Slot, Watcher};
use crate::committer::{Committed, Done};
use crate::message::{Ending, Started, Taken};
use perdura_engine::asl::resource::Doer;
use perdura_engine::{By, Call, Destinations, Effect, ExecutionId, Input, Note};

impl Node {
    /// The group is on disk.
    pub fn settle(&mut self, committed: Committed) -> Vec<Deed> {
        let mut deeds = Vec::new();
        committed.told.into_iter().for_each(|reply| reply.send(Ok(())));
        committed.witnessed.into_iter().for_each(|reply| reply.send(Ok(())));
        for done in committed.done {
            self.settle_one(done, &mut deeds);
        }
        self.outgoing.stale.extend(committed.stale);
        deeds
    }

    fn settle_one(&mut self, done: Done, deeds: &mut Vec<Deed>) {
        let Done { running, effects, remarks, ignored, late, may_leave, .. } = done;
        let id = running.id();
        for note in &remarks {
            remark(id, note);
        }
        let slot = self.executions.get_mut(id).expect("what is being committed has its place");
        let told = match &mut slot.body {
            Body::Away(away) => away.told.take(),
            Body::Here(_) | Body::Unreadable => None,
        };
        match told {
            None | Some(ReplyTo::Nobody) => {}
            Some(ReplyTo::Taken(reply)) => {
                let (status, ended_at) = (running.execution.status(), running.execution.ended_at());
                let redriven_at = running.execution.redriven_at();
                let turn = Some(running.turns);
                reply.send(Ok(Taken { ignored, late, turn, status, ended_at, redriven_at }));
            }
            Some(ReplyTo::Started(reply)) => {
                let arn = running.execution.identity().arn.clone();
                let at = running.execution.started_at();
                reply.send(Ok(Started { execution: id, arn, at, fresh: true }));
            }
            Some(ReplyTo::Parent(step)) => self.child_began(*step, &running.execution),
            Some(ReplyTo::Worker(handing)) => {
                self.handed_over(*handing, &running.execution, ignored.is_some());
            }
        }
        let slot = self.executions.get_mut(id).expect("what is being committed has its place");
        self.errands.extend(slot.then.drain(..));
        // The row of one that ended before may be written while it waits to be redriven: that is no end.
        let has_ended = running.execution.is_ended() && !slot.is_redriven();
        let ended = slot.child.filter(|_| has_ended);
        let status = running.execution.status();
        slot.put_back(running);
        self.weigh(id);
        self.follow(id, effects, deeds);
        self.may_start_again(id);
        self.tell_watchers(id);
        if let Some(child) = ended {
            self.map_child_ended(id, child, status);
        }
        self.go_on_unless_held(id);
        self.pauses.settled(id);
        let Some(slot) = self.executions.get_mut(id) else { return };
        if !slot.shows.is_empty()
            && let Some(view) = slot.view()
        {
            for reply in slot.shows.drain(..) {
                reply.send(Some(Box::new(view.clone())));
            }
        }
        if may_leave && slot.inbox.is_empty() && slot.parked.is_none() {
            self.leave(id);
        } else {
            self.make_ready(id);
        }
    }

    /// What the effects of a committed Turn ask for.
    pub(super) fn follow(&mut self, id: ExecutionId, effects: Vec<Effect>, deeds: &mut Vec<Deed>) {
        for effect in effects {
            let slot = self.executions.get_mut(id).expect("its effects are being followed");
            match effect {
                Effect::CallTask(call) | Effect::AwaitTask(call)
                    if stands_in(&*self.destinations, slot, &call) =>
                {
                    if slot.calls.begin(&call) {
                        deeds.push(Deed::StandIn { execution: id, call });
                    }
                }
                Effect::CallTask(call) if call.resource.kind.doer() == Doer::Worker => {
                    self.queue_task(&call);
                }
                Effect::AwaitTask(call) => self.await_task(id, &call),
                Effect::CallTask(call) => {
                    if let Some(order) = slot.running().and_then(|parent| ChildOrder::of(parent, &call)) {
                        slot.calls.begin_child(call.strand, call.key);
                        self.errands.push(Errand::Child(Box::new(order)));
                        continue;
                    }
                    if slot.calls.begin(&call) {
                        deeds.push(Deed::Perform { execution: id, call });
                    }
                }
                Effect::CancelTask { strand, key, stops_job } => {
                    slot.calls.answered(&By::Key { strand, key: key.clone(), attempt: None });
                    if self.activities.remove((id, strand), Some(&key)) {
                        continue;
                    }
                    if stops_job {
                        self.stop_child(&key);
                    }
                    deeds.push(Deed::Cancel { execution: id, strand, key });
                }
                Effect::SetTimer { wake } => {
                    let before = std::mem::replace(&mut slot.wake, wake);
                    self.set_timer(id, before, wake);
                }
                Effect::StartMapRun(order) => self.start_map_run(id, order),
                Effect::StopMapRun { key, .. } => self.stop_map_run(id, &key),
                Effect::Publish { status } if status.is_ended() => {
                    deeds.push(Deed::Publish { execution: id, status });
                }
                Effect::Publish { .. } => {}
                // The next process goes on: what it is ready for may be a call.
                Effect::Continue if !self.performs.begins() || slot.gate.is_anothers => {}
                Effect::Continue => {
                    slot.inbox.push_back(Queued { input: Input::Continue, reply: ReplyTo::Nobody });
                }
            }
        }
    }

    /// If it has ended, those who wait for that are told. Also after a Turn that did not end it: one who came while it
    /// was being committed could not be told at once.
    fn tell_watchers(&mut self, id: ExecutionId) {
        let running = self.executions.get(id).and_then(Slot::running);
        let Some(running) = running.filter(|running| running.execution.is_ended()) else { return };
        if !self.watchers.has(id) {
            return;
        }
        let ending = Ending::of(&running.execution).expect("what has ended has an ending");
        let child = running.execution.clone();
        for watcher in self.watchers.take(id) {
            match watcher {
                Watcher::Reply(reply) => reply.send(Ok(ending.clone())),
                Watcher::Step(step) => self.child_ended(step, &child),
            }
        }
    }

    /// It ended or fell asleep; its row is enough.
    pub(super) fn leave(&mut self, id: ExecutionId) {
        let Some(slot) = self.executions.remove(id) else { return };
        self.room.has_changed = true;
        self.sleepers.fell_asleep(id, self.shards.of(id), slot.wake);
    }
}

/// Whether somebody outside answers a call, also one that the node would see to.
fn stands_in(destinations: &dyn Destinations, slot: &Slot, call: &Call) -> bool {
    slot.running().is_some_and(|running| destinations.stands_in(running.execution.identity(), call))
}

/// What a person may want to hear of.
fn remark(execution: ExecutionId, note: &Note) {
    match note {
        Note::Repeated { key, .. } => {
            tracing::warn!(%execution, step = key.step(), %key, "repeated after a restart, under the same key");
        }
        Note::Held { key, fault, .. } => {
            let error = fault.error.as_deref().unwrap_or_default();
            tracing::warn!(%execution, step = key.step(), %key, error, "held: a person decides");
        }
        Note::Resolved { key, reason, .. } => {
            tracing::info!(%execution, step = key.step(), %key, %reason, "resolved by a person");
        }
        Note::LateOutcome { key, succeeded, lateness, .. } => {
            let key = key.as_ref().map(tracing::field::display);
            tracing::warn!(%execution, key, succeeded, ?lateness, "an outcome came late");
        }
        Note::Resting { .. }
        | Note::Woken { .. }
        | Note::FanStarted { .. }
        | Note::StrandStarted { .. }
        | Note::StrandEnded { .. }
        | Note::StrandFailed { .. }
        | Note::StrandsDropped { .. }
        | Note::FanWaits { .. }
        | Note::Settled { .. }
        | Note::Ledger { .. }
        | Note::Ignored { .. }
        | Note::Erased { .. } => {}
    }
}
