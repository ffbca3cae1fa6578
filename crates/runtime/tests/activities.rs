//! Workers: tasks wait for them, they wait for tasks, and what they say counts once.

mod stage;

use perdura_engine::{Certainty, Fault, Input, Outcome, Status, TaskToken};
use perdura_runtime::{ActivityTask, Door, Runtime, Started, Steps, TokenError, Unavailable};
use stage::{Stage, json};
use std::future::Future;

const WORK: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Task",
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:work", "End": true}}}"#;

fn open(stage: &Stage) -> Runtime {
    stage.open(Steps::default())
}

fn done(output: &str) -> Outcome {
    Outcome::Succeeded { output: json(output) }
}

fn poll(stage: &Stage, door: &Door) -> ActivityTask {
    stage.tokio.block_on(door.poll("work".into(), Some("anna".into()))).unwrap()
}

fn answer(stage: &Stage, door: &Door, token: TaskToken, outcome: Outcome) -> Result<(), TokenError> {
    stage.tokio.block_on(door.answer(token, outcome))
}

/// A worker that waits, and is known to the node to do so.
fn waiting<'d>(
    stage: &Stage,
    door: &'d Door,
) -> std::pin::Pin<Box<impl Future<Output = Result<ActivityTask, Unavailable>> + use<'d>>> {
    let mut poll = Box::pin(door.poll("work".into(), None));
    stage.tokio.block_on(async {
        std::future::poll_fn(|context| {
            assert!(poll.as_mut().poll(context).is_pending(), "there is no task yet");
            std::task::Poll::Ready(())
        })
        .await;
        // Whatever is asked now is answered after the poll was taken in.
        door.named(perdura_store::MachineId(1), "nobody".into()).await.unwrap();
    });
    poll
}

fn started(stage: &Stage, runtime: &Runtime, input: &str) -> Started {
    let revision = Stage::deploy(runtime, WORK);
    stage.begin(runtime.door(), revision, input)
}

#[test]
fn a_task_waits_for_a_worker_and_a_worker_for_a_task() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    let first = started(&stage, &runtime, "1");
    let task = poll(&stage, &door);
    assert_eq!((&**task.input.text(), task.key.step()), ("1", "W#1"));
    answer(&stage, &door, task.token, done("10")).unwrap();
    assert_eq!(stage.ending(&door, &first).output, Some(json("10")));

    let worker = waiting(&stage, &door);
    let second = started(&stage, &runtime, "2");
    let task = stage.tokio.block_on(worker).unwrap();
    assert_eq!(&**task.input.text(), "2");
    let failed = Outcome::Failed { fault: Fault::new("Full", "no more"), certainty: Certainty::Refused };
    answer(&stage, &door, task.token, failed).unwrap();
    assert_eq!(stage.ending(&door, &second).fault, Fault::new("Full", "no more"));
}

#[test]
fn each_task_goes_to_one_worker_and_the_oldest_first() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    for number in 0..20 {
        started(&stage, &runtime, &number.to_string());
    }
    let taken: Vec<i64> = (0..20).map(|_| poll(&stage, &door).input.value().as_i64().unwrap()).collect();
    assert_eq!(taken, (0..20).collect::<Vec<_>>());
    drop(waiting(&stage, &door));
}

#[test]
fn a_worker_that_went_away_loses_no_task() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    drop(waiting(&stage, &door));
    let execution = started(&stage, &runtime, "1");
    let task = poll(&stage, &door);
    answer(&stage, &door, task.token, done("2")).unwrap();
    assert_eq!(stage.ending(&door, &execution).status, Status::Succeeded);
}

#[test]
fn tokens_and_queues_survive_a_restart() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let taken = started(&stage, &runtime, "1");
    let task = poll(&stage, runtime.door());
    let queued = started(&stage, &runtime, "2");
    drop(runtime);

    let runtime = open(&stage);
    let door = runtime.door().clone();
    let next = poll(&stage, &door);
    assert_eq!(&**next.input.text(), "2", "the one that was taken is not handed out again");
    answer(&stage, &door, task.token, done("10")).unwrap();
    answer(&stage, &door, next.token, done("20")).unwrap();
    assert_eq!(stage.ending(&door, &taken).output, Some(json("10")));
    assert_eq!(stage.ending(&door, &queued).output, Some(json("20")));
}

#[test]
fn the_same_answer_again_is_a_success_and_another_one_is_late() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let execution = started(&stage, &runtime, "1");
    let task = poll(&stage, runtime.door());
    answer(&stage, runtime.door(), task.token, done(r#"{"a": 1}"#)).unwrap();
    stage.ending(runtime.door(), &execution);
    for _ in 0..2 {
        let again = answer(&stage, runtime.door(), task.token, done(r#"{"a":1}"#));
        assert_eq!(again, Ok(()), "the same value, whatever its spaces");
    }
    drop(runtime);
    let runtime = open(&stage);
    let door = runtime.door();
    assert_eq!(answer(&stage, door, task.token, done(r#"{"a":1}"#)), Ok(()));
    assert_eq!(answer(&stage, door, task.token, done("2")), Err(TokenError::TimedOut));
    let failed = Outcome::Failed { fault: Fault::named("No"), certainty: Certainty::Refused };
    assert_eq!(answer(&stage, door, task.token, failed), Err(TokenError::TimedOut));
    assert_eq!(stage.tokio.block_on(door.heartbeat(task.token)), Err(TokenError::TimedOut));
    assert_eq!(door.gauges().totals.outcomes_late, 1, "one success after the end is on record, and no more");
}

#[test]
fn a_stopped_execution_takes_no_answer_and_a_foreign_token_is_unknown() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    let execution = started(&stage, &runtime, "1");
    let task = poll(&stage, &door);
    assert_eq!(stage.tokio.block_on(door.heartbeat(task.token)), Ok(()));
    stage.tokio.block_on(door.input(execution.execution, Input::Stop { fault: Fault::default() })).unwrap();
    assert_eq!(answer(&stage, &door, task.token, done("1")), Err(TokenError::TimedOut));
    let forged = TaskToken { secret: perdura_engine::Secret(1), ..task.token };
    assert_eq!(answer(&stage, &door, forged, done("1")), Err(TokenError::Unknown));
    let elsewhere = TaskToken { execution: perdura_engine::ExecutionId::from_random(3), ..task.token };
    assert_eq!(answer(&stage, &door, elsewhere, done("1")), Err(TokenError::Unknown));
}

#[test]
fn a_task_whose_execution_was_stopped_is_not_handed_out() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    let stopped = started(&stage, &runtime, "1");
    let stop = Input::Stop { fault: Fault::default() };
    stage.tokio.block_on(door.input(stopped.execution, stop)).unwrap();
    started(&stage, &runtime, "2");
    assert_eq!(&**poll(&stage, &door).input.text(), "2");
}

#[test]
fn of_ten_thousand_workers_each_gets_what_is_its_own() {
    let stage = Stage::new();
    let runtime = open(&stage);
    let door = runtime.door().clone();
    let (sender, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let workers: Vec<_> = (0..10_000)
        .map(|_| {
            let (door, sender) = (door.clone(), sender.clone());
            stage.tokio.spawn(async move { sender.send(door.poll("work".into(), None).await) })
        })
        .collect();
    let revision = Stage::deploy(&runtime, WORK);
    let executions: Vec<Started> =
        (0..100).map(|number| stage.begin(&door, revision, &number.to_string())).collect();
    stage.tokio.block_on(async {
        for _ in &executions {
            let task = tasks.recv().await.unwrap().unwrap();
            door.answer(task.token, done("1")).await.unwrap();
        }
    });
    for execution in &executions {
        assert_eq!(stage.ending(&door, execution).status, Status::Succeeded);
    }
    assert_eq!(workers.iter().filter(|worker| worker.is_finished()).count(), executions.len());
    for worker in workers {
        worker.abort();
    }
}
