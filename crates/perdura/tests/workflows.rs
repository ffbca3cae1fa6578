//! Workflows in one process, in memory.

use perdura::{
    AskError, Context, LedgerStatus, Perdura, Query, Retry, RunError, SetupError, StartError, Status, Step,
    StepError, Verdict, Workflow,
};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Claim {
    mail: String,
    cents: u64,
}

fn claim() -> Claim {
    Claim { mail: "ana@example.org".into(), cents: 12_000 }
}

async fn validate(claim: Claim) -> Result<Claim, StepError> {
    if claim.cents == 0 {
        return Err(StepError::refused("Invalid", "a claim has an amount"));
    }
    Ok(claim)
}

/// Errors of any type do.
async fn cents(claim: Claim) -> Result<u64, std::num::TryFromIntError> {
    Ok(u32::try_from(claim.cents)?.into())
}

type Keys = Arc<Mutex<Vec<String>>>;

/// A step that fails so often, and keeps the keys under which it was called.
fn failing(times: usize, error: StepError) -> (Keys, Step<Claim, String>) {
    let keys = Keys::default();
    let seen = keys.clone();
    let send = move |context: Context, claim: Claim| {
        let mut seen = seen.lock().unwrap();
        seen.push(context.key().to_owned());
        let result = if seen.len() > times { Ok(claim.mail) } else { Err(error.clone()) };
        std::future::ready(result)
    };
    (keys, Step::new(send).named("send"))
}

/// Retries that cost a test no more than a second.
fn soon(times: u32) -> Retry {
    Retry::times(times).growing(1.0)
}

#[tokio::test]
async fn a_run_that_is_first_waited_for_after_it_was_redriven_gives_its_later_end() {
    let (_, step) = failing(1, StepError::refused("Down", "not now"));
    let workflow = Workflow::new("claim").step(step);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    while run.status().await.unwrap() != Status::Failed {
        tokio::task::yield_now().await;
    }
    run.redrive().await.unwrap();
    assert_eq!(run.await.unwrap(), "ana@example.org");
}

#[tokio::test]
async fn steps_hand_their_outputs_on_and_the_last_is_the_output() {
    let workflow = Workflow::new("claim").step(validate).step(cents);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    assert_eq!(run.output().await.unwrap(), 12_000);
    let ledger = run.ledger().await.unwrap();
    let told: Vec<_> = ledger.iter().map(|entry| (&*entry.step, entry.status)).collect();
    assert_eq!(told, [("validate#1", LedgerStatus::Completed), ("cents#1", LedgerStatus::Completed)]);
    let history = run.history(1).await.unwrap();
    let types: Vec<_> = history.events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((types[0], *types.last().unwrap()), ("ExecutionStarted", "ExecutionSucceeded"));
    assert_eq!(run.history(history.next.unwrap()).await.unwrap().events, [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn a_name_stands_for_one_execution_also_when_that_has_ended() {
    let workflow = Workflow::new("claim").step(validate);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let first = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    first.output().await.unwrap();
    let again = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    assert_eq!((again.id(), again.is_new()), (first.id(), false));
    assert_eq!(again.await.unwrap(), claim());
    let other = perdura.start(&workflow, "claim-17", Claim { cents: 1, ..claim() }).await.unwrap_err();
    assert!(matches!(other, StartError::Taken { execution } if execution == first.id()), "{other}");
    assert!(matches!(perdura.start(&workflow, "a b", claim()).await, Err(StartError::Name(_))));
}

#[tokio::test]
async fn a_refusal_moves_the_key_on_and_doubt_keeps_it() {
    let ordinary = StepError::from(std::io::Error::other("the connection was reset"));
    for (error, same_key) in [
        (StepError::refused("Declined", "no"), false),
        (StepError::uncertain("Gateway", "504"), true),
        (ordinary, true),
    ] {
        let (keys, send) = failing(1, error.clone());
        let workflow = Workflow::new("claim").step(send.retry(soon(1)));
        let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
        let mail = perdura.start(&workflow, "claim-17", claim()).await.unwrap().await.unwrap();
        assert_eq!(mail, "ana@example.org");
        let keys = keys.lock().unwrap();
        assert_eq!((keys.len(), keys[0] == keys[1]), (2, same_key), "{error}");
    }
}

#[tokio::test]
async fn an_error_of_a_step_without_an_effect_is_a_refusal() {
    let workflow = Workflow::new("claim").step(cents);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "huge", Claim { cents: u64::MAX, ..claim() }).await.unwrap();
    let error = run.output().await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { error, .. } if error == "States.TaskFailed"), "{error}");
    assert_eq!(run.ledger().await.unwrap()[0].status, LedgerStatus::Failed);
    assert_eq!(run.status().await.unwrap(), Status::Failed);
}

#[tokio::test]
async fn a_panic_leaves_doubt_and_costs_one_execution() {
    async fn careless(_: Context, claim: Claim) -> Result<u64, StepError> {
        assert_ne!(claim.cents, 0, "nobody checked the amount");
        Ok(claim.cents)
    }
    let workflow = Workflow::new("claim").step(careless);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "bad", Claim { cents: 0, ..claim() }).await.unwrap();
    assert!(matches!(run.output().await, Err(RunError::Failed { .. })));
    assert_eq!(run.ledger().await.unwrap()[0].status, LedgerStatus::Uncertain);
    assert_eq!(perdura.start(&workflow, "good", claim()).await.unwrap().await.unwrap(), 12_000);
}

#[tokio::test]
async fn a_held_step_waits_for_a_person() {
    for (verdict, expected) in [
        (Verdict::Completed("by hand".into()), Ok("by hand")),
        (Verdict::Failed { error: "NotSent".into(), cause: "we asked".into() }, Err("NotSent")),
        (Verdict::Again, Ok("ana@example.org")),
    ] {
        let (keys, send) = failing(1, StepError::uncertain("LineDropped", "who knows"));
        let workflow = Workflow::new("claim").step(send.hold());
        let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
        let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
        let held = until_uncertain(&run).await;
        run.resolve("1:other#1:1", Verdict::Again, "a slip").await.unwrap_err();
        run.resolve(&held, verdict.clone(), "Ana asked them").await.unwrap();
        match (run.output().await, expected) {
            (Ok(output), Ok(expected)) => assert_eq!(output, expected),
            (Err(RunError::Failed { error, .. }), Err(expected)) => assert_eq!(error, expected),
            (got, expected) => panic!("{verdict:?}: {got:?} instead of {expected:?}"),
        }
        let keys = keys.lock().unwrap();
        assert!(keys.iter().all(|key| *key == keys[0]), "{verdict:?}: {keys:?}");
    }
}

/// The key of the first call in doubt, once there is one.
async fn until_uncertain<O>(run: &perdura::Run<O>) -> String {
    loop {
        let ledger = run.ledger().await.unwrap();
        if let Some(entry) = ledger.iter().find(|entry| entry.status == LedgerStatus::Uncertain) {
            return entry.key.to_string();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stopped_execution_says_so_and_cannot_be_stopped_twice() {
    let begun = Arc::new(Notify::new());
    let tell = begun.clone();
    let wait = move |claim: Claim| {
        let tell = tell.clone();
        async move {
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok::<_, StepError>(claim)
        }
    };
    let workflow = Workflow::new("claim").named("wait", wait);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    begun.notified().await;
    assert_eq!(run.status().await.unwrap(), Status::Running);
    run.stop("Withdrawn", "the client called").await.unwrap();
    assert!(matches!(run.stop("Withdrawn", "again").await, Err(AskError::Ignored(_))));
    let error = run.output().await.unwrap_err();
    assert!(matches!(&error, RunError::Stopped { error, .. } if error == "Withdrawn"), "{error}");
    let stopped = Query { workflow: Some("claim".into()), status: Some(Status::Aborted), ..Query::default() };
    let listed = perdura.list(stopped.clone()).await.unwrap();
    assert_eq!(listed.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["claim-17"]);
    let next = Query { after: listed.into_iter().next_back(), ..stopped };
    assert_eq!(perdura.list(next).await.unwrap(), []);
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_dropped_and_in_doubt() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let slow = move |_: Context, claim: Claim| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok::<_, StepError>(claim.cents)
        }
    };
    let step = Step::new(slow).named("slow").timeout(Duration::from_millis(1)).retry(soon(1));
    let workflow = Workflow::new("claim").step(step);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    assert_eq!(run.output().await.unwrap(), 12_000);
    let ledger = run.ledger().await.unwrap();
    assert_eq!((ledger.len(), ledger[0].round, ledger[0].status), (1, 1, LedgerStatus::Completed));
}

#[tokio::test]
async fn all_mistakes_of_a_program_are_told_when_it_opens() {
    let twice = Workflow::new("claim").step(validate).step(validate);
    let impatient = Workflow::new("impatient").step(Step::new(cents).retry(soon(3).growing(0.5)));
    let strange = Workflow::<u32, u32>::from_definition(
        "strange",
        r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "arn:perdura:step:::nobody", "End": true}}}"#,
    );
    let opening = Perdura::in_memory()
        .workflow(&twice)
        .workflow(&impatient)
        .workflow(&strange)
        .step("cents", Step::new(cents).timeout(Duration::from_secs(1)));
    let Err(SetupError::Program(told)) = opening.await else { panic!("it opened") };
    for expected in ["two steps \"validate\"", "BackoffRate", "a step \"nobody\"", "TimeoutSeconds there"] {
        assert!(told.contains(expected), "{expected:?} is not in:\n{told}");
    }
}

#[tokio::test]
async fn only_what_is_deployed_can_be_started() {
    let workflow = Workflow::new("claim").step(validate);
    let other = Workflow::new("claim").step(validate).step(cents);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let error = perdura.start(&other, "claim-17", claim()).await.unwrap_err().to_string();
    assert!(error.contains("other steps"), "{error}");
    let error = perdura.start(&Workflow::new("new").step(cents), "a", claim()).await.unwrap_err().to_string();
    assert!(error.contains("not deployed"), "{error}");
    let error = perdura.deploy(&other).await.unwrap_err().to_string();
    assert!(error.contains("claim.cents"), "{error}");
}

/// Tells that it is gone.
struct Tells(Arc<Notify>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn what_is_closed_takes_nothing_and_drops_its_steps() {
    let begun = Arc::new(Notify::new());
    let dropped = Arc::new(Notify::new());
    let (tell, tell_dropped) = (begun.clone(), dropped.clone());
    let wait = move |claim: Claim| {
        let (tell, tells) = (tell.clone(), Tells(tell_dropped.clone()));
        async move {
            let _tells = tells;
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok::<_, StepError>(claim)
        }
    };
    let workflow = Workflow::new("claim").named("wait", wait);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "claim-17", claim()).await.unwrap();
    begun.notified().await;
    perdura.clone().close(Duration::ZERO).await;
    dropped.notified().await;
    assert!(matches!(run.output().await, Err(RunError::Ask(AskError::Unavailable(_)))));
    assert!(matches!(perdura.start(&workflow, "new", claim()).await, Err(StartError::Unavailable(_))));
}

#[tokio::test]
async fn what_ended_long_enough_ago_can_be_taken_away_with_its_name() {
    let workflow = Workflow::new("claim").step(validate);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    perdura.start(&workflow, "claim-17", claim()).await.unwrap().await.unwrap();
    assert_eq!(perdura.clean_up(Duration::from_mins(1)).await.unwrap(), 0);
    assert!(perdura.find(&workflow, "claim-17").await.unwrap().is_some());
    // The last that was written stays until something follows it.
    perdura.start(&workflow, "claim-18", claim()).await.unwrap().await.unwrap();
    // It ended in this millisecond, perhaps.
    while perdura.clean_up(Duration::ZERO).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(perdura.find(&workflow, "claim-17").await.unwrap().is_none());
    assert!(perdura.start(&workflow, "claim-17", claim()).await.unwrap().is_new());
}
