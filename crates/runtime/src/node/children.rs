//! Child executions of a step: `arn:aws:states:::states:startExecution` in its three patterns.
//!
//! A child's id follows from the key of the step that starts it. So a start that is made again, by a step that is
//! repeated or by a process that knows nothing of the first, finds the child that is there.

use super::start::NewExecution;
use super::{Errand, Node, ReplyTo, Watcher};
use crate::message::{Ending, InputError, Unavailable};
use crate::naming::{Chosen, NamingOf, Qualified, Via};
use crate::running::Unreadable;
use perdura_engine::asl::error::{RUNTIME, TASK_FAILED};
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_engine::asl::object;
use perdura_engine::asl::resource::{Pattern, Target};
use perdura_engine::{
    Arns, By, Call, Certainty, EffectKey, Execution, ExecutionId, Fault, Identity, Input, Limits, Moment,
    Outcome, Status, StrandId, is_name,
};
use perdura_store::{Failure, Shard};
use std::sync::Arc;

/// A step that has started a child.
#[derive(Clone, Debug)]
pub(super) struct ParentStep {
    pub(super) execution: ExecutionId,
    pub(super) strand: StrandId,
    pub(super) key: EffectKey,
    wait: Wait,
}

/// What the step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// That the child has begun.
    Begin,
    /// Its end, with input and output as text: `.sync`.
    EndAsText,
    /// Its end, with input and output as JSON: `.sync:2`.
    EndAsJson,
    /// Somebody who returns the token.
    Token,
}

/// Whether a call starts a child, and what it waits for then.
fn wait_of(target: &Target) -> Option<Wait> {
    let Target::Service { service, action, pattern } = target else { return None };
    let (action, how) = action.split_once('.').unwrap_or((action, ""));
    if (&**service, action) != ("states", "startExecution") {
        return None;
    }
    Some(match pattern {
        Pattern::RequestResponse => Wait::Begin,
        Pattern::Callback => Wait::Token,
        Pattern::Sync if how == "sync:2" => Wait::EndAsJson,
        Pattern::Sync => Wait::EndAsText,
    })
}

impl ParentStep {
    fn of(execution: ExecutionId, call: &Call) -> Option<Self> {
        let wait = wait_of(&call.resource.target)?;
        Some(Self { execution, strand: call.strand, key: call.key.clone(), wait })
    }

    fn waits_for_the_end(&self) -> bool {
        matches!(self.wait, Wait::EndAsText | Wait::EndAsJson)
    }

    fn answer(self, outcome: Outcome) -> Errand {
        let by = By::Key { strand: self.strand, key: self.key };
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
    /// What a call asks for, if it asks for a child.
    pub(super) fn of(parent: &Identity, call: &Call) -> Option<Self> {
        let step = ParentStep::of(parent.id, call)?;
        Some(Self { step, asked: Asked::read(call, parent) })
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
            Ok(Some(child)) => {
                self.child_began(step.clone(), &child);
                if step.waits_for_the_end() {
                    self.await_child(step, &child);
                }
            }
            Ok(None) if let Some(slot) = self.slots.get_mut(&id) => {
                // Where its first Turn is on its way, that commit answers; any other commit does not.
                let is_beginning = slot.begun.is_some() || matches!(slot.told, Some(ReplyTo::Parent(_)));
                if !is_beginning {
                    slot.asked.push(ChildOrder { step, asked });
                }
            }
            Ok(None) => {
                let begun = match &asked {
                    Ok(asked) => self.begin_child(id, asked, step.clone(), moment),
                    Err(fault) => Err(NotBegun::Refused(fault.clone())),
                };
                match begun {
                    Ok(()) => {}
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
        let none = || NotBegun::Refused(no_such_machine(&asked.machine_arn));
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
            return Err(NotBegun::Refused(name_is_taken(&arn)));
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
        let identity = child.identity();
        let output = object! {
            "ExecutionArn" => identity.arn.clone(),
            "StartDate" => child.started_at().to_string(),
        };
        let output = Payload::from(output);
        let begun = match step.wait {
            Wait::Begin => Outcome::Succeeded { output },
            Wait::EndAsText | Wait::EndAsJson | Wait::Token => Outcome::Submitted { output },
        };
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
            Ok(None) => self.errands.push_back(step.answer(unreachable_child(&InputError::Unknown))),
            Err(InputError::Unavailable(Unavailable::Store(_))) => {
                self.undone.push(Errand::Await(Box::new(step)));
            }
            // It is asked for again when this node is opened again.
            Err(error) => tracing::error!(child = %id, %error, "a child cannot be waited for"),
        }
    }

    fn await_child(&mut self, step: ParentStep, child: &Execution) {
        match Ending::of(child) {
            Some(_) if self.is_answered(&step) => {}
            Some(_) => {
                let ended = ended(child, step.wait);
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
        let ended = ended(child, step.wait);
        self.errands.push_back(step.answer(ended));
    }

    /// Nobody waits for the end of a child any more: it is stopped. Whether this process knows that it was waited for
    /// does not count: the step's time may have run out before the step was resumed here.
    pub(super) fn stop_child(&mut self, key: &EffectKey) {
        let id = ExecutionId::of_child(key, 0);
        if let Some(watchers) = self.watchers.get_mut(&id) {
            watchers.retain(|watcher| match watcher {
                Watcher::Step(step) => step.key != *key,
                Watcher::Reply(_) => true,
            });
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

/// Why a child has not begun.
enum NotBegun {
    /// It cannot, and never will.
    Refused(Fault),
    /// Another node would have to begin it.
    Elsewhere,
    /// Something could not be read; it is tried again.
    Unread,
}

/// What a step asks for.
struct Asked {
    machine: Arc<str>,
    /// A version or an alias of it.
    qualifier: Option<Arc<str>>,
    machine_arn: Arc<str>,
    name: Option<Arc<str>>,
    input: Payload,
    arns: Arns,
    limits: Limits,
}

impl Asked {
    fn read(call: &Call, parent: &Identity) -> Result<Self, Fault> {
        let arguments = call.input.value();
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let machine_arn = text("StateMachineArn").unwrap_or_default();
        let machine = machine_arn.rsplit_once(":stateMachine:").map_or(machine_arn, |(_, name)| name);
        let (machine, qualifier) = match machine.split_once(':') {
            Some((machine, qualifier)) => (machine, Some(qualifier.into())),
            None => (machine, None),
        };
        if machine.is_empty() {
            let cause = "StateMachineArn is missing: it names the machine to start.";
            return Err(Fault::new(RUNTIME, cause));
        }
        let input = match arguments.get("Input") {
            None | Some(Value::Null) => Payload::from_text("{}").expect("an empty object is JSON"),
            Some(Value::String(text)) => Payload::from_text(text.clone()).map_err(|error| {
                let cause = format!("Invalid State Machine Execution Input: '{error}'");
                Fault::new("StepFunctions.InvalidExecutionInputException", cause)
            })?,
            Some(other) => other.clone().into(),
        };
        let name = text("Name").map(Arc::from);
        if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
            return Err(of_service("InvalidName", &format!("Invalid Name: '{name}'")));
        }
        let mut parts = parent.machine_arn.split(':').skip(1);
        let arns = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(partition), _, Some(region), Some(account)) => {
                Arns { partition: partition.into(), region: region.into(), account: account.into() }
            }
            _ => Arns::default(),
        };
        Ok(Self {
            machine: machine.into(),
            qualifier,
            machine_arn: machine_arn.into(),
            name,
            input,
            arns,
            limits: parent.limits,
        })
    }
}

fn refused(fault: Fault) -> Outcome {
    Outcome::Failed { fault, certainty: Certainty::Refused }
}

fn of_service(error: &str, message: &str) -> Fault {
    let cause = format!(
        "{message} (Service: AWSStepFunctions; Status Code: 400; Error Code: {error}; Request ID: \
         00000000-0000-0000-0000-000000000000; Proxy: null)"
    );
    Fault::new(format!("StepFunctions.{error}Exception"), cause)
}

fn no_such_machine(arn: &str) -> Fault {
    of_service("StateMachineDoesNotExist", &format!("State Machine Does Not Exist: '{arn}'"))
}

fn name_is_taken(arn: &str) -> Fault {
    of_service("ExecutionAlreadyExists", &format!("Execution Already Exists: '{arn}'"))
}

/// Whether it runs, nobody here can tell.
fn unreachable_child(error: &InputError) -> Outcome {
    let fault = Fault::new(TASK_FAILED, format!("The child execution cannot be reached: {error}"));
    Outcome::Failed { fault, certainty: Certainty::Ambiguous }
}

/// What a step gets from the end of its child: how it is described, as its result or as the cause of its failure.
fn ended(child: &Execution, wait: Wait) -> Outcome {
    let identity = child.identity();
    let payload = |payload: &Payload| match wait {
        Wait::EndAsJson => payload.value().clone(),
        Wait::Begin | Wait::EndAsText | Wait::Token => payload.text().clone().into(),
    };
    let mut described = Map::new();
    let fault = child.fault();
    for (name, text) in [("Cause", &fault.cause), ("Error", &fault.error)] {
        if let Some(text) = text {
            described.insert(name, text.clone());
        }
    }
    described.insert("ExecutionArn", identity.arn.clone());
    described.insert("Input", payload(&identity.input));
    described.insert("InputDetails", object! {"Included" => true});
    described.insert("Name", identity.name.clone());
    if let Some(output) = child.output() {
        described.insert("Output", payload(output));
        described.insert("OutputDetails", object! {"Included" => true});
    }
    described.insert("StartDate", child.started_at().0.unsigned_abs());
    described.insert("StateMachineArn", identity.machine_arn.clone());
    described.insert("Status", child.status().name());
    described.insert("StopDate", child.ended_at().unwrap_or_default().0.unsigned_abs());
    let described = Value::from(described);
    match child.status() {
        Status::Succeeded => Outcome::Succeeded { output: described.into() },
        Status::Created | Status::Running | Status::Failed | Status::Aborted | Status::TimedOut => {
            refused(Fault::new(TASK_FAILED, described.to_string()))
        }
    }
}
