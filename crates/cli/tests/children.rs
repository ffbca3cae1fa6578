//! Children obey the quota of executions, and parents that fill it do not wait for each other for ever.

mod common;

use common::Scene;
use common::server::{Server, wait_until};
use serde_json::Value;

/// Starts two of itself, and waits for neither end.
const AGAIN: &str = r#"{"StartAt": "All", "States": {"All": {"Type": "Parallel", "End": true, "Branches": [
    {"StartAt": "A", "States": {"A": START}}, {"StartAt": "B", "States": {"B": START}}]}}}"#;
const START: &str = r#"{"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecution",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:again"}}"#;
const PARENT: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}"#;
const CHILD: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Wait", "Seconds": 0, "End": true}}}"#;

/// Starts three of itself, and waits for their ends.
const TREE: &str = r#"{"StartAt": "All", "States": {"All": {"Type": "Parallel", "End": true, "Branches": [
    {"StartAt": "A", "States": {"A": BRANCH}}, {"StartAt": "B", "States": {"B": BRANCH}},
    {"StartAt": "C", "States": {"C": BRANCH}}]}}}"#;
const BRANCH: &str = r#"{"Type": "Task", "End": true, "Resource": "arn:aws:states:::states:startExecution.sync:2",
    "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:tree"}}"#;

fn scene(name: &str) -> Scene {
    Scene::new(name)
        .file("perdura.toml", "[quotas]\nexecutions = 10\n")
        .file("again.json", &AGAIN.replace("START}", &format!("{START}}}")))
        .file("parent.json", PARENT)
        .file("child.json", CHILD)
}

#[test]
fn a_machine_that_starts_itself_stays_within_the_quota() {
    let scene = scene("children-again");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "again.json"]);
    scene.one(&["start", "again", "--name", "first"]);
    scene.until(&["ps", "--status", "running"], |shown| shown.len() >= 10);
    // By the time of so many questions, two thousand would be in memory without the quota.
    for _ in 0..50 {
        scene.json(&["ps", "--status", "running"]);
        let metrics = server.get("/metrics");
        let gauge = metrics.lines().find_map(|line| line.strip_prefix("perdura_executions_in_memory "));
        let in_memory: u64 = gauge.expect("the gauge is there").trim().parse().expect("a number");
        assert!(in_memory <= 10 + 64, "{in_memory}");
    }
}

#[test]
fn parents_that_fill_the_quota_end() {
    let scene = scene("children-parents");
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "child.json"]);
    scene.one(&["deploy", "parent.json"]);
    let started = |name: &String| {
        let ended = scene.on_data(&["start", "parent", "--name", name]);
        ended.code == Some(0)
    };
    let names: Vec<String> = (0..20).map(|number| format!("p-{number}")).filter(started).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in &names {
        let shown: Value = scene.until_status(name, "SUCCEEDED");
        assert_eq!(shown["machine"], "parent");
    }
}

#[test]
fn a_stopped_tree_of_self_starting_executions_ends_and_a_restart_adds_nothing() {
    let scene = scene("children-tree").file("tree.json", &TREE.replace("BRANCH", BRANCH));
    let mut server = Server::start(&scene, &[]);
    scene.one(&["deploy", "tree.json"]);
    scene.one(&["start", "tree", "--name", "root"]);
    let running = ["ps", "--status", "running", "--limit", "1000"];
    scene.until(&running, |shown| shown.len() >= 10 + 64);
    for _ in 0..2 {
        server.end("-KILL");
        server = Server::start(&scene, &[]);
        server.until_ready();
        // All of them asked for their children again.
        wait_until("nothing is left to decide", || server.metric("perdura_executions_in_memory") >= 10.0);
        assert_eq!(scene.json(&running).len(), 10 + 64);
    }
    scene.one(&["stop", "root"]);
    scene.until(&running, <[Value]>::is_empty);
    let aborted = scene.json(&["ps", "--status", "aborted", "--limit", "1000"]);
    assert_eq!(aborted.len(), 10 + 64, "no other began");
    // Others can start.
    scene.one(&["deploy", "child.json"]);
    scene.one(&["start", "child", "--name", "other"]);
    scene.until_status("other", "SUCCEEDED");
}
