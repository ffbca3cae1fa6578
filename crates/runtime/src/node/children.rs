//! Child executions of a step: `arn:aws:states:::states:startExecution` in its three patterns.
//!
//! A child's id follows from the key of the step that starts it. So a start that is made again, by a step that is
//! repeated or by a process that knows nothing of the first, finds the child that is there. Where a name was given and
//! somebody else has started the same under it, that one is the child.

use super::errands::{Absent, Hearing};
use super::slot::Body;
use super::start::{Holder, NewExecution};
use super::{Errand, Node, ReplyTo, Slot, Watcher};
use crate::librarian::{Ask, Child, ChildAsk, Chosen, Refusal, Subject, Told};
use crate::library::Definition;
use crate::message::{Ending, InputError};
use crate::naming::NamingOf;
use crate::running::Running;
use perdura_engine::asl::error::{RUNTIME, TASK_FAILED};
use perdura_engine::asl::json::Payload;
use perdura_engine::nested::{Asked, Wait, refused};
use perdura_engine::{
    Attempt, By, Call, Certainty, EffectKey, Execution, ExecutionId, Fault, Identity, Input, Moment, Outcome,
    StrandId, Timestamp,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A step that has started a child.
#[derive(Clone, Debug)]
pub(super) struct ParentStep {
    pub(super) execution: ExecutionId,
    pub(super) strand: StrandId,
    pub(super) key: EffectKey,
    attempt: Attempt,
    pub(super) wait: Wait,
    arguments: Payload,
}

impl ParentStep {
    fn of(execution: ExecutionId, call: &Call) -> Option<Self> {
        let wait = Wait::of(&call.resource)?;
        let (key, attempt, arguments) = (call.key.clone(), call.attempt, call.input.clone());
        Some(Self { execution, strand: call.strand, key, attempt, wait, arguments })
    }

    pub(super) fn waits_for_the_end(&self) -> bool {
        self.wait.is_for_the_end()
    }

    pub(super) fn answer(self, outcome: Outcome) -> Errand {
        let by = By::Key { strand: self.strand, key: self.key, attempt: Some(self.attempt) };
        let input = Input::TaskOutcome { by, outcome };
        Errand::Input { execution: self.execution, input, reply: ReplyTo::Nobody }
    }
}

/// A child to be started.
pub(super) struct ChildOrder {
    pub(super) step: ParentStep,
    pub(super) asked: Result<Asked, Fault>,
    /// How many of its line were let in without a place, down to its parent.
    pub(super) depth: u32,
    /// An earlier attempt of the step began it.
    began: bool,
    /// What it begins with, once it was read that it is not there.
    pub(super) chosen: Option<Box<Chosen>>,
}

impl ChildOrder {
    /// What a call asks for, if it asks for a child.
    pub(super) fn of(parent: &Running, call: &Call) -> Option<Self> {
        let identity = parent.execution.identity();
        let step = ParentStep::of(identity.id, call)?;
        Some(Self {
            step,
            asked: Asked::read(call.input.value(), identity),
            depth: parent.depth(),
            began: call.submitted,
            chosen: None,
        })
    }
}

impl ChildOrder {
    fn id(&self) -> ExecutionId {
        ExecutionId::of_child(&self.step.key, 0)
    }

    /// The ARN of whoever has the child's name.
    pub(super) fn arn(&self) -> String {
        match (&self.asked, &self.chosen) {
            (Ok(asked), Some(chosen)) => {
                let (record, name) = (&chosen.definition.record, asked.name.as_deref().unwrap_or_default());
                asked.arns.execution(&record.name, name, record.kind, "")
            }
            (Ok(_) | Err(_), _) => String::new(),
        }
    }
}

impl Node {
    /// Starts the child of a step, or finds it started.
    pub(super) fn start_child(&mut self, mut order: Box<ChildOrder>, hearing: &Hearing, moment: &Moment) {
        if !self.wants_child(&order.step) {
            return;
        }
        let id = order.id();
        if let Some(slot) = self.executions.get_mut(id) {
            // Where its first Turn is on its way, that commit answers; any other commit does not.
            let is_beginning = match &slot.body {
                Body::Here(child) => child.begun.is_some(),
                Body::Away(away) => matches!(away.told, Some(ReplyTo::Parent(_))),
                Body::Unreadable => false,
            };
            match slot.begun() {
                _ if let Some(reason) = &slot.parked => {
                    let error = InputError::Parked(reason.clone());
                    self.errands.push(order.step.answer(unreachable_child(&error)));
                }
                Some(child) => {
                    let (child, began) = (child.execution.identity().clone(), child.execution.started_at());
                    self.found_child(order.step, &child, began);
                }
                _ if is_beginning => {}
                _ => slot.then.push(Errand::Child(order)),
            }
            return;
        }
        let asked = match &order.asked {
            Ok(asked) => asked,
            Err(fault) => return self.refuse_child(&order, fault.clone()),
        };
        let ask = Ask::Child(
            id,
            ChildAsk {
                machine: asked.machine.clone(),
                qualifier: asked.qualifier.clone(),
                chance: moment.entropy,
            },
        );
        match hearing.as_ref().and_then(|heard| heard.told(&ask.subject())) {
            Some(Told::Child(Child::There(Ok(child)))) => {
                let (child, began) = (child.execution.identity().clone(), child.execution.started_at());
                return self.found_child(order.step, &child, began);
            }
            Some(Told::Child(Child::There(Err(missing)))) => {
                return self.errands.push(order.step.answer(unreachable_child(&missing.into())));
            }
            Some(Told::Child(Child::Refused(why))) => {
                let fault = match why {
                    Refusal::NoSuchMachine => asked.no_such_machine(),
                    Refusal::Deleting => asked.machine_is_deleting(),
                    Refusal::Damaged(what) => Fault::new(RUNTIME, what.to_string()),
                };
                return self.refuse_child(&order, fault);
            }
            Some(Told::Child(Child::Begins(chosen))) => order.chosen = Some(chosen.clone()),
            // Where it was read with what it begins, it is its name that is asked for.
            Some(_) | None if order.chosen.is_some() => {}
            Some(_) | None => return self.errands.ask(ask, Some(Errand::Child(order))),
        }
        self.begin_child(order, hearing, moment);
    }

    /// Whether a step still wants its child to begin.
    pub(super) fn wants_child(&self, step: &ParentStep) -> bool {
        self.executions.get(step.execution).is_some_and(|slot| {
            let is_ending = slot.stops || slot.child.is_some_and(|child| self.map_runs.is_ending(child));
            !is_ending && slot.calls.begins_child(step.strand, &step.key)
        })
    }

    pub(super) fn refuse_child(&mut self, order: &ChildOrder, fault: Fault) {
        self.errands.push(order.step.clone().answer(refused(fault)));
    }

    /// The child of a step is there already. How it stands is looked at once more: it may have moved since it was read.
    fn found_child(&mut self, step: ParentStep, child: &Identity, began: Timestamp) {
        let begun = step.wait.begun(&child.arn, began);
        self.errands.push(step.clone().answer(begun));
        if step.waits_for_the_end() {
            self.errands.push(Errand::AwaitEnd { step: Box::new(step), child: child.id });
        }
    }

    /// It is not there, and begins, if there is a place for it and nobody else has its name.
    fn begin_child(&mut self, mut order: Box<ChildOrder>, hearing: &Hearing, moment: &Moment) {
        let own = order.id();
        let Ok(nesting) = self.admits(order.depth, order.step.waits_for_the_end()) else {
            // It is asked for again when there is a place: until then it may be there.
            order.chosen = None;
            return self.wait_for_place(order);
        };
        let (Ok(asked), Some(chosen)) = (&order.asked, &order.chosen) else { return };
        let Definition { record, machine } = &*chosen.definition;
        let mut id = own;
        if let Some(name) = &asked.name {
            let holder = match self.holder(record.machine, name, Some(own), hearing) {
                Ok(Some(holder)) => holder,
                Ok(None) => {
                    // It was asked for one that could not begin.
                    let (machine, name) = (record.machine, name.clone());
                    let ask = Ask::Name { machine, name, wanted_by: Some(own) };
                    return self.errands.ask(ask, Some(Errand::Child(order)));
                }
                Err(ask) => return self.errands.ask(ask, Some(Errand::Child(order))),
            };
            if self.shards.hold(holder.id).is_err() {
                return self.share_elsewhere(order, holder.id);
            }
            if self.has_begun(&holder) {
                let arn = order.arn();
                return self.name_is_taken(order, &holder, &arn);
            }
            id = holder.id;
        }
        if order.began {
            return self.errands.push(order.step.answer(swept_child()));
        }
        // Somebody reserved the name and never began: it begins under that id, which may be of another Shard. So it is one
        // that the step shares, as if that one had begun it.
        let is_own = id == own;
        let name = asked.name.clone().unwrap_or_else(|| id.to_string().into());
        let (input, limits) = (asked.input.clone(), asked.limits);
        let via = chosen.via_of(asked);
        let identity = NamingOf { id, name, record, input, limits, via: &via }.identity(&asked.arns);
        let step = order.step.clone();
        let new = NewExecution {
            machine: record.machine,
            revision: record.revision,
            definition: machine.clone(),
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
    }

    /// Somebody has the name that a child shall have: it is the child itself, or the same start made by somebody else, or
    /// another one.
    fn name_is_taken(&mut self, order: Box<ChildOrder>, holder: &Holder<'_>, arn: &str) {
        let Ok(asked) = &order.asked else { return };
        let other = match (self.executions.get_mut(holder.id), holder.stored) {
            (Some(slot), _) if slot.parked.is_some() => None,
            (Some(slot), _) => match slot.begun() {
                Some(running) => Some(&running.execution),
                // What it is can be told after its commit.
                None => return slot.then.push(Errand::Child(order)),
            },
            (None, Some(Ok(running))) => Some(&running.execution),
            (None, Some(Err(_)) | None) => None,
        };
        match other.filter(|other| holder.id == order.id() || asked.is(other)) {
            Some(other) => {
                let (child, began) = (other.identity().clone(), other.started_at());
                self.found_child(order.step, &child, began);
            }
            None => self.refuse_child(&order, Asked::name_is_taken(arn)),
        }
    }

    /// A child is on disk: the step is told.
    pub(super) fn child_began(&mut self, step: ParentStep, child: &Execution) {
        let begun = step.wait.begun(&child.identity().arn, child.started_at());
        self.errands.push(step.answer(begun));
    }

    /// A step waits for its child's end again.
    pub(super) fn await_job(&mut self, parent: ExecutionId, call: &Call) {
        let Some(step) = ParentStep::of(parent, call).filter(ParentStep::waits_for_the_end) else { return };
        self.await_end(Box::new(step), &None);
    }

    pub(super) fn await_end(&mut self, step: Box<ParentStep>, hearing: &Hearing) {
        let id = ExecutionId::of_child(&step.key, 0);
        if let Some(heard) = hearing
            && let Some(Told::Shared(shared)) = heard.told(&Subject::Shared(id))
        {
            // It may have begun here only a moment ago.
            let named = Asked::named(step.arguments.value()).map(|(_, name)| Arc::from(name));
            let other = shared
                .zip(named)
                .and_then(|((machine, stored), name)| self.executions.named(machine, name).or(stored));
            return match other {
                Some(child) => self.errands.push(Errand::AwaitEnd { step, child }),
                None => self.errands.push(step.answer(unreachable_child(&InputError::Unknown))),
            };
        }
        match self.known(id, hearing) {
            Ok(Some(child)) => self.await_child(*step, &child),
            Ok(None) if self.executions.has(id) => self.watch_for(*step, id),
            Ok(None) => match Asked::named(step.arguments.value()) {
                Some((machine, name)) => {
                    let ask = Ask::Shared { child: id, machine: machine.into(), name: name.into() };
                    self.errands.ask(ask, Some(Errand::Await(step)));
                }
                None => self.errands.push(step.answer(unreachable_child(&InputError::Unknown))),
            },
            Err(Absent::Unread) => self.errands.wait_for(id, Errand::Await(step)),
            // It is asked for again when this node is opened again.
            Err(Absent::Not(error)) => {
                tracing::error!(child = %id, %error, "a child cannot be waited for");
            }
        }
    }

    pub(super) fn await_end_of(&mut self, step: Box<ParentStep>, child: ExecutionId, hearing: &Hearing) {
        if self.shards.hold(child).is_err() {
            return self.await_elsewhere(step, child, hearing);
        }
        match self.known(child, hearing) {
            Ok(Some(known)) => self.await_child(*step, &known),
            Ok(None) if self.executions.has(child) => self.watch_for(*step, child),
            Ok(None) => self.errands.push(step.answer(unreachable_child(&InputError::Unknown))),
            Err(Absent::Unread) => self.errands.wait_for(child, Errand::AwaitEnd { step, child }),
            Err(Absent::Not(error)) => {
                tracing::error!(%child, %error, "a child cannot be waited for now");
                self.errands.put_off(Errand::AwaitEnd { step, child });
            }
        }
    }

    pub(super) fn await_child(&mut self, step: ParentStep, child: &Execution) {
        match Ending::of(child) {
            Some(_) => {
                let outcome = Box::new(step.wait.ended(child));
                self.errands.push(Errand::Ended { step: Box::new(step), outcome });
            }
            None => self.watch_for(step, child.identity().id),
        }
    }

    /// Tells a step that its child was found to have ended. A parent that slept through a restart is woken up by the end of
    /// its child, and asks for it once more because it is resumed: a second answer would be reported as a late one.
    pub(super) fn tell_of_end(
        &mut self,
        step: Box<ParentStep>,
        outcome: Box<Outcome>,
        (hearing, moment): (&mut Hearing, &Moment),
    ) {
        let parent = step.execution;
        match self.awake(parent, hearing, moment) {
            Ok(()) => {}
            Err(Absent::Unread) => return self.errands.wait_for(parent, Errand::Ended { step, outcome }),
            Err(Absent::Not(error)) => {
                return tracing::warn!(%parent, %error, "it cannot be told of the end of its child");
            }
        }
        let slot = self.executions.get_mut(parent).expect("it is awake");
        let waits = |execution: &Execution| execution.calls().any(|(_, key, _)| key == step.key);
        match slot.running() {
            // What is being committed may be that answer.
            None if slot.parked.is_none() => slot.then.push(Errand::Ended { step, outcome }),
            Some(running) if waits(&running.execution) && !slot.has_answer(&step.key) => {
                self.errands.push(step.answer(*outcome));
            }
            Some(_) | None => {}
        }
        self.make_ready(parent);
    }

    fn watch_for(&mut self, step: ParentStep, child: ExecutionId) {
        self.watchers.push_step(child, step);
    }

    /// A child ended: the step that waits for it is told how.
    pub(super) fn child_ended(&mut self, step: ParentStep, child: &Execution) {
        let ended = step.wait.ended(child);
        self.errands.push(step.answer(ended));
    }

    /// Nobody waits for the end of a child any more: it is stopped. Whether this process knows that it was waited for
    /// does not count: the step's time may have run out before the step was resumed here.
    pub(super) fn stop_child(&mut self, key: &EffectKey) {
        let own = ExecutionId::of_child(key, 0);
        let is_known = self.watchers.has(own) || self.executions.has(own);
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
            if self.executions.get(id).is_some_and(|slot| slot.stops) {
                continue;
            }
            let input = Input::Stop { fault: Fault::default() };
            self.errands.push(Errand::Input { execution: id, input, reply: ReplyTo::Nobody });
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
        if let Some(slot) = self.executions.get_mut(id) {
            slot.stops = slot.is_stopping();
        }
    }

    /// The process before this one may have ended between the commit that gave a child up and the child's stop.
    pub(super) fn parent_of(&self, running: &Running) -> Option<Errand> {
        let is_meant =
            self.performs_for(running.id()) && self.sleepers.resuming.is_from_before(&running.execution);
        let key = running.awaited_by.clone().filter(|key| is_meant && key.execution().is_some())?;
        Some(Errand::Parent { child: running.id(), key })
    }

    /// Stops a child of an earlier process if its step does not wait for it.
    pub(super) fn ask_for_parent(&mut self, child: ExecutionId, key: EffectKey, hearing: &Hearing) {
        let Some(parent) = key.execution() else { return };
        if let Some(slot @ Slot { body: Body::Away(_), parked: None, .. }) = self.executions.get_mut(parent) {
            return slot.then.push(Errand::Parent { child, key });
        }
        match self.known(parent, hearing) {
            Ok(Some(parent)) => {
                let waits = !parent.is_ended() && parent.calls().any(|(_, of, _)| of == key);
                if !waits {
                    self.stop_tree(child);
                }
            }
            Ok(None) => self.stop_tree(child),
            Err(Absent::Unread) => return self.errands.wait_for(parent, Errand::Parent { child, key }),
            Err(Absent::Not(error)) => {
                tracing::warn!(%child, %error, "whether it is waited for cannot be told");
            }
        }
        // A stop goes before all that waits for it.
        if let Some(slot) = self.executions.get_mut(child) {
            slot.gate.awaits_parent = false;
        }
        self.make_ready(child);
    }
}

/// It had begun and is not there: it has ended, and was swept before its step heard how.
fn swept_child() -> Outcome {
    let cause = "The child execution has ended and was swept: nobody knows how it ended.";
    Outcome::Failed { fault: Fault::new(TASK_FAILED, cause), certainty: Certainty::Ambiguous }
}

/// Whether it runs, nobody here can tell.
fn unreachable_child(error: &InputError) -> Outcome {
    let fault = Fault::new(TASK_FAILED, format!("The child execution cannot be reached: {error}"));
    Outcome::Failed { fault, certainty: Certainty::Ambiguous }
}
