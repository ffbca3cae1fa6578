//! The performer of the binary: routes every call by the meaning of its resource.
//!
//! A call is one task on the given runtime, and one entry in a table, which can cancel it. If this process ends while a
//! call is under way, nobody knows how far it got: it stays on record without an answer, and is repeated under its key.

mod able;
mod under_way;

pub use able::{can_perform, warnings};

use crate::aws::{self, AwsCall, OwnApi};
use crate::client::Client;
use crate::connection::Connections;
use crate::destination::Place as Address;
use crate::functions::{Calling, Functions, Line, function_of, invocation, plain_name};
use crate::http::{self, HttpCall, Onlooker};
use crate::items::{self, ItemStores, SettingsError};
use crate::settings::Settings;
use crate::shares::Shares;
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::resource::{Pattern, Resource, TaskKind};
use perdura_engine::{
    Call, EffectKey, Exchange, ExecutionId, Fault, Limits, Outcome, Policy, StrandId, Uncertain,
};
use perdura_runtime::{Order, Performer, ReadOrder, WriteOrder};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use under_way::UnderWay;

/// Why no calls can be made at all.
#[derive(Debug, thiserror::Error)]
pub enum Unprepared {
    /// No call over TLS can be made.
    #[error("calls over TLS cannot be prepared: {0}")]
    Tls(#[from] rustls::Error),
    /// `[items]` is wrong.
    #[error("[items]: {0}")]
    Items(#[from] SettingsError),
}

/// Performs functions, `http:invoke` and services of AWS, and reads and writes items. Clones share everything.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

struct Inner {
    functions: Functions,
    settings: Arc<Settings>,
    connections: Arc<Connections>,
    client: Client,
    items: ItemStores,
    /// Answers `aws-sdk:sfn:…` in this process, once it was set.
    own_api: OnceLock<OwnApi>,
    /// The places for calls that leave this machine.
    shares: Shares,
    handle: Handle,
    under_way: Arc<UnderWay>,
}

impl Tasks {
    /// Creates it; calls run on the given runtime.
    pub fn new(
        settings: Settings,
        connections: Arc<Connections>,
        handle: Handle,
    ) -> Result<Self, Unprepared> {
        let client = Client::new(settings.guard.clone())?;
        let items = if settings.strict { settings.items.clone().strict() } else { settings.items.clone() };
        let items = ItemStores::new(&items, &client)?;
        let settings = Arc::new(settings);
        Ok(Self(Arc::new(Inner {
            functions: Functions::new(settings.clone(), client.put_off().clone()),
            shares: Shares::new(settings.calls),
            settings,
            connections,
            client,
            items,
            own_api: OnceLock::new(),
            handle,
            under_way: Arc::default(),
        })))
    }

    /// Makes a call and waits for its outcome. Dropping the future ends the call where possible: a command with all
    /// processes that it started, a request with its connection.
    pub async fn outcome(&self, execution: ExecutionId, call: &Call) -> Outcome {
        self.0.outcome(execution, call, None).await
    }

    /// The same for a state under test: also returns the exchange of an HTTP Task, with credentials only if the caller
    /// may see them.
    pub async fn tried(
        &self,
        execution: ExecutionId,
        call: &Call,
        reveals: bool,
    ) -> (Outcome, Option<Exchange>) {
        let onlooker = Onlooker::new(reveals);
        let outcome = self.0.outcome(execution, call, Some(&onlooker)).await;
        (outcome, onlooker.into_seen())
    }

    /// The bare name of the function in a call, if it is not configured.
    pub fn missing_function(&self, call: &Call) -> Option<String> {
        let name =
            function_of(&call.resource, &call.input).filter(|name| !self.0.settings.has_function(name))?;
        Some(plain_name(name).to_owned())
    }

    /// Whether this resource can be performed: a function counts even if it is not configured, because it fails as a
    /// missing one does on AWS; a service counts if it has an address.
    pub fn performs(&self, resource: &Resource) -> bool {
        able::performs(resource) && self.0.settings.aws.lacks(resource).is_none()
    }

    /// From now on, `aws-sdk:sfn:…` is answered by this API, unless it has an address of its own. The first API stays;
    /// another is returned.
    pub fn answer_with(&self, api: OwnApi) -> Result<(), OwnApi> {
        self.0.own_api.set(api)
    }

    /// The counter of calls that were put off because this machine lacked files, memory, processes or ports.
    pub fn put_off(&self) -> Arc<AtomicU64> {
        self.0.client.put_off().count()
    }

    /// Ends all calls without answers: their Steps will be called again.
    pub fn end_all(&self) {
        self.0.under_way.call_all_off();
    }
}

impl Inner {
    fn limits(&self) -> Limits {
        if self.settings.strict { Limits::strict(MachineType::Standard) } else { Limits::GENEROUS }
    }

    async fn outcome(&self, execution: ExecutionId, call: &Call, onlooker: Option<&Onlooker>) -> Outcome {
        let began = Instant::now();
        let destination = self.settings.destinations.find(&call.resource, &call.input);
        let mut is_command = false;
        let line = Line { client: &self.client, shares: &self.shares };
        let outcome = match call.resource.kind {
            TaskKind::Function => match invocation(call) {
                Ok(invocation) => {
                    is_command = self.functions.is_command(&invocation);
                    let calling = Calling { execution, call, destination, invocation: &invocation };
                    self.functions.invoke(line, calling).await
                }
                Err(outcome) => outcome,
            },
            TaskKind::Http => {
                let receiver = Address::of_input(&call.input).map(|address| address.receiver());
                let _held = self.shares.enter(receiver.as_deref().unwrap_or_default()).await;
                let call = HttpCall {
                    call,
                    execution,
                    strict: self.settings.strict,
                    region: &self.settings.aws.signer.region,
                    header: &destination.header,
                    statuses: &destination.statuses,
                    onlooker,
                };
                http::invoke(&self.client, &self.connections, call).await
            }
            TaskKind::Service => {
                let answer_bytes_max = self.limits().payload_bytes_max;
                let asked = AwsCall { execution, call, destination, answer_bytes_max };
                let outcome = aws::invoke(line, &self.settings.aws, self.own_api.get(), asked).await;
                outcome.unwrap_or_else(|| nobody(&call.resource))
            }
            TaskKind::Activity | TaskKind::Child | TaskKind::Step => nobody(&call.resource),
        };
        tell(execution, &call.key, began.elapsed(), is_command, &outcome);
        handed_over(outcome, &call.resource)
    }
}

/// No performer exists for it. Nothing catches this error: a machine without its performers is not ready to run.
fn nobody(resource: &Resource) -> Outcome {
    let cause = format!(
        "Nothing here performs {}: {} can be called. `perdura validate` lists the states that call something else.",
        resource.arn,
        able::listed(TaskKind::all())
    );
    Outcome::NotStarted { fault: Fault::new(RUNTIME, cause), scheduled: false }
}

/// If a token is waited for, the call only hands it over.
fn handed_over(outcome: Outcome, resource: &Resource) -> Outcome {
    let waits = resource.pattern == Pattern::Callback;
    match outcome {
        Outcome::Succeeded { output } if waits => Outcome::Submitted { output },
        Outcome::Failed { fault, certainty } if waits => Outcome::SubmitFailed { fault, certainty },
        Outcome::Succeeded { .. }
        | Outcome::Failed { .. }
        | Outcome::NotStarted { .. }
        | Outcome::Submitted { .. }
        | Outcome::SubmitFailed { .. } => outcome,
    }
}

/// Logs one line for each call that failed or was a command. The other successful calls are too many.
fn tell(execution: ExecutionId, key: &EffectKey, took: Duration, is_command: bool, outcome: &Outcome) {
    let step = key.step();
    let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    match outcome {
        Outcome::Succeeded { .. } | Outcome::Submitted { .. } if is_command => {
            tracing::info!(%execution, step, %key, took_ms, "called");
        }
        Outcome::Succeeded { .. } | Outcome::Submitted { .. } => {
            tracing::debug!(%execution, step, %key, took_ms, "called");
        }
        Outcome::Failed { fault, .. }
        | Outcome::NotStarted { fault, .. }
        | Outcome::SubmitFailed { fault, .. } => {
            let error = fault.error.as_deref().unwrap_or_default();
            tracing::warn!(%execution, step, %key, took_ms, error, "called, and it failed");
        }
    }
}

impl Performer for Tasks {
    fn perform(&self, order: Order) {
        let Order { call, answer } = order;
        let attempt = self.0.under_way.enter(&call, answer);
        let ticket = attempt.ticket();
        let inner = self.0.clone();
        let task = self.0.handle.spawn(async move {
            let outcome = inner.outcome(attempt.execution(), &call, None).await;
            attempt.end(outcome);
        });
        self.0.under_way.started(ticket, task.abort_handle());
    }

    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        self.0.under_way.call_off(execution, strand, key);
    }

    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        let policy = self.0.settings.destinations.find(resource, input).policy.clone();
        // A function that is no longer configured may have been called by the previous process.
        let is_gone = |name: &str| !self.0.settings.has_function(name);
        match function_of(resource, input) {
            Some(name) if is_gone(name) => Policy { uncertain: Uncertain::Hold, ..policy },
            Some(_) | None => policy,
        }
    }

    fn read(&self, order: ReadOrder) {
        let stores = self.0.items.clone();
        self.0.handle.spawn(async move { items::read(&stores, order).await });
    }

    fn write(&self, order: WriteOrder) {
        let stores = self.0.items.clone();
        self.0.handle.spawn(async move { items::write(&stores, order).await });
    }
}
