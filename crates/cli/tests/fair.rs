//! Nobody is starved: a loop that computes for ever keeps neither others nor those who stop it waiting.

mod common;

use common::Scene;
use common::server::Server;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Never ends, and computes all the time.
const HOG: &str = r#"{"QueryLanguage": "JSONata", "StartAt": "Spin", "States": {
    "Spin": {"Type": "Pass", "Output": "{% $sum([1..30000].($ * 3)) %}", "Next": "Again"},
    "Again": {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "Spin"}],
        "Default": "Done"}, "Done": {"Type": "Succeed"}}}"#;
const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// How many of them run.
const HOGS: usize = 4;
/// Far more than one Turn takes, on a machine that is busy with other tests; far less than a Turn of 1,000 states takes.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn loops_that_compute_for_ever_keep_no_start_and_no_stop_waiting() {
    let scene = Scene::new("fair-hogs").file("hog.json", HOG).file("pass.json", PASS);
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "hog.json"]);
    scene.one(&["deploy", "pass.json"]);
    for number in 0..HOGS {
        let name = format!("hog-{number}");
        scene.one(&["start", "hog", "--name", &name]);
    }
    for number in 0..2 {
        let (name, began) = (format!("pass-{number}"), Instant::now());
        scene.one(&["start", "pass", "--name", &name]);
        assert!(began.elapsed() < SOON, "it was started after {:?}", began.elapsed());
        scene.until_status(&name, "SUCCEEDED");
        assert!(began.elapsed() < SOON, "it ended after {:?}", began.elapsed());
    }
    let began = Instant::now();
    scene.one(&["stop", "hog-3"]);
    assert!(began.elapsed() < SOON, "it was stopped after {:?}", began.elapsed());
    scene.until_status("hog-3", "ABORTED");
}

/// One state with many expressions, each of which may be as costly as it is.
fn many(kind: &str) -> String {
    let costly = |number: usize| format!("{{% $sum([1..400000].($ * 2)) > {number} %}}").into();
    let output: serde_json::Map<String, Value> =
        (0..80).map(|number| (number.to_string(), costly(number))).collect();
    let state = match kind {
        "Pass" => json!({"Type": "Pass", "Output": output, "End": true}),
        _ => {
            json!({"Type": "Map", "Items": "{% [1..500] %}", "ItemSelector": output, "End": true, "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}})
        }
    };
    json!({"QueryLanguage": "JSONata", "StartAt": "Many", "States": {"Many": state}}).to_string()
}

#[test]
fn a_state_with_many_costly_expressions_fails_soon_and_keeps_no_start_waiting() {
    let scene = Scene::new("fair-state").file("pass.json", PASS);
    let scene = scene.file("many.json", &many("Pass")).file("each.json", &many("Map"));
    let _server = Server::start(&scene, &[]);
    for machine in ["pass.json", "many.json", "each.json"] {
        scene.one(&["deploy", machine]);
    }
    for name in ["many", "each"] {
        let began = Instant::now();
        scene.one(&["start", name, "--name", name]);
        scene.one(&["start", "pass", "--name", &format!("beside-{name}")]);
        scene.until_status(&format!("beside-{name}"), "SUCCEEDED");
        assert!(began.elapsed() < SOON, "another ended after {:?}", began.elapsed());
        let shown = scene.until_status(name, "FAILED");
        assert_eq!(shown["error"], "States.QueryEvaluationError", "{shown}");
        let cause = shown["cause"].as_str().unwrap_or_default();
        assert!(cause.contains("take more work together than one state may"), "{shown}");
    }
}

#[test]
fn costly_items_of_a_distributed_map_keep_no_start_and_no_stop_waiting() {
    let selector = json!({"sum": "{% $sum([1..100000].($ * 2)) %}"});
    let map = |batcher: Option<Value>| {
        let mut state = json!({"Type": "Map", "Items": "{% [1..500] %}", "ItemSelector": selector, "End": true,
            "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}});
        if let Some(batcher) = batcher {
            state["ItemBatcher"] = batcher;
        }
        json!({"QueryLanguage": "JSONata", "StartAt": "Each", "States": {"Each": state}}).to_string()
    };
    let scene = Scene::new("fair-items").file("pass.json", PASS).file("each.json", &map(None));
    let scene = scene.file("batch.json", &map(Some(json!({"MaxItemsPerBatch": 500}))));
    let _server = Server::start(&scene, &[]);
    for machine in ["pass.json", "each.json", "batch.json"] {
        scene.one(&["deploy", machine]);
    }
    for name in ["each", "batch"] {
        scene.one(&["start", name, "--name", name]);
        scene.until(&["show", name], |shown| shown[0]["status"] == "RUNNING");
        let began = Instant::now();
        scene.one(&["start", "pass", "--name", &format!("beside-{name}")]);
        scene.until_status(&format!("beside-{name}"), "SUCCEEDED");
        scene.one(&["stop", name]);
        assert!(began.elapsed() < SOON, "another was run and it was stopped after {:?}", began.elapsed());
        scene.until_status(name, "ABORTED");
    }
}
