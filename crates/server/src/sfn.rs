//! The Step Functions API: every action, for clients that do not know us.
//!
//! A request is held to the service's model, then one action carries it out by the verbs of the runtime and looks at
//! the store. `Api::call` is the only way in: HTTP brings requests here, and so does a Task that calls this very
//! server. What each action does stands in a file named after its noun.

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
pub(crate) use machines::is_deleting;
pub(crate) use pools::is_large;
pub use test_state::{Tester, Trying};

use crate::data::Doubts;
use crate::places::Place;
use axum::body::Bytes;
use calls::Calls;
use catalog::Catalog;
use perdura_engine::asl::json::{Map, Number, Value, parse, without_mark};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::object;
use perdura_engine::{Arns, Limits, Moment, Timestamp};
use perdura_runtime::{Door, RealClock};
use perdura_store::Failure;
use pools::Pools;
use requested::{Asked, Requested};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use token::Tokens;
use uuid::Uuid;

/// How the API is set up.
pub struct Setup {
    /// The runtime.
    pub door: Door,
    /// Partition, region and account of all ARNs.
    pub arns: Arns,
    /// Whether AWS's limits hold.
    pub is_strict: bool,
    /// How many there may be of what.
    pub quotas: Quotas,
    /// The keys of KMS that are known.
    pub keys: Keys,
    /// Says what of a machine cannot be run here.
    pub doubts: Option<Doubts>,
    /// Calls what a state under test calls.
    pub tester: Option<Tester>,
    /// Whether `TestState` may tell the secrets of connections to whoever asks for them.
    pub reveals_secrets: bool,
}

/// How many there may be of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    pub state_machines: usize,
    pub activities: usize,
    /// Executions that run.
    pub executions: u64,
    /// Workers that wait for tasks of one activity.
    pub pollers: usize,
    /// Versions of a machine.
    pub versions: usize,
    /// Aliases of a machine.
    pub aliases: usize,
}

impl Default for Quotas {
    /// As AWS has them, but for executions and workers, of which there may be as many as the machine carries.
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

/// The API. Cloning shares.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    door: Door,
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
    /// Machines whose deletion somebody is at.
    ending: Mutex<BTreeSet<Arc<str>>>,
    /// Workers that wait, by activity.
    pollers: Mutex<HashMap<Arc<str>, usize>>,
}

impl Api {
    /// Over a runtime that is open. It waits for the disk.
    pub fn new(setup: Setup) -> Result<Self, Failure> {
        let Setup { door, arns, is_strict, quotas, keys, doubts, tester, reveals_secrets } = setup;
        let secret = door.read(|reader| reader.secret())?;
        Ok(Self(Arc::new(Shared {
            door,
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
        })))
    }

    /// Carries out an action for a program in this process: the body is the one that HTTP would bring.
    pub async fn ask(&self, action: &str, body: impl Into<Bytes>) -> Result<Value, ApiError> {
        self.call(action, body.into(), None).await
    }

    /// Carries out an action for a client. `room` is what the body takes of the memory for requests; it is given back
    /// when the request is done with, or waits without what it brought.
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
        // A small one holds no more than its connection does anyway, and may have to wait for long.
        let asked = Asked::new(request, room.filter(|_| is_large(bytes)))?;
        (action.carry_out)(self, asked).await
    }

    /// Carries out an action for a step of ours, which makes the same call again under the same key after a crash. A
    /// start without a name goes by the key, so that the second finds the first.
    pub async fn call_under(&self, key: Uuid, action: &str, input: &Value) -> Result<Value, ApiError> {
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

    /// What a start under this key has answered before.
    async fn started_under(&self, key: Uuid, input: &Value) -> Result<Value, ApiError> {
        let machine = input.get("stateMachineArn").and_then(Value::as_str).unwrap_or_default();
        let machine = locate::MachineArn::read(&self.0.arns, machine)?;
        let arn = self.0.arns.execution(machine.name(), &key.to_string(), MachineType::Standard, "");
        let id = self.execution(&arn).await?;
        let execution = self.seen(id, &arn).await?;
        Ok(object! {"executionArn" => arn, "startDate" => seconds(execution.started_at())})
    }

    /// How often each action was called, and how that went.
    pub fn calls(&self) -> Vec<(&'static str, Went, u64)> {
        self.0.calls.counts()
    }

    /// Whether AWS's limits hold.
    pub fn is_strict(&self) -> bool {
        self.0.is_strict
    }

    /// Now, and fresh entropy.
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

/// Whether an action can be called again without a second thought.
pub(crate) fn only_asks(action: &str) -> bool {
    actions::find(action).is_ok_and(|action| action.only_asks)
}

/// How many values a request may have, beside those in its documents, which are texts here. No action takes nearly as
/// many, and each takes far more memory than its text.
const VALUES_MAX: usize = 100_000;

/// The request in a body.
fn read(body: &[u8]) -> Result<Value, ApiError> {
    let bad = |what: &str| ApiError::new(Code::SerializationException, what);
    let text = std::str::from_utf8(body).map_err(|_| bad("the body is not JSON"))?;
    if is_large(text.len()) && commas(text) >= VALUES_MAX {
        return Err(bad("the body has too many values"));
    }
    parse(without_mark(text)).map_err(|_| bad("the body is not JSON"))
}

/// How many commas stand between values, and not in texts.
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

/// A time as the protocol has it: seconds, with the milliseconds behind the point.
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
