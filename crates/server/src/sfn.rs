//! The Step Functions API: every action, for AWS's own clients.
//!
//! A request is checked against the service's model; then its action calls verbs of the runtime and reads the store.
//! `Api::call` is the only way in, for HTTP and for a Task that calls this very server. Each action stands in a file
//! named after its noun, and `actions` is the table of all of them.

mod actions;
mod activities;
mod calls;
mod catalog;
mod error;
mod executions;
mod history;
mod keys;
mod list;
mod locate;
mod logging;
mod machines;
mod map_runs;
mod model;
mod pools;
mod requested;
mod settings;
mod tags;
mod test_state;
mod token;
mod versions;

pub use calls::Went;
pub use error::{ApiError, Code};
pub use keys::{KeyState, Keys};
pub use logging::{LogPage, LogPlace, LogRecord};
pub(crate) use pools::is_large;
pub use test_state::{Tester, Trying};

use crate::data::Doubts;
use crate::places::Place;
use crate::who::{Caller, Role};
use axum::body::Bytes;
use calls::Calls;
use catalog::Catalog;
use perdura_engine::asl::json::{Map, Number, Value, parse, without_mark};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::object;
use perdura_engine::{Arns, ExecutionId, Limits, Moment, Timestamp};
use perdura_runtime::{Door, RealClock};
use perdura_store::Failure;
use perdura_store::audit::{DoorKind, Entry, Origin, Subject, Verb};
use pools::Pools;
use requested::{Asked, Requested};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use token::Tokens;
use uuid::Uuid;

/// How the API is set up.
pub struct Setup {
    pub door: Door,
    pub arns: Arns,
    /// Whether AWS's limits hold.
    pub is_strict: bool,
    pub quotas: Quotas,
    pub keys: Keys,
    /// Lists what of a machine this server cannot run.
    pub doubts: Option<Doubts>,
    /// Makes the call of a state under test.
    pub tester: Option<Tester>,
    /// Whether `TestState` may reveal the secrets of connections to its caller.
    pub reveals_secrets: bool,
}

/// The most of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    pub state_machines: usize,
    pub activities: usize,
    /// Running executions.
    pub executions: u64,
    /// Workers that poll one activity.
    pub pollers: usize,
    /// Per machine.
    pub versions: usize,
    /// Per machine.
    pub aliases: usize,
}

impl Default for Quotas {
    /// AWS's quotas, but for executions and workers: as many as this computer carries.
    fn default() -> Self {
        Self {
            state_machines: 100_000,
            activities: 100_000,
            executions: u64::MAX,
            pollers: 100_000,
            versions: 1_000,
            aliases: 100,
        }
    }
}

/// The API, and the door that it goes through: the one of whoever asks. Cloning shares.
#[derive(Clone)]
pub struct Api(Arc<Shared>, Door);

struct Shared {
    clock: RealClock,
    arns: Arns,
    is_strict: bool,
    quotas: Quotas,
    keys: Keys,
    doubts: Option<Doubts>,
    tester: Option<Tester>,
    reveals_secrets: bool,
    pools: Pools,
    catalog: Catalog,
    calls: Calls,
    tokens: Tokens,
    /// Machines that a task of this process is deleting.
    ending: Mutex<BTreeSet<Arc<str>>>,
    /// Polling workers, by activity.
    pollers: Mutex<HashMap<Arc<str>, usize>>,
}

impl Api {
    /// Over an open runtime. Blocks on the disk.
    pub fn new(setup: Setup) -> Result<Self, Failure> {
        let Setup { door, arns, is_strict, quotas, keys, doubts, tester, reveals_secrets } = setup;
        let secret = door.read(|reader| reader.secret())?;
        let shared = Shared {
            clock: RealClock::default(),
            arns,
            is_strict,
            quotas,
            keys,
            doubts,
            tester,
            reveals_secrets,
            pools: Pools::default(),
            catalog: Catalog::default(),
            calls: Calls::default(),
            tokens: Tokens::new(secret),
            ending: Mutex::default(),
            pollers: Mutex::default(),
        };
        Ok(Self(Arc::new(shared), door))
    }

    /// The same for one who asks: what is changed through it is on the audit.
    pub(crate) fn by(&self, origin: Origin) -> Self {
        Self(self.0.clone(), self.1.by(Arc::new(origin)))
    }

    fn door(&self) -> &Door {
        &self.1
    }

    /// Whoever asks may not: that is on the audit before they are told.
    pub(crate) async fn refused(&self, why: &str) -> Result<(), ApiError> {
        let Some(by) = self.door().origin() else { return Ok(()) };
        let entry = Entry::refused(by, Verb::Try, Subject::Installation, why);
        self.door().witness(entry).await.map_err(ApiError::unavailable)
    }

    /// What is stored of this execution is about to be told.
    async fn gives_out(&self, execution: ExecutionId) -> Result<(), ApiError> {
        self.door().gives_out(Subject::execution(execution)).await.map_err(ApiError::unavailable)
    }

    /// Carries out an action for a program in this process, with the body of the HTTP request.
    pub async fn ask(&self, action: &str, body: impl Into<Bytes>) -> Result<Value, ApiError> {
        self.call(action, body.into(), None).await
    }

    /// Carries out an action for a client. `room` is the body's share of the memory for requests; it is released
    /// when the request is done, or waits and no longer needs its body.
    pub(crate) async fn call(
        &self,
        action: &str,
        body: Bytes,
        room: Option<Place>,
    ) -> Result<Value, ApiError> {
        let answer = self.carry_out(action, body, room).await;
        self.0.calls.count(action, &answer);
        answer
    }

    async fn carry_out(&self, action: &str, body: Bytes, room: Option<Place>) -> Result<Value, ApiError> {
        let (action, is_strict, bytes) = (actions::find(action)?, self.0.is_strict, body.len());
        let request = self.computing(bytes, move || {
            let request = read(&body)?;
            model::check(action.members, Requested::new(&request)?.members(), is_strict)?;
            Ok(request)
        });
        let request = request.await?;
        // A small body takes no more than its connection does anyway, and its request may wait for long.
        let asked = Asked::new(request, room.filter(|_| is_large(bytes)))?;
        (action.carry_out)(self, asked).await
    }

    /// Carries out an action for a Task, which makes the same call again under the same key after a crash. A
    /// start without a name is named by the key, so that the second call finds the first execution.
    pub async fn call_under(&self, key: Uuid, action: &str, input: &Value) -> Result<Value, ApiError> {
        let origin = Caller::server().origin(DoorKind::Task, action, self.now());
        self.by(Origin { key: Some(key.to_string().into()), ..origin })
            .call_for_task(key, action, input)
            .await
    }

    async fn call_for_task(&self, key: Uuid, action: &str, input: &Value) -> Result<Value, ApiError> {
        let is_unnamed = action == "StartExecution" && input.get("name").is_none_or(Value::is_null);
        let (true, Value::Object(members)) = (is_unnamed, input) else {
            return self.call_own(action, input.clone()).await;
        };
        let mut members = Map::clone(members);
        members.insert("name", key.to_string());
        let answer = self.call_own(action, members.into()).await;
        match answer {
            Err(error) if error.code == Code::ExecutionAlreadyExists => self.started_under(key, input).await,
            other => other,
        }
    }

    async fn call_own(&self, action: &str, request: Value) -> Result<Value, ApiError> {
        let called = async {
            let (found, asked) = (actions::find(action)?, Asked::new(request, None)?);
            model::check(found.members, asked.requested().members(), self.0.is_strict)?;
            (found.carry_out)(self, asked).await
        };
        let answer = called.await;
        self.0.calls.count(action, &answer);
        answer
    }

    /// The answer of an earlier start under this key.
    async fn started_under(&self, key: Uuid, input: &Value) -> Result<Value, ApiError> {
        let machine = input.get("stateMachineArn").and_then(Value::as_str).unwrap_or_default();
        let machine = locate::MachineArn::read(&self.0.arns, machine)?;
        let arn = self.0.arns.execution(machine.name(), &key.to_string(), MachineType::Standard, "");
        let id = self.execution(&arn).await?;
        let execution = self.seen(id, &arn).await?;
        Ok(object! {"executionArn" => arn, "startDate" => seconds(execution.started_at())})
    }

    /// Calls by action and result.
    pub fn calls(&self) -> Vec<(&'static str, Went, u64)> {
        self.0.calls.counts()
    }

    /// Whether AWS's limits hold.
    pub fn is_strict(&self) -> bool {
        self.0.is_strict
    }

    pub(crate) fn moment(&self) -> Moment {
        self.0.clock.moment()
    }

    fn now(&self) -> Timestamp {
        self.moment().now
    }

    fn limits(&self, kind: MachineType) -> Limits {
        if self.0.is_strict { Limits::strict(kind) } else { Limits::GENEROUS }
    }
}

/// The names of all actions.
pub fn actions() -> impl Iterator<Item = &'static str> {
    actions::ACTIONS.iter().map(|action| action.name)
}

/// Whether an action only reads, so that a client may call it again.
pub(crate) fn only_asks(action: &str) -> bool {
    actions::find(action).is_ok_and(|action| action.only_asks)
}

/// What an access key needs for an action. One that is not known is refused as such, whoever asks.
pub(crate) fn needs(action: &str) -> Role {
    actions::find(action).map_or(Role::Read, |action| action.role)
}

/// The most values of a request. Documents are strings here and count as one value. No action takes nearly as
/// many, and a parsed value takes far more memory than its text.
const VALUES_MAX: usize = 100_000;

/// Parses a body.
fn read(body: &[u8]) -> Result<Value, ApiError> {
    let bad = |what: &str| ApiError::new(Code::SerializationException, what);
    let text = std::str::from_utf8(body).map_err(|_| bad("the body is not JSON"))?;
    if is_large(text.len()) && commas(text) >= VALUES_MAX {
        return Err(bad("the body has too many values"));
    }
    parse(without_mark(text)).map_err(|_| bad("the body is not JSON"))
}

/// Commas outside of strings.
fn commas(text: &str) -> usize {
    let (mut count, mut in_text, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b',' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// A time as the protocol has it: seconds, with milliseconds as the fraction.
fn seconds(at: Timestamp) -> Value {
    Value::Number(Number::Float(at.0 as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_countless_values_is_not_read() {
        let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(VALUES_MAX));
        assert_eq!(read(many.as_bytes()).map_err(|error| error.code), Err(Code::SerializationException));
        let inside = format!(r#"{{"input": "[{}0,\"\\\\\"]"}}"#, "0,".repeat(VALUES_MAX));
        assert!(read(inside.as_bytes()).is_ok(), "documents are texts");
    }
}
