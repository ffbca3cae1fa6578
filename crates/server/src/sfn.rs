//! The Step Functions API: every action, for clients that do not know us.
//!
//! A request is held to the service's model, then one action carries it out by the verbs of the runtime and looks at
//! the store. [`Api::call`] is the only way in: HTTP brings requests here, and so does a Task that calls this very
//! server. What each action does stands in a file named after its noun.

mod activities;
mod calls;
mod card;
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
mod requested;
mod settings;
mod tags;
mod test_state;
mod token;
mod versions;

pub use calls::Went;
pub use card::resolver;
pub use error::{ApiError, Code};
pub use keys::{KeyState, Keys};
pub(crate) use machines::is_deleting;
pub use test_state::{Tester, Trying};

use crate::data::Doubts;
use calls::Calls;
use catalog::Catalog;
use perdura_engine::asl::json::{Map, Number, Value, parse};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::object;
use perdura_engine::{Arns, Limits, Moment, Timestamp};
use perdura_runtime::{Door, RealClock};
use perdura_store::{Failure, Reader};
use requested::Requested;
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
}

/// How many there may be of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Machines.
    pub state_machines: usize,
    /// Activities.
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
    catalog: Catalog,
    calls: Calls,
    tokens: Tokens,
    /// Machines whose deletion somebody is at.
    ending: Mutex<BTreeSet<Arc<str>>>,
    /// Workers that wait, by activity.
    pollers: Mutex<HashMap<Arc<str>, usize>>,
    /// How many activities there are, once somebody has counted; held while one is made, changed or deleted.
    activities: Mutex<Option<usize>>,
}

impl Api {
    /// Over a runtime that is open. It waits for the disk.
    pub fn new(setup: Setup) -> Result<Self, Failure> {
        let Setup { door, arns, is_strict, quotas, keys, doubts, tester } = setup;
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
            catalog: Catalog::default(),
            calls: Calls::default(),
            tokens: Tokens::new(secret),
            ending: Mutex::default(),
            pollers: Mutex::default(),
            activities: Mutex::default(),
        })))
    }

    /// Carries out an action.
    pub async fn call(&self, action: &str, body: &[u8]) -> Result<Value, ApiError> {
        let answer = self.carry_out(action, body).await;
        self.0.calls.count(action, &answer);
        answer
    }

    /// Carries out an action for a step of ours, which makes the same call again under the same key after a crash. A
    /// start without a name goes by the key, so that the second finds the first.
    pub async fn call_under(&self, key: Uuid, action: &str, input: &Value) -> Result<Value, ApiError> {
        let is_unnamed = action == "StartExecution" && input.get("name").is_none_or(Value::is_null);
        let (true, Value::Object(members)) = (is_unnamed, input) else {
            return self.call(action, input.to_string().as_bytes()).await;
        };
        let mut members = Map::clone(members);
        members.insert("name", key.to_string());
        let answer = self.call(action, Value::from(members).to_string().as_bytes()).await;
        match answer {
            Err(error) if error.code == Code::ExecutionAlreadyExists => self.started_under(key, input).await,
            other => other,
        }
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

    async fn carry_out(&self, action: &str, body: &[u8]) -> Result<Value, ApiError> {
        let Some(action) = model::find(action) else {
            return Err(ApiError::new(Code::UnknownOperationException, ""));
        };
        let request = read(body)?;
        let request = Requested::new(&request)?;
        action.check(request.members(), self.0.is_strict)?;
        match action.name {
            "CreateActivity" => activities::create(self, request).await,
            "CreateStateMachine" => machines::create(self, request).await,
            "CreateStateMachineAlias" => versions::create_alias(self, request).await,
            "DeleteActivity" => activities::delete(self, request).await,
            "DeleteStateMachine" => machines::delete(self, request).await,
            "DeleteStateMachineAlias" => versions::delete_alias(self, request).await,
            "DeleteStateMachineVersion" => versions::delete_version(self, request).await,
            "DescribeActivity" => activities::describe(self, request).await,
            "DescribeExecution" => executions::describe(self, request).await,
            "DescribeMapRun" => map_runs::describe(self, request).await,
            "DescribeStateMachine" => machines::describe(self, request).await,
            "DescribeStateMachineAlias" => versions::describe_alias(self, request).await,
            "DescribeStateMachineForExecution" => machines::describe_for_execution(self, request).await,
            "GetActivityTask" => activities::get_task(self, request).await,
            "GetExecutionHistory" => history::get(self, request).await,
            "ListActivities" => activities::list(self, request).await,
            "ListExecutions" => list::executions(self, request).await,
            "ListMapRuns" => map_runs::list(self, request).await,
            "ListStateMachineAliases" => versions::list_aliases(self, request).await,
            "ListStateMachineVersions" => versions::list_versions(self, request).await,
            "ListStateMachines" => machines::list(self, request).await,
            "ListTagsForResource" => tags::list(self, request).await,
            "PublishStateMachineVersion" => versions::publish(self, request).await,
            "RedriveExecution" => executions::redrive(self, request).await,
            "SendTaskFailure" => activities::fail(self, request).await,
            "SendTaskHeartbeat" => activities::heartbeat(self, request).await,
            "SendTaskSuccess" => activities::succeed(self, request).await,
            "StartExecution" => executions::start(self, request).await,
            "StartSyncExecution" => executions::start_sync(self, request).await,
            "StopExecution" => executions::stop(self, request).await,
            "TagResource" => tags::tag(self, request).await,
            "TestState" => test_state::test(self, request).await,
            "UntagResource" => tags::untag(self, request).await,
            "UpdateMapRun" => map_runs::update(self, request).await,
            "UpdateStateMachine" => machines::update(self, request).await,
            "UpdateStateMachineAlias" => versions::update_alias(self, request).await,
            "ValidateStateMachineDefinition" => Ok(machines::validate(self, request)),
            other => unreachable!("{other} is in the model and has no action"),
        }
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

    /// Waits for the disk where that holds up nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let api = self.clone();
        match tokio::task::spawn_blocking(move || work(&api)).await {
            Ok(done) => done,
            Err(panic) => Err(ApiError::unavailable(panic)),
        }
    }

    /// Reads from the store.
    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.blocking(move |api| Ok(api.0.door.read(ask)?)).await
    }
}

/// The request in a body.
fn read(body: &[u8]) -> Result<Value, ApiError> {
    let bad = || ApiError::new(Code::SerializationException, "the body is not JSON");
    let text = std::str::from_utf8(body).map_err(|_| bad())?;
    parse(text).map_err(|_| bad())
}

/// A time as the protocol has it: seconds, with the milliseconds behind the point.
fn seconds(at: Timestamp) -> Value {
    Value::Number(Number::Float(at.0 as f64 / 1000.0))
}
