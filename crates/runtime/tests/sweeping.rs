//! A node by hand, and a sweep at any moment: what runs stays, whatever its row said a moment ago.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{Certainty, ExecutionId, Fault, Input, Moment, Outcome, Status, Timestamp};
use perdura_runtime::{
    Bounds, Committer, Deed, Librarian, Live, Message, Node, Opened, Opening, Prepared, Reply, Slice, Start,
    Taken,
};
use perdura_store::{Catalog, MemoryStore, NewMachine, Retention, Row};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

const ONE_STEP: &str =
    r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "arn:perdura:step:::a", "End": true}}}"#;

struct Anywhere;

impl perdura_engine::Destinations for Anywhere {
    fn policy(&self, _: &perdura_engine::asl::resource::Resource, _: &Payload) -> perdura_engine::Policy {
        perdura_engine::Policy::default()
    }
}

/// All of it within a second: no row is written for readers alone.
fn moment() -> Moment {
    static DRAWN: AtomicI64 = AtomicI64::new(0);
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    Moment { now: Timestamp(1_000), steady: Timestamp(1_000), entropy: (drawn as u128) << 64 }
}

struct Stage {
    store: MemoryStore,
    node: Node,
    committer: Committer,
    librarian: Librarian,
}

impl Stage {
    fn open(mut store: MemoryStore) -> Self {
        let opening = Opening {
            holder: "test".into(),
            destinations: Arc::new(Anywhere),
            moment: moment(),
            expires_at: Timestamp(60_000),
            store: &mut store,
            live: Live::default(),
            performs: true,
            bounds: Bounds::default(),
            anchor: None,
        };
        let Opened { node, committer, librarian } = Node::open(opening).unwrap();
        Self { store, node, committer, librarian }
    }

    /// With one execution that has failed, and nothing else in the journal.
    fn with_one_that_failed() -> (Self, ExecutionId) {
        let mut stage = Self::open(MemoryStore::new(1));
        let new = NewMachine {
            name: "test".into(),
            kind: MachineType::Standard,
            definition: ONE_STEP.into(),
            role_arn: None,
            settings: None,
            at: Timestamp(0),
        };
        let revision = stage.store.deploy(&new, None).unwrap().revision;
        let mut failed = || {
            let start = Start::new(revision, Payload::from_text("1").unwrap());
            let (sender, started) = mpsc::channel();
            let reply = Reply::new(move |answer| sender.send(answer).unwrap());
            stage.node.take(Message::Start { start: Box::new(start), reply, ending: None }, &moment());
            stage.read();
            let deeds = stage.commit();
            let [Deed::Perform { execution, call }] = &deeds[..] else { panic!("{deeds:?}") };
            let by = call.by();
            let outcome = Outcome::Failed { fault: Fault::named("No"), certainty: Certainty::Refused };
            stage.node.take(Message::Answer { execution: *execution, by, outcome }, &moment());
            stage.commit();
            started.try_recv().unwrap().unwrap().execution
        };
        let first = failed();
        // The second one's commits leave nothing of the first in the journal.
        failed();
        (stage, first)
    }

    fn gather(&mut self) -> Box<Prepared> {
        for item in self.node.decide(10, &mut moment) {
            self.committer.add(item);
        }
        self.committer.hand_over().expect("there is something to write")
    }

    fn settle(&mut self, group: Box<Prepared>) -> Vec<Deed> {
        let committed = group.write(&mut self.store).unwrap();
        self.node.settle(committed)
    }

    fn commit(&mut self) -> Vec<Deed> {
        let group = self.gather();
        self.settle(group)
    }

    fn give(&mut self, execution: ExecutionId, input: Input) -> mpsc::Receiver<Taken> {
        let (sender, taken) = mpsc::channel();
        let reply = Reply::new(move |answer: Result<Taken, _>| drop(sender.send(answer.unwrap())));
        self.node.take(Message::Input { execution, input, reply }, &moment());
        self.read();
        taken
    }

    /// Reads what the node wants to know.
    fn read(&mut self) {
        for question in self.node.questions() {
            let finding = self.librarian.answer(question);
            self.node.hear(finding, &moment());
        }
    }

    /// What a reader would have taken away.
    fn seen(&self) -> Slice {
        let retention = Retention {
            ended_before: Timestamp(i64::MAX),
            ledger_before: Timestamp(i64::MIN),
            bytes_max: None,
        };
        let found = self.store.reader().unwrap().sweepable(&retention, None, 10).unwrap();
        Slice { going: found.going, ledger_before: retention.ledger_before, ledger_most: 10 }
    }

    fn sweep(&mut self, slice: &Slice) -> u64 {
        let Slice { going, ledger_before, ledger_most } = self.node.sweepable(slice.clone());
        self.store.sweep(&going, ledger_before, ledger_most, None).unwrap().executions
    }

    fn row(&self, execution: ExecutionId) -> Row {
        self.store.reader().unwrap().row(execution).unwrap().expect("it has a row").0
    }
}

#[test]
fn the_row_of_what_is_redriven_changes_in_the_redrives_own_commit() {
    let (mut stage, execution) = Stage::with_one_that_failed();
    assert_eq!(stage.row(execution).status, Status::Failed);
    stage.give(execution, Input::Redrive);
    stage.commit();
    let row = stage.row(execution);
    assert_eq!((row.status, row.ended_at, row.awake, row.redrives), (Status::Running, None, true, 1));
    let seen = stage.seen();
    assert!(!seen.going.iter().any(|(id, _)| *id == execution), "{seen:?}");
}

#[test]
fn a_sweep_takes_nothing_that_is_in_memory_or_was_redriven_since_it_was_seen() {
    let (mut stage, execution) = Stage::with_one_that_failed();
    let seen = stage.seen();
    assert_eq!(seen.going.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [execution]);
    stage.give(execution, Input::Redrive);
    assert_eq!(stage.sweep(&seen), 0, "its redrive is to be decided");
    let group = stage.gather();
    assert_eq!(stage.sweep(&seen), 0, "its redrive is on its way to disk");
    stage.settle(group);
    assert_eq!(stage.sweep(&seen), 0, "it runs");
    // Another process takes it up.
    let mut stage = Stage::open(stage.store);
    assert_eq!((stage.node.in_memory(), stage.node.parked()), (1, 0));
    assert_eq!(stage.sweep(&seen), 0, "it was taken up");
}

#[test]
fn what_ended_and_left_memory_is_swept() {
    let (mut stage, execution) = Stage::with_one_that_failed();
    let seen = stage.seen();
    assert_eq!(stage.sweep(&seen), 1);
    assert!(stage.store.reader().unwrap().row(execution).unwrap().is_none());
}

#[test]
fn an_input_that_changes_nothing_on_an_ended_execution_records_nothing() {
    let (mut stage, execution) = Stage::with_one_that_failed();
    let turns = stage.row(execution).content.unwrap().turns;
    for _ in 0..3 {
        let taken = stage.give(execution, Input::Stop { fault: Fault::default() });
        assert_eq!(stage.node.decide(10, &mut moment).len(), 0, "there is nothing to write");
        let taken = taken.try_recv().expect("it was answered at once");
        assert_eq!(taken.ignored.as_deref(), Some("the execution has ended"));
        assert_eq!((taken.status, taken.ended_at), (Status::Failed, Some(Timestamp(1_000))));
    }
    assert_eq!(stage.row(execution).content.unwrap().turns, turns);
}
