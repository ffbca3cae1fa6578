//! The context object: `$$`, and `$states.context`.

use crate::execution::Core;
use crate::id::{EffectKey, TaskToken};
use crate::identity::Identity;
use crate::strand::Step;
use perdura_asl::json::{Map, Value};
use perdura_asl::machine::{Kind, MachineType, State};
use perdura_asl::scope::Context;

/// The parts of the context object, which is built only when it is read.
pub(crate) struct StepContext<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) core: &'a Core,
    pub(crate) state: &'a State,
    pub(crate) step: &'a Step,
    /// Computed only when it is read.
    pub(crate) key: &'a dyn Fn() -> Option<EffectKey>,
    pub(crate) token: Option<TaskToken>,
    pub(crate) item: Option<MapItem>,
}

/// The item for an `ItemSelector`.
#[derive(Clone, Debug)]
pub(crate) struct MapItem {
    pub(crate) index: u64,
    pub(crate) value: Value,
}

impl MapItem {
    /// `$$.Map`
    pub(crate) fn to_map(&self) -> Map {
        let mut inner = Map::new();
        inner.insert("Index", self.index);
        inner.insert("Value", self.value.clone());
        [("Item", inner)].into_iter().collect()
    }
}

impl Context for StepContext<'_> {
    fn whole(&self) -> Value {
        let Self { identity, core, state, step, key: _, token, item } = self;
        let mut execution = Map::new();
        execution.insert("Id", identity.arn.clone());
        execution.insert("Input", identity.input.value().clone());
        execution.insert("StartTime", core.started_at.to_string());
        execution.insert("Name", identity.name.clone());
        execution.insert("RoleArn", identity.role_arn.clone());
        if identity.kind == MachineType::Standard {
            execution.insert("RedriveCount", core.redrives);
            if let Some(at) = core.redriven_at {
                execution.insert("RedriveTime", at.to_string());
            }
        }
        let mut machine = Map::new();
        machine.insert("Id", identity.machine_arn.clone());
        machine.insert("Name", identity.machine_name.clone());
        let mut entered = Map::new();
        entered.insert("Name", state.name.clone());
        entered.insert("EnteredTime", step.entered_at.to_string());
        if matches!(state.kind, Kind::Task(_)) || step.retry_count() > 0 {
            entered.insert("RetryCount", step.retry_count());
        }
        let mut whole = Map::new();
        whole.insert("Execution", execution);
        whole.insert("StateMachine", machine);
        whole.insert("State", entered);
        if let Some(item) = item {
            whole.insert("Map", item.to_map());
        }
        if let Some(token) = token {
            whole.insert("Task", [("Token", token.to_string())].into_iter().collect::<Map>());
        }
        whole.into()
    }

    fn hidden(&self, names: &[&str]) -> Option<Value> {
        match names {
            ["Task", "IdempotencyKey"] => (self.key)().map(|key| key.wire().to_string().into()),
            _ => None,
        }
    }
}
