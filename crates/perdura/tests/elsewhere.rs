//! Definitions whose tasks are not all functions of the program.

use perdura::{Perdura, Performer, RunError, StepError, Workflow};
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{EffectKey, ExecutionId, Outcome, Policy, StrandId};
use perdura_runtime::{Order, ReadOrder, WriteOrder};

const MIXED: &str = r#"{"StartAt": "Double", "States": {
    "Double": {"Type": "Task", "Resource": "arn:perdura:step:::double", "Next": "Echo"},
    "Echo": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:echo", "End": true}}}"#;

async fn double(number: u32) -> Result<u32, StepError> {
    Ok(number * 2)
}

/// Answers with what it got.
struct Echo;

impl Performer for Echo {
    fn perform(&self, order: Order) {
        let output = order.call.input;
        order.answer.send(Outcome::Succeeded { output });
    }

    fn cancel(&self, _: ExecutionId, _: StrandId, _: &EffectKey) {}

    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }

    fn read(&self, order: ReadOrder) {
        order.refuse();
    }

    fn write(&self, order: WriteOrder) {
        order.refuse();
    }
}

#[tokio::test]
async fn what_is_no_step_is_performed_by_whoever_was_named() {
    let workflow = Workflow::<u32, u32>::from_definition("mixed", MIXED);
    let opening = Perdura::in_memory().step("double", double).workflow(&workflow).elsewhere(Box::new(Echo));
    let perdura = opening.await.unwrap();
    assert_eq!(perdura.start(&workflow, "first", 21).await.unwrap().await.unwrap(), 42);
}

#[tokio::test]
async fn without_anybody_it_fails_and_says_what_is_missing() {
    let workflow = Workflow::<u32, u32>::from_definition("mixed", MIXED);
    let perdura = Perdura::in_memory().step("double", double).workflow(&workflow).await.unwrap();
    let error = perdura.start(&workflow, "first", 21).await.unwrap().await.unwrap_err();
    let RunError::Failed { error, cause } = error else { panic!("{error}") };
    assert_eq!(error, "States.Runtime");
    assert!(cause.contains("function:echo"), "{cause}");
}

#[tokio::test]
async fn an_output_of_another_type_is_told_and_can_be_asked_for_again() {
    let workflow = Workflow::<u32, String>::from_definition("mixed", MIXED);
    let opening = Perdura::in_memory().step("double", double).workflow(&workflow).elsewhere(Box::new(Echo));
    let perdura = opening.await.unwrap();
    let run = perdura.start(&workflow, "first", 21).await.unwrap();
    assert!(matches!(run.output().await, Err(RunError::Output(_))));
    assert_eq!(perdura.execution(run.id()).await.unwrap(), 42);
}
