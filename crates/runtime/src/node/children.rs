//! Child executions of a step: `arn:aws:states:::states:startExecution` in its three patterns.
//!
//! A child's id follows from the key of the step that starts it. So a start that is made again, by a step that is
//! repeated or by a process that knows nothing of the first, finds the child that is there. Where a name was given and
//! somebody else has started the same under it, that one is the child.

use super::room::NoPlace;
use super::start::NewExecution;
use super::{Errand, Node, ReplyTo, Slot, Watcher};
use crate::card::{Card, Unstartable};
use crate::message::{Ending, InputError, Unavailable};
use crate::naming::NamingOf;
use crate::running::{Running, Unreadable};
use perdura_engine::asl::error::{RUNTIME, TASK_FAILED};
use perdura_engine::asl::json::Payload;
use perdura_engine::nested::{Asked, Wait, refused};
use perdura_engine::{
    Attempt, By, Call, Certainty, EffectKey, Execution, ExecutionId, Fault, Input, Moment, Outcome, StrandId,
};
use perdura_store::{Failure, Nesting};
use std::collections::{BTreeSet, VecDeque};

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
        let wait = Wait::of(&call.resource)?;
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
    /// How many of its line were let in without a place, down to its parent.
    pub(super) depth: u32,
}

impl ChildOrder {
    /// What a call asks for, if it asks for a child.
    pub(super) fn of(parent: &Running, call: &Call) -> Option<Self> {
        let identity = parent.execution.identity();
        let step = ParentStep::of(identity.id, call)?;
        Some(Self { step, asked: Asked::read(call.input.value(), identity), depth: parent.depth() })
    }
}

impl Node {
    /// Starts the child of a step, or finds it started.
    pub(super) fn start_child(&mut self, order: ChildOrder, moment: &Moment) {
        let ChildOrder { step, asked, depth } = order;
        let is_wanted = |slot: &Slot| {
            let is_ending = slot.stops || slot.child.is_some_and(|child| self.map_runs.is_ending(child));
            !is_ending && slot.starting.contains(&(step.strand, step.key.clone()))
        };
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
                    slot.asked.push(ChildOrder { step, asked, depth });
                }
            }
            Ok(None) => {
                let begun = match &asked {
                    Ok(asked) => match self.admits(depth, step.waits_for_the_end()) {
                        Ok(nesting) => self.begin_child((id, nesting), asked, step.clone(), moment),
                        Err(NoPlace) => Err(NotBegun::Waits),
                    },
                    Err(fault) => Err(NotBegun::Refused(fault.clone())),
                };
                match begun {
                    Ok(()) => {}
                    Err(NotBegun::Waits) => self.wait_for_place(ChildOrder { step, asked, depth }),
                    Err(NotBegun::Shared(other)) => self.found_child(step, &other),
                    Err(NotBegun::Busy(other)) => {
                        let slot = self.slots.get_mut(&other).expect("it is in memory");
                        slot.asked.push(ChildOrder { step, asked, depth });
                    }
                    Err(NotBegun::Refused(fault)) => self.errands.push_back(step.answer(refused(fault))),
                    Err(NotBegun::Unread) => {
                        self.undone.push(Errand::Child(Box::new(ChildOrder { step, asked, depth })));
                    }
                }
            }
            Err(InputError::Unavailable(Unavailable::Store(_))) => {
                self.undone.push(Errand::Child(Box::new(ChildOrder { step, asked, depth })));
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
        if self.held(other).is_err() {
            return NotBegun::Unread;
        }
        match self.known(other) {
            Ok(Some(execution)) if asked.is(&execution) => NotBegun::Shared(Box::new(execution)),
            Ok(None) if self.slots.contains_key(&other) => NotBegun::Busy(other),
            Err(InputError::Unavailable(Unavailable::Store(_))) => NotBegun::Unread,
            Ok(_) | Err(_) => taken(),
        }
    }

    fn begin_child(
        &mut self,
        (id, nesting): (ExecutionId, Option<Nesting>),
        asked: &Asked,
        step: ParentStep,
        moment: &Moment,
    ) -> Result<(), NotBegun> {
        let unread = |failure: Failure| {
            tracing::error!(child = %id, %failure, "it cannot be begun now");
            NotBegun::Unread
        };
        let none = || NotBegun::Refused(asked.no_such_machine());
        let head = self.reader.head(&asked.machine).map_err(unread)?.ok_or_else(none)?;
        let card = Card::read(&head).map_err(|error| {
            tracing::error!(machine = %head.name, %error, "its card cannot be read");
            none()
        })?;
        let chosen = card.start(head.revision, asked.qualifier.as_deref(), moment.entropy);
        let (revision, via) = chosen.map_err(|why| match why {
            Unstartable::NoSuchQualifier => none(),
            Unstartable::Deleting => NotBegun::Refused(asked.machine_is_deleting()),
        })?;
        let (record, machine) = match self.library.find(revision, &mut *self.reader) {
            Ok(kept) => (kept.record.clone(), kept.machine.clone()),
            Err(Unreadable::Unavailable(failure)) => return Err(unread(failure)),
            Err(error @ Unreadable::Damaged(_)) => {
                return Err(NotBegun::Refused(Fault::new(RUNTIME, error.to_string())));
            }
        };
        let own = id;
        let id = match &asked.name {
            None => own,
            Some(name) => {
                let whose = self.whose(record.machine, name, own).map_err(unread)?;
                if whose != own && self.has_begun(whose).map_err(unread)? {
                    let arn = asked.arns.execution(&record.name, name, record.kind, "");
                    return Err(self.taken_by(asked, whose, &arn));
                }
                whose
            }
        };
        // Somebody reserved the name and never began: it begins under that id, which may be of another Shard. So it is one
        // that the step shares, as if that one had begun it.
        let is_own = id == own;
        let name = asked.name.clone().unwrap_or_else(|| id.to_string().into());
        let (input, limits) = (asked.input.clone(), asked.limits);
        let identity = NamingOf { id, name, record: &record, input, limits, via: &via }.identity(&asked.arns);
        let new = NewExecution {
            machine: record.machine,
            revision: record.revision,
            definition: machine,
            identity,
            named: asked.name.is_some(),
            parent: is_own.then(|| step.key.clone()),
            awaited: is_own && step.waits_for_the_end(),
            nesting,
            child: None,
        };
        if step.waits_for_the_end() {
            self.watchers.push(id, Watcher::Step(step.clone()));
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
        self.watchers.push_step(child, step);
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
        let is_known = self.watchers.has(own) || self.slots.contains_key(&own);
        let id = if is_known { own } else { self.watchers.awaited_by(key).unwrap_or(own) };
        self.watchers.drop_step(id, key);
        self.stop_tree(id);
    }

    /// Stops an execution and all that it waits for, down to the last. One level after the other would never come to the
    /// end of a tree that goes on growing where it is not stopped yet.
    fn stop_tree(&mut self, root: ExecutionId) {
        let mut tree = VecDeque::from([root]);
        let mut seen = BTreeSet::from([root]);
        while let Some(id) = tree.pop_front() {
            // It is stopped already, with all that was known to be below it.
            if self.slots.get(&id).is_some_and(|slot| slot.stops) {
                continue;
            }
            let input = Input::Stop { fault: Fault::default() };
            self.errands.push_back(Errand::Input { execution: id, input, reply: ReplyTo::Nobody });
            let below = self.below(id);
            tree.extend(below.into_iter().filter(|child| seen.insert(*child)));
        }
    }

    /// The children that an execution waits for. Its Map Runs end, and stop their own children one by one: what those
    /// wait for counts instead.
    fn below(&mut self, execution: ExecutionId) -> Vec<ExecutionId> {
        let mut below = Vec::new();
        let mut above = vec![execution];
        while let Some(id) = above.pop() {
            below.extend(self.watchers.take_children(id));
            above.extend(self.end_runs_of(id));
        }
        below
    }

    /// Stops all that children of a Map Run wait for; they themselves are stopped by their run.
    pub(super) fn stop_below(&mut self, children: Vec<ExecutionId>) {
        for child in children {
            for below in self.below(child) {
                self.stop_tree(below);
            }
        }
    }

    /// A Turn of an execution is over; unless a stop is still to come, it may start children.
    pub(super) fn may_start_again(&mut self, id: ExecutionId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.stops = slot.is_stopping();
        }
    }

    /// The process before this one may have ended between the commit that gave a child up and the child's stop.
    pub(super) fn asks_for_parent(&mut self, running: &Running) {
        let is_meant = self.performs && self.is_from_before(&running.execution);
        if let Some(key) = running.awaited_by.clone().filter(|_| is_meant) {
            self.errands.push_back(Errand::Parent { child: running.id(), key });
        }
    }

    /// Stops a child of an earlier process if its step does not wait for it.
    pub(super) fn ask_for_parent(&mut self, child: ExecutionId, key: EffectKey) {
        let Some(parent) = key.execution() else { return };
        let parent = match self.slots.get(&parent) {
            Some(Slot { running: None, parked: None, .. }) => None,
            _ => Some(self.known(parent)),
        };
        match parent {
            Some(Ok(Some(parent))) => {
                let waits = !parent.is_ended() && parent.calls().any(|(_, of, _)| of == key);
                if !waits {
                    self.stop_tree(child);
                }
            }
            Some(Ok(None)) => self.stop_tree(child),
            // Its parent is being committed, or cannot be read now.
            None | Some(Err(InputError::Unavailable(Unavailable::Store(_)))) => {
                self.undone.push(Errand::Parent { child, key });
            }
            Some(Err(error)) => tracing::warn!(%child, %error, "whether it is waited for cannot be told"),
        }
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
    /// There is no place for it.
    Waits,
    /// Something could not be read; it is tried again.
    Unread,
}

/// Whether it runs, nobody here can tell.
fn unreachable_child(error: &InputError) -> Outcome {
    let fault = Fault::new(TASK_FAILED, format!("The child execution cannot be reached: {error}"));
    Outcome::Failed { fault, certainty: Certainty::Ambiguous }
}
