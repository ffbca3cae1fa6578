//! Holds: the outcome of a call is unknown, and it may not be repeated. The step is held until a person, or a late
//! answer, says how it went.
//!
//! That is so if the destination's policy says `hold`, or if its receiver may have forgotten the key by the time of the
//! next attempt. The step has not failed, so the history has no event yet.

use super::Turning;
use super::task::Prepared;
use crate::apply::waits;
use crate::destination::{Policy, Uncertain};
use crate::effect::Effect;
use crate::event::{EventKind, Fault};
use crate::id::{Digest, Round, StrandId};
use crate::input::{By, Certainty, Outcome, Resolution};
use crate::kept::Kept;
use crate::strand::{Sent, Standing};
use crate::turn::{LedgerStatus, Note};
use perdura_asl::error::{HEARTBEAT_TIMEOUT, TIMEOUT};
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, Task};
use perdura_asl::resource::TaskKind;
use perdura_asl::scope::Failure;
use std::sync::Arc;

impl Turning<'_> {
    /// The call ended with an unknown outcome: whether the step is held instead of failed.
    pub(super) fn holds_after(&self, strand: StrandId, fault: &Fault) -> bool {
        let policy = self.policy(strand);
        match policy.uncertain {
            Uncertain::Hold => true,
            Uncertain::Retry => self
                .longest_pause(strand, fault)
                .is_some_and(|pause| self.is_forgotten(strand, &policy, pause)),
        }
    }

    /// The call is about to be repeated in its round: whether the step is held instead.
    pub(super) fn holds_again(&self, strand: StrandId) -> bool {
        self.repeated(strand).is_some() && self.may_be_held(strand, &self.policy(strand))
    }

    /// The same if the sent bytes are lost, and these would replace them. For a child that has ended, only its answer
    /// is certain, and that is lost too.
    pub(super) fn holds_lost(&self, strand: StrandId, task: &Task, input: &Payload) -> bool {
        if self.is_other(strand, input) {
            return true;
        }
        let Some(sent) = self.repeated(strand) else { return false };
        let is_child = task.resource.kind == TaskKind::Child;
        let again = Sent { input: input.clone(), lost: None, ..sent.clone() };
        is_child || self.may_be_held(strand, &self.draft.base.policies.policy(&task.resource, &again))
    }

    /// Whether other bytes were sent under the key. A key never goes out with other bytes, even on request.
    fn is_other(&self, strand: StrandId, input: &Payload) -> bool {
        let step = self.step(strand);
        let lost = step.sent_in(step.round).and_then(|sent| sent.lost);
        lost.is_some_and(|lost| lost != Digest::of(input))
    }

    /// The call that may have been performed in this round and would now be repeated without a person's word.
    fn repeated(&self, strand: StrandId) -> Option<&Sent> {
        let step = self.step(strand);
        step.sent.as_ref().filter(|sent| sent.round == step.round && sent.is_in_doubt() && !sent.again)
    }

    fn may_be_held(&self, strand: StrandId, policy: &Policy) -> bool {
        policy.uncertain == Uncertain::Hold || self.is_forgotten(strand, policy, 0)
    }

    /// Whether the call comes from a backup.
    pub(super) fn is_restored(&self, strand: StrandId) -> bool {
        self.step(strand).sent.as_ref().is_some_and(|sent| self.draft.base.policies.is_restored(sent))
    }

    pub(super) fn policy(&self, strand: StrandId) -> Policy {
        let machine = self.machine();
        let (Kind::Task(task), Some(sent)) = (&self.state(&machine, strand).kind, &self.step(strand).sent)
        else {
            return Policy::default();
        };
        self.draft.base.policies.policy(&task.resource, sent)
    }

    /// Whether the receiver may have forgotten the key by then. The later one of the two clocks counts.
    fn is_forgotten(&self, strand: StrandId, policy: &Policy, pause_ms: i64) -> bool {
        let then = self.now.max(self.moment.steady).after_ms(pause_ms);
        self.step(strand).sent.as_ref().is_some_and(|sent| then > sent.at.after_ms(policy.key_memory_ms))
    }

    /// Holds the step. Its call, if it is still under way, may yet be answered; so may its token.
    pub(super) fn hold(&mut self, strand: StrandId, fault: Fault) {
        let key = self.key(strand);
        self.note(Note::Ledger { strand, key: key.clone(), status: LedgerStatus::Uncertain });
        self.note(Note::Held { strand, key, fault, at: Some(self.now) });
    }

    /// Holds it before another call; the status of its key is on record already.
    pub(super) fn hold_again(&mut self, strand: StrandId) {
        let key = self.key(strand);
        let cause = "An earlier call under this key may have been performed, and may not be repeated.";
        let fault = Fault::new("Perdura.Uncertain", cause);
        self.note(Note::Held { strand, key, fault, at: Some(self.now) });
    }

    /// Holds it because the result of an earlier run of the state around it was too large to keep.
    pub(super) fn hold_lost(&mut self, strand: StrandId) {
        let cause = "This call was answered before, and neither the answer nor what was sent could be kept.";
        self.hold(strand, Fault::new("Perdura.Uncertain", cause));
    }

    /// Holds it because the calling process is gone.
    pub(super) fn hold_interrupted(&mut self, strand: StrandId) {
        let cause = "The process that made this call ended before the answer was on record.";
        self.hold(strand, Fault::new("Perdura.Interrupted", cause));
    }

    /// An answer to a held step. An answer that leaves the doubt changes nothing.
    pub(super) fn settle_held(&mut self, strand: StrandId, outcome: &Outcome) {
        if self.leaves_doubt(strand, outcome) {
            return self.ignore("the step is held, and this answer leaves it in doubt");
        }
        if let Some(waiting) = waits(&self.draft, strand) {
            return self.settle_waiting(strand, waiting, Some(outcome));
        }
        if self.reopen(strand) {
            self.answer(strand, outcome);
        }
    }

    /// A Parallel or Map failed and is to run again. Calls in it that may have been performed and may not be repeated
    /// delay that until their outcome is known.
    pub(super) fn waits_for_held(&mut self, strand: StrandId, fault: &Fault) -> bool {
        if !matches!(self.step(strand).standing, Standing::Fanning(_)) {
            return false;
        }
        let (held, gone): (Vec<StrandId>, Vec<StrandId>) =
            self.descendants(strand).into_iter().partition(|child| self.may_not_be_repeated(*child));
        if held.is_empty() {
            return false;
        }
        for child in gone {
            self.cancel(child);
        }
        for child in held {
            let step = self.step(child);
            if !matches!(step.standing, Standing::Calling { .. }) {
                continue;
            }
            let key = self.key(child);
            if step.sent.as_ref().is_some_and(|sent| sent.failed.is_none()) {
                // It was cancelled with the branches around it; keep it, because its answer would settle it.
                self.effects.retain(
                    |effect| !matches!(effect, Effect::CancelTask { strand, .. } if *strand == child),
                );
                if !self.cancelled.remove(&child) {
                    let status = LedgerStatus::Uncertain;
                    self.note(Note::Ledger { strand: child, key: key.clone(), status });
                }
            }
            let cause = "What is around this call failed, and the call may not be repeated.";
            let fault = Fault::new("Perdura.Uncertain", cause);
            self.note(Note::Held { strand: child, key, fault, at: Some(self.now) });
        }
        self.note(Note::FanWaits { strand, fault: fault.clone() });
        true
    }

    /// Whether a strand has a call that is held, or would be held if it were given up now.
    fn may_not_be_repeated(&self, strand: StrandId) -> bool {
        let Some(step) = &self.strand(strand).step else { return false };
        match &step.standing {
            Standing::Held { .. } => step.is_held(),
            Standing::Calling { .. } => {
                let leaves = self.called.contains(&strand) || self.is_unstarted(strand);
                (!leaves || self.is_doubted(strand)) && self.holds_again(strand)
            }
            Standing::Ready
            | Standing::Resting { .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { .. } => false,
        }
    }

    /// A held call is settled for the next run of the Parallel or Map around it. Once all of them are, the state runs
    /// again.
    fn settle_waiting(&mut self, strand: StrandId, waiting: StrandId, known: Option<&Outcome>) {
        let key = self.key(strand);
        let Some(sent) = self.step(strand).sent.clone() else { return };
        let (status, kept) = match known {
            Some(Outcome::Succeeded { output }) => {
                (Some(LedgerStatus::Completed), Kept::done(sent, output.clone()))
            }
            Some(_) => (Some(LedgerStatus::Failed), Kept::refused(sent)),
            None => {
                let sent = Sent { failed: Some(Certainty::Ambiguous), doubt: true, again: true, ..sent };
                (None, Kept::Again(Box::new(sent)))
            }
        };
        if let Some(status) = status {
            self.note(Note::Ledger { strand, key, status });
        }
        self.note(Note::Settled { strand, kept });
        let Standing::Fanning(run) = &self.step(waiting).standing else { return };
        if let (true, Some(fault)) = (run.live.is_empty(), run.failed.clone()) {
            self.step_failed(waiting, fault);
        }
    }

    /// A person resolves a call.
    pub(super) fn resolve(&mut self, by: &By, resolution: &Resolution, reason: &Arc<str>) {
        let by = &self.moved(by);
        let strand = by.strand();
        let Some(step) = self.addressed(by) else {
            return self.ignore("no step under way has this key or token");
        };
        let outcome = match (&step.standing, resolution) {
            (
                Standing::Ready
                | Standing::Resting { retry: false, .. }
                | Standing::Fanning(_)
                | Standing::MapRunning { .. },
                _,
            ) => {
                return self.ignore("the step has no call that could be resolved");
            }
            (Standing::Resting { .. }, _) if step.result.is_some() => {
                return self.ignore("the call has given its result already");
            }
            (Standing::Resting { .. }, Resolution::Failed { .. })
                if step.sent.as_ref().is_none_or(|sent| sent.round != step.round) =>
            {
                return self.ignore("nothing was sent under this key yet, and the one before has failed");
            }
            (Standing::Calling { .. }, Resolution::Again) => return self.ignore("the call is under way"),
            (Standing::Resting { .. }, Resolution::Again) => {
                return self.ignore("the call is made again by itself");
            }
            // If it counted twice, the call would be repeated twice.
            (Standing::Held { .. }, Resolution::Again) if self.attempted(by).is_none() => {
                return self.ignore("this attempt was called again already");
            }
            (Standing::Held { .. }, Resolution::Again) => None,
            (_, Resolution::Completed { output }) => Some(Outcome::Succeeded { output: output.clone() }),
            (_, Resolution::Failed { fault }) => {
                Some(Outcome::Failed { fault: fault.clone(), certainty: Certainty::Refused })
            }
        };
        let rests = matches!(step.standing, Standing::Resting { .. });
        let prepared = (outcome.is_none() && step.has_lost_bytes()).then(|| self.prepare_again(strand));
        if let Some(Ok(prepared)) = &prepared
            && self.is_other(strand, &prepared.input)
        {
            return self.ignore("what was sent is not kept, and the state would now send something else");
        }
        let key = self.key(strand);
        self.note(Note::Resolved {
            strand,
            key: key.clone(),
            resolution: resolution.kind(),
            reason: reason.clone(),
            at: Some(self.now),
        });
        // A call that may still be under way is not waited for, even if another call follows. A job under the same key
        // is the one that this call requests again.
        if !rests {
            let stops_job = outcome.is_some() && self.is_job(strand);
            self.effects.push(Effect::CancelTask { strand, key, stops_job });
        }
        if let Some(waiting) = waits(&self.draft, strand) {
            return self.settle_waiting(strand, waiting, outcome.as_ref());
        }
        let Some(outcome) = outcome else { return self.call_held_again(strand, prepared) };
        if self.reopen(strand) {
            self.answer(strand, &outcome);
        }
    }

    /// Repeats the call, because a person says so: the held attempt has failed now.
    fn call_held_again(&mut self, strand: StrandId, prepared: Option<Result<Prepared, Failure>>) {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Kind::Task(task) = &state.kind else { return };
        if let Standing::Held { fault, open: true } = self.step(strand).standing.clone() {
            let family = self.family(&machine, strand);
            self.emit(
                strand,
                match fault.error.as_deref() {
                    Some(TIMEOUT | HEARTBEAT_TIMEOUT) => {
                        EventKind::TaskTimedOut { family, fault: fault.told() }
                    }
                    _ => EventKind::TaskFailed { family, fault, certainty: Certainty::Ambiguous },
                },
            );
        }
        let sent = match prepared {
            Some(prepared) => prepared.and_then(|prepared| self.send(strand, task, prepared)),
            None => self.schedule(strand, state, task),
        };
        if let Err(failure) = sent {
            self.evaluation_failed(strand, failure);
        }
    }

    /// Makes sure that there is an attempt to answer: if none is open, one is scheduled, and does not leave. `false`:
    /// that failed, and the failure was handled.
    pub(super) fn reopen(&mut self, strand: StrandId) -> bool {
        let round = self.step(strand).round;
        self.reopen_in(strand, round)
    }

    /// The same in another round than the step's current one.
    pub(super) fn reopen_in(&mut self, strand: StrandId, round: Round) -> bool {
        let step = self.step(strand);
        match &step.standing {
            Standing::Calling { .. } | Standing::Held { open: true, .. } if step.round == round => {
                return true;
            }
            Standing::Resting { .. } => self.note(Note::Woken { strand }),
            Standing::Ready
            | Standing::Calling { .. }
            | Standing::Held { .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { .. } => {}
        }
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Kind::Task(task) = &state.kind else { return false };
        let before = self.effects.len();
        match self.schedule_in(strand, state, task, round) {
            Ok(()) => {
                self.effects.truncate(before);
                self.called.remove(&strand);
                true
            }
            Err(failure) => {
                self.evaluation_failed(strand, failure);
                false
            }
        }
    }
}
