//! The answer to a task with a token, from the Turns of its execution.
//!
//! An execution forgets a task when it goes on. A worker that did not get our reply repeats its answer, and must get a
//! success; a worker with another answer must not.

use crate::event::{EventKind, Fault};
use crate::id::{Secret, TaskToken};
use crate::input::Outcome;
use crate::turn::Turn;
use perdura_asl::json::Payload;

/// The state of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    /// No task ever had this token.
    Never,
    /// It was handed out, and not answered.
    Open,
    /// Done.
    Succeeded(Payload),
    /// Its attempt failed: its worker said so, or it was given up.
    Failed {
        /// Error and cause.
        fault: Fault,
        /// The step has moved on: no later attempt answers for this task.
        round_over: bool,
    },
}

impl Answered {
    /// Searches the Turns of the token's execution.
    pub fn find<'t>(token: &TaskToken, turns: impl IntoIterator<Item = &'t Turn>) -> Self {
        turns.into_iter().fold(Self::Never, |known, turn| known.and_then(token, turn))
    }

    /// Adds one more Turn. A success holds for every attempt of its round; a failure only for its own attempt.
    #[must_use]
    pub fn and_then(mut self, token: &TaskToken, turn: &Turn) -> Self {
        for event in turn.events().filter(|event| event.strand == token.strand) {
            match &event.kind {
                EventKind::TaskScheduled(scheduled) => {
                    self = self.after_schedule(token.secret, scheduled.secret);
                }
                EventKind::TaskSucceeded { output, .. } => match self {
                    Self::Open | Self::Failed { round_over: false, .. } => {
                        self = Self::Succeeded(output.clone());
                    }
                    Self::Never | Self::Failed { .. } | Self::Succeeded(_) => {}
                },
                EventKind::TaskFailed { fault, .. } | EventKind::TaskTimedOut { fault, .. }
                    if self == Self::Open =>
                {
                    self = Self::Failed { fault: fault.clone(), round_over: false };
                }
                _ => {}
            }
        }
        self
    }

    fn after_schedule(self, own: Secret, scheduled: Option<Secret>) -> Self {
        if scheduled == Some(own) {
            return Self::Open;
        }
        let is_of_the_round = scheduled.is_some_and(|secret| secret.is_of_the_round_of(own));
        match self {
            Self::Open => Self::Failed { fault: Fault::default(), round_over: !is_of_the_round },
            // A step can return to a round.
            Self::Failed { fault, .. } => Self::Failed { fault, round_over: !is_of_the_round },
            Self::Never | Self::Succeeded(_) => self,
        }
    }

    /// Whether this outcome equals the earlier one.
    pub fn is(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Self::Succeeded(known), Outcome::Succeeded { output }) => known.value() == output.value(),
            (Self::Failed { fault: known, .. }, Outcome::Failed { fault, .. }) => known == fault,
            _ => false,
        }
    }
}
