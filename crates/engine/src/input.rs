//! The inputs of an execution.

use crate::event::Fault;
use crate::id::{Attempt, EffectKey, StrandId, TaskToken};
use crate::map_run::MapRunOutcome;
use crate::turn::Resolved;
use perdura_asl::json::Payload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything that happens to an execution. There is no other way in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// Begin.
    Start,
    /// The last Turn reached its limit with work left; continue.
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
    /// A worker's heartbeat.
    Heartbeat {
        /// Which task.
        by: By,
    },
    /// A Map Run ended.
    ChildOutcome {
        /// Which Map.
        by: By,
        outcome: MapRunOutcome,
    },
    /// The time of [`crate::Effect::SetTimer`] has come. Early or stale ones do no harm.
    Timer,
    /// The process that performed this execution's effects is gone: repeat the effects under way. It does no harm to
    /// send it twice.
    Resume,
    /// A person resolves a call that is held, or under way.
    Resolve {
        /// Which task.
        by: By,
        resolution: Resolution,
        /// The reason, for the record.
        reason: Arc<str>,
    },
    /// Stop the execution.
    Stop {
        /// Why, as a name and a sentence.
        fault: Fault,
    },
    /// Run the unsuccessful part of an ended execution again.
    Redrive,
    /// The same, under a token: repeated with the same token it is the same redrive, and changes nothing.
    RedriveOnce {
        /// Chosen by the client.
        token: Arc<str>,
    },
}

/// The address of a task: the strand and key of its Effect, or its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum By {
    /// By key.
    Key {
        strand: StrandId,
        /// The key of the call.
        key: EffectKey,
        /// The answering attempt; absent: the answer is for the step as a whole, from a person or a Map Run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
    },
    /// By token.
    Token(TaskToken),
}

impl By {
    /// The addressed strand.
    pub fn strand(&self) -> StrandId {
        match self {
            Self::Key { strand, .. } => *strand,
            Self::Token(token) => token.strand,
        }
    }

    /// The key of the addressed step, if it is addressed by key.
    pub(crate) fn key(&self) -> Option<&EffectKey> {
        match self {
            Self::Key { key, .. } => Some(key),
            Self::Token(_) => None,
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Done, with its result.
    Succeeded { output: Payload },
    /// Not done, or unknown.
    Failed {
        /// Error and cause, for Retry and Catch.
        fault: Fault,
        /// Whether the receiver certainly did nothing.
        certainty: Certainty,
    },
    /// It could not be called: no such activity, or the worker cannot be started.
    NotStarted {
        /// Error and cause.
        fault: Fault,
        /// Whether it was scheduled before.
        scheduled: bool,
    },
    /// A job or callback was handed over; its end comes later.
    Submitted {
        /// The service's answer.
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

/// A person's verdict on a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Resolution {
    /// It was performed, with this result.
    Completed { output: Payload },
    /// It was certainly not performed: Retry and Catch see this fault, and the next attempt gets a new round.
    Failed {
        /// Error and cause.
        fault: Fault,
    },
    /// Call it again, under the same key and with the same bytes. If the held attempt is named, a second copy changes
    /// nothing.
    Again,
}

impl Resolution {
    /// Which of the three it is.
    pub fn kind(&self) -> Resolved {
        match self {
            Self::Completed { .. } => Resolved::Completed,
            Self::Failed { .. } => Resolved::Failed,
            Self::Again => Resolved::Again,
        }
    }
}

/// The meaning of a failed attempt for its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Certainty {
    /// The receiver itself refused, under this key: the next attempt gets a new round, and so a new key.
    Refused,
    /// This attempt certainly did nothing: it never reached the receiver. It says nothing about earlier attempts under
    /// the key, so their doubt stays.
    NotSent,
    /// Perhaps performed: the next attempt repeats the same bytes under the same key.
    Ambiguous,
}

impl Certainty {
    /// The meaning of an HTTP answer outside 2xx. `None` as status: there was no connection. A redirect may follow the
    /// effect, as 303 does; a 409 or 422 may mean "already done"; 408, 425 and 429 may come from a proxy in between.
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
