//! The same data opened again, by a program that has changed meanwhile.

mod common;

use common::TempFolder;
use perdura::{
    Context, Entry, LedgerStatus, Perdura, Run, RunError, SetupError, Status, Step, StepError, Verdict,
    Workflow,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

async fn double(number: u32) -> Result<u32, StepError> {
    Ok(number * 2)
}

async fn show(number: u32) -> Result<String, StepError> {
    Ok(number.to_string())
}

/// A step that tells that it was begun, and under which key, and never ends.
fn endless(begun: &Arc<Notify>, keys: &Arc<Mutex<Vec<String>>>) -> Step<u32, u32> {
    let (begun, keys) = (begun.clone(), keys.clone());
    let step = move |context: Context, number: u32| {
        keys.lock().unwrap().push(context.key().to_owned());
        begun.notify_one();
        async move {
            std::future::pending::<()>().await;
            Ok::<_, StepError>(number)
        }
    };
    Step::new(step).named("send")
}

/// The same step, working.
fn sending(keys: &Arc<Mutex<Vec<String>>>) -> Step<u32, u32> {
    let keys = keys.clone();
    let step = move |context: Context, number: u32| {
        keys.lock().unwrap().push(context.key().to_owned());
        std::future::ready(Ok::<_, StepError>(number + 1))
    };
    Step::new(step).named("send")
}

/// What is said of the step.
type Said = fn(Step<u32, u32>) -> Step<u32, u32>;

/// A folder in which `first` stands in its step `send`, and the key under which it is called.
async fn left_in_send(said: Said) -> (TempFolder, Arc<Mutex<Vec<String>>>) {
    let folder = TempFolder::new();
    let (begun, keys) = (Arc::new(Notify::new()), Arc::default());
    let workflow = Workflow::new("number").step(double).step(said(endless(&begun, &keys)));
    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    perdura.start(&workflow, "first", 4).await.map(drop).unwrap();
    begun.notified().await;
    perdura.close(Duration::ZERO).await;
    (folder, keys)
}

/// The last call, once it is in doubt.
async fn until_uncertain<O>(run: &Run<O>) -> Entry {
    loop {
        let last = run.ledger().await.unwrap().pop().unwrap();
        if last.status == LedgerStatus::Uncertain {
            return last;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_was_under_way_goes_on_under_the_same_key() {
    let (folder, keys) = left_in_send(|step| step).await;
    let workflow = Workflow::new("number").step(double).step(sending(&keys));
    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    assert_eq!(perdura.taken_up(), 1);
    let run = perdura.start(&workflow, "first", 4).await.unwrap();
    assert!(!run.is_new());
    assert_eq!(run.await.unwrap(), 9);
    let keys = keys.lock().unwrap();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[tokio::test]
async fn what_may_not_be_repeated_is_held_after_the_process_is_gone() {
    let cases: [(&str, Said); 2] =
        [("hold", |step| step.hold()), ("forgotten keys", |step| step.key_memory(Duration::ZERO))];
    for (case, said) in cases {
        let (folder, keys) = left_in_send(said).await;
        let workflow = Workflow::new("number").step(double).step(said(sending(&keys)));
        let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
        let run = perdura.start(&workflow, "first", 4).await.unwrap();
        let held = until_uncertain(&run).await;
        assert_eq!(keys.lock().unwrap()[..], [held.wire_key], "{case}: it was not called again");
        run.resolve(&held.key, Verdict::Completed(7.into()), "it is in their list").await.unwrap();
        assert_eq!(run.await.unwrap(), 7, "{case}");
        assert_eq!(keys.lock().unwrap().len(), 1, "{case}");
    }
}

#[tokio::test]
async fn a_changed_list_is_for_new_executions_and_old_ones_keep_theirs() {
    let (folder, keys) = left_in_send(|step| step).await;
    let workflow = Workflow::new("number").step(double).step(show);
    // The function that the old revision needs stays registered.
    let opening = Perdura::open(folder.path()).workflow(&workflow).step("number.send", sending(&keys));
    let perdura = opening.await.unwrap();
    assert_eq!(perdura.start(&workflow, "second", 4).await.unwrap().await.unwrap(), "8");
    let old = perdura.find(&workflow, "first").await.unwrap().unwrap();
    assert_eq!(perdura.execution(old.id()).await.unwrap(), 9);
    assert!(matches!(old.await, Err(RunError::Output(_))), "the old revision gives another type");
}

#[tokio::test]
async fn a_step_that_is_gone_while_it_was_called_is_held() {
    let (folder, keys) = left_in_send(|step| step).await;
    let without = Workflow::new("number").step(double);
    let perdura = Perdura::open(folder.path()).workflow(&without).await.unwrap();
    let run = perdura.find(&without, "first").await.unwrap().unwrap();
    let held = until_uncertain(&run).await;
    assert_eq!(run.status().await.unwrap(), Status::Running);
    assert_eq!(held.wire_key, keys.lock().unwrap()[0]);
    drop(run);
    perdura.close(Duration::ZERO).await;

    // With the function back, a person says that it may be called again.
    let with = Workflow::new("number").step(double).step(sending(&keys));
    let perdura = Perdura::open(folder.path()).workflow(&with).await.unwrap();
    let run = perdura.start(&with, "first", 4).await.unwrap();
    assert_eq!(perdura.uncertain().await.unwrap()[0].key, held.key);
    run.resolve(&held.key, Verdict::Again, "the function is back").await.unwrap();
    assert_eq!(run.await.unwrap(), 9);
    let keys = keys.lock().unwrap();
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_step_that_is_gone_before_it_was_called_fails_and_can_be_redriven() {
    let folder = TempFolder::new();
    let (begun, keys) = (Arc::new(Notify::new()), Arc::default());
    let workflow = Workflow::new("number").step(endless(&begun, &keys)).step(show);
    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    perdura.start(&workflow, "first", 4).await.map(drop).unwrap();
    begun.notified().await;
    perdura.close(Duration::ZERO).await;

    let without = Workflow::new("number").step(sending(&keys));
    let perdura = Perdura::open(folder.path()).workflow(&without).await.unwrap();
    let run = perdura.find(&without, "first").await.unwrap().unwrap();
    let error = run.await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { error, .. } if error == "States.Runtime"), "{error}");
    perdura.close(Duration::ZERO).await;

    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    let run = perdura.start(&workflow, "first", 4).await.unwrap();
    run.redrive().await.unwrap();
    assert_eq!(run.await.unwrap(), "5");
}

#[tokio::test]
async fn one_folder_is_open_once() {
    let folder = TempFolder::new();
    let first = Perdura::open(folder.path()).await.unwrap();
    let second = Perdura::open(folder.path()).await;
    assert!(matches!(second, Err(SetupError::Held(_))), "{second:?}");
    drop(first);
    Perdura::open(folder.path()).await.unwrap();
}
