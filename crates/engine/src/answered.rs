//! What came of a task whose token is in somebody's hands, as the Turns of its execution tell.
//!
//! An execution forgets a task when it goes on. A worker that did not hear our answer says the same again, and must
//! be told that all is well; one that says something else must not.

use crate::event::{EventKind, Fault};
use crate::id::{Secret, TaskToken};
use crate::input::Outcome;
use crate::turn::Turn;
use perdura_asl::json::Payload;

/// What is known of one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    /// No task ever had this token.
    Never,
    /// It was handed out, and nobody has answered.
    Open,
    /// Done.
    Succeeded(Payload),
    /// Its attempt failed: by its worker's word, or given up.
    Failed {
        /// Error and cause.
        fault: Fault,
        /// The step has moved on: no later attempt speaks for this task.
        round_over: bool,
    },
}

impl Answered {
    /// Looks through the Turns of the token's execution.
    pub fn find<'t>(token: &TaskToken, turns: impl IntoIterator<Item = &'t Turn>) -> Self {
        turns.into_iter().fold(Self::Never, |known, turn| known.and_then(token, turn))
    }

    /// With one more Turn. That the task was done holds for every attempt of its round; that it failed, for the one
    /// attempt that did.
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
            // A step can go back to a round.
            Self::Failed { fault, .. } => Self::Failed { fault, round_over: !is_of_the_round },
            Self::Never | Self::Succeeded(_) => self,
        }
    }

    /// Whether this outcome says what was said before.
    pub fn is(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Self::Succeeded(known), Outcome::Succeeded { output }) => known.value() == output.value(),
            (Self::Failed { fault: known, .. }, Outcome::Failed { fault, .. }) => known == fault,
            _ => false,
        }
    }
}
