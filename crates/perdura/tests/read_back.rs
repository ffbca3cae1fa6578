//! What a program gives can be read back: by the next step, by whoever waits, and after opening the data again.

mod common;

use common::TempFolder;
use perdura::{Perdura, RunError, StepError, Workflow};
use serde_json::{Value, json};
use std::time::Duration;

async fn first(value: Value) -> Result<Value, StepError> {
    Ok(value)
}

async fn second(value: Value) -> Result<Value, StepError> {
    Ok(value)
}

/// A list in a list, so many deep.
fn nested(depth: usize) -> Value {
    (1..depth).fold(json!([]), |inner, _| json!([inner]))
}

fn values() -> Vec<Value> {
    vec![
        json!("\u{feff}"),
        json!({"\u{feff}a": "\u{feff}\u{0}\u{1f}\u{7f}\u{2028}😀"}),
        json!([-0.0, 1.0, 1e-7, 1e300, f64::MIN_POSITIVE, i64::MIN, u64::MAX, 9_007_199_254_740_993_u64]),
        json!("é😀".repeat(20_000)),
        nested(100),
        nested(256),
    ]
}

#[tokio::test]
async fn what_steps_give_is_read_back_as_it_was_given_also_after_opening_again() {
    let folder = TempFolder::new();
    let workflow = Workflow::new("pass").step(first).step(second);
    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    for (number, value) in values().iter().enumerate() {
        let run = perdura.start(&workflow, &format!("run-{number}"), value.clone()).await.unwrap();
        assert_eq!(run.output().await.unwrap().to_string(), value.to_string());
    }
    perdura.close(Duration::ZERO).await;
    let perdura = Perdura::open(folder.path()).workflow(&workflow).await.unwrap();
    for (number, value) in values().iter().enumerate() {
        let run = perdura.find(&workflow, &format!("run-{number}")).await.unwrap().expect("it is known");
        assert_eq!(run.output().await.unwrap().to_string(), value.to_string());
    }
}

async fn deepens(value: Value) -> Result<Value, StepError> {
    Ok(json!([value]))
}

#[tokio::test]
async fn what_could_not_be_read_back_is_not_taken() {
    let workflow = Workflow::new("deep").step(deepens);
    let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
    let refused = perdura.start(&workflow, "input", nested(257)).await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("nested more than 256 deep"), "{refused}");
    let run = perdura.start(&workflow, "output", nested(256)).await.unwrap();
    let failed = run.await.unwrap_err();
    assert!(matches!(&failed, RunError::Failed { .. }), "{failed:?}");
}
