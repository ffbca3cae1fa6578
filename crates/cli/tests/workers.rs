//! Activities through the command line: tasks that are taken, answered, and worked on by commands.

mod common;

use common::Scene;
use common::server::{Server, kill};
use serde_json::Value;
use std::io::{BufRead, BufReader};

const ASKS: &str = r#"{"StartAt": "Approve", "States": {"Approve": {"Type": "Task",
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:approve", "End": true}}}"#;

fn scene(name: &str) -> (Scene, Server) {
    let scene = Scene::new(name).file("asks.json", ASKS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "asks.json"]);
    (scene, server)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {value}")).to_owned()
}

#[test]
fn a_task_is_taken_and_answered_once_whoever_says_it_twice() {
    let (scene, server) = scene("workers-answer");
    scene.one(&["start", "asks", "--name", "a", "--input", r#"{"amount": 7}"#]);
    let task = scene.one(&["activity", "poll", "approve", "--worker", "anna"]);
    let token = text(&task, "token");
    assert_eq!(task["input"], r#"{"amount": 7}"#);
    assert!(text(&task, "key").ends_with(":Approve#1:1"), "{task}");
    assert_eq!(scene.one(&["activity", "heartbeat", &token])["taken"], true);
    for _ in 0..2 {
        let taken = scene.one(&["activity", "succeed", &token, "--output", r#"{"approved": true}"#]);
        assert_eq!(taken["taken"], true);
    }
    let shown = scene.until_status("a", "SUCCEEDED");
    assert_eq!(shown["output"], r#"{"approved": true}"#);
    scene
        .on_data(&["activity", "fail", &token, "--error", "No"])
        .fails(1, &["nobody waits for this task", "perdura trace"]);
    let traced = scene.one(&["trace", &token]);
    assert_eq!((&traced["by"], &traced["steps"][0]["status"]), (&"token".into(), &"completed".into()));
    let what: Vec<String> = traced["steps"][0]["events"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| text(event, "what"))
        .collect();
    assert_eq!(what[..3], ["sent", "taken by anna", "succeeded"], "{what:?}");
    assert!(
        !what.iter().any(|event| event.contains("failure")),
        "what changes nothing is not recorded: {what:?}"
    );
    drop(server);
    let shown = scene.on_data(&["activity", "heartbeat", &token]);
    shown.fails(1, &["no server holds this data", "perdura serve"]);
}

#[test]
fn a_failed_task_fails_as_its_worker_says() {
    let (scene, _server) = scene("workers-fail");
    scene.one(&["start", "asks", "--name", "a"]);
    let token = text(&scene.one(&["activity", "poll", "approve"]), "token");
    scene.one(&["activity", "fail", &token, "--error", "Rejected", "--cause", "too much"]);
    let shown = scene.until_status("a", "FAILED");
    assert_eq!((&shown["error"], &shown["cause"]), (&"Rejected".into(), &"too much".into()));
}

#[test]
fn activities_are_listed_with_the_machines_that_ask_for_them() {
    let (scene, server) = scene("workers-list");
    let expected = serde_json::json!({ "name": "approve", "machines": ["asks"] });
    assert_eq!(scene.one(&["activity", "list"]), expected);
    drop(server);
    assert_eq!(scene.one(&["activity", "list"]), expected);
    scene.on_data(&["activity", "poll", "approve"]).fails(1, &["no server holds this data"]);
    let worked = scene.perdura(&["activity", "work", "approve", "--data", "data", "--", "cat"]);
    worked.fails(1, &["no server holds this data", "perdura serve"]);
}

#[test]
fn a_wrong_token_is_refused_and_not_repeated() {
    let (scene, _server) = scene("workers-token");
    let refused = scene.on_data(&["activity", "succeed", "nearly-a-token"]);
    refused.fails(1, &["this is no task token"]);
    assert!(!refused.stderr.contains("nearly-a-token"), "{}", refused.stderr);
    scene.on_data(&["activity", "succeed", &"0".repeat(72)]).fails(1, &["there is no task with this token"]);
}

#[test]
fn a_command_works_on_each_task_under_its_key() {
    let (scene, _server) = scene("workers-work");
    for name in ["a", "b", "c"] {
        scene.one(&["start", "asks", "--name", name, "--input", &format!("\"{name}\"")]);
    }
    let script = r#"read input; echo "$input $PERDURA_IDEMPOTENCY_KEY" >> calls; echo "[$input]""#;
    let worked = scene.perdura(&[
        "activity",
        "work",
        "approve",
        "--data",
        "data",
        "--at-once",
        "2",
        "--most",
        "3",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(worked.code, Some(0), "{worked:?}");
    let told: Vec<Value> =
        worked.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().all(|one| one["status"] == "succeeded" && one["taken"] == true), "{told:?}");
    for name in ["a", "b", "c"] {
        let shown = scene.until_status(name, "SUCCEEDED");
        assert_eq!(shown["output"], format!("[\"{name}\"]"));
        let key = text(&scene.one(&["trace", name])["steps"][0], "wireKey");
        assert!(scene.lines("calls").contains(&format!("\"{name}\" {key}")), "{:?}", scene.lines("calls"));
    }
}

#[test]
fn a_worker_lets_its_task_end_when_it_is_asked_to_stop() {
    let (scene, _server) = scene("workers-stop");
    let scene = scene.pipe("begun").pipe("go");
    let worker = scene.start(&[
        "activity",
        "work",
        "approve",
        "--data",
        "data",
        "--",
        "sh",
        "-c",
        "echo > begun; cat go; echo '\"done\"'",
    ]);
    scene.one(&["start", "asks", "--name", "a"]);
    let mut line = String::new();
    let begun = std::fs::File::open(scene.path("begun")).expect("the command begins");
    BufReader::new(begun).read_line(&mut line).expect("it says so");
    kill(worker.id(), "-TERM");
    drop(std::fs::OpenOptions::new().write(true).open(scene.path("go")).expect("the command waits"));
    let ended = common::Ended::from(worker.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "\"done\"");
}
