//! The place of one execution in memory, what waits there for its Turn, and who is told.

use super::activities::Handing;
use super::calls::Calls;
use super::children::ParentStep;
use super::errands::Errand;
use crate::committer::rests;
use crate::message::{InputError, Reply, StartError, Started, Taken, Unavailable, View};
use crate::running::Running;
use perdura_engine::{By, EffectKey, Input, Moment, Outcome, Wake};
use perdura_store::audit::Origin;
use perdura_store::{ChildOf, MachineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// An execution's place in memory.
pub(super) struct Slot {
    pub(super) body: Body,
    /// It was set aside: it does not move until a person has decided.
    pub(super) parked: Option<Arc<str>>,
    pub(super) inbox: VecDeque<Queued>,
    pub(super) calls: Calls,
    /// What waits until its next commit is done.
    pub(super) then: Vec<Errand>,
    /// Who is shown it then.
    pub(super) shows: Vec<Reply<Option<Box<View>>>>,
    /// Of which machine it is; `None`: it cannot be read.
    pub(super) machine: Option<MachineId>,
    /// Whose child it is, if it is one.
    pub(super) child: Option<ChildOf>,
    pub(super) gate: Gate,
    /// Its machine was paused when it was last looked at: it carries out no state.
    pub(super) is_held: bool,
    /// A stop of it is on its way: it starts no more children.
    pub(super) stops: bool,
    pub(super) wake: Wake,
    pub(super) line: Line,
    pub(super) weight: Weight,
}

/// Where the execution itself is.
pub(super) enum Body {
    Here(Box<Running>),
    /// With the committer.
    Away(Away),
    /// What is stored of it cannot be read.
    Unreadable,
}

/// What is to be known of a Turn while it is being committed.
#[derive(Default)]
pub(super) struct Away {
    /// Who is told when it is done; `None`: nothing was decided.
    pub(super) told: Option<ReplyTo>,
    /// The answer to a call of this process that was decided upon.
    pub(super) answer: Option<(By, Outcome)>,
}

/// Why it may not move yet, or not far.
#[derive(Clone, Copy, Default)]
pub(super) struct Gate {
    /// Its Map Run is not here yet: until then it does not move, and must not be thought to rest.
    pub(super) awaits_run: bool,
    /// Whether its step still waits for it is being read: until then it does not move either.
    pub(super) awaits_parent: bool,
    /// Its calls are for another process to make: here it does not go further than up to the next.
    pub(super) is_anothers: bool,
}

/// Its place among those that are ready.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) is_ready: bool,
    /// Where its last Turn ended in the line of its machine.
    pub(super) place: Option<u64>,
}

/// What it takes of the node's room.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    pub(super) bytes: u64,
    /// It is among those that run.
    pub(super) is_counted: bool,
}

impl Gate {
    pub(super) fn is_open(self) -> bool {
        !self.awaits_run && !self.awaits_parent
    }
}

impl Slot {
    pub(super) fn here(running: Box<Running>) -> Self {
        let (machine, child) = (Some(running.machine), running.child);
        Self { machine, child, ..Self::with(Body::Here(running)) }
    }

    /// One of which nothing can be read.
    pub(super) fn unreadable() -> Self {
        Self::with(Body::Unreadable)
    }

    fn with(body: Body) -> Self {
        Self {
            body,
            parked: None,
            inbox: VecDeque::new(),
            calls: Calls::default(),
            then: Vec::new(),
            shows: Vec::new(),
            machine: None,
            child: None,
            gate: Gate::default(),
            is_held: false,
            stops: false,
            wake: Wake::default(),
            line: Line::default(),
            weight: Weight::default(),
        }
    }

    /// The execution, unless it is being committed.
    pub(super) fn running(&self) -> Option<&Running> {
        match &self.body {
            Body::Here(running) => Some(running),
            Body::Away(_) | Body::Unreadable => None,
        }
    }

    /// The same, if its first Turn is on disk.
    pub(super) fn begun(&self) -> Option<&Running> {
        self.running().filter(|running| running.turns > 0)
    }

    /// The same, for good.
    pub(super) fn into_running(self) -> Option<Box<Running>> {
        match self.body {
            Body::Here(running) => Some(running),
            Body::Away(_) | Body::Unreadable => None,
        }
    }

    /// Takes the execution out, to be committed.
    pub(super) fn take(&mut self) -> Option<Box<Running>> {
        match std::mem::replace(&mut self.body, Body::Away(Away::default())) {
            Body::Here(running) => Some(running),
            other => {
                self.body = other;
                None
            }
        }
    }

    /// It is back, or was not decided upon after all.
    pub(super) fn put_back(&mut self, running: Box<Running>) -> Away {
        match std::mem::replace(&mut self.body, Body::Here(running)) {
            Body::Away(away) => away,
            Body::Here(_) | Body::Unreadable => Away::default(),
        }
    }

    /// Nothing waits for it here, and no call of it is under way, or would be if this process performed.
    pub(super) fn is_idle(&self, running: &Running, performs: bool) -> bool {
        let has_no_call = performs && !self.gate.is_anothers || running.execution.calls().next().is_none();
        let may_rest = self.parked.is_none() && self.gate.is_open();
        self.inbox.is_empty() && self.calls.is_empty() && may_rest && has_no_call
    }

    /// A stop overtakes all that waits, but not what an execution begins with.
    pub(super) fn queue(&mut self, queued: Queued) {
        let begins = |first: &Queued| matches!(first.input, Input::Start | Input::Resume);
        match queued.input {
            Input::Stop { .. } => {
                self.stops = true;
                let at = usize::from(self.inbox.front().is_some_and(begins));
                self.inbox.insert(at, queued);
            }
            _ => self.inbox.push_back(queued),
        }
    }

    /// It is to be stopped, now or after it has begun.
    pub(super) fn is_stopping(&self) -> bool {
        self.inbox.iter().take(2).any(|queued| matches!(queued.input, Input::Stop { .. }))
    }

    /// The end of the call under this key is on its way to it.
    pub(super) fn has_answer(&self, key: &EffectKey) -> bool {
        let is_end = |outcome: &Outcome| !matches!(outcome, Outcome::Submitted { .. });
        let answers = |queued: &Queued| {
            matches!(&queued.input, Input::TaskOutcome { by: By::Key { key: of, .. }, outcome }
                if of == key && is_end(outcome))
        };
        self.inbox.iter().any(answers)
    }

    /// It is to be redriven.
    pub(super) fn is_redriven(&self) -> bool {
        let redrives = |queued: &Queued| matches!(queued.input, Input::Redrive | Input::RedriveOnce { .. });
        self.inbox.iter().any(redrives)
    }

    /// Its run, which wanted it to run again, ends: it does not. Whether it would have.
    pub(super) fn drop_redrive(&mut self) -> bool {
        let before = self.inbox.len();
        self.inbox.retain(|queued| !matches!(queued.input, Input::Redrive));
        self.inbox.len() < before
    }

    pub(super) fn is_ended(&self) -> bool {
        self.running().is_some_and(|running| running.execution.is_ended())
    }

    /// It only waits, and for long: it need not be in memory.
    pub(super) fn is_at_rest(&self, moment: &Moment, performs: bool) -> bool {
        let Some(running) = self.running() else { return false };
        let execution = &running.execution;
        running.turns > 0
            && self.is_idle(running, performs)
            && (self.is_held || !execution.goes_on())
            && (execution.is_ended() || rests(&[], execution.next_wake(), moment))
    }
}

/// An input on its way.
pub(super) struct Queued {
    pub(super) input: Input,
    pub(super) reply: ReplyTo,
}

/// Who is told.
pub(super) enum ReplyTo {
    Nobody,
    Taken(Reply<Result<Taken, InputError>>),
    Started(Reply<Result<Started, StartError>>),
    /// The step that started it.
    Parent(Box<ParentStep>),
    /// The worker that takes its task.
    Worker(Box<Handing>),
}

impl ReplyTo {
    /// Who asked, where somebody did.
    pub(super) fn origin(&self) -> Option<&Arc<Origin>> {
        match self {
            Self::Taken(reply) => reply.origin(),
            Self::Started(reply) => reply.origin(),
            Self::Nobody | Self::Parent(_) | Self::Worker(_) => None,
        }
    }

    pub(super) fn refuse(self, error: InputError) {
        match self {
            // A step makes its call again when it is resumed.
            Self::Nobody | Self::Parent(_) => {}
            Self::Worker(handing) => handing.refuse(match error {
                InputError::Unavailable(why) => why,
                InputError::Unknown | InputError::Parked(_) | InputError::TooMany(_) => {
                    Unavailable::Store(error.to_string().into())
                }
            }),
            Self::Taken(reply) => reply.send(Err(error)),
            Self::Started(reply) => reply.send(Err(match error {
                InputError::Unavailable(why) => StartError::Unavailable(why),
                InputError::Unknown | InputError::Parked(_) | InputError::TooMany(_) => {
                    StartError::Unavailable(Unavailable::Store(error.to_string().into()))
                }
            })),
        }
    }
}
