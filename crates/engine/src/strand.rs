//! One line of control of an execution, and the state of its step.

use crate::event::Fault;
use crate::id::{
    Attempt, Digest, EffectKey, ExecutionId, Round, Secret, Seq, StepPlace, StrandId, TaskToken, Timestamp,
    Wake,
};
use crate::input::Certainty;
use crate::turn::is_false;
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::{FlowIx, Machine, StateIx};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One line of control: the machine itself, a branch of a Parallel, an iteration of a Map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strand {
    /// The strand around it, and its index there.
    pub parent: Option<(StrandId, u32)>,
    pub flow: FlowIx,
    /// Its place in Map and Parallel, for keys: `[3]`, `[2:3][0]`.
    pub place: Arc<str>,
    /// The input of its first state.
    pub input: Payload,
    /// Its variables; outer ones belong to its parents. Shared until one is set.
    pub variables: Arc<BTreeMap<Arc<str>, Payload>>,
    /// Its last event, from which the next one follows.
    pub last: Seq,
    /// Its current step; `None` before the first state and after the last.
    pub step: Option<Step>,
}

/// One visit of a strand to a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub state: StateIx,
    /// Its raw input.
    pub input: Payload,
    /// The event that entered it.
    pub entered: Seq,
    /// The event before that.
    pub entered_after: Seq,
    /// When it was entered.
    pub entered_at: Timestamp,
    /// The same instant by the steady clock, if that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered_steady: Option<Timestamp>,
    /// How often its branches or iterations were begun.
    pub runs: u32,
    /// Retries so far, by retrier.
    pub retries: BTreeMap<u32, u64>,
    pub round: Round,
    /// The last call, with its round: the same round sends the same again.
    pub sent: Option<Sent>,
    /// The call of another round, while the step may yet return to it: of the refused round, until a call leaves under
    /// the next key; of a round that no worker took, once the step has gone back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<Box<Sent>>,
    /// The task's result, if only its use failed: then it is used again, and the task is not called.
    pub result: Option<Payload>,
    /// The Map Run that it has started: a retry takes it up again, with its existing children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_run: Option<MapRunId>,
    /// The task's result in an earlier run of the Parallel or Map around it: used if the call may not be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Payload>,
    pub standing: Standing,
}

impl Step {
    /// Whether its call is held and not resolved.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.standing, Standing::Held { .. }) && self.sent.as_ref().is_some_and(Sent::is_in_doubt)
    }

    /// Whether this round has sent bytes that were too large to keep.
    pub(crate) fn has_lost_bytes(&self) -> bool {
        self.sent_in(self.round).is_some_and(|sent| sent.lost.is_some())
    }

    /// The call of this round, if it is still known.
    pub(crate) fn sent_in(&self, round: Round) -> Option<&Sent> {
        self.sent.iter().chain(self.aside.as_deref()).find(|sent| sent.round == round)
    }

    /// Whether nothing was begun since this round was refused: the next call has not been made, no worker has taken it,
    /// or it never reached its receiver.
    pub(crate) fn can_go_back_to(&self, round: Round) -> bool {
        let Some(sent) = &self.sent else { return false };
        let is_begun = match &self.standing {
            Standing::Ready | Standing::Resting { retry: true, .. } => sent.is_in_doubt(),
            Standing::Calling { started, .. } => *started || sent.doubt,
            Standing::Resting { retry: false, .. }
            | Standing::Held { .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { .. } => true,
        };
        !is_begun && self.result.is_none() && self.round > round && self.sent_in(round).is_some()
    }

    /// A call may have begun under the key: the step can no longer return to an earlier one.
    pub(crate) fn has_gone_out(&mut self) {
        let round = self.round;
        self.aside.take_if(|aside| aside.round < round);
    }

    /// All retries so far: `$$.State.RetryCount`.
    pub fn retry_count(&self) -> u64 {
        self.retries.values().sum()
    }
}

/// The last attempt of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is said by somebody else, at another time")]
pub struct Sent {
    pub round: Round,
    /// The attempt of the round.
    #[serde(default)]
    pub attempt: Attempt,
    /// When the round was first sent by an attempt that may have been performed.
    pub at: Timestamp,
    /// The bytes, unless they are lost.
    pub input: Payload,
    /// The bytes were too many to keep: the next attempt makes them anew, and this digest shows whether they are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Digest>,
    /// The secret of its token.
    pub secret: Option<Secret>,
    /// `Credentials`, evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Payload>,
    /// An attempt that was given up had begun a child or a job. If the child does not exist any more, it has ended and
    /// was swept, and must not begin anew.
    #[serde(default, skip_serializing_if = "is_false")]
    pub submitted: bool,
    /// How it ended, if it failed.
    pub failed: Option<Certainty>,
    /// An earlier attempt of the round may have been performed. Only a success, a refusal by the receiver under the
    /// key, or a person ends that; the result of a later attempt does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub doubt: bool,
    /// A late success says that it was performed in this round, which another worker had refused. Only a success or a
    /// person ends that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub said_done: bool,
    /// A late success says that an earlier round was performed after all: then no other key follows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub contradicted: bool,
    /// A person said: again. The next attempt is made whatever the policy is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub again: bool,
}

impl Sent {
    /// The same without its bytes.
    pub(crate) fn without_bytes(self) -> Self {
        let lost = self.lost.or_else(|| Some(Digest::of(&self.input)));
        Self { input: Value::Null.into(), lost, ..self }
    }

    /// The number of bytes kept of it.
    pub(crate) fn bytes(&self) -> usize {
        if self.lost.is_some() { 0 } else { self.input.len() }
    }

    /// Whether the effect may have been performed in this round, by this attempt or an earlier one, and that is
    /// unknown.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt
            || match self.failed {
                None | Some(Certainty::Ambiguous) => true,
                Some(Certainty::Refused | Certainty::NotSent) => false,
            }
    }

    /// A late success says that a failed round of the step was performed: this one, the one aside, or an earlier one.
    /// `returns`: if nothing was begun under a later key, nothing will be.
    pub(crate) fn contradict(&mut self, mut aside: Option<&mut Self>, round: Round, returns: bool) {
        if let Some(aside) = aside.as_deref_mut()
            && returns
            && aside.round == round
            && !self.is_in_doubt()
        {
            std::mem::swap(self, aside);
        }
        if self.round > round {
            self.contradicted = true;
        } else {
            self.doubt = true;
        }
        for meant in [Some(self), aside].into_iter().flatten().filter(|sent| sent.round == round) {
            (meant.doubt, meant.said_done) = (true, true);
        }
    }

    /// Whether the receiver has refused this round for good. Only then may the next attempt have another key.
    pub(crate) fn is_refused(&self) -> bool {
        !self.doubt && !self.contradicted && self.failed == Some(Certainty::Refused)
    }
}

/// The state of a Step. Each variant has only the data that is valid in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Standing {
    /// Entered, or about to be tried again.
    Ready,
    /// A call is under way.
    Calling {
        /// It left; for an activity: a worker has taken it.
        started: bool,
        /// A job or callback was handed over: its token was given out, and it is not repeated.
        #[serde(default, skip_serializing_if = "is_false")]
        submitted: bool,
        /// Its time limit.
        timeout: Option<Clock>,
        /// Its heartbeat timeout.
        heartbeat: Option<Clock>,
    },
    /// A Wait, or a pause before a retry.
    Resting {
        /// The end, by the steady clock unless `wall` is set.
        until: Timestamp,
        /// It is a retry.
        retry: bool,
        /// It waits for a timestamp, and so for the wall clock.
        #[serde(default, skip_serializing_if = "is_false")]
        wall: bool,
    },
    /// The outcome of its call is unknown: a person decides, or a late answer.
    Held {
        /// The fault of the call.
        fault: Fault,
        /// The history has an attempt that has not ended.
        open: bool,
    },
    /// Branches or iterations run.
    Fanning(Run),
    /// Children of a Distributed Map run.
    MapRunning {
        /// The run's ARN.
        arn: Arc<str>,
        /// When it began.
        #[serde(default)]
        began_at: Timestamp,
        /// Its children do not run: it has ended, or was stopped; a redrive takes it up again.
        over: bool,
        /// When a redrive or a retry has taken it up: only the children that did not succeed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redriven_at: Option<Timestamp>,
    },
}

impl Standing {
    /// Its call has begun a child or a job, and waits for its end.
    pub(crate) fn is_submitted(&self) -> bool {
        matches!(self, Self::Calling { submitted: true, .. })
    }

    /// The certainty of an attempt without an answer: a task that no worker has taken was certainly not performed.
    pub(crate) fn unanswered(&self) -> Certainty {
        match self {
            Self::Calling { started: false, .. } => Certainty::NotSent,
            _ => Certainty::Ambiguous,
        }
    }
}

/// One run of a Distributed Map. Its random values follow from these two fields, so that the same run always has the
/// same order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapRunId {
    pub arn: Arc<str>,
    /// When it began.
    pub began_at: Timestamp,
}

/// A time limit, by the steady clock. An activity's begins when a worker takes it, every other when the call leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    pub seconds: u64,
    /// Its end, once it runs.
    pub until: Option<Timestamp>,
}

impl Clock {
    pub(crate) fn start(&mut self, now: Timestamp) {
        self.until = Some(now.after_seconds(self.seconds));
    }
}

/// A running Parallel or inline Map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How many branches or items in all.
    pub total: u32,
    /// How many at once.
    pub at_once: u32,
    /// The next to start.
    pub next: u32,
    /// How many succeeded.
    pub done: u32,
    /// The running ones, by index.
    pub live: BTreeMap<u32, StrandId>,
    /// The items of a Map; the common input of a Parallel.
    pub items: Payload,
    /// It failed with this, and runs again once the held calls in it are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Fault>,
}

impl Strand {
    /// When it must be woken.
    pub(crate) fn wakes(&self) -> Wake {
        let Some(step) = &self.step else { return Wake::default() };
        match &step.standing {
            Standing::Resting { until, wall: true, .. } => Wake { steady: None, wall: Some(*until) },
            Standing::Resting { until, wall: false, .. } => Wake { steady: Some(*until), wall: None },
            Standing::Calling { timeout, heartbeat, .. } => {
                let clocks = [timeout, heartbeat].into_iter().flatten();
                Wake { steady: clocks.filter_map(|clock| clock.until).min(), wall: None }
            }
            Standing::Ready | Standing::Held { .. } | Standing::Fanning(_) | Standing::MapRunning { .. } => {
                Wake::default()
            }
        }
    }

    pub(crate) fn key(&self, execution: ExecutionId, machine: &Machine, visit: u32) -> Option<EffectKey> {
        let step = self.step.as_ref()?;
        Some(EffectKey::new(execution, &self.step_place(step, machine, visit), step.round))
    }

    /// The place of its step, the same in every round.
    pub(crate) fn step_place<'a>(&'a self, step: &Step, machine: &'a Machine, visit: u32) -> StepPlace<'a> {
        StepPlace { state: &machine.state(step.state).name, place: &self.place, visit }
    }

    /// The token of its running attempt.
    pub(crate) fn token(&self, execution: ExecutionId, strand: StrandId) -> Option<TaskToken> {
        let secret = self.step.as_ref()?.sent.as_ref()?.secret?;
        Some(TaskToken { execution, strand, secret })
    }
}
