//! Parents, children, Map Runs and workers by hand: what happens between the commits of one and the other.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{
    By, Certainty, Destinations, ExecutionId, Fault, Input, Moment, Outcome, Policy, Status, TaskToken,
    Timestamp,
};
use perdura_runtime::{
    ActivityTask, Bounds, Committer, Deed, InputError, Librarian, Live, Message, Node, Opened, Opening,
    Reply, Slice, Start, Taken, Unavailable, Wish,
};
use perdura_store::{Catalog, MemoryStore, NewMachine, Retention, RevisionId};
use std::sync::{Arc, mpsc};

const CHILD: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task", "End": true,
    "Resource": "arn:perdura:step:::work"}}}"#;

const PARENT: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true, "TimeoutSeconds": 10,
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}"#;

const WORKED: &str = r#"{"StartAt": "Work", "States": {"Work": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:work",
    "Retry": [{"ErrorEquals": ["No"], "IntervalSeconds": 1}]}}}"#;

struct Everywhere;

impl Destinations for Everywhere {
    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }
}

/// A node, where it writes, and what time it is.
struct Scene {
    store: MemoryStore,
    node: Option<(Node, Committer)>,
    librarian: Option<Librarian>,
    now: i64,
    drawn: u128,
}

impl Scene {
    fn new(seed: u128) -> Self {
        let mut scene =
            Self { store: MemoryStore::new(1), node: None, librarian: None, now: 1_000, drawn: seed << 72 };
        scene.open();
        scene
    }

    fn moment(&mut self) -> Moment {
        self.drawn += 1 << 64;
        Moment { now: Timestamp(self.now), steady: Timestamp(self.now), entropy: self.drawn }
    }

    /// Opens a node; one that was there is lost as in a crash.
    fn open(&mut self) {
        if let Some((node, _)) = self.node.take() {
            node.abandon(&Unavailable::Closing);
        }
        let moment = self.moment();
        let opening = Opening {
            holder: "test".into(),
            destinations: Arc::new(Everywhere),
            moment,
            expires_at: Timestamp(i64::MAX),
            store: &mut self.store,
            live: Live::default(),
            performs: true,
            bounds: Bounds::default(),
            anchor: None,
        };
        let Opened { node, committer, librarian } = Node::open(opening).unwrap();
        (self.node, self.librarian) = (Some((node, committer)), Some(librarian));
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node.as_mut().unwrap().0
    }

    fn deploy(&mut self, name: &str, definition: &str) -> RevisionId {
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

    fn take(&mut self, message: Message) {
        let moment = self.moment();
        self.node().take(message, &moment);
        self.read();
    }

    /// Reads what the node wants to know.
    fn read(&mut self) {
        loop {
            let questions = self.node().questions();
            if questions.is_empty() {
                return;
            }
            for question in questions {
                let moment = self.moment();
                let finding = self.librarian.as_mut().unwrap().answer(question);
                self.node().hear(finding, &moment);
            }
        }
    }

    /// Decides on at most so many, and gathers them.
    fn gather(&mut self, most: usize) -> Option<Box<perdura_runtime::Prepared>> {
        let moment = self.moment();
        // What one means for another may have to be read first.
        let mut items = self.node().decide(0, &mut || moment);
        self.read();
        let mut drawn = self.drawn;
        let (node, committer) = self.node.as_mut().unwrap();
        items.extend(node.decide(most, &mut || {
            drawn += 1 << 64;
            Moment { entropy: drawn, ..moment }
        }));
        for item in items {
            committer.add(item);
        }
        let rows = node.map_run_rows();
        committer.add_map_runs(rows);
        let prepared = committer.hand_over();
        self.drawn = drawn;
        prepared
    }

    fn settle(&mut self, prepared: Box<perdura_runtime::Prepared>) -> Vec<Deed> {
        let committed = prepared.write(&mut self.store).unwrap();
        self.node().settle(committed)
    }

    /// One group, decided and written.
    fn turn(&mut self) -> Vec<Deed> {
        match self.gather(100) {
            Some(prepared) => self.settle(prepared),
            None => Vec::new(),
        }
    }

    /// Goes on until nothing moves by itself, at this time; what is to be done outside.
    fn run(&mut self) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for _ in 0..50 {
            let moment = self.moment();
            self.node().wake(&moment);
            self.read();
            deeds.extend(self.turn());
            self.read();
            deeds.extend(self.node().fetches());
        }
        deeds
    }

    fn start(&mut self, revision: RevisionId) -> ExecutionId {
        let (sender, started) = mpsc::channel();
        let start = Start::new(revision, Payload::from_text("{}").unwrap());
        let reply = Reply::new(move |answer| sender.send(answer).unwrap());
        self.take(Message::Start { start: Box::new(start), reply, ending: None });
        self.turn();
        started.try_recv().unwrap().unwrap().execution
    }

    fn status(&mut self, execution: ExecutionId) -> Status {
        let (sender, shown) = mpsc::channel();
        let reply = Reply::new(move |view| sender.send(view).unwrap());
        self.take(Message::Show { execution, reply });
        match shown.try_recv() {
            Ok(Some(view)) => view.execution.status(),
            _ => self.store.reader().unwrap().row(execution).unwrap().unwrap().0.status,
        }
    }

    /// What was called succeeds.
    fn succeed(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            let Deed::Perform { execution, call } = deed else { continue };
            let by = call.by();
            let outcome = Outcome::Succeeded { output: Payload::from_text("2").unwrap() };
            self.take(Message::Answer { execution, by, outcome });
        }
    }
}

/// A parent that has started its child and does not know yet that it did; and the child.
fn parent_and_child(scene: &mut Scene) -> (ExecutionId, ExecutionId) {
    scene.deploy("child", CHILD);
    let revision = scene.deploy("parent", PARENT);
    let parent = scene.start(revision);
    let deeds = scene.turn();
    let [Deed::Perform { execution: child, .. }] = &deeds[..] else { panic!("{deeds:?}") };
    (parent, *child)
}

#[test]
fn a_parent_asks_again_for_a_child_that_is_being_written_and_is_told_all_the_same() {
    let mut parents_first = 0;
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        let (parent, _) = parent_and_child(&mut scene);
        scene.open();
        // Both are resumed, and while the one is written the other is decided.
        let first = scene.gather(1).unwrap();
        let second = scene.gather(1).unwrap();
        let mut deeds = scene.settle(first);
        parents_first += u32::from(deeds.is_empty());
        assert!(scene.gather(100).is_none());
        deeds.extend(scene.settle(second));
        deeds.extend(scene.run());
        scene.succeed(deeds);
        scene.run();
        assert_eq!(scene.status(parent), Status::Succeeded);
    }
    assert!(parents_first > 0, "the order that is meant came up");
}

#[test]
fn a_child_is_stopped_also_if_its_parents_time_ran_out_while_nothing_ran() {
    for is_known in [true, false] {
        let mut scene = Scene::new(0);
        let (parent, child) = parent_and_child(&mut scene);
        if is_known {
            scene.run();
        }
        scene.now += 60_000;
        scene.open();
        scene.run();
        assert_eq!(scene.status(parent), Status::Failed);
        assert_eq!(scene.status(child), Status::Aborted, "known: {is_known}");
    }
}

/// Tells the execution what came of a task; what is said of that.
fn answer(
    scene: &mut Scene,
    token: TaskToken,
    outcome: Outcome,
) -> mpsc::Receiver<Result<Taken, InputError>> {
    let (sender, told) = mpsc::channel();
    let reply = Reply::new(move |taken| drop(sender.send(taken)));
    let input = Input::TaskOutcome { by: By::Token(token), outcome };
    scene.take(Message::Input { execution: token.execution, input, reply });
    told
}

/// A worker asks for a task; what it gets.
fn poll(scene: &mut Scene) -> mpsc::Receiver<Result<ActivityTask, Unavailable>> {
    let (sender, handed) = mpsc::channel();
    let reply = Reply::new(move |task| drop(sender.send(task)));
    scene.take(Message::Poll { activity: "work".into(), worker: None, reply });
    handed
}

/// A worker has refused its task, which waits for another under the next key; the first one's token.
fn refused_and_queued(scene: &mut Scene) -> TaskToken {
    let revision = scene.deploy("worked", WORKED);
    scene.start(revision);
    let handed = poll(scene);
    scene.run();
    let token = handed.try_recv().unwrap().unwrap().token;
    let fault = Fault::new("No", "not this time");
    answer(scene, token, Outcome::Failed { fault, certainty: Certainty::Refused });
    scene.run();
    scene.now += 1_000;
    scene.run();
    assert_eq!(scene.node().activities(), (1, 0), "it waits for a worker");
    token
}

#[test]
fn a_worker_that_polls_after_a_late_success_gets_nothing() {
    for is_being_written in [false, true] {
        let mut scene = Scene::new(0);
        let token = refused_and_queued(&mut scene);
        let told = answer(&mut scene, token, Outcome::Succeeded { output: Payload::from_text("2").unwrap() });
        let written = is_being_written.then(|| scene.gather(1).unwrap());
        let handed = poll(&mut scene);
        if let Some(written) = written {
            scene.settle(written);
        }
        scene.run();
        assert_eq!(told.try_recv().unwrap().unwrap().late, None);
        assert_eq!(scene.status(token.execution), Status::Succeeded);
        assert!(handed.try_recv().is_err(), "being written: {is_being_written}");
        assert_eq!(scene.node().activities(), (0, 1), "the worker waits for another task");
    }
}

#[test]
fn a_worker_that_polled_before_a_late_success_keeps_its_task() {
    for is_being_written in [false, true] {
        let mut scene = Scene::new(0);
        let token = refused_and_queued(&mut scene);
        let handed = poll(&mut scene);
        let moment = scene.moment();
        scene.node().wake(&moment);
        let written = is_being_written.then(|| scene.gather(1).unwrap());
        let told = answer(&mut scene, token, Outcome::Succeeded { output: Payload::from_text("2").unwrap() });
        if let Some(written) = written {
            scene.settle(written);
        }
        scene.run();
        let task = handed.try_recv().expect("it has its task").unwrap();
        assert_eq!(task.key.round().0, 2);
        assert!(told.try_recv().unwrap().unwrap().late.is_some(), "being written: {is_being_written}");
        assert_eq!(scene.status(token.execution), Status::Running);
    }
}

#[test]
fn a_child_that_has_ended_is_not_swept_before_its_parent_knows() {
    let mut scene = Scene::new(1);
    scene.deploy("child", CHILD);
    let revision = scene.deploy("parent", PARENT);
    let parent = scene.start(revision);
    let deeds = scene.run();
    let [Deed::Perform { execution: child, .. }] = deeds[..] else { panic!("{deeds:?}") };
    scene.succeed(deeds);
    let ends = scene.gather(1).unwrap();
    scene.settle(ends);
    // The process dies before its parent is told; what others do meanwhile leaves nothing of it in the journal.
    scene.open();
    let other = scene.deploy("other", r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}"#);
    scene.start(other);
    scene.start(other);
    let retention =
        Retention { ended_before: Timestamp(i64::MAX), ledger_before: Timestamp(i64::MIN), bytes_max: None };
    let sweep = |scene: &mut Scene| {
        let going = scene.store.reader().unwrap().sweepable(&retention, None, 10).unwrap().going;
        assert!(going.iter().any(|(id, _)| *id == child), "it is seen: {going:?}");
        let slice = Slice { going, ledger_before: retention.ledger_before, ledger_most: 10 };
        scene.take(Message::Sweep { slice, reply: Reply::new(drop) });
        let [Wish::Sweep(slice, _)] = &scene.node().wishes()[..] else { panic!("it is not swept") };
        let slice = scene.node().sweepable(slice.clone());
        scene.store.sweep(&slice.going, slice.ledger_before, slice.ledger_most, None).unwrap();
        scene.store.reader().unwrap().row(child).unwrap().is_none()
    };
    assert!(!sweep(&mut scene), "its parent has still to be told");
    scene.run();
    assert_eq!(scene.status(parent), Status::Succeeded);
    assert!(sweep(&mut scene), "nobody asks for it any more");
}
