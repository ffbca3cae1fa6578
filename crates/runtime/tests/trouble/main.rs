//! The runtime when steps, the store or the world around it do what they should not.

mod stage;

use perdura_engine::asl::json::Payload;
use perdura_engine::{Outcome, Policy, Status, Timestamp, Uncertain};
use perdura_runtime::{InputError, Start, StartError, Steps};
use perdura_store::{Filter, MemoryStore, Retention};
use stage::{ACTIVITY, Faults, HANGS, LOOP, ONE_STEP, PARENT, Stage, TWO_STEPS, start};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn a_step_that_panics_before_it_first_waits_fails_by_itself() {
    let steps = Steps::default().with("step", Policy::default(), |call| {
        assert!(&**call.input.text() != "1", "one");
        async move { Ok(call.input) }
    });
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let endings = stage.tokio.block_on(async {
        let (_, panicked) = door.run(start(revision, "1")).await.unwrap();
        let (_, went_well) = door.run(start(revision, "2")).await.unwrap();
        [panicked.unwrap().status, went_well.unwrap().status]
    });
    assert_eq!(endings, [Status::Failed, Status::Succeeded]);
}

#[test]
fn a_task_whose_execution_cannot_be_read_for_a_moment_still_comes_to_its_worker() {
    let stage = Stage::new(Steps::default());
    let revision = stage.deploy(ACTIVITY);
    let door = stage.runtime.door().clone();
    let started = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    stage.faults.rows.store(1, Ordering::SeqCst);
    let output = Payload::from_text("7").unwrap();
    let ended = stage.tokio.block_on(async {
        tokio::time::timeout(HANGS, async {
            let task = door.poll("work".into(), None).await.unwrap();
            door.answer(task.token, Outcome::Succeeded { output: output.clone() }).await.unwrap();
            door.ending(started.execution).await.unwrap()
        })
        .await
        .expect("the worker gets the task")
    });
    assert_eq!(ended.output, Some(output));
    assert_eq!(stage.faults.rows.load(Ordering::SeqCst), 0, "it was tried in vain");
}

#[test]
fn a_parent_that_cannot_be_read_for_a_moment_hears_of_its_childs_end() {
    let stage = Stage::new(Steps::default());
    stage.deploy_as("child", ACTIVITY);
    let revision = stage.deploy(PARENT);
    let door = stage.runtime.door().clone();
    let started = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    let ended = stage.tokio.block_on(async {
        tokio::time::timeout(HANGS, async {
            let task = door.poll("work".into(), None).await.unwrap();
            while door.view(started.execution).await.is_some() {
                tokio::task::yield_now().await;
            }
            let output = Payload::from_text("7").unwrap();
            // The child is read for its answer, and its parent for the child's end.
            while door.view(task.token.execution).await.is_none() {
                door.heartbeat(task.token).await.unwrap();
            }
            stage.faults.rows.store(1, Ordering::SeqCst);
            door.answer(task.token, Outcome::Succeeded { output }).await.unwrap();
            while stage.faults.rows.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
            // Whoever asks while it is being read is told that it cannot be, and asks again.
            loop {
                match door.ending(started.execution).await {
                    Err(InputError::Unavailable(_)) => tokio::task::yield_now().await,
                    ended => break ended,
                }
            }
        })
        .await
        .expect("the parent ends")
    });
    assert_eq!(ended.unwrap().status, Status::Succeeded);
}

#[test]
fn a_call_after_the_end_of_the_runtime_for_steps_does_not_hold_up_the_node() {
    let steps = Steps::default().with("step", Policy::default(), |call| async move { Ok(call.input) });
    let mut stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::mem::replace(&mut stage.tokio, other).shutdown_background();
    stage.tokio.block_on(stage.runtime.door().start(start(revision, "1"))).unwrap();
    stage.close(Duration::ZERO);
}

#[test]
fn while_the_store_cannot_be_opened_lists_and_names_still_show_what_was_acknowledged() {
    // A call without an answer: for a second or so only the journal has its execution.
    let steps = Steps::default().with("step", Policy::default(), |_| std::future::pending());
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let named = Start { name: Some("one".into()), ..start(revision, "1") };
    let started = stage.tokio.block_on(door.start(named)).unwrap();
    stage.faults.recoveries.store(usize::MAX, Ordering::SeqCst);
    stage.faults.commits.store(usize::MAX, Ordering::SeqCst);
    stage.tokio.block_on(door.start(start(revision, "1"))).unwrap_err();
    let machine = door.read(|reader| reader.machine_id("test")).unwrap().unwrap();
    stage.tokio.block_on(async {
        let listed = door.list(&Filter::default(), None, 10).await.unwrap().rows;
        assert_eq!(listed.iter().map(|summary| summary.execution).collect::<Vec<_>>(), [started.execution]);
        assert_eq!(door.named(machine, "one".into()).await.unwrap(), Some(started.execution));
    });
    stage.close(Duration::ZERO);
}

#[test]
fn a_process_that_begins_on_a_full_disk_shows_what_is_there_and_goes_on_when_there_is_room() {
    let store = MemoryStore::new(1);
    let stage = Stage::on(store.clone(), Steps::default());
    let revision = stage.deploy(ACTIVITY);
    let started = stage.tokio.block_on(stage.runtime.door().start(start(revision, "1"))).unwrap();
    stage.close(Duration::ZERO);
    let full = Faults { acquisitions: AtomicUsize::new(usize::MAX), ..Faults::default() };
    let stage = Stage::amid(full, store, Steps::default());
    let door = stage.runtime.door().clone();
    assert!(door.trouble().is_some_and(|why| why.contains("it said so")));
    let (listed, refused) = stage.tokio.block_on(async {
        let listed = door.list(&Filter::default(), None, 10).await.unwrap().rows;
        (listed, door.start(start(revision, "2")).await)
    });
    assert_eq!(listed.iter().map(|one| one.execution).collect::<Vec<_>>(), [started.execution]);
    assert!(matches!(refused, Err(StartError::Unavailable(_))), "{refused:?}");
    stage.faults.acquisitions.store(0, Ordering::SeqCst);
    let output = Payload::from_text("7").unwrap();
    let ended = stage.tokio.block_on(async {
        tokio::time::timeout(HANGS, async {
            let task = loop {
                match door.poll("work".into(), None).await {
                    Ok(task) => break task,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            door.answer(task.token, Outcome::Succeeded { output: output.clone() }).await.unwrap();
            door.ending(started.execution).await.unwrap()
        })
        .await
        .expect("it goes on")
    });
    assert_eq!((ended.output, door.trouble()), (Some(output), None));
}

#[test]
fn closing_ends_although_an_execution_never_rests() {
    let stage = Stage::new(Steps::default());
    let revision = stage.deploy(LOOP);
    stage.tokio.block_on(stage.runtime.door().start(start(revision, "1"))).unwrap();
    stage.close(Duration::ZERO);
}

/// Closes while a call is under way; the answer comes after that, and for a while nothing can be written. How many have
/// succeeded by the end.
fn close_in_trouble(grace: Duration, opens_fail: usize) -> u64 {
    let (answer, answers) = mpsc::channel();
    let answer = std::sync::Mutex::new(answer);
    let steps = Steps::default().with("step", Policy::default(), move |call| {
        let (sender, told) = tokio::sync::oneshot::channel();
        answer.lock().unwrap().send(sender).unwrap();
        async move {
            told.await.unwrap();
            Ok(call.input)
        }
    });
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let one = || Start { name: Some("one".into()), ..start(revision, "1") };
    stage.tokio.block_on(stage.runtime.door().start(one())).unwrap();
    let answer: tokio::sync::oneshot::Sender<()> = answers.recv_timeout(HANGS).unwrap();
    let door = stage.runtime.door().clone();
    let (sender, closed) = mpsc::channel();
    let runtime = stage.runtime;
    std::thread::spawn(move || {
        runtime.close(grace);
        sender.send(()).unwrap();
    });
    // Once it refuses what is new, it closes.
    while stage.tokio.block_on(door.start(one())).is_ok() {
        std::thread::yield_now();
    }
    stage.faults.commits.store(opens_fail, Ordering::SeqCst);
    stage.faults.recoveries.store(opens_fail, Ordering::SeqCst);
    answer.send(()).unwrap();
    closed.recv_timeout(HANGS).expect("closing comes to an end");
    door.gauges().totals.succeeded
}

#[test]
fn closing_ends_with_its_grace_although_nothing_can_be_written_any_more() {
    close_in_trouble(Duration::from_secs(2), usize::MAX);
}

#[test]
fn an_answer_that_comes_while_it_closes_is_written_as_soon_as_that_goes_again() {
    assert_eq!(close_in_trouble(Duration::from_hours(1), 2), 1);
}

#[test]
fn a_call_under_way_is_not_made_again_however_often_the_store_fails() {
    let (call, calls) = mpsc::channel();
    let call = std::sync::Mutex::new(call);
    let policy = Policy { uncertain: Uncertain::Hold, ..Policy::default() };
    let steps = Steps::default().with("step", policy, move |input| {
        let (sender, told) = tokio::sync::oneshot::channel();
        call.lock().unwrap().send(sender).unwrap();
        async move {
            told.await.unwrap();
            Ok(input.input)
        }
    });
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let first = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    let answer: tokio::sync::oneshot::Sender<()> = calls.recv_timeout(HANGS).unwrap();
    stage.faults.recoveries.store(1, Ordering::SeqCst);
    stage.faults.commits.store(1, Ordering::SeqCst);
    stage.tokio.block_on(door.start(start(revision, "2"))).unwrap_err();
    while stage.tokio.block_on(door.start(start(revision, "3"))).is_err() {
        std::thread::yield_now();
    }
    let _third = calls.recv_timeout(HANGS).unwrap();
    answer.send(()).unwrap();
    let ending = stage.tokio.block_on(door.ending(first.execution)).unwrap();
    assert_eq!(ending.status, Status::Succeeded);
    assert!(calls.try_recv().is_err(), "the call was made again");
    let totals = door.gauges().totals;
    assert_eq!(
        (totals.steps_repeated, totals.steps_uncertain),
        (0, 0),
        "nor is it told that it was, or held"
    );
}

#[test]
fn a_process_that_ends_in_order_begins_no_call_and_the_next_one_makes_it() {
    let (made, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let steps = || {
        let (count, opened) = (made.clone(), gate.clone());
        // What was certainly not sent is not held either.
        let policy = Policy { uncertain: Uncertain::Hold, ..Policy::default() };
        Steps::default().with("step", policy, move |call| {
            count.fetch_add(1, Ordering::SeqCst);
            let opened = opened.clone();
            async move {
                opened.notified().await;
                Ok(call.input)
            }
        })
    };
    let store = MemoryStore::new(1);
    let stage = Stage::on(store.clone(), steps());
    let revision = stage.deploy(TWO_STEPS);
    let door = stage.runtime.door().clone();
    let one = || Start { name: Some("one".into()), ..start(revision, "1") };
    let first = stage.tokio.block_on(door.start(one())).unwrap();
    let asks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let closing = std::thread::spawn(move || stage.close(HANGS));
    // Once it refuses what is new, it closes.
    while asks.block_on(door.start(one())).is_ok() {
        std::thread::yield_now();
    }
    gate.notify_one();
    closing.join().unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 1, "the second call is left to the next process");
    let stage = Stage::on(store, steps());
    gate.notify_one();
    let door = stage.runtime.door().clone();
    let ending = stage.tokio.block_on(door.ending(first.execution)).unwrap();
    let repeated = door.gauges().totals.steps_repeated;
    assert_eq!((ending.status, made.load(Ordering::SeqCst), repeated), (Status::Succeeded, 2, 0));
}

#[test]
fn a_call_that_was_answered_is_not_made_again_while_nothing_can_be_written() {
    let made = Arc::new(AtomicUsize::new(0));
    let (count, gate) = (made.clone(), Arc::new(tokio::sync::Notify::new()));
    let opened = gate.clone();
    let steps = Steps::default().with("step", Policy::default(), move |input| {
        count.fetch_add(1, Ordering::SeqCst);
        let opened = opened.clone();
        async move {
            opened.notified().await;
            Ok(input.input)
        }
    });
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let first = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    // The store is opened again each time, and fails as soon as the answer is to be written.
    stage.faults.commits.store(3, Ordering::SeqCst);
    gate.notify_one();
    let ending = loop {
        match stage.tokio.block_on(door.ending(first.execution)) {
            Ok(ending) => break ending,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(ending.status, Status::Succeeded);
    assert_eq!((made.load(Ordering::SeqCst), stage.faults.commits.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(door.gauges().totals.steps_repeated, 0, "it is not told that it was");
}

#[test]
fn a_group_of_large_turns_is_cut_before_its_journal_row_becomes_too_long_to_read() {
    const MIB: usize = 1024 * 1024;
    let stage = Stage::new(Steps::default());
    let revision =
        stage.deploy(r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 1, "End": true}}}"#);
    let door = stage.runtime.door().clone();
    // Nothing in it repeats, so that compressing it does not help.
    let mut seed = 1u64;
    let mut letters = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + 2 + (seed >> 33) as u8 % 56)
    };
    let text: String = (0..MIB).map(|_| letters()).collect();
    let input = format!("{text:?}");
    stage.tokio.block_on(async {
        let starts: Vec<_> = (0..24)
            .map(|_| {
                let (door, start) = (door.clone(), start(revision, &input));
                tokio::spawn(async move { door.start(start).await })
            })
            .collect();
        for start in starts {
            start.await.unwrap().unwrap();
        }
    });
    let longest = stage.faults.longest.load(Ordering::SeqCst);
    assert!(longest < 20 * MIB, "{} MiB", longest / MIB);
}

#[test]
fn what_cannot_be_read_for_a_moment_while_the_store_is_opened_is_not_set_aside() {
    let (call, calls) = mpsc::channel();
    let call = std::sync::Mutex::new(call);
    let steps = Steps::default().with("step", Policy::default(), move |input| {
        let (sender, told) = tokio::sync::oneshot::channel();
        call.lock().unwrap().send(sender).unwrap();
        async move {
            told.await.unwrap();
            Ok(input.input)
        }
    });
    let stage = Stage::new(steps);
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let first = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    let answer: tokio::sync::oneshot::Sender<()> = calls.recv_timeout(HANGS).unwrap();
    stage.faults.definitions.store(1, Ordering::SeqCst);
    stage.faults.commits.store(1, Ordering::SeqCst);
    stage.tokio.block_on(door.start(start(revision, "2"))).unwrap_err();
    while stage.tokio.block_on(door.start(start(revision, "3"))).is_err() {
        std::thread::yield_now();
    }
    answer.send(()).unwrap();
    let ending = stage.tokio.block_on(door.ending(first.execution)).unwrap();
    assert_eq!((ending.status, door.gauges().parked), (Status::Succeeded, 0));
}

#[test]
fn a_mistake_while_something_is_read_costs_whoever_asked_and_nobody_else() {
    let stage = Stage::new(Steps::default());
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    *stage.faults.mistaken.lock().unwrap() = Some("a".into());
    let named = |name: &str| Start { name: Some(name.into()), ..start(revision, "1") };
    let mistaken = stage.tokio.block_on(door.start(named("a"))).unwrap_err();
    assert!(mistaken.to_string().contains("the test's mistake"), "{mistaken}");
    assert!(stage.tokio.block_on(door.start(named("b"))).is_ok());
}

#[test]
fn a_mistake_that_ends_the_thread_that_decides_is_told() {
    let stage = Stage::new(Steps::default());
    let revision = stage.deploy(ONE_STEP);
    let door = stage.runtime.door().clone();
    let _ = stage.tokio.block_on(door.start(start(revision, "1"))).unwrap();
    stage.faults.sweeps_panic.store(true, Ordering::SeqCst);
    let retention = Retention { ended_before: Timestamp(0), ledger_before: Timestamp(0), bytes_max: None };
    assert!(stage.tokio.block_on(door.sweep(&retention, &mut None, 1)).is_err());
    let began = std::time::Instant::now();
    while door.trouble().is_none() {
        assert!(began.elapsed() < HANGS, "nobody is told");
        std::thread::yield_now();
    }
    assert!(door.trouble().is_some_and(|why| why.contains("start it again")));
}
