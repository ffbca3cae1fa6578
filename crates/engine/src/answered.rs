//! What came of a task whose token is in somebody's hands, as the Turns of its execution tell.
//!
//! An execution forgets a task when it goes on. A worker that did not hear our answer says the same again, and must
//! be told that all is well; one that says something else must not.

use crate::event::{EventKind, Fault};
use crate::id::TaskToken;
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
    /// Not done: by its worker's word, or given up.
    Failed(Fault),
}

impl Answered {
    /// Looks through the Turns of the token's execution.
    pub fn find<'t>(token: &TaskToken, turns: impl IntoIterator<Item = &'t Turn>) -> Self {
        turns.into_iter().fold(Self::Never, |known, turn| known.and_then(token, turn))
    }

    /// With one more Turn.
    #[must_use]
    pub fn and_then(mut self, token: &TaskToken, turn: &Turn) -> Self {
        for event in turn.events().filter(|event| event.strand == token.strand) {
            match &event.kind {
                EventKind::TaskScheduled(scheduled) if scheduled.secret == Some(token.secret) => {
                    self = Self::Open;
                }
                EventKind::TaskSucceeded { output, .. } if self == Self::Open => {
                    self = Self::Succeeded(output.clone());
                }
                EventKind::TaskFailed { fault, .. } | EventKind::TaskTimedOut { fault, .. }
                    if self == Self::Open =>
                {
                    self = Self::Failed(fault.clone());
                }
                _ => {}
            }
        }
        self
    }

    /// Whether this outcome says what was said before.
    pub fn is(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Self::Succeeded(known), Outcome::Succeeded { output }) => known.value() == output.value(),
            (Self::Failed(known), Outcome::Failed { fault, .. }) => known == fault,
            _ => false,
        }
    }
}
