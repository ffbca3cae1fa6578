//! Receivers that act without saying so: they die in the middle, redirect, or end with an exit code.

use super::{Answered, Manners, Receiver, step_of};
use crate::sabotage::Sabotage;
use perdura_engine::{Call, Certainty, Fault, Outcome};

impl Receiver {
    /// An HTTP receiver that may die, before its effect or after it.
    pub(super) fn deliver_to_mortal(&mut self, call: &Call, manners: Manners) -> Option<Answered> {
        let step = step_of(call);
        let delay = self.dice.between(0..=40);
        if self.misbehaves && self.down_until.get(step).is_some_and(|until| self.now < *until) {
            return Some((delay, self.answer(None)));
        }
        if self.dice.in_thousand(manners.dies) {
            self.meet(&call.key);
            if self.dice.in_thousand(700) {
                self.apply(call);
            }
            let until = self.now + self.dice.between(500..=15_000);
            self.down_until.insert(step.into(), until);
            return self.dice.in_thousand(800).then(|| (delay, lost()));
        }
        let is_new = !self.kept.contains_key(&call.key);
        if is_new && self.dice.in_thousand(manners.refuses) {
            return Some((delay, self.refuse(call)));
        }
        let redirects = self.dice.in_thousand(manners.redirects);
        let status = *self.dice.pick(&REDIRECTS);
        if redirects && is_new && self.dice.in_thousand(300) {
            // A redirecting receiver has not acted, but that cannot be known.
            self.meet(&call.key);
            return Some((delay, self.answer(Some(status))));
        }
        let outcome = self.apply(call);
        let is_done = matches!(outcome, Outcome::Succeeded { .. });
        if redirects && is_done {
            return Some((delay, self.answer(Some(status))));
        }
        if is_done && !is_new && self.dice.in_thousand(manners.conflicts) {
            let status = *self.dice.pick(&[409, 422]);
            return Some((delay, self.answer(Some(status))));
        }
        Some((delay, outcome))
    }

    /// A local command: its exit code says nothing about its effect.
    pub(super) fn run_command(&mut self, call: &Call, manners: Manners) -> Answered {
        let takes = self.dice.between(0..=3_000);
        if self.dice.in_thousand(manners.exits) {
            self.meet(&call.key);
            if self.dice.in_thousand(600) {
                self.apply(call);
            }
            return (takes, self.exit());
        }
        if !self.kept.contains_key(&call.key) && self.dice.in_thousand(manners.refuses) {
            return (takes, self.keep(call, declined()));
        }
        (takes, self.apply(call))
    }

    /// A receiver that refuses some inputs, and remembers that.
    pub(super) fn deliver_to_picky(&mut self, call: &Call, manners: Manners) -> Answered {
        let delay = self.dice.between(0..=3_000);
        if !self.kept.contains_key(&call.key) && self.dice.in_thousand(manners.refuses) {
            return (delay, self.refuse(call));
        }
        (delay, self.apply(call))
    }

    fn refuse(&mut self, call: &Call) -> Outcome {
        let refusal = self.answer(Some(400));
        self.keep(call, refusal)
    }

    /// The outcome of an HTTP answer outside 2xx. `None`: there was no connection.
    fn answer(&self, status: Option<u16>) -> Outcome {
        let error = status.map_or_else(|| UNREACHABLE.to_owned(), |status| format!("Http.{status}"));
        let certainty = match (self.sabotage, status) {
            (Some(Sabotage::UnreachableRefuses), None)
            | (Some(Sabotage::RedirectsRefuse), Some(300..=399)) => Certainty::Refused,
            _ => Certainty::of_http(status),
        };
        Outcome::Failed { fault: Fault::new(error, "Not as it should be."), certainty }
    }

    /// The outcome of a command with an exit code, without an error name.
    fn exit(&self) -> Outcome {
        let fault = Fault::new("Runtime.ExitError", "The command ended with exit code 1.");
        let certainty = match self.sabotage {
            Some(Sabotage::ExitsRefuse) => Certainty::Refused,
            _ => UNNAMED,
        };
        Outcome::Failed { fault, certainty }
    }
}

/// The error of a call without a connection.
pub(crate) const UNREACHABLE: &str = "Http.Unreachable";

/// Redirects, of which only 303 usually follows the effect.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// The error by which commands and workers refuse.
pub(crate) const DECLINED: &str = "Declined";

/// The certainty of an error without a known name.
const UNNAMED: Certainty = Certainty::Ambiguous;

fn lost() -> Outcome {
    let fault = Fault::new("Http.Lost", "The connection was closed before the answer.");
    Outcome::Failed { fault, certainty: Certainty::Ambiguous }
}

/// A command or a worker says by name that it did nothing; its destination lists that name as a refusal.
pub(crate) fn declined() -> Outcome {
    Outcome::Failed { fault: Fault::new(DECLINED, "Not this time."), certainty: UNNAMED }
}
