//! Calls that leave this process: each is made on a runtime beside the loop, and what comes of it is told to the loop.

use super::driver::{ExecutionNo, Message};
use anyhow::{Context, Result};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Pattern, Resource, Target};
use perdura_engine::{
    By, Call, Certainty, Destinations, EffectKey, ExecutionId, Fault, Outcome, Policy, StrandId,
};
use perdura_runtime::Performer;
use perdura_tasks::connection::Connections;
use perdura_tasks::{Settings, Tasks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// How long is waited for calls that were ended with the execution.
const REST: Duration = Duration::from_millis(500);

/// All calls under way.
pub(crate) struct Outside {
    tasks: Tasks,
    /// There until all of it ends.
    tokio: Option<Runtime>,
    inbox: Sender<Message>,
    last: u64,
    running: BTreeMap<u64, Running>,
}

struct Running {
    execution: ExecutionNo,
    call: By,
    task: AbortHandle,
}

/// Tells the loop how a call ended, also if the call was a mistake of ours that panicked.
struct Report {
    number: u64,
    inbox: Sender<Message>,
    outcome: Outcome,
}

impl Report {
    fn tell(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = self.outcome.clone();
        // The execution may have ended meanwhile, and nobody listens.
        let _ = self.inbox.send(Message::Ended { number: self.number, outcome });
    }
}

/// Which errors are refusals. What else a destination says is left out: in a run that keeps nothing, nobody could ever say
/// what became of a step that is held.
struct Refusals(Tasks);

impl Destinations for Refusals {
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        Policy { refused: self.0.policy(resource, input).refused, ..Policy::default() }
    }
}

impl Outside {
    /// Under these settings; how calls end is sent to `inbox`.
    pub(crate) fn new(settings: Settings, inbox: Sender<Message>) -> Result<Self> {
        let tokio = crate::serve::threads()?;
        let tasks = Tasks::new(settings, Arc::<Connections>::default(), tokio.handle().clone())
            .context("cannot prepare calls over TLS")?;
        Ok(Self { tasks, tokio: Some(tokio), inbox, last: 0, running: BTreeMap::new() })
    }

    /// What holds at those who are called from here.
    pub(crate) fn destinations(&self) -> Arc<dyn Destinations> {
        Arc::new(Refusals(self.tasks.clone()))
    }

    /// Whether it can be called from here. Nobody can return a token to a process that has no door.
    pub(crate) fn performs(&self, resource: &Resource) -> bool {
        let waits = matches!(resource.target, Target::Service { pattern: Pattern::Callback, .. });
        self.tasks.performs(resource) && !waits
    }

    /// The function that a call means, if nobody has configured it.
    pub(crate) fn missing_function(&self, call: &Call) -> Option<String> {
        self.tasks.missing_function(call)
    }

    /// Whether nothing is under way.
    pub(crate) fn are_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Makes a call.
    pub(crate) fn call(&mut self, execution: ExecutionNo, id: ExecutionId, call: Call) {
        let Some(tokio) = &self.tokio else { return };
        self.last += 1;
        let (tasks, by) = (self.tasks.clone(), call.by());
        let unknown = Outcome::Failed {
            fault: Fault::new("States.TaskFailed", "The call ended without an answer."),
            certainty: Certainty::Ambiguous,
        };
        let report = Report { number: self.last, inbox: self.inbox.clone(), outcome: unknown };
        let task = tokio.spawn(async move {
            report.tell(tasks.outcome(id, &call).await);
        });
        self.running.insert(self.last, Running { execution, call: by, task: task.abort_handle() });
    }

    /// A call ended. `None`: nobody waits for it any more.
    pub(crate) fn ended(&mut self, number: u64, outcome: Outcome) -> Option<(ExecutionNo, By, Outcome)> {
        let Running { execution, call, .. } = self.running.remove(&number)?;
        Some((execution, call, outcome))
    }

    /// Nobody waits for this call any more.
    pub(crate) fn cancel(&mut self, execution: ExecutionNo, strand: StrandId, key: &EffectKey) {
        let is_of =
            |by: &By| matches!(by, By::Key { strand: of, key: under, .. } if (*of, under) == (strand, key));
        self.drop_those(|call| call.execution == execution && is_of(&call.call));
    }

    /// Nobody waits for anything that these executions called.
    pub(crate) fn cancel_all(&mut self, executions: &BTreeSet<ExecutionNo>) {
        self.drop_those(|call| executions.contains(&call.execution));
    }

    fn drop_those(&mut self, is_meant: impl Fn(&Running) -> bool) {
        // What comes of it is not waited for: a retry has the same key, and must not be given this outcome.
        for (_, call) in self.running.extract_if(.., |_, call| is_meant(call)) {
            call.task.abort();
        }
    }

    /// Ends all of them, and waits until what they started is ended too.
    pub(crate) fn end_all(&mut self) {
        self.running.clear();
        if let Some(tokio) = self.tokio.take() {
            tokio.shutdown_timeout(REST);
        }
    }
}
