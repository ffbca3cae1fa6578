//! A node with real Turns: those of a machine with one Task, as the engine would have decided them.

use crate::folder::TempFolder;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{EffectKey, ExecutionId, Status, Timestamp, Wake};
use perdura_store::record::{JournalWriter, TurnBody, push_turn, seal};
use perdura_store::{
    Catalog, Claim, Content, Group, Lease, MachineRecord, NewMachine, Position, Row, SqliteOptions,
    SqliteStore, Store, Totals,
};
use serde_json::{Value, json};

pub(crate) const DEFINITION: &str = r#"{"StartAt":"Pay","States":{"Pay":{"Type":"Task",
    "Resource":"arn:aws:states:::http:invoke","Parameters":{"ApiEndpoint":"https://example.com/pay",
    "Method":"POST","Authentication":{"ConnectionArn":"arn:aws:events:eu-central-1:000000000000:connection/c/1"}},
    "End":true}}}"#;

pub(crate) struct Stage {
    pub(crate) store: SqliteStore,
    pub(crate) lease: Lease,
    pub(crate) machine: MachineRecord,
    pub(crate) next: Position,
    pub(crate) folder: TempFolder,
}

/// For a second.
pub(crate) fn claim(holder: &str, now: i64) -> Claim {
    Claim { holder: holder.into(), most: u16::MAX, now: Timestamp(now), expires_at: Timestamp(now + 1_000) }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(SqliteOptions::default())
    }

    pub(crate) fn with(options: SqliteOptions) -> Self {
        let folder = TempFolder::new();
        let mut store = SqliteStore::open(folder.path(), options).unwrap();
        let lease = store.acquire(&claim("tester", 0)).unwrap();
        let machine = NewMachine {
            name: "payments".into(),
            kind: MachineType::Standard,
            definition: DEFINITION.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(1),
        };
        let machine = store.deploy(&machine, None).unwrap();
        let next = Position::before(lease.incarnation()).next();
        Self { store, lease, machine, next, folder }
    }

    pub(crate) fn group(&self) -> Group {
        Group::under(self.lease.clone())
    }

    /// These Turns in one journal row.
    pub(crate) fn turns(&mut self, turns: &[(ExecutionId, u64, Vec<u8>)]) -> Group {
        let mut writer = JournalWriter::new(&Totals { turns: self.next.number, ..Totals::default() });
        for (execution, number, body) in turns {
            writer.push(*execution, *number, body);
        }
        let position = self.next;
        self.next = position.next();
        Group { position: Some(position), journal: writer.seal(), ..self.group() }
    }

    pub(crate) fn commit(&mut self, group: &Group) {
        self.store.commit(group).unwrap();
    }

    /// One that has ended, its Turns in its row.
    pub(crate) fn ended(&self, number: u128) -> Row {
        let execution = who(number);
        let mut history = Vec::new();
        for body in [self.begins(execution), pays(execution), ends(3)] {
            push_turn(&mut history, &body);
        }
        let content = Content { turns: 3, events: 2, state: None, tail_from: 1, tail: seal(&history) };
        Row {
            execution,
            machine: self.machine.machine,
            revision: self.machine.revision,
            name: Some(name(execution).into()),
            status: Status::Succeeded,
            awake: false,
            started_at: Timestamp(1),
            ended_at: Some(Timestamp(3)),
            wake: Wake::default(),
            waits: false,
            held: false,
            redrives: 0,
            redriven_at: None,
            version: None,
            alias: None,
            labels: perdura_engine::Labels::default(),
            root_key: None,
            error: None,
            child: None,
            content: Some(content),
        }
    }

    /// The first Turn: it starts.
    pub(crate) fn begins(&self, execution: ExecutionId) -> Vec<u8> {
        let begun = json!({
            "machine": self.machine.machine, "revision": self.machine.revision, "named": true,
            "identity": {
                "id": execution, "arn": "a", "name": name(execution), "machine_arn": "m", "machine_name": "payments",
                "role_arn": "r", "kind": self.machine.kind, "flow": 0, "input": "{}",
                "limits": {
                    "payload_bytes_max": 1000, "variables_bytes_max": 1000, "events_max": null,
                    "duration_seconds_max": null, "turn_states_max": 10, "turn_bytes_max": 1000
                }
            }
        });
        let started = event(1, 1, &json!({"ExecutionStarted": {"input": "{}"}}));
        let body = json!({"begun": begun, "turn": {"records": [started, note(execution, "Pending")]}});
        read(&body)
    }
}

/// Its name.
fn name(execution: ExecutionId) -> String {
    let number = (0..10).find(|number| who(*number) == execution);
    number.map_or_else(|| execution.to_string(), |number| format!("order-{number}"))
}

pub(crate) fn who(number: u128) -> ExecutionId {
    ExecutionId::from_random(number << 40)
}

/// The key that all of them pay under.
pub(crate) fn key(execution: ExecutionId) -> EffectKey {
    serde_json::from_value(json!(format!("{execution}:Pay#1:1"))).unwrap()
}

/// A Turn in which the payment was answered.
pub(crate) fn pays(execution: ExecutionId) -> Vec<u8> {
    read(&json!({"turn": {"records": [note(execution, "Completed")]}}))
}

/// The last Turn.
pub(crate) fn ends(at: i64) -> Vec<u8> {
    read(&json!({"turn": {"records": [event(2, at, &json!({"ExecutionSucceeded": {"output": "{}"}}))]}}))
}

fn note(execution: ExecutionId, status: &str) -> Value {
    json!({"Note": {"Ledger": {"key": key(execution), "status": status}}})
}

fn event(id: u64, at: i64, kind: &Value) -> Value {
    json!({"Event": {"id": id, "previous": id - 1, "at": at, "strand": 0, "kind": kind}})
}

/// What the test says is what a Turn says.
fn read(body: &Value) -> Vec<u8> {
    TurnBody::read(&serde_json::to_vec(body).unwrap()).unwrap().write()
}
