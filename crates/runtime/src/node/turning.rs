//! Turns: the next execution that is ready is decided, up to the commit.

use super::slot::{Away, Body};
use super::{Node, Queued, ReplyTo};
use crate::audit::Asking;
use crate::committer::{Item, panic_text};
use crate::message::{InputError, Taken};
use perdura_engine::{
    Effect, ExecutionId, Input, Moment, decide, decide_before_calls, decide_paused, resume_beside,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Node {
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
        if self.ready.is_empty() && self.spreads() {
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
            slot.line.place = place.or(slot.line.place);
        }
    }

    /// One Turn; how much work it took to decide.
    fn turn(&mut self, id: ExecutionId, moment: &Moment) -> u64 {
        let Some(slot) = self.slots.get_mut(&id) else { return 0 };
        // It had its Turn already, out of line.
        if !std::mem::take(&mut slot.line.is_ready) {
            return 0;
        }
        let Some(mut running) = slot.take() else { return 0 };
        let Some(Queued { input, reply }) = slot.inbox.pop_front() else {
            slot.put_back(running);
            return 0;
        };
        let mut answer = None;
        if let Input::TaskOutcome { by, outcome } = &input {
            answer = slot.calls.is_live(by).then(|| (by.clone(), outcome.clone()));
            slot.calls.answered(by);
        }
        slot.is_held = self.pauses.hold(&running);
        let waits_for = running.execution.next_wake();
        let moment = &self.anchor.moment_of(id, waits_for, moment);
        let (execution, live) = (&running.execution, slot.calls.live());
        let decided = catch_unwind(AssertUnwindSafe(|| match &input {
            input if slot.is_held && !matches!(input, Input::Resume) => {
                decide_paused(execution, input, moment)
            }
            input if self.ends || slot.gate.is_anothers => decide_before_calls(execution, input, moment),
            Input::Resume => resume_beside(execution, live, moment),
            input => decide(execution, input, moment),
        }));
        let decision = match decided {
            Ok(decision) => decision,
            Err(panic) => {
                let reason = panic_text(&*panic);
                let has_begun = running.turns > 0;
                slot.put_back(running);
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
            let (status, ended_at) = (running.execution.status(), running.execution.ended_at());
            let redriven_at = match &input {
                Input::RedriveOnce { token } => running.execution.redriven_under(token),
                _ => running.execution.redriven_at(),
            };
            slot.put_back(running);
            match reply {
                ReplyTo::Taken(reply) => {
                    let (late, turn) = (None, None);
                    reply.send(Ok(Taken { ignored, late, turn, status, ended_at, redriven_at }));
                }
                // The execution has ended, and its task with it.
                ReplyTo::Worker(handing) => self.not_handed_over(*handing),
                ReplyTo::Nobody | ReplyTo::Started(_) | ReplyTo::Parent(_) => {}
            }
            // A redrive that changes nothing gives its place back.
            self.weigh(id);
            let mut deeds = Vec::new();
            self.follow(id, effects, &mut deeds);
            self.may_start_again(id);
            debug_assert!(deeds.is_empty(), "what leaves is on record");
            self.make_ready(id);
            self.rest(id, moment);
            return work;
        }
        let asking = Asking::of(&input, reply.origin());
        slot.body = Body::Away(Away { told: Some(reply), answer });
        let is_taken = decision.effects.iter().any(|effect| match effect {
            Effect::CallTask(call) => self.activities.has_poller(call),
            _ => false,
        });
        let is_idle = !is_taken && slot.is_idle(&running, self.performs && !self.ends);
        let begun = running.begun.take();
        self.gathered.push(Item {
            running,
            decision: Some(decision),
            begun,
            is_idle,
            is_stale: false,
            is_put_off: false,
            moment: *moment,
            asking,
        });
        work
    }
}
