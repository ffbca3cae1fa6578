//! The outside of a run: real calls, mocked calls, and calls of other executions in the same data, which are left
//! alone.

use super::mock::{self, Mocks};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Pattern, Resource};
use perdura_engine::{
    Call, Destinations, EffectKey, ExecutionId, Fault, Identity, Input, Outcome, Policy, StrandId,
};
use perdura_runtime::{
    Answer, Event, Fed, Fetch, FetchKind, Fetched, Message, Order, Performer, ReadOrder, Reply, Source,
};
use perdura_store::record::TurnBody;
use perdura_store::{Failure, FailureKind, Reader};
use perdura_tasks::Tasks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything outside of the node.
pub(super) struct Outside {
    called: Arc<Called>,
    mocks: Mocks,
    events: Sender<Event>,
    /// The name of the configuration file, for messages.
    config_file: String,
}

/// The policies of a run.
struct Called {
    tasks: Tasks,
    /// The mocked machine, and its mocked states.
    machine: String,
    mocked: BTreeSet<Arc<str>>,
    /// The data is kept, so that calls can be answered later.
    keeps: bool,
    family: Mutex<Family>,
}

/// The executions of this run: one and its descendants.
#[derive(Default)]
struct Family {
    /// `None`: it has not begun.
    top: Option<ExecutionId>,
    reader: Option<Box<dyn Reader>>,
    /// For known executions, whether they descend from it.
    known: BTreeMap<ExecutionId, bool>,
}

impl Family {
    /// Whether an execution is the one of this run or a descendant of it.
    fn has(&mut self, id: ExecutionId) -> bool {
        let (Some(top), Some(reader)) = (self.top, &mut self.reader) else { return false };
        let (mut line, mut ancestor) = (Vec::new(), id);
        let is_ours = loop {
            if ancestor == top {
                break true;
            }
            if let Some(known) = self.known.get(&ancestor) {
                break *known;
            }
            line.push(ancestor);
            match parent_of(&mut **reader, ancestor) {
                Ok(Some(parent)) => ancestor = parent,
                Ok(None) => break false,
                Err(error) => {
                    tracing::error!(execution = %id, %error, "whose child it is cannot be read");
                    return false;
                }
            }
        };
        self.known.extend(line.into_iter().map(|id| (id, is_ours)));
        is_ours
    }
}

impl Called {
    fn family(&self) -> MutexGuard<'_, Family> {
        self.family.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this state of this machine is mocked, also in the children of its Map Runs.
    fn mocks(&self, machine: &str, key: &EffectKey) -> bool {
        machine.split('/').next() == Some(&self.machine) && self.mocked.contains(&*key.state())
    }
}

impl Destinations for Called {
    /// If nothing is kept, nobody could ever resolve a held step.
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        let policy = self.tasks.policy(resource, input);
        if self.keeps { policy } else { Policy { refused: policy.refused, ..Policy::default() } }
    }

    /// No worker and no holder of a token can reach a process that keeps nothing.
    fn stands_in(&self, identity: &Identity, call: &Call) -> bool {
        let is_out_of_reach = match call.resource.pattern {
            Pattern::Worker | Pattern::Callback => !self.keeps,
            Pattern::RequestResponse | Pattern::Sync => false,
        };
        is_out_of_reach || self.mocks(&identity.machine_name, &call.key)
    }

    /// Calls of other executions in this data stay unchanged: this process may not be able to make them.
    fn performs_for(&self, execution: ExecutionId) -> bool {
        !self.keeps || self.family().has(execution)
    }
}

impl Outside {
    /// With mocks for the states of this machine. Events come by the receiver.
    pub(super) fn new(
        tasks: Tasks,
        machine: &str,
        mocks: Mocks,
        (keeps, config_file): (bool, String),
    ) -> (Self, Receiver<Event>) {
        let (events, inbox) = mpsc::channel();
        let mocked = mocks.states().cloned().collect();
        let called =
            Arc::new(Called { tasks, machine: machine.to_owned(), mocked, keeps, family: Mutex::default() });
        (Self { called, mocks, events, config_file }, inbox)
    }

    pub(super) fn destinations(&self) -> Arc<dyn Destinations> {
        self.called.clone()
    }

    pub(super) fn keeps(&self) -> bool {
        self.called.keeps
    }

    /// Sets the execution of this run.
    pub(super) fn mean(&self, top: ExecutionId) {
        self.called.family().top = Some(top);
    }

    /// Whether an execution belongs to this run.
    pub(super) fn is_meant(&self, execution: ExecutionId) -> bool {
        self.called.performs_for(execution)
    }

    /// The reader for the parents of executions.
    pub(super) fn read_by(&self, reader: Box<dyn Reader>) {
        self.called.family().reader = Some(reader);
    }

    /// Makes a call. Returns a hint for the user, if there is one.
    pub(super) fn call(&self, execution: ExecutionId, call: Call) -> Option<String> {
        let Called { tasks, .. } = &*self.called;
        if !tasks.performs(&call.resource) {
            self.answer(execution, &call, unreachable_here(&call));
            return None;
        }
        let hint = tasks.missing_function(&call).map(|name| {
            let state = call.key.state();
            format!(
                "{state} calls the function {name}, which is not configured: add [functions.{name}] to {}, or \
                 an answer for {state} to a mock file",
                self.config_file
            )
        });
        let answer = Answer::new(execution, &call, self.events.clone());
        tasks.perform(Order { call, answer });
        hint
    }

    /// Answers a mocked call. A job or a callback is handed over first, and a worker takes its task first; the end
    /// comes after.
    pub(super) fn stand_in(&mut self, execution: ExecutionId, call: &Call) {
        let Some(answer) = self.mocks.answer(&call.key.state()) else {
            return self.answer(execution, call, unreachable_here(call));
        };
        match call.resource.pattern {
            Pattern::Sync | Pattern::Callback => {
                self.answer(execution, call, Outcome::Submitted { output: Payload::default() });
            }
            Pattern::Worker => {
                self.give(execution, Input::TaskStarted { by: call.by(), worker: Some("mock".into()) });
            }
            Pattern::RequestResponse => {}
        }
        self.answer(execution, call, answer.outcome());
    }

    pub(super) fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        self.called.tasks.cancel(execution, strand, key);
    }

    /// Fetches data for a Map Run.
    pub(super) fn fetch(&mut self, fetch: Fetch, reader: Result<Box<dyn Reader>, Failure>) {
        let (events, Called { tasks, .. }) = (self.events.clone(), &*self.called);
        let send = move |message| drop(events.send(Event::Message(message)));
        let Fetch { ticket, kind } = fetch;
        match kind {
            FetchKind::Items { machine, key, reader, .. } if self.called.mocks(&machine, &key) => {
                let answer = self.mocks.answer(&key.state());
                for fed in answer.into_iter().flat_map(|answer| items(answer, reader.max_items)) {
                    send(ticket.tell(Fetched::Items(fed)));
                }
            }
            FetchKind::Items { reader, room, .. } => {
                tasks.read(ReadOrder { reader, feed: ticket.feed(room, send) });
            }
            kind @ (FetchKind::Children | FetchKind::Results { .. }) => {
                Fetch { ticket, kind }.bring(reader, |order| tasks.write(order), send);
            }
        }
    }

    fn answer(&self, execution: ExecutionId, call: &Call, outcome: Outcome) {
        self.post(Message::Answer { execution, by: call.by(), outcome });
    }

    /// Sends an input to an execution.
    pub(super) fn give(&self, execution: ExecutionId, input: Input) {
        self.post(Message::Input { execution, input, reply: Reply::new(drop) });
    }

    fn post(&self, message: Message) {
        self.events.send(Event::Message(message)).expect("the driver holds the other end");
    }

    /// Ends all calls.
    pub(super) fn end_all(&self) {
        self.called.tasks.end_all();
    }
}

/// The items of a mock, at most so many; 0 is all.
fn items(answer: mock::Answer, most: Option<i64>) -> Vec<Fed> {
    let most = most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
    match answer {
        mock::Answer::Result(list) => {
            let all = list.value().as_array().unwrap_or_default().iter();
            let source = Source { name: "mock".into(), version: "mock".into() };
            let items = all.take(most.unwrap_or(usize::MAX)).cloned().collect();
            vec![Fed::From(source), Fed::Items(items), Fed::End(Ok(()))]
        }
        mock::Answer::Error(fault) => vec![Fed::End(Err(fault))],
    }
}

/// Nothing catches this error: a forgotten mock must not pass for an error of the service.
fn unreachable_here(call: &Call) -> Outcome {
    let state = call.key.state();
    let cause = format!(
        "The state {state:?} calls {}, which `perdura run` cannot do. Give it an answer in a mock file: \
         {{{state:?}: [{{\"result\": …}}]}}, and run with --mock FILE",
        call.resource.arn
    );
    Outcome::NotStarted { fault: Fault::new(RUNTIME, cause), scheduled: false }
}

/// The execution whose step or Map Run started this one.
fn parent_of(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<ExecutionId>, Failure> {
    let Some(first) = reader.turns(id, 1, 1)?.into_iter().next() else { return Ok(None) };
    let body = TurnBody::read(&first.body).map_err(|damage| Failure {
        what: format!("reading the first Turn of {id}"),
        why: damage.to_string(),
        kind: FailureKind::Corrupt,
    })?;
    let Some(begun) = body.begun else { return Ok(None) };
    if let Some(key) = begun.parent {
        return Ok(key.execution());
    }
    match begun.child {
        Some(child) => Ok(reader.map_run(child.run)?.map(|run| run.execution)),
        None => Ok(None),
    }
}
