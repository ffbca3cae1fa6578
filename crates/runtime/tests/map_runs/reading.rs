//! What is read for Map Runs beside the node's thread, late or in vain.

use crate::rig::{Rig, WORK, map, numbers};
use perdura_engine::{ExecutionId, Fault, Input, MapRunBounds, Status};
use perdura_runtime::{AdjustError, Finding, MapRunChange, Message, Reply};
use perdura_store::{Failure, FailureKind, MapRunRow};
use std::sync::mpsc::{self, Receiver};
use uuid::Uuid;

/// An execution that was stopped, in a process that ended before it could end the Map Run. Its children hung.
fn left_behind() -> (Rig, ExecutionId) {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map("", WORK), &numbers(3));
    for _ in 0..40 {
        rig.step();
    }
    rig.input(parent, Input::Stop { fault: Fault::default() });
    rig.until_ended(parent);
    rig.crash();
    assert_eq!(rig.run_row(parent).status, Status::Running);
    (rig, parent)
}

/// A look at runs that were left behind, or at the run of children that wait for it.
fn is_look(question: &str) -> bool {
    question.contains("LeftRuns") || question.contains("Runs([")
}

fn tell(rig: &mut Rig, message: Message) {
    let moment = rig.moment();
    rig.node.take(message, &moment);
}

#[test]
fn what_was_read_before_a_run_was_taken_up_again_and_succeeded_ends_nothing() {
    let (mut rig, parent) = left_behind();
    rig.ignores = is_look;
    while rig.ignored.len() < 2 {
        rig.step();
    }
    let looks = std::mem::take(&mut rig.ignored);
    let read: Vec<Finding> = looks.into_iter().map(|look| rig.librarian.answer(look)).collect();
    rig.hangs = |_| false;
    rig.input(parent, Input::Redrive);
    while rig.run_row(parent).status == Status::Running {
        rig.step();
    }
    for _ in 0..100 {
        rig.step();
    }
    assert_eq!(rig.run_row(parent).status, Status::Succeeded);
    rig.ignores = |_| false;
    for late in read {
        let moment = rig.moment();
        rig.node.hear(late, &moment);
    }
    for _ in 0..100 {
        rig.step();
    }
    assert_eq!(rig.run_row(parent).status, Status::Succeeded, "it has ended, and well");
    assert_eq!(rig.children(parent), [Status::Succeeded; 3]);
}

#[test]
fn a_look_that_failed_is_taken_again() {
    let (mut rig, parent) = left_behind();
    rig.ignores = is_look;
    let mut failures = 0;
    while failures < 5 {
        rig.step();
        for look in std::mem::take(&mut rig.ignored) {
            let failure = Failure { what: "reading".into(), why: "slow".into(), kind: FailureKind::Io };
            let moment = rig.moment();
            rig.node.hear(look.unread(failure), &moment);
            failures += 1;
        }
    }
    rig.ignores = |_| false;
    assert_eq!(
        (rig.run_row(parent).status, rig.children(parent)),
        (Status::Running, vec![Status::Running; 3])
    );
    for _ in 0..100 {
        rig.step();
    }
    assert_eq!(
        (rig.run_row(parent).status, rig.children(parent)),
        (Status::Aborted, vec![Status::Aborted; 3])
    );
}

fn adjust(rig: &mut Rig, run: Uuid, max_concurrency: u64) -> Receiver<Result<(), AdjustError>> {
    let (sender, told) = mpsc::channel();
    let reply = Reply::new(move |answer| sender.send(answer).unwrap());
    let change = MapRunChange { max_concurrency: Some(max_concurrency), ..MapRunChange::default() };
    tell(rig, Message::Adjust { run, change, reply });
    told
}

fn shown(rig: &mut Rig, run: Uuid) -> Receiver<Option<Box<MapRunRow>>> {
    let (sender, told) = mpsc::channel();
    tell(rig, Message::MapRun { run, reply: Reply::new(move |row| sender.send(row).unwrap()) });
    told
}

#[test]
fn a_run_that_does_not_know_its_children_yet_stands_as_its_row_says() {
    let mut rig = Rig::new();
    rig.hangs = |_| true;
    let parent = rig.start(&map(r#""MaxConcurrency": 1,"#, WORK), &numbers(3));
    for _ in 0..5 {
        rig.step();
    }
    let run = rig.run_row(parent).id;
    let told = adjust(&mut rig, run, 2);
    for _ in 0..40 {
        rig.step();
    }
    assert_eq!(told.try_recv().unwrap(), Ok(()));
    rig.crash();
    rig.withheld = Some(Vec::new());
    rig.step();
    let (row, changed) = (shown(&mut rig, run), adjust(&mut rig, run, 3));
    rig.step();
    let row = row.try_recv().unwrap().unwrap();
    assert_eq!((row.bounds.max_concurrency, row.counts.children.running), (2, 2));
    assert!(changed.try_recv().is_err(), "it waits until the run knows what it is to change");
    for fetch in rig.withheld.take().unwrap() {
        rig.fetch(fetch);
    }
    for _ in 0..5 {
        rig.step();
    }
    assert_eq!(changed.try_recv().unwrap(), Ok(()));
    assert_eq!(rig.run_row(parent).bounds, MapRunBounds { max_concurrency: 3, ..MapRunBounds::default() });
}

#[test]
fn whoever_changes_a_run_that_is_not_here_learns_why_nothing_changed() {
    let mut rig = Rig::new();
    let parent = rig.start(&map("", WORK), &numbers(1));
    rig.until_ended(parent);
    for _ in 0..5 {
        rig.step();
    }
    let run = rig.run_row(parent).id;
    for (run, expected) in [(Uuid::nil(), AdjustError::Unknown), (run, AdjustError::Ended)] {
        let told = adjust(&mut rig, run, 1);
        assert!(told.try_recv().is_err(), "its row is to be read");
        rig.step();
        assert_eq!(told.try_recv().unwrap(), Err(expected));
    }
}
