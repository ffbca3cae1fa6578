//! A node by hand: what arrives while a group is on its way to disk.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::resource::Resource;
use perdura_engine::asl::source::Source;
use perdura_engine::{
    Call, Certainty, Destinations, ExecutionId, Fault, Input, Moment, Outcome, Policy, Status, Timestamp,
};
use perdura_runtime::{
    Bounds, Committer, Deed, InputError, Librarian, Live, Message, Node, Opened, Opening, Prepared, Reply,
    Start, Unavailable,
};
use perdura_store::{Catalog, MemoryStore, NewMachine, RevisionId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

const ONE_STEP: &str =
    r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "arn:perdura:step:::a", "End": true}}}"#;

struct Everywhere;

impl Destinations for Everywhere {
    fn policy(&self, resource: &Resource, _: &Payload) -> Policy {
        assert!(!resource.arn.ends_with(":broken"), "this policy is broken");
        Policy::default()
    }
}

fn moment() -> Moment {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let entropy = u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)) << 64;
    Moment { now: Timestamp(1_000), steady: Timestamp(1_000), entropy }
}

/// A node, and whoever reads for it.
struct Hand {
    node: Node,
    librarian: Librarian,
}

impl std::ops::Deref for Hand {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl std::ops::DerefMut for Hand {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl Hand {
    /// Takes in what arrived, and reads what the node wants to know of it.
    fn take(&mut self, message: Message, at: &Moment) {
        self.node.take(message, at);
        for question in self.node.questions() {
            let finding = self.librarian.answer(question);
            self.node.hear(finding, &moment());
        }
    }

    fn abandon(self, why: &Unavailable) -> Live {
        self.node.abandon(why)
    }
}

fn open(store: &mut MemoryStore, live: Live) -> (Hand, Committer) {
    let opening = Opening {
        holder: "test".into(),
        destinations: Arc::new(Everywhere),
        moment: moment(),
        expires_at: Timestamp(60_000),
        store,
        live,
        performs: true,
        bounds: Bounds::default(),
        anchor: None,
    };
    let Opened { node, committer, librarian } = Node::open(opening).unwrap();
    (Hand { node, librarian }, committer)
}

fn deploy(store: &mut MemoryStore, definition: &str) -> RevisionId {
    deploy_as("test", store, definition)
}

fn deploy_as(name: &str, store: &mut MemoryStore, definition: &str) -> RevisionId {
    assert!(read(&Source::new("test", definition), &ReadOptions::default()).machine.is_some());
    let new = NewMachine {
        name: name.into(),
        kind: MachineType::Standard,
        definition: definition.into(),
        role_arn: None,
        settings: None,
        at: Timestamp(0),
    };
    store.deploy(&new, None).unwrap().revision
}

/// The next group, not written yet.
fn gather(node: &mut Node, committer: &mut Committer) -> Box<Prepared> {
    for item in node.decide(10, &mut moment) {
        committer.add(item);
    }
    committer.hand_over().expect("there is something to write")
}

/// Starts one; what is to be done after its first Turn.
fn start(
    node: &mut Hand,
    committer: &mut Committer,
    place: (&mut MemoryStore, RevisionId),
) -> (ExecutionId, Vec<Deed>) {
    let (store, revision) = place;
    let (sender, started) = mpsc::channel();
    let start = Start::new(revision, Payload::from_text("1").unwrap());
    let reply = Reply::new(move |answer| sender.send(answer).unwrap());
    node.take(Message::Start { start: Box::new(start), reply, ending: None }, &moment());
    let committed = gather(node, committer).write(store).unwrap();
    let deeds = node.settle(committed);
    (started.try_recv().unwrap().unwrap().execution, deeds)
}

/// Never ends, and each of its Turns takes much work.
const HOG: &str = r#"{"QueryLanguage": "JSONata", "StartAt": "Spin", "States": {
    "Spin": {"Type": "Pass", "Output": "{% $sum([1..50000].($ * 3)) %}", "Next": "Again"},
    "Again": {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "Spin"}],
        "Default": "Done"}, "Done": {"Type": "Succeed"}}}"#;

/// Decides this many Turns and writes them.
fn turn(node: &mut Node, committer: &mut Committer, store: &mut MemoryStore, most: usize) {
    for item in node.decide(most, &mut moment) {
        committer.add(item);
    }
    if let Some(prepared) = committer.hand_over() {
        node.settle(prepared.write(store).unwrap());
    }
}

#[test]
fn a_start_among_expensive_machines_waits_for_one_turn_and_a_stop_for_none() {
    let mut store = MemoryStore::new(1);
    let hog = deploy_as("hog", &mut store, HOG);
    let other = deploy_as("other", &mut store, r#"{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}"#);
    let (mut node, mut committer) = open(&mut store, Live::default());
    let hogs: Vec<ExecutionId> =
        (0..8).map(|_| start(&mut node, &mut committer, (&mut store, hog)).0).collect();
    // They have all had a Turn, and want the next.
    turn(&mut node, &mut committer, &mut store, 2);
    let (sender, started) = mpsc::channel();
    let begin = Start::new(other, Payload::from_text("1").unwrap());
    let reply = Reply::new(move |answer| sender.send(answer).unwrap());
    node.take(Message::Start { start: Box::new(begin), reply, ending: None }, &moment());
    turn(&mut node, &mut committer, &mut store, 2);
    assert!(started.try_recv().is_ok(), "the machine that has used nothing comes first");
    for execution in hogs {
        let (sender, told) = mpsc::channel();
        let reply = Reply::new(move |answer| sender.send(answer).unwrap());
        let input = Input::Stop { fault: Fault::default() };
        node.take(Message::Input { execution, input, reply }, &moment());
        turn(&mut node, &mut committer, &mut store, 1);
        let told = told.try_recv().expect("it has the next Turn").unwrap();
        assert_eq!((told.status, told.ignored), (Status::Aborted, None));
    }
}

fn call_of(deeds: Vec<Deed>) -> Call {
    match deeds.into_iter().next() {
        Some(Deed::Perform { call, .. }) => call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_is_opened_again_has_nothing_to_say_of_calls_under_way_and_uses_their_answers() {
    let mut store = MemoryStore::new(1);
    let revision = deploy(&mut store, ONE_STEP);
    let (mut node, mut committer) = open(&mut store, Live::default());
    let (execution, deeds) = start(&mut node, &mut committer, (&mut store, revision));
    let call = call_of(deeds);
    let live = node.abandon(&Unavailable::Closing);
    let (mut node, mut committer) = open(&mut store, live);
    assert_eq!(node.decide(10, &mut moment).len(), 0, "it is not repeated");
    let by = call.by();
    let outcome = Outcome::Succeeded { output: Payload::from_text("2").unwrap() };
    node.take(Message::Answer { execution, by, outcome }, &moment());
    let committed = gather(&mut node, &mut committer).write(&mut store).unwrap();
    node.settle(committed);
    assert_eq!((node.in_memory(), node.live_calls()), (0, 0));
}

#[test]
fn an_answer_that_was_not_written_is_used_by_the_node_that_is_opened_again() {
    for is_decided in [false, true] {
        let mut store = MemoryStore::new(1);
        let revision = deploy(&mut store, ONE_STEP);
        let (mut node, mut committer) = open(&mut store, Live::default());
        let (execution, deeds) = start(&mut node, &mut committer, (&mut store, revision));
        let by = call_of(deeds).by();
        let outcome = Outcome::Succeeded { output: Payload::from_text("2").unwrap() };
        node.take(Message::Answer { execution, by, outcome }, &moment());
        // The group with its Turn is lost with the store.
        let lost = is_decided.then(|| gather(&mut node, &mut committer));
        let mut live = node.abandon(&Unavailable::Closing);
        drop(lost);
        // And once more, while it resumes.
        for _ in 0..2 {
            let (mut node, mut committer) = open(&mut store, live);
            gather(&mut node, &mut committer);
            live = node.abandon(&Unavailable::Closing);
        }
        let (mut node, mut committer) = open(&mut store, live);
        let mut deeds = Vec::new();
        while node.has_work() {
            let committed = gather(&mut node, &mut committer).write(&mut store).unwrap();
            deeds.extend(node.settle(committed));
        }
        let is_call = |deed: &Deed| matches!(deed, Deed::Perform { .. });
        assert!(!deeds.iter().any(is_call), "decided: {is_decided}: {deeds:?}");
        assert_eq!((node.in_memory(), node.live_calls()), (0, 0), "decided: {is_decided}");
    }
}

#[test]
fn whoever_waits_for_an_end_is_told_also_if_it_came_before_and_something_is_being_written() {
    let mut store = MemoryStore::new(1);
    let revision = deploy(&mut store, ONE_STEP);
    let (mut node, mut committer) = open(&mut store, Live::default());
    let (execution, deeds) = start(&mut node, &mut committer, (&mut store, revision));
    let call = call_of(deeds);
    let by = call.by();
    let outcome = Outcome::Succeeded { output: Payload::from_text("2").unwrap() };
    node.take(Message::Answer { execution, by: by.clone(), outcome: outcome.clone() }, &moment());
    let committed = gather(&mut node, &mut committer).write(&mut store).unwrap();
    node.settle(committed);
    // A success that comes after the end is told once.
    node.take(Message::Answer { execution, by, outcome }, &moment());
    let writing = gather(&mut node, &mut committer);
    let (sender, told) = mpsc::channel();
    let reply = Reply::new(move |ending| sender.send(ending).unwrap());
    node.take(Message::Watch { execution, reply }, &moment());
    node.settle(writing.write(&mut store).unwrap());
    let ending = told.try_recv().expect("it was told").unwrap();
    assert_eq!(ending.status, Status::Succeeded);
}

#[test]
fn a_panic_parks_one_execution_and_the_others_go_on() {
    let mut store = MemoryStore::new(1);
    let task = |name| {
        format!(
            r#"{{"StartAt": "A", "States": {{"A": {{"Type": "Task", "Resource": "arn:perdura:step:::{name}", "End": true}}}}}}"#
        )
    };
    let (broken, good) = (deploy(&mut store, &task("broken")), deploy(&mut store, &task("good")));
    let (mut node, mut committer) = open(&mut store, Live::default());
    let failed = |fault| Outcome::Failed { fault, certainty: Certainty::Ambiguous };
    let mut answered = Vec::new();
    for revision in [broken, good] {
        let (execution, deeds) = start(&mut node, &mut committer, (&mut store, revision));
        let call = call_of(deeds);
        let by = call.by();
        node.take(Message::Answer { execution, by, outcome: failed(Fault::named("Lost")) }, &moment());
        answered.push(execution);
    }
    let committed = gather(&mut node, &mut committer).write(&mut store).unwrap();
    node.settle(committed);
    assert_eq!((node.parked(), node.in_memory()), (1, 1), "the good one has failed and left");
    let (sender, told) = mpsc::channel();
    let reply = Reply::new(move |answer| sender.send(answer).unwrap());
    node.take(Message::Input { execution: answered[0], input: Input::Timer, reply }, &moment());
    assert_eq!(told.try_recv().unwrap(), Err(InputError::Parked("this policy is broken".into())));
    // Another process takes it up where it was.
    drop(node);
    let (node, _) = open(&mut store, Live::default());
    assert_eq!((node.in_memory(), node.has_work()), (1, true));
}
