//! The rule of five minutes, on a store in memory and a clock that is moved on.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, TaskToken};
use perdura_runtime::{Start, Started, Taken, View};
use perdura_server::control::{Answer, LedgerQuestion, Request};
use perdura_server::data::{Data, Deposit};
use perdura_server::{Refusal, handle, stuck};
use perdura_store::{
    After, Failure, Filter, MachineId, MachineRecord, MemoryStore, NewMachine, Reader, Registered, Registry,
    Retention, Room, Summary, SweepPlace, Swept,
};
use std::sync::Arc;

/// The same data, seen so many minutes later.
struct Later {
    data: Deposit,
    minutes: i64,
}

impl Data for Later {
    fn moment(&self) -> Moment {
        let moment = self.data.moment();
        Moment { now: moment.now.after_ms(self.minutes * 60_000), ..moment }
    }

    fn arns(&self) -> &Arns {
        self.data.arns()
    }

    fn performs(&self) -> bool {
        self.data.performs()
    }

    fn read<T>(&mut self, ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure>) -> Result<T, Failure> {
        self.data.read(ask)
    }

    fn view(&mut self, execution: ExecutionId) -> Option<Box<View>> {
        self.data.view(execution)
    }

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Vec<Summary>, Failure> {
        self.data.list(filter, after, most)
    }

    fn unlisted(&mut self) -> Result<u64, Failure> {
        self.data.unlisted()
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal> {
        self.data.named(machine, name)
    }

    fn deploy(&mut self, new: &NewMachine, machine: Arc<Machine>) -> Result<MachineRecord, Refusal> {
        self.data.deploy(new, machine)
    }

    fn start(&mut self, start: Start) -> Result<Started, Refusal> {
        self.data.start(start)
    }

    fn input(&mut self, execution: ExecutionId, input: Input) -> Result<Taken, Refusal> {
        self.data.input(execution, input)
    }

    fn answer(&mut self, token: TaskToken, outcome: Outcome) -> Result<(), Refusal> {
        self.data.answer(token, outcome)
    }

    fn heartbeat(&mut self, token: TaskToken) -> Result<(), Refusal> {
        self.data.heartbeat(token)
    }

    fn register(&mut self, entry: &Registered) -> Result<(), Refusal> {
        self.data.register(entry)
    }

    fn unregister(&mut self, kind: Registry, name: &str) -> Result<bool, Refusal> {
        self.data.unregister(kind, name)
    }

    fn give_up(&mut self, execution: ExecutionId) -> Result<bool, Refusal> {
        self.data.give_up(execution)
    }

    fn give_back(&mut self, pages: u32, reserves: bool) -> Result<Room, Refusal> {
        self.data.give_back(pages, reserves)
    }

    fn sweep(
        &mut self,
        retention: &Retention,
        place: &mut Option<SweepPlace>,
        most: u32,
    ) -> Result<Swept, Refusal> {
        self.data.sweep(retention, place, most)
    }
}

/// Data with one execution, `n`, that has made a call.
fn called() -> Later {
    let mut data =
        Later { data: Deposit::new(Box::new(MemoryStore::new(1))).expect("memory opens"), minutes: 0 };
    let definition = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
        "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}"#;
    let deploy = Request::Deploy {
        machine: "m".into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role: None,
    };
    handle(&mut data, deploy).expect("it is deployed");
    let start = Request::Start {
        machine: "m".into(),
        name: Some("n".into()),
        input: Payload::default(),
        strict: false,
    };
    handle(&mut data, start).expect("it is started");
    data
}

#[test]
fn a_call_that_nobody_makes_is_stuck_after_five_minutes() {
    let mut data = called();
    for (minutes, expected) in [(0, 0), (4, 0), (6, 1)] {
        data.minutes = minutes;
        let question = LedgerQuestion { stuck: true, most: 10, ..LedgerQuestion::default() };
        let Ok(Answer::Ledger(page)) = handle(&mut data, Request::Ledger(question)) else {
            panic!("the ledger can be read")
        };
        assert_eq!(page.items.len(), expected, "after {minutes} minutes");
    }
}

#[test]
fn a_call_that_nobody_waits_for_is_not_stuck() {
    let mut data = called();
    let stop = Request::Stop { execution: "n".into(), error: None, cause: None };
    handle(&mut data, stop).expect("it is stopped");
    data.minutes = 6;
    assert_eq!(stuck::stuck(&mut data).expect("the ledger can be read"), []);
}
