//! A node with Map Runs, whose world the test decides.

use perdura_engine::asl::json::{Payload, Value, parse};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{
    Arns, Call, Certainty, Destinations, ExecutionId, Fault, Input, Limits, Moment, Outcome, Policy, Status,
    Timestamp,
};
use perdura_runtime::{
    Bounds, ChildResult, Committer, Deed, Ending, Fed, Fetch, FetchKind, Fetched, Librarian, Live, Message,
    Node, Opened, Opening, Question, Reply, Source, Start, Ticket, Via, bring_results, recall,
};
use perdura_store::{Catalog, MapRunRow, MemoryStore, NewMachine, Reader, RevisionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use tokio::sync::Semaphore;

/// More steps than this go nowhere.
pub(super) const STEPS_MAX: usize = 3_000;

pub(super) struct Everywhere;

impl Destinations for Everywhere {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }
}

/// Who reads items for a run.
pub(super) struct Reading {
    pub(super) ticket: Ticket,
    pub(super) room: Arc<Semaphore>,
    pub(super) at: usize,
}

/// A node and all that is around it.
pub(super) struct Rig {
    pub(super) store: MemoryStore,
    pub(super) node: Node,
    pub(super) committer: Committer,
    pub(super) librarian: Librarian,
    pub(super) now: i64,
    pub(super) drawn: u128,
    pub(super) commits: usize,
    /// How often each input was worked on.
    pub(super) worked: BTreeMap<String, usize>,
    /// What fails, and is not answered.
    pub(super) fails: fn(&str) -> bool,
    pub(super) hangs: fn(&str) -> bool,
    /// What a reader gives.
    pub(super) items: Vec<Value>,
    pub(super) version: &'static str,
    pub(super) limits: Limits,
    pub(super) reading: Vec<Reading>,
    /// What was to be fetched, while nobody brings it.
    pub(super) withheld: Option<Vec<Fetch>>,
    /// Questions that nobody answers, by what they say.
    pub(super) ignores: fn(&str) -> bool,
    pub(super) ignored: Vec<Question>,
    pub(super) written: Arc<Mutex<Vec<ChildResult>>>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let mut store = MemoryStore::new(2);
        let Opened { node, committer, librarian } = open(&mut store, 0, 1);
        Self {
            store,
            node,
            committer,
            librarian,
            now: 0,
            drawn: 1,
            commits: 0,
            worked: BTreeMap::new(),
            fails: |_| false,
            hangs: |_| false,
            items: Vec::new(),
            version: "v1",
            limits: Limits::GENEROUS,
            reading: Vec::new(),
            withheld: None,
            ignores: |_| false,
            ignored: Vec::new(),
            written: Arc::default(),
        }
    }

    pub(super) fn moment(&mut self) -> Moment {
        self.drawn += 1;
        Moment { now: Timestamp(self.now), steady: Timestamp(self.now), entropy: self.drawn << 64 }
    }

    /// The process is gone, and another one takes up what is on disk.
    pub(super) fn crash(&mut self) {
        self.drawn += 1;
        self.now += 10_000;
        self.reading.clear();
        self.ignored.clear();
        let Opened { node, committer, librarian } = open(&mut self.store, self.now, self.drawn);
        (self.node, self.committer, self.librarian) = (node, committer, librarian);
    }

    /// Reads what the node wants to know; whether there was something.
    fn read(&mut self) -> bool {
        let mut has_read = false;
        loop {
            let questions = self.node.questions();
            if questions.is_empty() {
                return has_read;
            }
            has_read = true;
            for question in questions {
                if (self.ignores)(&format!("{question:?}")) {
                    self.ignored.push(question);
                    continue;
                }
                let (moment, finding) = (self.moment(), self.librarian.answer(question));
                self.node.hear(finding, &moment);
            }
        }
    }

    pub(super) fn start(&mut self, machine: &str, input: &str) -> ExecutionId {
        let new = NewMachine {
            name: "test".into(),
            kind: MachineType::Standard,
            definition: machine.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        let revision: RevisionId = self.store.deploy(&new, None).unwrap().revision;
        let start = Start {
            revision,
            name: None,
            input: Payload::from_text(input).unwrap(),
            limits: self.limits,
            shares_name: false,
            arns: Arns::default(),
            via: Via::default(),
        };
        let (sender, started) = mpsc::channel();
        let reply = Reply::new(move |answer| sender.send(answer).unwrap());
        let moment = self.moment();
        self.node.take(Message::Start { start: Box::new(start), reply, ending: None }, &moment);
        self.step();
        started.try_recv().unwrap().unwrap().execution
    }

    pub(super) fn input(&mut self, execution: ExecutionId, input: Input) {
        let moment = self.moment();
        self.node.take(Message::Input { execution, input, reply: Reply::new(|_| ()) }, &moment);
    }

    /// One pass: decide, commit, and do what follows.
    pub(super) fn step(&mut self) {
        self.now += 50;
        let moment = self.moment();
        self.read();
        self.node.wake(&moment);
        while self.read() {
            self.node.wake(&moment);
        }
        let drawn = &mut self.drawn;
        let mut fresh = || {
            *drawn += 1;
            Moment { entropy: *drawn << 64, ..moment }
        };
        for item in self.node.decide(4, &mut fresh) {
            self.committer.add(item);
        }
        self.committer.add_map_runs(self.node.map_run_rows());
        let fetches: Vec<Deed> = self.node.fetches().collect();
        let mut deeds = Vec::new();
        if let Some(prepared) = self.committer.hand_over() {
            self.commits += 1;
            deeds = self.node.settle(prepared.write(&mut self.store).unwrap());
        }
        for deed in fetches.into_iter().chain(deeds) {
            match deed {
                Deed::Perform { execution, call } | Deed::StandIn { execution, call } => {
                    self.perform(execution, &call);
                }
                Deed::Cancel { .. } | Deed::Publish { .. } => {}
                Deed::Fetch(fetch) => self.fetch(fetch),
            }
        }
        self.give_items();
    }

    pub(super) fn perform(&mut self, execution: ExecutionId, call: &Call) {
        let text = call.input.to_string();
        if (self.hangs)(&text) {
            return;
        }
        *self.worked.entry(text.clone()).or_default() += 1;
        let outcome = if (self.fails)(&text) {
            Outcome::Failed { fault: Fault::named("Bad"), certainty: Certainty::Refused }
        } else {
            Outcome::Succeeded { output: Payload::from_text(format!("[{text}]")).unwrap() }
        };
        let by = call.by();
        let moment = self.moment();
        self.node.take(Message::Answer { execution, by, outcome }, &moment);
    }

    pub(super) fn fetch(&mut self, fetch: Fetch) {
        if let Some(withheld) = &mut self.withheld {
            return withheld.push(fetch);
        }
        let Fetch { ticket, kind } = fetch;
        let mut reader = self.store.reader().unwrap();
        let message = match kind {
            FetchKind::Children => ticket.tell(Fetched::Children(recall(&mut *reader, ticket.run))),
            FetchKind::Items { room, .. } => {
                self.reading.push(Reading { ticket, room, at: 0 });
                let source = Source { name: "S3://b/k".into(), version: self.version.into() };
                ticket.tell(Fetched::Items(Fed::From(source)))
            }
            FetchKind::Results { order, bytes_max } => {
                let (sender, told) = mpsc::channel();
                let written = self.written.clone();
                let write = move |order: perdura_runtime::WriteOrder| {
                    *written.lock().unwrap() = order.results.map(Result::unwrap).collect();
                    order.reply.send(Ok(Payload::from_text("\"written\"").unwrap()));
                };
                bring_results(ticket, reader, (&order, bytes_max), write, move |message| {
                    sender.send(message).unwrap();
                });
                told.recv().unwrap()
            }
        };
        let moment = self.moment();
        self.node.take(message, &moment);
    }

    pub(super) fn give_items(&mut self) {
        let mut reading = std::mem::take(&mut self.reading);
        for reader in &mut reading {
            while reader.at <= self.items.len()
                && let Ok(permit) = reader.room.try_acquire()
            {
                permit.forget();
                let fed = match self.items.get(reader.at) {
                    Some(item) => Fed::Items(vec![item.clone()]),
                    None => Fed::End(Ok(())),
                };
                reader.at += 1;
                let moment = self.moment();
                self.node.take(reader.ticket.tell(Fetched::Items(fed)), &moment);
            }
        }
        self.reading = reading;
    }

    pub(super) fn reader(&self) -> Box<dyn Reader> {
        self.store.reader().unwrap()
    }

    pub(super) fn has_ended(&self, execution: ExecutionId) -> bool {
        self.reader().row(execution).unwrap().is_some_and(|(row, _)| row.ended_at.is_some())
    }

    /// Until it has ended; its status and what it gave.
    pub(super) fn until_ended(&mut self, execution: ExecutionId) -> (Status, String) {
        let (sender, told) = mpsc::channel();
        let reply = Reply::new(move |ending| sender.send(ending).unwrap());
        let moment = self.moment();
        self.node.take(Message::Watch { execution, reply }, &moment);
        for _ in 0..STEPS_MAX {
            if let Ok(ending) = told.try_recv() {
                let Ending { status, output, fault, .. } = ending.unwrap();
                return (
                    status,
                    output.map_or_else(|| fault.to_value().to_string(), |output| output.to_string()),
                );
            }
            self.step();
        }
        panic!("it goes nowhere: {:?} {:?}", self.children(execution), self.run_row(execution));
    }

    pub(super) fn run_row(&self, execution: ExecutionId) -> MapRunRow {
        let mut runs = self.reader().map_runs(execution).unwrap();
        assert_eq!(runs.len(), 1, "one Map Run");
        runs.remove(0)
    }

    pub(super) fn children(&self, execution: ExecutionId) -> Vec<Status> {
        let run = self.run_row(execution).id;
        let all = self.reader().child_statuses(run, 0, 1_000).unwrap();
        assert!(all.iter().zip(0..).all(|(child, at)| child.index == at), "{all:?}");
        all.into_iter().map(|child| child.status).collect()
    }
}

pub(super) fn open(store: &mut MemoryStore, now: i64, drawn: u128) -> Opened {
    let opening = Opening {
        holder: "test".into(),
        destinations: Arc::new(Everywhere),
        moment: Moment { now: Timestamp(now), steady: Timestamp(now), entropy: drawn << 64 },
        expires_at: Timestamp(now + 60_000),
        store,
        live: Live::default(),
        performs: true,
        bounds: Bounds::default(),
        anchor: None,
    };
    Node::open(opening).unwrap()
}

pub(super) const WORK: &str = r#"{"Type": "Task", "Resource": "arn:perdura:step:::work", "End": true}"#;
pub(super) const PASS: &str = r#"{"Type": "Pass", "End": true}"#;
pub(super) const READER: &str = r#""ItemReader": {"Resource": "arn:aws:states:::s3:getObject",
    "ReaderConfig": {"InputType": "JSON"}, "Parameters": {"Bucket": "b", "Key": "k"}},"#;

/// A machine with a Distributed Map of these fields and this child.
pub(super) fn map(fields: &str, child: &str) -> String {
    format!(
        r#"{{"StartAt": "Each", "States": {{"Each": {{"Type": "Map", {fields} "ItemProcessor": {{
            "ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}},
            "StartAt": "Do", "States": {{"Do": {child}}}}}, "End": true}}}}}}"#
    )
}

pub(super) fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

pub(super) fn values(text: &str) -> Vec<Value> {
    parse(text).unwrap().as_array().unwrap().to_vec()
}
