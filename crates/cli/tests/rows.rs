//! Rows tell the truth: what runs is not taken away, what was acknowledged is listed, and what has ended does not grow.

mod common;

use common::Scene;
use common::server::Server;

/// A function that fails until the file `good` is there, and then waits for the pipe `go`, which a later call finds
/// replaced by a file.
const HEALS: &str = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; if [ ! -e good ]; then echo no >&2; exit 1; fi; \
                     read line < go; echo '\"done\"'";

fn ended_in_failure(name: &str) -> (Scene, Server) {
    let scene = Scene::new(name).function(HEALS, "").file("pass.asl.json", PASS).pipe("go");
    let server = Server::start(&scene, &[]);
    for machine in ["m.asl.json", "pass.asl.json"] {
        scene.one(&["deploy", machine]);
    }
    scene.one(&["start", "m", "--name", "n"]);
    scene.until_status("n", "FAILED");
    // A commit after it, so that the journal has nothing of it.
    scene.one(&["start", "pass", "--name", "other"]);
    scene.until_status("other", "SUCCEEDED");
    (scene, server)
}

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

#[test]
fn what_is_redriven_is_not_swept_and_runs_on_after_a_kill() {
    let (scene, server) = ended_in_failure("rows-redrive");
    let scene = scene.file("good", "");
    scene.one(&["redrive", "n"]);
    scene.one(&["cleanup", "--older-than", "0s"]);
    let shown = scene.one(&["show", "n"]);
    assert_eq!((&shown["status"], &shown["redrives"]), (&"RUNNING".into(), &1.into()), "{shown}");
    server.end("-KILL");
    // Nobody holds the data now, and the row alone must tell.
    scene.one(&["cleanup", "--older-than", "0s"]);
    std::fs::remove_file(scene.path("go")).expect("the pipe can be taken away");
    let scene = scene.file("go", "now\n");
    let server = Server::start(&scene, &[]);
    scene.until_status("n", "SUCCEEDED");
    let events = scene.json(&["history", "n"]);
    let types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("ExecutionStarted", "ExecutionSucceeded"), "{types:?}");
    assert!(types.contains(&"ExecutionRedriven"), "{types:?}");
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
}

#[test]
fn a_thousand_stops_of_what_has_ended_write_nothing() {
    let (scene, server) = ended_in_failure("rows-stops");
    let turns = |scene: &Scene| scene.one(&["show", "n"])["turns"].clone();
    let before = turns(&scene);
    for _ in 0..5 {
        scene.on_data(&["stop", "n"]).fails(1, &["is not stopped: the execution has ended"]);
    }
    let arn = scene.one(&["show", "n"])["arn"].as_str().expect("an ARN").to_owned();
    for _ in 0..1_000 {
        let body = format!(r#"{{"executionArn": "{arn}"}}"#);
        let answer = server.call("StopExecution", &body);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("stopDate"), "{answer}");
    }
    assert_eq!(turns(&scene), before);
}

/// A function that says that it runs, and goes on when the pipe `go` says so.
const WAITS: &str = "echo up > up; read line < go; echo 1";

#[test]
fn every_list_shows_what_was_acknowledged_at_once_and_after_a_kill() {
    let scene = Scene::new("rows-lists").function(WAITS, "").pipe("go").pipe("up");
    let server = Server::start(&scene, &[]);
    let machine = scene.one(&["deploy", "m.asl.json"]);
    let machine = machine["arn"].as_str().expect("an ARN").to_owned();
    scene.one(&["start", "m", "--name", "n"]);
    let running = |scene: &Scene| {
        let names = |rows: Vec<serde_json::Value>| {
            rows.into_iter().map(|row| row["name"].clone()).collect::<Vec<_>>()
        };
        let lists = [&["ps"][..], &["ps", "--status", "running"], &["ps", "--machine", "m"]];
        for list in lists {
            assert_eq!(names(scene.json(list)), ["n"], "{list:?}");
        }
        assert!(scene.json(&["ps", "--status", "succeeded"]).is_empty());
        assert_eq!(scene.one(&["stats"])["executions"]["RUNNING"], 1);
        assert_eq!(scene.one(&["show", "n"])["status"], "RUNNING");
        let entry = scene.one(&["ledger", "--execution", "n"]);
        assert_eq!((&entry["status"], &entry["step"]), (&"pending".into(), &"Call#1".into()), "{entry}");
        assert_eq!(scene.one(&["ledger", entry["key"].as_str().expect("a key")])["status"], "pending");
    };
    running(&scene);
    std::fs::read_to_string(scene.path("up")).expect("the function runs");
    server.end("-KILL");
    // Only the journal knows of it.
    running(&scene);
    let server = Server::start(&scene, &[]);
    running(&scene);
    let answer = server.call("ListExecutions", &format!(r#"{{"stateMachineArn": "{machine}"}}"#));
    assert!(answer.contains(r#""name":"n""#) && answer.contains("RUNNING"), "{answer}");
}

#[test]
fn the_children_of_a_map_run_are_listed_at_once() {
    let child = r#""Call": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}"#;
    let map = format!(
        r#"{{"StartAt": "M", "States": {{"M": {{"Type": "Map", "End": true, "ItemProcessor": {{
            "ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}},
            "StartAt": "Call", "States": {{{child}}}}}}}}}}}"#
    );
    let scene =
        Scene::new("rows-children").function(WAITS, "").file("map.asl.json", &map).pipe("go").pipe("up");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "map.asl.json"]);
    let arn = scene.one(&["start", "map", "--name", "n", "--input", "[1, 2, 3]"])["arn"].clone();
    std::fs::read_to_string(scene.path("up")).expect("a child runs");
    let run = lists_children(&server, &arn);
    server.end("-KILL");
    let server = Server::start(&scene, &[]);
    assert_eq!(lists_children(&server, &arn), run, "also after a kill");
}

/// Asks for the Map Runs of an execution and for the children of the one that it has: three that run. Gives its ARN.
fn lists_children(server: &Server, arn: &serde_json::Value) -> String {
    let runs = server.call("ListMapRuns", &format!(r#"{{"executionArn": {arn}}}"#));
    let run = runs.split(r#""mapRunArn":""#).nth(1).and_then(|rest| rest.split('"').next());
    let run = run.unwrap_or_else(|| panic!("{runs}"));
    let listed = |more: &str| server.call("ListExecutions", &format!(r#"{{"mapRunArn": "{run}"{more}}}"#));
    let children = |answer: &str| answer.matches(r#""status":"RUNNING""#).count();
    let all = listed("");
    assert_eq!(children(&all), 3, "{all}");
    let first = listed(r#", "maxResults": 2"#);
    assert_eq!(children(&first), 2, "{first}");
    let token =
        first.split(r#""nextToken":""#).nth(1).and_then(|rest| rest.split('"').next()).expect("a token");
    let second = listed(&format!(r#", "maxResults": 2, "nextToken": "{token}""#));
    assert_eq!(children(&second), 1, "{second}");
    run.to_owned()
}
