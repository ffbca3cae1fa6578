//! Nobody knows whether a call was performed, and it may not be repeated: the step is held until a person, or a
//! late answer, says how it went.
//!
//! That is so where the destination's policy says `hold`, and where its receiver may have forgotten the key by the
//! time of the next attempt. The step has not failed, so the history says nothing yet.

use super::Turning;
use crate::destination::{Policy, Uncertain};
use crate::effect::Effect;
use crate::event::{EventKind, Fault};
use crate::id::StrandId;
use crate::input::{By, Certainty, Outcome, Resolution};
use crate::strand::Standing;
use crate::turn::{LedgerStatus, Note};
use perdura_asl::error::{HEARTBEAT_TIMEOUT, TIMEOUT};
use perdura_asl::machine::Kind;
use std::sync::Arc;

impl Turning<'_> {
    /// The call ended, and nobody knows how: is the step held rather than failed?
    pub(super) fn holds_after(&self, strand: StrandId, fault: &Fault) -> bool {
        let policy = self.policy(strand);
        match policy.uncertain {
            Uncertain::Hold => true,
            Uncertain::Retry => self
                .longest_pause(strand, fault)
                .is_some_and(|pause| self.is_forgotten(strand, policy, pause)),
        }
    }

    /// The call is about to be repeated in its round: is the step held instead?
    pub(super) fn holds_again(&self, strand: StrandId) -> bool {
        let step = self.step(strand);
        if step.sent.as_ref().is_none_or(|sent| sent.round != step.round) {
            return false;
        }
        let policy = self.policy(strand);
        policy.uncertain == Uncertain::Hold || self.is_forgotten(strand, policy, 0)
    }

    fn policy(&self, strand: StrandId) -> Policy {
        let machine = self.machine();
        let (Kind::Task(task), Some(sent)) = (&self.state(&machine, strand).kind, &self.step(strand).sent)
        else {
            return Policy::default();
        };
        self.draft.base.policies.policy(&task.resource, sent)
    }

    /// Whether the receiver may have forgotten the key by then. Of two clocks the later one is believed.
    fn is_forgotten(&self, strand: StrandId, policy: Policy, pause_ms: i64) -> bool {
        let then = self.now.max(self.moment.steady).after_ms(pause_ms);
        self.step(strand).sent.as_ref().is_some_and(|sent| then > sent.at.after_ms(policy.key_memory_ms))
    }

    /// The step is held. Its call, if it is still under way, may yet answer; so may whoever has its token.
    pub(super) fn hold(&mut self, strand: StrandId, fault: Fault) {
        let key = self.key(strand);
        self.note(Note::Ledger { strand, key: key.clone(), status: LedgerStatus::Uncertain });
        self.note(Note::Held { strand, key, fault });
    }

    /// Held before it is called again; what is known of its key is on record already.
    pub(super) fn hold_again(&mut self, strand: StrandId) {
        let key = self.key(strand);
        let cause = "An earlier call under this key may have been performed, and may not be repeated.";
        self.note(Note::Held { strand, key, fault: Fault::new("Perdura.Uncertain", cause) });
    }

    /// Held because the process that called is gone.
    pub(super) fn hold_interrupted(&mut self, strand: StrandId) {
        let cause = "The process that made this call ended before the answer was on record.";
        self.hold(strand, Fault::new("Perdura.Interrupted", cause));
    }

    /// An answer to a held step. What leaves it in doubt changes nothing.
    pub(super) fn settle_held(&mut self, strand: StrandId, outcome: &Outcome) {
        match outcome {
            Outcome::Failed { certainty: Certainty::Ambiguous, .. }
            | Outcome::SubmitFailed { certainty: Certainty::Ambiguous, .. }
            | Outcome::Submitted { .. } => {
                self.ignore("the step is held, and this answer leaves it in doubt");
            }
            Outcome::Succeeded { .. }
            | Outcome::NotStarted { .. }
            | Outcome::Failed { certainty: Certainty::Refused, .. }
            | Outcome::SubmitFailed { certainty: Certainty::Refused, .. } => {
                if self.reopen(strand) {
                    self.answer(strand, outcome);
                }
            }
        }
    }

    /// A person says how it went.
    pub(super) fn resolve(&mut self, by: &By, resolution: &Resolution, reason: &Arc<str>) {
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
            (Standing::Calling { .. }, Resolution::Again) => return self.ignore("the call is under way"),
            (Standing::Resting { .. }, Resolution::Again) => {
                return self.ignore("the call is made again by itself");
            }
            (Standing::Held { .. }, Resolution::Again) => None,
            (_, Resolution::Completed { output }) => Some(Outcome::Succeeded { output: output.clone() }),
            (_, Resolution::Failed { fault }) => {
                Some(Outcome::Failed { fault: fault.clone(), certainty: Certainty::Refused })
            }
        };
        let rests = matches!(step.standing, Standing::Resting { .. });
        let key = self.key(strand);
        self.note(Note::Resolved {
            strand,
            key: key.clone(),
            resolution: resolution.kind(),
            reason: reason.clone(),
        });
        // What may still be under way is not waited for, also where another call follows. A job under the same key is
        // the one that this call asks for again.
        if !rests {
            let stops_job = outcome.is_some() && self.is_job(strand);
            self.effects.push(Effect::CancelTask { strand, key, stops_job });
        }
        let Some(outcome) = outcome else { return self.call_held_again(strand) };
        if self.reopen(strand) {
            self.answer(strand, &outcome);
        }
    }

    /// The same call again, because a person says so: the attempt that was held has failed now.
    fn call_held_again(&mut self, strand: StrandId) {
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
        if let Err(failure) = self.schedule(strand, state, task) {
            self.evaluation_failed(strand, failure);
        }
    }

    /// Makes sure that there is an attempt to be answered: where none is open, it is scheduled, and does not leave.
    /// `false`: that failed, and has been dealt with.
    pub(super) fn reopen(&mut self, strand: StrandId) -> bool {
        match &self.step(strand).standing {
            Standing::Calling { .. } | Standing::Held { open: true, .. } => return true,
            Standing::Resting { .. } => self.note(Note::Woken { strand }),
            Standing::Ready
            | Standing::Held { open: false, .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { .. } => {}
        }
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Kind::Task(task) = &state.kind else { return false };
        let before = self.effects.len();
        match self.schedule(strand, state, task) {
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
