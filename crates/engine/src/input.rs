//! What can reach an execution.

use crate::event::Fault;
use crate::id::{Attempt, EffectKey, StrandId, TaskToken};
use crate::map_run::MapRunOutcome;
use crate::turn::Resolved;
use perdura_asl::json::Payload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything that happens to an execution. There is no second way in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// Begin.
    Start,
    /// The last Turn reached its bound with work left; go on.
    Continue,
    /// A worker took the task (activities).
    TaskStarted {
        /// Which task.
        by: By,
        /// The worker's name.
        worker: Option<Arc<str>>,
    },
    /// A task's answer.
    TaskOutcome {
        /// Which task.
        by: By,
        /// The answer.
        outcome: Outcome,
    },
    /// A sign of life from a worker.
    Heartbeat {
        /// Which task.
        by: By,
    },
    /// A Map Run ended.
    ChildOutcome {
        /// Which Map.
        by: By,
        /// What came of it.
        outcome: MapRunOutcome,
    },
    /// The time that [`crate::Effect::SetTimer`] asked for has come. Early or stale ones do no harm.
    Timer,
    /// The process that performed this execution's effects is gone: what is under way is to be told again. It does
    /// no harm to ask twice.
    Resume,
    /// Somebody knows how a call went that is held, or that is under way.
    Resolve {
        /// Which task.
        by: By,
        /// How it went.
        resolution: Resolution,
        /// How they know, for the record.
        reason: Arc<str>,
    },
    /// Somebody ends the execution.
    Stop {
        /// Why, as a name and a sentence.
        fault: Fault,
    },
    /// Somebody runs the unsuccessful part of an ended execution again.
    Redrive,
    /// The same, under a token: said again with the same token it is the same redrive, and changes nothing.
    RedriveOnce {
        /// Chosen by whoever asks.
        token: Arc<str>,
    },
}

/// How a task is addressed: by the strand and key that its Effect carried, or by its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum By {
    /// By key.
    Key {
        strand: StrandId,
        /// The key under which it was performed.
        key: EffectKey,
        /// The attempt that answers; absent: whoever speaks for the step as a whole, as a person or a Map Run does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
    },
    /// By token.
    Token(TaskToken),
}

impl By {
    /// The strand that is meant.
    pub fn strand(&self) -> StrandId {
        match self {
            Self::Key { strand, .. } => *strand,
            Self::Token(token) => token.strand,
        }
    }

    /// The key of the step that is meant, where it is named by that.
    pub(crate) fn key(&self) -> Option<&EffectKey> {
        match self {
            Self::Key { key, .. } => Some(key),
            Self::Token(_) => None,
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Done, with its result.
    Succeeded { output: Payload },
    /// Not done, or nobody knows.
    Failed {
        /// Error and cause, as Retry and Catch see them.
        fault: Fault,
        /// Whether the receiver certainly did nothing.
        certainty: Certainty,
    },
    /// Nothing could be called: no such activity, no worker can be started.
    NotStarted {
        /// Error and cause.
        fault: Fault,
        /// Whether it got as far as being scheduled.
        scheduled: bool,
    },
    /// A job or callback was handed over; its end is still to come.
    Submitted {
        /// What the service answered.
        output: Payload,
    },
    /// A job or callback could not be handed over.
    SubmitFailed {
        /// Error and cause.
        fault: Fault,
        /// Whether the receiver certainly did nothing.
        certainty: Certainty,
    },
}

/// How a person ends a hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Resolution {
    /// It was performed, with this result.
    Completed { output: Payload },
    /// It was certainly not performed: Retry and Catch see this, and the next attempt gets a new round.
    Failed {
        /// Error and cause.
        fault: Fault,
    },
    /// It is to be called again, under the same key and with the same bytes. Where the attempt that is held is named, a second
    /// copy changes nothing.
    Again,
}

impl Resolution {
    /// Which of the three.
    pub fn kind(&self) -> Resolved {
        match self {
            Self::Completed { .. } => Resolved::Completed,
            Self::Failed { .. } => Resolved::Failed,
            Self::Again => Resolved::Again,
        }
    }
}

/// What a failed attempt says about the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Certainty {
    /// The receiver itself said no, under this key: the next attempt gets a new round, and so a new key.
    Refused,
    /// This attempt certainly did nothing: it never reached the receiver. Of earlier attempts under the key it says
    /// nothing, so a doubt that they left stays.
    NotSent,
    /// Perhaps performed: the next attempt repeats the same bytes under the same key.
    Ambiguous,
}

impl Certainty {
    /// The one table of what an HTTP answer outside 2xx means. `None` as status: the connection was never made.
    /// A redirect may follow the deed, as 303 does; a 409 or 422 may say "already done"; 408, 425 and 429 may come
    /// from something between us and the receiver.
    pub fn of_http(status: Option<u16>) -> Self {
        match status {
            None => Self::NotSent,
            Some(400..=407 | 410..=421 | 423..=424 | 426..=428 | 430..=499) => Self::Refused,
            Some(_) => Self::Ambiguous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_by_the_receiver_moves_the_round_on() {
        for refused in [400, 401, 403, 404, 410, 451] {
            assert_eq!(Certainty::of_http(Some(refused)), Certainty::Refused, "{refused}");
        }
        for ambiguous in [100, 300, 301, 303, 307, 308, 408, 409, 422, 425, 429, 500, 502, 503, 504, 599] {
            assert_eq!(Certainty::of_http(Some(ambiguous)), Certainty::Ambiguous, "{ambiguous}");
        }
        assert_eq!(Certainty::of_http(None), Certainty::NotSent, "nobody listens");
    }
}
