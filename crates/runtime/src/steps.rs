//! Steps as async Rust functions of this program: `arn:perdura:step:::NAME`.

use crate::clock::RealClock;
use crate::items::{ReadOrder, WriteOrder};
use crate::node::IdHasher;
use crate::world::{Answer, Order, World};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Resource, Target};
use perdura_engine::{
    Certainty, Destinations, EffectKey, ExecutionId, Fault, Moment, Outcome, Policy, Status, StrandId,
    Uncertain,
};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::hash::BuildHasherDefault;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// What a step gets.
#[derive(Clone, Debug)]
pub struct StepCall {
    /// Which execution calls.
    pub execution: ExecutionId,
    /// Under which key: the same for every repetition of this call.
    pub key: EffectKey,
    pub input: Payload,
}

/// A step that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// Error and cause, as Retry and Catch see them.
    pub fault: Fault,
    /// Whether it certainly did nothing.
    pub certainty: Certainty,
}

impl StepError {
    /// The step did nothing: a retry gets a new key.
    pub fn refused(error: &str, cause: &str) -> Self {
        Self { fault: Fault::new(error, cause), certainty: Certainty::Refused }
    }

    /// The step may have done it: a retry repeats it under the same key.
    pub fn uncertain(error: &str, cause: &str) -> Self {
        Self { fault: Fault::new(error, cause), certainty: Certainty::Ambiguous }
    }
}

/// A step under way.
pub type StepFuture = Pin<Box<dyn Future<Output = Result<Payload, StepError>> + Send>>;

type StepFunction = Arc<dyn Fn(StepCall) -> StepFuture + Send + Sync>;

/// The steps that a program has.
#[derive(Default)]
pub struct Steps {
    table: BTreeMap<Arc<str>, (StepFunction, Policy)>,
}

impl Steps {
    /// One more, with what is to be done when its outcome is unknown.
    #[must_use]
    pub fn with<F, Fut>(mut self, name: &str, policy: Policy, step: F) -> Self
    where
        F: Fn(StepCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Payload, StepError>> + Send + 'static,
    {
        let step: StepFunction = Arc::new(move |call| Box::pin(step(call)));
        self.table.insert(name.into(), (step, policy));
        self
    }
}

/// Whoever performs what is not a step of this program.
pub trait Performer: Send + Sync + 'static {
    /// Performs a call. It returns at once; the outcome comes by the order's answer.
    fn perform(&self, order: Order);

    /// Nobody waits for this call any more.
    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey);

    /// What is to be done when an outcome is unknown.
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy;

    /// Reads the items of a Map Run. It returns at once; the items come by the order's feed.
    fn read(&self, order: ReadOrder);

    /// Writes the results of a Map Run. It returns at once.
    fn write(&self, order: WriteOrder);
}

/// Nobody: every call fails and says so.
#[derive(Debug, Default)]
pub struct Nowhere;

impl Performer for Nowhere {
    fn perform(&self, order: Order) {
        let cause = format!("Nothing here performs {}.", order.call.resource.arn);
        let fault = Fault::new(RUNTIME, cause);
        order.answer.send(Outcome::NotStarted { fault, scheduled: false });
    }

    fn cancel(&self, _: ExecutionId, _: StrandId, _: &EffectKey) {}

    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }

    fn read(&self, order: ReadOrder) {
        order.refuse();
    }

    fn write(&self, order: WriteOrder) {
        order.refuse();
    }
}

/// Steps under way. Whoever takes an entry out has the answer, and the only one.
#[derive(Default)]
struct Table {
    /// By who waits for them.
    steps: HashMap<(ExecutionId, StrandId), UnderWay, BuildHasherDefault<IdHasher>>,
    /// How many there have been.
    attempts: u64,
}

/// One of them.
struct UnderWay {
    key: EffectKey,
    /// Which attempt: a repetition has the same key.
    attempt: u64,
    answer: Answer,
    /// There once its task is.
    task: Option<AbortHandle>,
}

/// The task of one step. Dropped without an end, by a panic, it says that nobody knows.
struct Attempt {
    place: (ExecutionId, StrandId),
    /// `None`: its answer was taken, or will never be.
    number: Option<u64>,
    table: Arc<Mutex<Table>>,
}

impl Attempt {
    /// Its answer, unless it was cancelled.
    fn take(&mut self) -> Option<Answer> {
        let number = self.number.take()?;
        let mut table = lock(&self.table);
        let is_ours = table.steps.get(&self.place).is_some_and(|step| step.attempt == number);
        let step = is_ours.then(|| table.steps.remove(&self.place)).flatten()?;
        Some(step.answer)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Attempt {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The world as it is: real clocks, the steps of this program, and another performer for the rest.
pub struct RealWorld {
    clock: RealClock,
    policies: Arc<Policies>,
    handle: Handle,
    table: Arc<Mutex<Table>>,
    listener: Option<Listener>,
}

/// Who is told of executions that ended; it must not wait.
type Listener = Box<dyn Fn(ExecutionId, Status) + Send + Sync>;

/// Who performs what, and under which policy.
struct Policies {
    steps: Steps,
    elsewhere: Box<dyn Performer>,
}

impl RealWorld {
    /// Steps run on the given runtime.
    pub fn new(steps: Steps, elsewhere: Box<dyn Performer>, handle: Handle) -> Self {
        Self {
            clock: RealClock::default(),
            policies: Arc::new(Policies { steps, elsewhere }),
            handle,
            table: Arc::default(),
            listener: None,
        }
    }

    /// Also tells of every execution that ended. What is called must not wait.
    #[must_use]
    pub fn telling(mut self, listener: impl Fn(ExecutionId, Status) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// The table is not locked while the task is made: where the runtime is gone, that drops the attempt at once.
    fn spawn(&self, step: StepFunction, order: Order) {
        let Order { call, answer } = order;
        let place = (answer.execution(), call.strand);
        let number = self.enter(place, call.key.clone(), answer);
        let mut attempt = Attempt { place, number: Some(number), table: self.table.clone() };
        let call = StepCall { execution: place.0, key: call.key, input: call.input };
        let task = self.handle.spawn(async move {
            // Also what a step does before it first waits belongs to its task, a panic above all.
            let outcome = match step(call).await {
                Ok(output) => Outcome::Succeeded { output },
                Err(StepError { fault, certainty }) => Outcome::Failed { fault, certainty },
            };
            if let Some(answer) = attempt.take() {
                answer.send(outcome);
            }
        });
        if let Some(step) = lock(&self.table).steps.get_mut(&place).filter(|step| step.attempt == number) {
            step.task = Some(task.abort_handle());
        }
    }

    /// A new entry; which attempt it is.
    fn enter(&self, place: (ExecutionId, StrandId), key: EffectKey, answer: Answer) -> u64 {
        let mut table = lock(&self.table);
        table.attempts += 1;
        let attempt = table.attempts;
        let before = table.steps.insert(place, UnderWay { key, attempt, answer, task: None });
        if let Some(before) = before {
            before.call_off();
        }
        attempt
    }
}

impl UnderWay {
    /// Nothing of it is to arrive.
    fn call_off(self) {
        self.answer.withdraw();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

impl World for RealWorld {
    fn moment(&self) -> Moment {
        self.clock.moment()
    }

    fn perform(&self, order: Order) {
        let Target::Step { name } = &order.call.resource.target else {
            return self.policies.elsewhere.perform(order);
        };
        if let Some((step, _)) = self.policies.steps.table.get(name) {
            return self.spawn(step.clone(), order);
        }
        let fault = Fault::new(RUNTIME, format!("This program has no step {name:?}."));
        order.answer.send(Outcome::NotStarted { fault, scheduled: false });
    }

    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        let place = (execution, strand);
        let mut table = lock(&self.table);
        let is_ours = table.steps.get(&place).is_some_and(|step| step.key == *key);
        let step = is_ours.then(|| table.steps.remove(&place)).flatten();
        drop(table);
        match step {
            Some(step) => step.call_off(),
            None => self.policies.elsewhere.cancel(execution, strand, key),
        }
    }

    fn read(&self, order: ReadOrder) {
        self.policies.elsewhere.read(order);
    }

    fn write(&self, order: WriteOrder) {
        self.policies.elsewhere.write(order);
    }

    fn publish(&self, execution: ExecutionId, status: Status) {
        if let Some(tell) = &self.listener {
            tell(execution, status);
        }
    }

    fn destinations(&self) -> Arc<dyn Destinations> {
        self.policies.clone()
    }
}

impl Destinations for Policies {
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        match &resource.target {
            Target::Step { name } => {
                // One that is gone from the program may have been performed by the program before it.
                let gone = Policy { uncertain: Uncertain::Hold, ..Policy::default() };
                self.steps.table.get(name).map_or(gone, |(_, policy)| policy.clone())
            }
            Target::Function { .. } | Target::Activity { .. } | Target::Service { .. } => {
                self.elsewhere.policy(resource, input)
            }
        }
    }
}
