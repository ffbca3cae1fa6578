//! The place of one execution in memory, what waits there for its Turn, and who is told.

use super::LiveCall;
use super::activities::Handing;
use super::children::ParentStep;
use super::errands::Errand;
use crate::committer::rests;
use crate::message::{InputError, Reply, StartError, Started, Taken, Unavailable, View};
use crate::running::Running;
use perdura_engine::{Attempt, By, EffectKey, Input, Moment, Outcome, StrandId, Wake};
use perdura_store::audit::Origin;
use perdura_store::record::Begun;
use perdura_store::{ChildOf, MachineId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// An execution's place in memory.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not whatever the others are")]
pub(super) struct Slot {
    /// `None` while it is being committed.
    pub(super) running: Option<Box<Running>>,
    pub(super) begun: Option<Box<Begun>>,
    pub(super) inbox: VecDeque<Queued>,
    /// Of which machine it is; `None`: it cannot be read.
    pub(super) machine: Option<MachineId>,
    /// Whose child it is, if it is one.
    pub(super) child: Option<ChildOf>,
    /// Its Map Run is not here yet: until then it does not move, and must not be thought to rest.
    pub(super) awaits_run: bool,
    /// Whether its step still waits for it is being read: until then it does not move either.
    pub(super) awaits_parent: bool,
    /// Who is told when the commit under way is done.
    pub(super) told: Option<ReplyTo>,
    pub(super) shows: Vec<Reply<Option<Box<View>>>>,
    /// What waits until the commit under way is done.
    pub(super) then: Vec<Errand>,
    /// Calls that this process makes, until their answer is decided upon: a Turn before that must not repeat them.
    pub(super) live: BTreeSet<LiveCall>,
    /// The answer to such a call whose Turn is being committed.
    pub(super) answer: Option<(By, Outcome)>,
    /// Children that are being started, until that is decided upon.
    pub(super) starting: BTreeSet<(StrandId, EffectKey)>,
    /// A stop of it is on its way: it starts no more children.
    pub(super) stops: bool,
    pub(super) wake: Wake,
    pub(super) is_ready: bool,
    /// Where its last Turn ended in the line of its machine.
    pub(super) place: Option<u64>,
    /// What it weighs.
    pub(super) bytes: u64,
    /// It is among those that run.
    pub(super) is_counted: bool,
    /// Its calls are for another process to make: here it does not go further than up to the next.
    pub(super) is_anothers: bool,
    pub(super) parked: Option<Arc<str>>,
}

impl Slot {
    /// Nothing waits for it here, and no call of it is under way, or would be if this process performed.
    pub(super) fn is_idle(&self, running: &Running, performs: bool) -> bool {
        let has_no_call = performs && !self.is_anothers || running.execution.calls().next().is_none();
        let nothing_leaves = self.live.is_empty() && self.starting.is_empty();
        let may_rest = self.parked.is_none() && !self.awaits_run && !self.awaits_parent;
        self.inbox.is_empty() && nothing_leaves && may_rest && has_no_call
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

    /// Whether this process makes the call that this answers.
    pub(super) fn is_live(&self, by: &By) -> bool {
        match by {
            By::Key { strand, key, attempt: Some(attempt) } => {
                self.live.contains(&(*strand, key.clone(), *attempt))
            }
            _ => false,
        }
    }

    /// A call is not under way any more.
    pub(super) fn answered(&mut self, by: &By) {
        let By::Key { strand, key, attempt } = by else { return };
        // Not all of them are looked at: a Map may have tens of thousands.
        if let Some(attempt) = attempt {
            self.live.remove(&(*strand, key.clone(), *attempt));
        } else {
            let first = (*strand, key.clone(), Attempt(0));
            let is_its = |(of, under, _): &&LiveCall| (of, under) == (strand, key);
            let its: Vec<LiveCall> = self.live.range(first..).take_while(is_its).cloned().collect();
            for call in &its {
                self.live.remove(call);
            }
        }
        if !self.starting.is_empty() {
            self.starting.remove(&(*strand, key.clone()));
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.execution.is_ended())
    }

    /// It only waits, and for long: it need not be in memory.
    pub(super) fn is_at_rest(&self, moment: &Moment, performs: bool) -> bool {
        let Some(running) = &self.running else { return false };
        let execution = &running.execution;
        running.turns > 0
            && self.is_idle(running, performs)
            && !execution.goes_on()
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
