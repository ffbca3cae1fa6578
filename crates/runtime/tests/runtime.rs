//! The runtime on real threads, over a store in memory.

mod stage;

use perdura_engine::asl::json::Payload;
use perdura_engine::{ExecutionId, Policy, Status, Timestamp};
use perdura_runtime::{StartError, StepError, Steps};
use perdura_store::record::JournalWriter;
use perdura_store::{Catalog, Claim, Group, Position, Store, Totals};
use stage::{Stage, start};
use std::sync::atomic::{AtomicUsize, Ordering};

const TWO_STEPS: &str = r#"{"StartAt": "A", "States": {
    "A": {"Type": "Task", "Resource": "arn:perdura:step:::add", "Next": "B"},
    "B": {"Type": "Task", "Resource": "arn:perdura:step:::add", "End": true}}}"#;

fn add() -> Steps {
    Steps::default().with("add", Policy::default(), |call| async move {
        let number =
            call.input.value().as_i64().ok_or_else(|| StepError::refused("NoNumber", "not a number"))?;
        Ok(Payload::from_text((number + 1).to_string()).unwrap())
    })
}

#[test]
fn steps_run_in_order_and_the_ending_is_told() {
    let stage = Stage::new();
    let runtime = stage.open(add());
    let revision = Stage::deploy(&runtime, TWO_STEPS);
    let door = runtime.door().clone();
    let ending = stage.tokio.block_on(async {
        let started = door.start(start(revision, None, "40")).await.unwrap();
        door.ending(started.execution).await.unwrap()
    });
    assert_eq!((ending.status, &**ending.output.unwrap().text()), (Status::Succeeded, "42"));
}

#[test]
fn the_same_name_with_the_same_input_is_the_same_execution() {
    let stage = Stage::new();
    let runtime = stage.open(add());
    let revision = Stage::deploy(
        &runtime,
        r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#,
    );
    let door = runtime.door().clone();
    stage.tokio.block_on(async {
        let first = door.start(start(revision, Some("n"), "{}")).await.unwrap();
        let again = door.start(start(revision, Some("n"), "{}")).await.unwrap();
        assert_eq!((again.execution, again.fresh, first.fresh), (first.execution, false, true));
        let other = door.start(start(revision, Some("n"), "[]")).await;
        assert_eq!(other, Err(StartError::Exists(first.execution)));
    });
}

#[test]
fn what_was_under_way_goes_on_after_a_restart_and_a_completed_step_does_not_run_again() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let stage = Stage::new();
    let steps = || {
        Steps::default()
            .with("add", Policy::default(), |_| async {
                CALLS.fetch_add(1, Ordering::SeqCst);
                Ok(Payload::from_text("1").unwrap())
            })
            .with("hang", Policy::default(), |_| std::future::pending())
    };
    let runtime = stage.open(steps());
    let definition = TWO_STEPS.replacen("add\", \"End", "hang\", \"End", 1);
    let revision = Stage::deploy(&runtime, &definition);
    let started = stage.tokio.block_on(runtime.door().start(start(revision, None, "1"))).unwrap();
    // The second step hangs once the view shows two calls made.
    let door = runtime.door().clone();
    stage.tokio.block_on(async {
        while door.view(started.execution).await.is_none_or(|view| view.turns < 2) {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    let done = Steps::default().with("hang", Policy::default(), |call| async move {
        Ok(Payload::from_text(format!("{:?}", call.key.readable())).unwrap())
    });
    let runtime = stage.open(done);
    let ending = stage.tokio.block_on(runtime.door().ending(started.execution)).unwrap();
    assert_eq!(ending.status, Status::Succeeded);
    let expected = format!("\"{}:B#1:1\"", started.execution);
    assert_eq!(&**ending.output.unwrap().text(), expected);
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}

#[test]
fn what_cannot_be_read_stays_in_the_journal_for_a_version_that_can() {
    let stage = Stage::new();
    let mut store = stage.store.clone();
    let claim = Claim { holder: "local".into(), most: 1, now: Timestamp(0), expires_at: Timestamp(1) };
    let lease = store.acquire(&claim).unwrap();
    let unreadable = ExecutionId::from_random(7);
    let mut journal = JournalWriter::new(&Totals::default());
    journal.push(unreadable, 1, b"what only a later version reads");
    let position = Some(Position::before(lease.incarnation()).next());
    store.commit(&Group { position, journal: journal.seal(), ..Group::under(lease) }).unwrap();
    let runtime = stage.open(add());
    let revision = Stage::deploy(&runtime, TWO_STEPS);
    for _ in 0..3 {
        let door = runtime.door();
        stage.tokio.block_on(door.run(start(revision, None, "1"))).unwrap().1.unwrap();
    }
    drop(runtime);
    let kept = stage.store.reader().unwrap().execution(unreadable).unwrap().unwrap();
    assert_eq!(kept.turns.len(), 1);
}

/// Whoever reserved it died before the first commit.
#[test]
fn a_reserved_name_that_never_began_is_begun_by_the_next_start_under_its_id() {
    let stage = Stage::new();
    let runtime = stage.open(add());
    let revision = Stage::deploy(&runtime, TWO_STEPS);
    let machine = stage.store.reader().unwrap().machine_id("test").unwrap().unwrap();
    let reserved = ExecutionId::from_random(7);
    stage.store.reader().unwrap().reserve(machine, &"a".into(), reserved).unwrap();
    let begin = |input: &str| stage.tokio.block_on(runtime.door().start(start(revision, Some("a"), input)));
    let started = begin("1").unwrap();
    assert_eq!((started.execution, started.fresh), (reserved, true));
    stage.ending(runtime.door(), &started);
    assert_eq!(begin("2"), Err(StartError::Exists(reserved)));
}
