//! What depends on the moment, on a store in memory: the rule of five minutes, by a clock that is moved on, and a machine
//! that is deleted between two reads of it.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::{Arns, ExecutionId, Input, Moment, Outcome, Policy, Status, TaskToken, Timestamp};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_runtime::{Nowhere, Options, RealWorld, Runtime, Start, Started, Steps, Taken, View};
use perdura_server::control::{Answer, LedgerQuestion, Request};
use perdura_server::data::{Data, Deposit};
use perdura_server::{Refusal, handle, stuck};
use perdura_store::{
    After, Catalog, Erased, Failure, Filter, Listing, MachineChange, MachineId, MemoryStore, Reader,
    Registered, Registry, Retention, Revised, Room, Store, SweepPlace, Swept,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The same data, seen so many minutes later, with something that happens just before a start.
struct Later {
    data: Deposit,
    minutes: i64,
    before_start: Option<Box<dyn FnOnce()>>,
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

    fn list(&mut self, filter: &Filter, after: After, most: u32) -> Result<Listing, Failure> {
        self.data.list(filter, after, most)
    }

    fn unlisted(&mut self) -> Result<u64, Failure> {
        self.data.unlisted()
    }

    fn named(&mut self, machine: MachineId, name: &str) -> Result<Option<ExecutionId>, Refusal> {
        self.data.named(machine, name)
    }

    fn revise(&mut self, change: &MachineChange<'_>, machine: Arc<Machine>) -> Result<Revised, Refusal> {
        self.data.revise(change, machine)
    }

    fn start(&mut self, start: Start) -> Result<Started, Refusal> {
        if let Some(happens) = self.before_start.take() {
            happens();
        }
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

    fn erase(&mut self, ended: Vec<(ExecutionId, Timestamp)>) -> Result<Erased, Refusal> {
        self.data.erase(ended)
    }

    fn erase_answers(&mut self, scopes: &[Scope], key: &str) -> Result<u64, Refusal> {
        self.data.erase_answers(scopes, key)
    }

    fn scrub_answers(&mut self, bytes_max: u64) -> Result<Scrubbed, Refusal> {
        self.data.scrub_answers(bytes_max)
    }

    fn rewrite_small(&mut self, bytes_max: u64) -> Result<bool, Refusal> {
        self.data.rewrite_small(bytes_max)
    }

    fn scrub(&mut self) -> Result<bool, Refusal> {
        self.data.scrub()
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

/// Data with a machine `m`.
fn deployed(store: &MemoryStore) -> Later {
    let deposit = Deposit::new(Box::new(store.clone())).expect("memory opens");
    let mut data = Later { data: deposit, minutes: 0, before_start: None };
    let definition = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
        "Resource": "arn:perdura:step:::call"}}}"#;
    let deploy = Request::Deploy {
        machine: "m".into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role: None,
    };
    handle(&mut data, deploy).expect("it is deployed");
    data
}

fn start() -> Request {
    Request::Start {
        machine: "m".into(),
        name: Some("n".into()),
        input: Payload::default(),
        strict: false,
        labels: perdura_engine::Labels::default(),
        key: None,
    }
}

/// Data with one execution, `n`, whose call was under way when its server ended.
fn called() -> Later {
    let store = MemoryStore::new(1);
    let mut data = deployed(&store);
    handle(&mut data, start()).expect("it is started");
    drop(data);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads");
    let (begun, begins) = mpsc::channel();
    let hangs = move |_| {
        begun.send(()).expect("the test waits for it");
        std::future::pending()
    };
    let steps = Steps::default().with("call", Policy::default(), hangs);
    let world = RealWorld::new(steps, Box::new(Nowhere), tokio.handle().clone());
    let served = store.clone();
    let opener = Box::new(move || Ok(Box::new(served.clone()) as Box<dyn Store>));
    let runtime = Runtime::open(opener, Arc::new(world), &Options::default()).expect("memory opens");
    begins.recv().expect("the call begins");
    runtime.close(Duration::ZERO);
    let deposit = Deposit::new(Box::new(store)).expect("memory opens");
    let mut data = Later { data: deposit, minutes: 0, before_start: None };
    // Rows follow what runs after a second, or when a command has taken something in.
    handle(&mut data, start()).expect("the same start finds the first");
    data
}

#[test]
fn an_execution_that_was_started_while_its_machine_was_deleted_is_stopped() {
    let store = MemoryStore::new(1);
    let mut data = deployed(&store);
    let mut other = store.clone();
    data.before_start = Some(Box::new(move || {
        let head = other.reader().expect("memory opens").head("m").expect("memory can be read");
        let seen = head.map(|head| head.changed);
        let change = MachineChange { name: "m".into(), seen, revision: None, card: &|_| None };
        assert_eq!(other.revise(&change, None).expect("memory takes it"), Revised::Gone);
    }));
    let refused = handle(&mut data, start()).expect_err("its machine is gone");
    assert_eq!(refused.what, "the machine m is being deleted");
    let Ok(Answer::Execution(shown)) = handle(&mut data, Request::Show { execution: "m/n".into() }) else {
        panic!("it can be shown")
    };
    assert_eq!(shown.status, Status::Aborted);
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
