//! The context object: the one of the request, if it is valid, or a generated one.

use super::{LONGEST_MS, NAME, TestState};
use crate::arn::Arns;
use crate::id::{ExecutionId, Moment};
use crate::identity::{Identity, Limits};
use crate::labels::Labels;
use perdura_asl::json::{Map, Value};
use perdura_asl::machine::{FlowIx, Kind, Machine, MachineType, MapMode, State, StateIx};
use perdura_asl::object;
use perdura_asl::scope::Dice;

/// The Map whose iteration contains a state.
pub(super) struct Iteration {
    /// Its items come from the state's input, and its children see that.
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

/// The type of a member of a context object.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Whole,
    Object,
    Any,
}

/// The allowed members of a context object in a request. It may not describe an iteration of a Map.
const MEMBERS: [(&str, &[(&str, Is)]); 4] = [
    (
        "Execution",
        &[
            ("Id", Is::Text),
            ("Input", Is::Any),
            ("Name", Is::Text),
            ("RoleArn", Is::Text),
            ("StartTime", Is::Text),
            ("RedriveCount", Is::Whole),
            ("RedriveTime", Is::Text),
        ],
    ),
    ("State", &[("EnteredTime", Is::Text), ("Name", Is::Text), ("RetryCount", Is::Whole)]),
    ("StateMachine", &[("Id", Is::Text), ("Name", Is::Text)]),
    ("Task", &[("Token", Is::Text)]),
];

/// The mistake in a context object for this state.
pub(super) fn check(context: &Map, state: &State) -> Result<(), String> {
    for (name, part) in context.iter() {
        let known = MEMBERS.iter().find(|(known, _)| **known == **name);
        let Some((_, members)) = known else {
            return Err(match &**name {
                "Map" => "'Map' field is not supported when mocking a Context object".into(),
                other => format!("Field '{other}' is not allowed"),
            });
        };
        if &**name == "Task" && !has_token(state) {
            return Err(
                "Field 'Task' is for a Task state that waits for a token or for the end of a job".into()
            );
        }
        check_type(part, Is::Object, name)?;
        for (inner, value) in part.as_object().into_iter().flat_map(Map::iter) {
            let Some((_, is)) = members.iter().find(|(known, _)| **known == **inner) else {
                return Err(format!("Field '{inner}' is not allowed"));
            };
            check_type(value, *is, &format!("{name}.{inner}"))?;
        }
    }
    Ok(())
}

fn check_type(value: &Value, is: Is, at: &str) -> Result<(), String> {
    let (fits, wanted) = match is {
        Is::Text => (value.as_str().is_some(), "a string"),
        Is::Whole => (value.as_i64().is_some(), "a number"),
        Is::Object => (value.as_object().is_some(), "an object"),
        Is::Any => (true, ""),
    };
    if fits { Ok(()) } else { Err(format!("{at} must be {wanted}")) }
}

/// The identity of the execution. It stops after its first state, and has the time limit of a test.
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
        labels: Labels::default(),
        root_key: None,
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

/// AWS's generated context object: an Express execution that has just entered a state.
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
