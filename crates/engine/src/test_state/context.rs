//! The context object that a state sees when the request brings none.

use super::{LONGEST_MS, NAME, TestState};
use crate::arn::Arns;
use crate::id::{ExecutionId, Moment};
use crate::identity::{Identity, Limits};
use perdura_asl::json::{Map, Value};
use perdura_asl::machine::{FlowIx, Kind, Machine, MachineType, MapMode, State, StateIx};
use perdura_asl::object;
use perdura_asl::scope::Dice;

/// The Map in whose iteration a state stands.
pub(super) struct Iteration {
    /// Its items come from the state's input, and its children are told so.
    tells_source: bool,
}

impl Iteration {
    /// The innermost Map around a state.
    pub(super) fn around(machine: &Machine, state: StateIx) -> Option<Self> {
        let mut here = state;
        loop {
            here = machine.flow(machine.state(here).flow).parent?;
            if let Kind::Map(map) = &machine.state(here).kind {
                let is_distributed = matches!(map.mode, MapMode::Distributed { .. });
                return Some(Self { tells_source: is_distributed && map.reader.is_none() });
            }
        }
    }
}

/// Who the execution is. It stops behind its first state, and may take as long as a trial.
pub(super) fn identity(request: &TestState, arns: &Arns, moment: &Moment) -> Identity {
    let dice = Dice::new(moment.now.0, !moment.entropy);
    let (machine, name) = (dice.uuid(), dice.uuid());
    let machine_arn = arns.machine(&machine);
    let arn = format!("{}:{name}", machine_arn.replacen(":stateMachine:", ":express:", 1));
    Identity {
        id: ExecutionId::from_random(dice.throw()),
        arn: arn.into(),
        name: name.into(),
        machine_arn: machine_arn.into(),
        machine_name: machine.into(),
        role_arn: request.role_arn.clone().unwrap_or_default(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        kind: MachineType::Express,
        flow: FlowIx(0),
        input: request.input.clone(),
        limits: Limits {
            turn_states_max: 1,
            duration_seconds_max: Some(LONGEST_MS.unsigned_abs() / 1000),
            ..Limits::strict(MachineType::Express)
        },
    }
}

/// What AWS makes up: an Express execution that has just entered a state.
pub(super) fn made_up(
    request: &TestState,
    identity: &Identity,
    state: &State,
    around: Option<&Iteration>,
    moment: &Moment,
) -> Map {
    let now = moment.now.to_string();
    let role: Value = request.role_arn.clone().map_or(Value::Null, Value::from);
    let mut entered = Map::new();
    entered.insert("Name", NAME);
    entered.insert("EnteredTime", now.clone());
    if matches!(state.kind, Kind::Task(_) | Kind::Parallel(_) | Kind::Map(_)) {
        entered.insert("RetryCount", request.configuration.retrier_retry_count.unwrap_or(0));
    }
    let mut whole = Map::new();
    whole.insert(
        "Execution",
        object! {
            "Id" => identity.arn.clone(),
            "Input" => request.input.value().clone(),
            "Name" => identity.name.clone(),
            "RoleArn" => role,
            "StartTime" => now,
        },
    );
    whole.insert(
        "StateMachine",
        object! {"Id" => identity.machine_arn.clone(), "Name" => identity.machine_name.clone()},
    );
    whole.insert("State", entered);
    if let Some(around) = around {
        let mut item = Map::new();
        item.insert("Index", 0);
        item.insert("Value", request.input.value().clone());
        if around.tells_source {
            item.insert("Source", "STATE_DATA");
        }
        whole.insert("Map", object! {"Item" => item});
    }
    if has_token(state) {
        let token = Dice::new(moment.now.0, moment.entropy.rotate_left(64)).uuid();
        whole.insert("Task", object! {"Token" => token});
    }
    whole
}

/// Whether its answer comes by token.
fn has_token(state: &State) -> bool {
    matches!(&state.kind, Kind::Task(task) if task.resource.pattern.has_token())
}
