//! Child executions of a step: `arn:aws:states:::states:startExecution` in its three patterns.
//!
//! A child's id follows from the key of the step that starts it. So a start that is made again, by a step that is
//! repeated or by a process that knows nothing of the first, finds the child that is there. Where a name was given and
//! somebody else has started the same under it, that one is the child.

use super::start::NewExecution;
use super::{Errand, Node, ReplyTo, Watcher};
use crate::message::{Ending, InputError, Unavailable};
use crate::naming::{Chosen, NamingOf, Qualified, Via};
use crate::running::Unreadable;
use perdura_engine::asl::error::{RUNTIME, TASK_FAILED};
use perdura_engine::asl::json::Payload;
use perdura_engine::nested::{Asked, Wait, refused};
use perdura_engine::{
    Attempt, By, Call, Certainty, EffectKey, Execution, ExecutionId, Fault, Identity, Input, Moment, Outcome,
    StrandId,
};
use perdura_store::{Failure, Shard};

/// A step that has started a child.
#[derive(Clone, Debug)]
pub(super) struct ParentStep {
    pub(super) execution: ExecutionId,
    pub(super) strand: StrandId,
    pub(super) key: EffectKey,
    attempt: Attempt,
    wait: Wait,
    arguments: Payload,
}

impl ParentStep {
    fn of(execution: ExecutionId, call: &Call) -> Option<Self> {
        let wait = Wait::of(&call.resource.target)?;
        let (key, attempt, arguments) = (call.key.clone(), call.attempt, call.input.clone());
        Some(Self { execution, strand: call.strand, key, attempt, wait, arguments })
    }

    fn waits_for_the_end(&self) -> bool {
        self.wait.is_for_the_end()
    }

    fn answer(self, outcome: Outcome) -> Errand {
        let by = By::Key { strand: self.strand, key: self.key, attempt: Some(self.attempt) };
        let input = Input::TaskOutcome { by, outcome };
        Errand::Input { execution: self.execution, input, reply: ReplyTo::Nobody }
    }
}

/// A child to be started.
pub(super) struct ChildOrder {
    step: ParentStep,
    asked: Result<Asked, Fault>,
}

impl ChildOrder {
    /// The execution whose step it is.
    pub(super) fn parent(&self) -> ExecutionId {
        self.step.execution
    }

    /// What a call asks for, if it asks for a child.
    pub(super) fn of(parent: &Identity, call: &Call) -> Option<Self> {
        let step = ParentStep::of(parent.id, call)?;
        Some(Self { step, asked: Asked::read(call.input.value(), parent) })
    }
}

impl Node {
    /// Starts the child of a step, or finds it started.
    pub(super) fn start_child(&mut self, order: ChildOrder, moment: &Moment) {
        let ChildOrder { step, asked } = order;
        let is_wanted = |slot: &super::Slot| slot.starting.contains(&(step.strand, step.key.clone()));
        if !self.slots.get(&step.execution).is_some_and(is_wanted) {
            return;
        }
        let id = ExecutionId::of_child(&step.key, 0);
        match self.known(id) {
            Ok(Some(child)) => self.found_child(step, &child),
            Ok(None) if let Some(slot) = self.slots.get_mut(&id) => {
                // Where its first Turn is on its way, that commit answers; any other commit does not.
                let is_beginning = slot.begun.is_some() || matches!(slot.told, Some(ReplyTo::Parent(_)));
                if !is_beginning {
                    slot.asked.push(ChildOrder { step, asked });
                }
            }
            Ok(None) if asked.is_ok() && !self.admits(step.execution, id) => {
                self.wait_for_place(ChildOrder { step, asked });
            }
            Ok(None) => {
                let begun = match &asked {
                    Ok(asked) => self.begin_child(id, asked, step.clone(), moment),
                    Err(fault) => Err(NotBegun::Refused(fault.clone())),
                };
                match begun {
                    Ok(()) => {}
                    Err(NotBegun::Shared(other)) => self.found_child(step, &other),
                    Err(NotBegun::Busy(other)) => {
                        let slot = self.slots.get_mut(&other).expect("it is in memory");
                        slot.asked.push(ChildOrder { step, asked });
                    }
                    Err(NotBegun::Refused(fault)) => self.errands.push_back(step.answer(refused(fault))),
                    Err(NotBegun::Elsewhere) => {
                        let elsewhere = InputError::Unavailable(Unavailable::Elsewhere);
                        self.errands.push_back(step.answer(unreachable_child(&elsewhere)));
                    }
                    Err(NotBegun::Unread) => {
                        self.undone.push(Errand::Child(Box::new(ChildOrder { step, asked })));
                    }
                }
            }
            Err(InputError::Unavailable(Unavailable::Store(_))) => {
                self.undone.push(Errand::Child(Box::new(ChildOrder { step, asked })));
            }
            Err(error) => self.errands.push_back(step.answer(unreachable_child(&error))),
        }
    }

    /// The child of a step is there already.
    fn found_child(&mut self, step: ParentStep, child: &Execution) {
        self.child_began(step.clone(), child);
        if step.waits_for_the_end() {
            self.await_child(step, child);
        }
    }

    /// What has the name that a child shall have: the same start, made by somebody else, or another one.
    fn taken_by(&mut self, asked: &Asked, other: ExecutionId, arn: &str) -> NotBegun {
        let taken = || NotBegun::Refused(Asked::name_is_taken(arn));
        match self.known(other) {
            Ok(Some(execution)) if asked.is(&execution) => NotBegun::Shared(Box::new(execution)),
            Ok(None) if self.slots.contains_key(&other) => NotBegun::Busy(other),
            Err(InputError::Unavailable(Unavailable::Store(_))) => NotBegun::Unread,
            Ok(_) | Err(_) => taken(),
        }
    }

    fn begin_child(
        &mut self,
        id: ExecutionId,
        asked: &Asked,
        step: ParentStep,
        moment: &Moment,
    ) -> Result<(), NotBegun> {
        let unread = |failure: Failure| {
            tracing::error!(child = %id, %failure, "it cannot be begun now");
            NotBegun::Unread
        };
        if !self.shards.contains(&Shard::of(id, self.shard_count)) {
            return Err(NotBegun::Elsewhere);
        }
        let none = || NotBegun::Refused(asked.no_such_machine());
        let head = self.reader.head(&asked.machine).map_err(unread)?.ok_or_else(none)?;
        let (revision, via) = match &asked.qualifier {
            None => (head.revision, Via::default()),
            Some(qualifier) => {
                let Chosen { revision, version, alias } =
                    (self.resolver.0)(Qualified { head: &head, qualifier, chance: moment.entropy })
                        .ok_or_else(none)?;
                (revision, Via { version: Some(version), alias, trace_header: None })
            }
        };
        let (record, machine) = match self.library.find(revision, &mut *self.reader) {
            Ok((record, machine)) => (record.clone(), machine.clone()),
            Err(Unreadable::Unavailable(failure)) => return Err(unread(failure)),
            Err(error @ Unreadable::Damaged(_)) => {
                return Err(NotBegun::Refused(Fault::new(RUNTIME, error.to_string())));
            }
        };
        if let Some(name) = &asked.name
            && let Some(other) = self.has_name(record.machine, name).map_err(unread)?
            && other != id
        {
            let arn = asked.arns.execution(&record.name, name, record.kind, "");
            return Err(self.taken_by(asked, other, &arn));
        }
        let name = asked.name.clone().unwrap_or_else(|| id.to_string().into());
        let (input, limits) = (asked.input.clone(), asked.limits);
        let identity = NamingOf { id, name, record: &record, input, limits, via: &via }.identity(&asked.arns);
        let new = NewExecution {
            machine: record.machine,
            revision: record.revision,
            definition: machine,
            identity,
            named: asked.name.is_some(),
            parent: Some(step.key.clone()),
            child: None,
        };
        if step.waits_for_the_end() {
            self.watchers.entry(id).or_default().push(Watcher::Step(step.clone()));
        }
        self.begin(new, ReplyTo::Parent(Box::new(step)), moment);
        Ok(())
    }

    /// A child is on disk: the step is told.
    pub(super) fn child_began(&mut self, step: ParentStep, child: &Execution) {
        let begun = step.wait.begun(child.identity(), child.started_at());
        self.errands.push_back(step.answer(begun));
    }

    /// A step waits for its child's end again.
    pub(super) fn await_job(&mut self, parent: ExecutionId, call: &Call) {
        let Some(step) = ParentStep::of(parent, call).filter(ParentStep::waits_for_the_end) else { return };
        self.await_end(step);
    }

    pub(super) fn await_end(&mut self, step: ParentStep) {
        let id = ExecutionId::of_child(&step.key, 0);
        match self.known(id) {
            Ok(Some(child)) => self.await_child(step, &child),
            Ok(None) if self.slots.contains_key(&id) => self.watch_for(step, id),
            Ok(None) => match self.shared(&step) {
                Ok(Some(Shared::Seen(child))) => self.await_child(step, &child),
                Ok(Some(Shared::Busy(other))) => self.watch_for(step, other),
                Ok(None) => self.errands.push_back(step.answer(unreachable_child(&InputError::Unknown))),
                Err(error) => {
                    tracing::error!(child = %id, %error, "who has its name cannot be read");
                    self.undone.push(Errand::Await(Box::new(step)));
                }
            },
            Err(InputError::Unavailable(Unavailable::Store(_))) => {
                self.undone.push(Errand::Await(Box::new(step)));
            }
            // It is asked for again when this node is opened again.
            Err(error) => tracing::error!(child = %id, %error, "a child cannot be waited for"),
        }
    }

    /// The execution that a step shares with somebody else, by its name.
    fn shared(&mut self, step: &ParentStep) -> Result<Option<Shared>, InputError> {
        let unread =
            |failure: Failure| InputError::Unavailable(Unavailable::Store(failure.to_string().into()));
        let Some((machine, name)) = Asked::named(step.arguments.value()) else { return Ok(None) };
        let Some(head) = self.reader.head(machine).map_err(unread)? else { return Ok(None) };
        let Some(other) = self.has_name(head.machine, &name.into()).map_err(unread)? else { return Ok(None) };
        match self.known(other)? {
            Some(child) => Ok(Some(Shared::Seen(Box::new(child)))),
            None => Ok(self.slots.contains_key(&other).then_some(Shared::Busy(other))),
        }
    }

    fn await_child(&mut self, step: ParentStep, child: &Execution) {
        match Ending::of(child) {
            Some(_) if self.is_answered(&step) => {}
            Some(_) => {
                let ended = step.wait.ended(child);
                self.errands.push_back(step.answer(ended));
            }
            None => self.watch_for(step, child.identity().id),
        }
    }

    /// Whether the answer is in its inbox already: a parent that slept through a restart is woken up by the end of its
    /// child, and asks for it once more because it is resumed. A second answer would be reported as a late one.
    fn is_answered(&self, step: &ParentStep) -> bool {
        let is_end = |outcome: &Outcome| !matches!(outcome, Outcome::Submitted { .. });
        let answers = |queued: &super::Queued| {
            matches!(&queued.input, Input::TaskOutcome { by: By::Key { key, .. }, outcome }
                if *key == step.key && is_end(outcome))
        };
        self.slots.get(&step.execution).is_some_and(|slot| slot.inbox.iter().any(answers))
    }

    fn watch_for(&mut self, step: ParentStep, child: ExecutionId) {
        let watchers = self.watchers.entry(child).or_default();
        let is_there = |watcher: &Watcher| match watcher {
            Watcher::Step(known) => known.key == step.key,
            Watcher::Reply(_) => false,
        };
        if !watchers.iter().any(is_there) {
            watchers.push(Watcher::Step(step));
        }
    }

    /// A child ended: the step that waits for it is told how.
    pub(super) fn child_ended(&mut self, step: ParentStep, child: &Execution) {
        let ended = step.wait.ended(child);
        self.errands.push_back(step.answer(ended));
    }

    /// Nobody waits for the end of a child any more: it is stopped. Whether this process knows that it was waited for
    /// does not count: the step's time may have run out before the step was resumed here.
    pub(super) fn stop_child(&mut self, key: &EffectKey) {
        let own = ExecutionId::of_child(key, 0);
        let waits = |watcher: &Watcher| match watcher {
            Watcher::Step(step) => step.key == *key,
            Watcher::Reply(_) => false,
        };
        let is_known = self.watchers.contains_key(&own) || self.slots.contains_key(&own);
        let shared = || self.watchers.iter().find(|(_, watchers)| watchers.iter().any(waits));
        let id = if is_known { own } else { shared().map_or(own, |(id, _)| *id) };
        if let Some(watchers) = self.watchers.get_mut(&id) {
            watchers.retain(|watcher| !waits(watcher));
            if watchers.is_empty() {
                self.watchers.remove(&id);
            }
        }
        let input = Input::Stop { fault: Fault::default() };
        self.errands.push_back(Errand::Input { execution: id, input, reply: ReplyTo::Nobody });
    }

    /// An execution as it was last committed, in memory or not. `None`: there is none, or its first Turn is on its way.
    fn known(&mut self, id: ExecutionId) -> Result<Option<Execution>, InputError> {
        if let Some(slot) = self.slots.get(&id) {
            if let Some(reason) = &slot.parked {
                return Err(InputError::Parked(reason.clone()));
            }
            let running = slot.running.as_ref().filter(|running| running.turns > 0);
            return Ok(running.map(|running| running.execution.clone()));
        }
        match self.stored(id) {
            Ok(Ok(running)) => Ok(Some(running.execution)),
            Ok(Err(what)) => Err(InputError::Parked(what)),
            Err(InputError::Unknown) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// An execution that several steps wait for.
enum Shared {
    /// As it was last committed.
    Seen(Box<Execution>),
    /// It is being committed.
    Busy(ExecutionId),
}

/// Why a child has not begun.
enum NotBegun {
    /// It runs already, started by somebody else with the same name and input.
    Shared(Box<Execution>),
    /// Something has its name, and is being committed: what it is can be told after that.
    Busy(ExecutionId),
    /// It cannot, and never will.
    Refused(Fault),
    /// Another node would have to begin it.
    Elsewhere,
    /// Something could not be read; it is tried again.
    Unread,
}

/// Whether it runs, nobody here can tell.
fn unreachable_child(error: &InputError) -> Outcome {
    let fault = Fault::new(TASK_FAILED, format!("The child execution cannot be reached: {error}"));
    Outcome::Failed { fault, certainty: Certainty::Ambiguous }
}
