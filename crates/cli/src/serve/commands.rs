//! Functions as local commands, for executions that outlive this process.
//!
//! A command is one attempt of one call. If this process ends while a command runs, nobody knows how far it got: the
//! call stays on record without an answer, and is made again under its key.

use crate::run::config::{Config, Function};
use crate::run::functions::{AT_ONCE_MAX, Shape, Wanted, missing, outcome_of, plain_name, timed_out, wanted};
use crate::run::process::{self, Ended, Group};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Call, EffectKey, ExecutionId, Fault, Limits, Outcome, Policy, StrandId};
use perdura_runtime::{Answer, Order, Performer};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Commands under way, shared by those who start and those who end them.
#[derive(Clone)]
pub(crate) struct Commands(Arc<Inner>);

struct Inner {
    functions: BTreeMap<String, Function>,
    handle: Handle,
    /// A bounded number at once; further calls wait for a place.
    places: Semaphore,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    last: u64,
    calls: HashMap<Place, (u64, Group)>,
}

/// Who waits for which call.
type Place = (ExecutionId, StrandId, EffectKey);

/// A call of a function.
struct Job {
    number: u64,
    function: Function,
    payload: Payload,
    shape: Shape,
    call: Call,
    answer: Answer,
    group: Group,
}

impl Commands {
    /// Those of a configuration.
    pub(crate) fn new(config: &Config, handle: Handle) -> Self {
        Self(Arc::new(Inner {
            functions: config.functions.clone(),
            handle,
            places: Semaphore::new(AT_ONCE_MAX),
            under_way: Mutex::default(),
        }))
    }

    /// Ends all of them. Nobody is told: what they were called for is called for again.
    pub(crate) fn kill_all(&self) {
        for (_, group) in self.0.under_way().calls.drain().map(|(_, call)| call) {
            group.kill();
        }
    }

    fn call(&self, name: &str, payload: Payload, shape: Shape, order: Order) {
        let Order { call, answer } = order;
        let Some(function) = self.0.functions.get(plain_name(name)).cloned() else {
            tracing::warn!(
                execution = %answer.execution(), step = call.key.step(), key = %call.key, function = name,
                "this function is not configured"
            );
            return answer.send(missing(name, &call.key.wire().to_string()));
        };
        let group = Group::default();
        let mut under_way = self.0.under_way();
        under_way.last += 1;
        let number = under_way.last;
        let place = (answer.execution(), call.strand, call.key.clone());
        under_way.calls.insert(place, (number, group.clone()));
        drop(under_way);
        let job = Job { number, function, payload, shape, call, answer, group };
        let inner = self.0.clone();
        self.0.handle.spawn(async move { inner.run(job).await });
    }
}

impl Inner {
    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, job: Job) {
        let Job { number, function, payload, shape, call, answer, group } = job;
        let Ok(_place) = self.places.acquire().await else { return answer.withdraw() };
        let execution = answer.execution();
        let (step, key, function_name) = (call.key.step(), &call.key, &call.resource.arn);
        tracing::debug!(%execution, step, %key, function = %function_name, "calls");
        let began = Instant::now();
        let most = function.timeout;
        let (wire, input) = (call.key.wire().to_string(), payload.text().clone());
        let shared = group.clone();
        let running = tokio::task::spawn_blocking(move || {
            process::run(&function, &wire, input, Limits::GENEROUS.payload_bytes_max, &shared)
        });
        let ended = match most {
            None => Some(running.await),
            Some(most) => tokio::time::timeout(most, running).await.ok(),
        };
        let outcome = match ended {
            Some(Ok(ended)) => outcome_of(&ended, &call.resource.arn, shape),
            Some(Err(panic)) => {
                let reason = format!("cannot attend to it: {panic}");
                outcome_of(&Ended::NotStarted { reason }, &call.resource.arn, shape)
            }
            None => {
                group.kill();
                timed_out(most.unwrap_or_default())
            }
        };
        let place = (execution, call.strand, call.key.clone());
        if !self.is_waited_for(&place, number) {
            return answer.withdraw();
        }
        let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        tell(execution, &call.key, took_ms, &outcome);
        answer.send(outcome);
    }

    /// Takes it off the list; `false`: somebody else has done so.
    fn is_waited_for(&self, place: &Place, number: u64) -> bool {
        let mut under_way = self.under_way();
        let is_ours = under_way.calls.get(place).is_some_and(|(of, _)| *of == number);
        if is_ours {
            under_way.calls.remove(place);
        }
        is_ours
    }
}

/// One line for each call.
fn tell(execution: ExecutionId, key: &EffectKey, took_ms: i64, outcome: &Outcome) {
    let step = key.step();
    match outcome {
        Outcome::Succeeded { .. } | Outcome::Submitted { .. } => {
            tracing::info!(%execution, step, %key, took_ms, "called");
        }
        Outcome::Failed { fault, .. }
        | Outcome::NotStarted { fault, .. }
        | Outcome::SubmitFailed { fault, .. } => {
            let error = fault.error.as_deref().unwrap_or_default();
            tracing::warn!(%execution, step, %key, took_ms, error, "called, and it failed");
        }
    }
}

impl Performer for Commands {
    fn perform(&self, order: Order) {
        match wanted(&order.call) {
            Wanted::Function { name, payload, shape } => self.call(&name, payload, shape, order),
            Wanted::Answered(outcome) => order.answer.send(outcome),
            Wanted::Elsewhere => {
                let arn = &order.call.resource.arn;
                let cause = format!("Nothing here performs {arn}: only functions are, as local commands.");
                let fault = Fault::new(RUNTIME, cause);
                order.answer.send(Outcome::NotStarted { fault, scheduled: false });
            }
        }
    }

    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        let call = self.0.under_way().calls.remove(&(execution, strand, key.clone()));
        if let Some((_, group)) = call {
            group.kill();
        }
    }

    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        let name = function_of(resource, input);
        let function = name.and_then(|name| self.0.functions.get(plain_name(&name)));
        function.map_or_else(Policy::default, |function| function.policy)
    }
}

/// The function that a resource means: by its ARN, or by Invoke's `FunctionName`.
fn function_of(resource: &Resource, input: &Payload) -> Option<Arc<str>> {
    use perdura_engine::asl::resource::Target;
    match &resource.target {
        Target::Function { .. } => Some(resource.arn.clone()),
        Target::Service { service, action, .. } if (&**service, &**action) == ("lambda", "invoke") => {
            input.value().get("FunctionName")?.as_str().map(Arc::from)
        }
        Target::Service { .. } | Target::Activity { .. } | Target::Step { .. } => None,
    }
}
