//! A node within bounds, by hand: what it decides, writes and reads happens where a test says so.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Call, Destinations, ExecutionId, Fault, Input, Moment, Outcome, Policy, Timestamp};
use perdura_runtime::{
    Bounds, Committer, Deed, FetchKind, Fetched, Librarian, Live, Message, Node, Opened, Opening, Question,
    Reply, Start, StartError, Started, recall,
};
use perdura_store::{Catalog, MemoryStore, NewMachine, RevisionId};
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

struct Everywhere;

impl Destinations for Everywhere {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }
}

pub(crate) type Answered = mpsc::Receiver<Result<Started, StartError>>;

/// A node within bounds, where it writes, and what time it is.
pub(crate) struct Scene {
    pub(crate) bounds: Bounds,
    pub(crate) store: MemoryStore,
    pub(crate) node: Option<(Node, Committer)>,
    pub(crate) librarian: Option<Librarian>,
    pub(crate) now: i64,
    pub(crate) drawn: u128,
    /// Calls that were made and not answered.
    pub(crate) calls: BTreeMap<ExecutionId, Call>,
    /// How many calls were made.
    pub(crate) made: usize,
    /// Whoever reads answers.
    pub(crate) reads: bool,
    /// What is to be read, once somebody reads again.
    unread: Vec<Question>,
}

impl Scene {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let store = MemoryStore::new(1);
        let mut scene = Self {
            bounds,
            store,
            node: None,
            librarian: None,
            now: 1_000,
            drawn: 0,
            calls: BTreeMap::new(),
            made: 0,
            reads: true,
            unread: Vec::new(),
        };
        scene.open();
        scene
    }

    pub(crate) fn moment(&mut self) -> Moment {
        self.drawn += 1 << 64;
        Moment { now: Timestamp(self.now), steady: Timestamp(self.now), entropy: self.drawn }
    }

    /// Opens a node; one that was there is lost as in a crash.
    pub(crate) fn open(&mut self) {
        self.calls.clear();
        self.unread.clear();
        self.now += 1;
        self.node = None;
        let opening = Opening {
            holder: "test".into(),
            destinations: Arc::new(Everywhere),
            moment: self.moment(),
            expires_at: Timestamp(i64::MAX),
            store: &mut self.store,
            live: Live::default(),
            performs: true,
            bounds: self.bounds,
            anchor: None,
        };
        let Opened { node, committer, librarian } = Node::open(opening).unwrap();
        (self.node, self.librarian) = (Some((node, committer)), Some(librarian));
    }

    pub(crate) fn deploy(&mut self, name: &str, definition: &str) -> RevisionId {
        let new = NewMachine {
            name: name.into(),
            kind: MachineType::Standard,
            definition: definition.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        self.store.deploy(&new, None).unwrap().revision
    }

    pub(crate) fn take(&mut self, message: Message) {
        let moment = self.moment();
        self.node.as_mut().unwrap().0.take(message, &moment);
        self.read();
    }

    /// Reads what the node wants to know; whether there was something.
    pub(crate) fn read(&mut self) -> bool {
        let mut has_read = false;
        loop {
            self.unread.append(&mut self.node.as_mut().unwrap().0.questions());
            if self.unread.is_empty() || !self.reads {
                return has_read || !self.unread.is_empty();
            }
            has_read = true;
            for question in std::mem::take(&mut self.unread) {
                let moment = self.moment();
                let finding = self.librarian.as_mut().unwrap().answer(question);
                self.node.as_mut().unwrap().0.hear(finding, &moment);
            }
        }
    }

    pub(crate) fn start(&mut self, revision: RevisionId, input: &str) -> Answered {
        let started = self.ask_for(revision, input);
        self.go_on();
        started
    }

    pub(crate) fn ask_for(&mut self, revision: RevisionId, input: &str) -> Answered {
        self.ask(Start::new(revision, Payload::from_text(input).unwrap()))
    }

    pub(crate) fn ask_for_named(&mut self, revision: RevisionId, name: &str, input: &str) -> Answered {
        let start = Start::new(revision, Payload::from_text(input).unwrap());
        self.ask(Start { name: Some(name.into()), ..start })
    }

    fn ask(&mut self, start: Start) -> Answered {
        let (sender, started) = mpsc::channel();
        let reply = Reply::new(move |answer| drop(sender.send(answer)));
        self.take(Message::Start { start: Box::new(start), reply, ending: None });
        started
    }

    /// Takes Turns until there is nothing to do; calls are made and not answered.
    pub(crate) fn go_on(&mut self) {
        assert!(self.turns(10_000), "it never comes to rest");
    }

    /// Takes at most so many Turns; whether there is nothing more to do.
    pub(crate) fn turns(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let moment = self.moment();
            self.node.as_mut().unwrap().0.wake(&moment);
            let has_read = self.read();
            let (node, committer) = self.node.as_mut().unwrap();
            let mut drawn = self.drawn;
            let items = node.decide(1, &mut || {
                drawn += 1 << 64;
                Moment { entropy: drawn, ..moment }
            });
            for item in items {
                committer.add(item);
            }
            committer.add_map_runs(node.map_run_rows());
            let fetches: Vec<Deed> = node.fetches().collect();
            self.drawn = drawn;
            let prepared = committer.hand_over();
            let is_quiet = prepared.is_none() && fetches.is_empty() && !node.has_work() && !has_read;
            let committed = prepared.map(|prepared| prepared.write(&mut self.store).unwrap());
            let deeds = committed.map(|committed| node.settle(committed)).unwrap_or_default();
            for deed in deeds.into_iter().chain(fetches) {
                self.follow(deed);
            }
            if is_quiet {
                return true;
            }
        }
        false
    }

    pub(crate) fn follow(&mut self, deed: Deed) {
        match deed {
            Deed::Perform { execution, call } | Deed::StandIn { execution, call } => {
                self.made += 1;
                self.calls.insert(execution, call);
            }
            Deed::Fetch(fetch) => {
                let ticket = fetch.ticket;
                if matches!(fetch.kind, FetchKind::Children) {
                    let mut reader = self.store.reader().unwrap();
                    let fetched = Box::new(Fetched::Children(recall(&mut *reader, ticket.run)));
                    self.take(Message::Fetched { ticket, fetched });
                }
            }
            Deed::Publish { .. } | Deed::Cancel { .. } => {}
        }
    }

    /// One call is answered, and all that follows happens.
    pub(crate) fn answer_one(&mut self) -> bool {
        let Some((execution, call)) = self.calls.pop_first() else { return false };
        let by = call.by();
        let outcome = Outcome::Succeeded { output: Payload::from_text("1").unwrap() };
        self.take(Message::Answer { execution, by, outcome });
        self.go_on();
        true
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.now += ms;
        self.go_on();
    }

    pub(crate) fn bytes_in_memory(&self) -> u64 {
        self.node.as_ref().unwrap().0.bytes_in_memory()
    }

    pub(crate) fn in_memory(&self) -> usize {
        self.node.as_ref().unwrap().0.in_memory()
    }

    /// Stops an execution, and all that follows happens.
    pub(crate) fn stop(&mut self, execution: ExecutionId) {
        let input = Input::Stop { fault: Fault::new("Enough", "by hand") };
        let (sender, taken) = mpsc::channel();
        let reply = Reply::new(move |answer| drop(sender.send(answer)));
        self.take(Message::Input { execution, input, reply });
        self.go_on();
        assert!(taken.try_recv().unwrap().is_ok());
    }

    /// How many executions the store knows, by whether they run.
    pub(crate) fn stored(&mut self) -> (usize, usize) {
        self.pass(1_100);
        let filter = perdura_store::Filter::default();
        let list = self.store.reader().unwrap().list(&filter, None, 1_000).unwrap().rows;
        let ended = list.iter().filter(|summary| summary.status.is_ended()).count();
        (list.len() - ended, ended)
    }
}

/// A payload of about this size.
pub(crate) fn large(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes))
}
