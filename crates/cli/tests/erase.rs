//! The data of an execution is erased: its bytes are looked for in every file, and in whatever can be asked.

mod common;

use common::Scene;
use common::server::{Server, wait_until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands in all that the execution is given and told. Random, so that compressing leaves it as it is.
const DATA: &str = "Zq7Xw2Kp9Lm4Rt8VbN6d";
/// The same of an execution that is not erased.
const OTHER: &str = "Hj3Gf5Ds1Az0Cv7BnM4k";
const KEY: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

/// Calls, waits for a worker, runs children in two ways, keeps variables, and fails in the end with what it was told.
fn order() -> String {
    let mapped = |state: &str, mode: Value| {
        let states = json!({state: {"Type": "Pass", "End": true}});
        json!({"StartAt": state, "States": states, "ProcessorConfig": mode})
    };
    json!({
        "StartAt": "Keep",
        "States": {
            "Keep": {"Type": "Pass", "Assign": {"who.$": "$.who"}, "Next": "Call"},
            "Call": {
                "Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:echo",
                "ResultPath": "$.told", "Next": "Refused"
            },
            "Refused": {
                "Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:refuse",
                "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.why", "Next": "Work"}], "Next": "Work"
            },
            "Work": {
                "Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:ship",
                "ResultPath": "$.shipped", "Next": "Each"
            },
            "Each": {
                "Type": "Map", "ItemsPath": "$.items", "ItemProcessor": mapped("One", json!({"Mode": "INLINE"})),
                "ResultPath": "$.each", "Next": "Children"
            },
            "Children": {
                "Type": "Map", "ItemsPath": "$.items", "Label": "Children",
                "ItemProcessor": mapped("Apart", json!({"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"})),
                "ResultPath": "$.children", "Next": "Child"
            },
            "Child": {
                "Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2",
                "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:pass", "Input.$": "$"},
                "ResultPath": "$.child", "Next": "Fail"
            },
            "Fail": {"Type": "Fail", "ErrorPath": "$.who", "CausePath": "$.who"}
        }
    })
    .to_string()
}

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

fn scene(name: &str) -> Scene {
    let config = "[functions.echo]\ncommand = ['cat']\n\
                  [functions.refuse]\ncommand = ['sh', 'refuse.sh']\n";
    Scene::new(name)
        .file("order.json", &order())
        .file("pass.json", PASS)
        .file("refuse.sh", "cat >&2; exit 3")
        .file("perdura.toml", config)
}

fn deploy(scene: &Scene) {
    scene.one(&["deploy", "order.json", "--name", "order"]);
    scene.one(&["deploy", "pass.json", "--name", "pass"]);
}

/// A POST of `/v1`, under a key.
fn post(server: &Server, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let told = server.told(request.as_bytes());
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn start_body(name: &str, data: &str) -> Value {
    let input = json!({"who": data, "items": [{"item": data}, {"item": data}]});
    json!({"machine": "order", "name": name, "input": input, "labels": {"who": data}})
}

/// Runs one to its end, answering its task.
fn run(scene: &Scene, server: &Server, name: &str, data: &str, key: &str) {
    let (status, started) = post(server, "/v1/executions", key, &start_body(name, data));
    assert_eq!(status, 201, "{started}");
    let task = format!("7{}", &key[1..]);
    let (status, polled) = post(server, "/v1/activities/ship/poll", &task, &json!({}));
    assert_eq!(status, 200, "{polled}");
    let done = json!({"token": polled["token"], "output": {"shipped": data}});
    assert_eq!(post(server, "/v1/tasks/complete", &task, &done).0, 204);
    scene.until_status(name, "FAILED");
}

/// Files of the data that have these bytes, or a half of them, as where a page ends in the middle.
fn files_with(scene: &Scene, data: &str) -> Vec<String> {
    let halves = [&data.as_bytes()[..10], &data.as_bytes()[10..]];
    let mut found = Vec::new();
    for entry in std::fs::read_dir(scene.path("data")).expect("there is data").flatten() {
        // A socket is no file.
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        if halves.iter().any(|half| bytes.windows(10).any(|window| window == *half)) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

/// Everything that the commands tell of the executions.
fn told(scene: &Scene, names: &[&str]) -> String {
    let mut told = String::new();
    let mut ask = |arguments: &[&str]| {
        let answer = scene.on_data(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
        told += &answer.stdout;
    };
    ask(&["ps", "--limit", "1000"]);
    ask(&["ledger"]);
    for name in names {
        for command in ["show", "history", "trace"] {
            ask(&[command, name]);
        }
    }
    told
}

/// What the Step Functions API tells of it, and `/v1`.
fn told_by_apis(server: &Server, name: &str) -> String {
    let arn = format!("arn:aws:states:us-east-1:123456789012:execution:order:{name}");
    let described = server.api("DescribeExecution", &json!({"executionArn": arn}));
    let history = json!({"executionArn": arn, "includeExecutionData": true, "maxResults": 1000});
    let history = server.api("GetExecutionHistory", &history);
    let runs = server.api("ListMapRuns", &json!({"executionArn": arn}));
    let run = &runs["mapRuns"][0]["mapRunArn"];
    let children = server.api("ListExecutions", &json!({"mapRunArn": run}));
    let child =
        server.api("DescribeExecution", &json!({"executionArn": children["executions"][0]["executionArn"]}));
    let own: String = ["turns", "left", "history"]
        .map(|part| server.get(&format!("/v1/executions/order/{name}/{part}")))
        .concat();
    let ledger = server.get(&format!("/v1/ledger?execution=order%2F{name}"));
    format!("{described}{history}{runs}{children}{child}{own}{ledger}")
}

/// Ends the load, also where an assertion fails.
struct Stops<'s>(&'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts small executions until it is told to stop.
fn load(server: &Server, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let arn = common::server::machine_arn("pass");
        server
            .api("StartExecution", &json!({"stateMachineArn": arn, "input": format!("{{\"n\": {number}}}")}));
    }
}

#[test]
fn erased_bytes_are_in_no_file_and_in_no_answer() {
    let scene = scene("erase");
    let server = Server::start(&scene, &[]);
    deploy(&scene);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| load(&server, &stop));
        let _stops = Stops(&stop);
        run(&scene, &server, "erased", DATA, KEY);
        run(&scene, &server, "kept", OTHER, &KEY.replace('f', "e"));
        let names = ["order/erased", "order/kept"];
        assert!(told(&scene, &names).contains(DATA) && told_by_apis(&server, "erased").contains(DATA));
        // Random text is found in what is compressed too.
        assert!(!files_with(&scene, DATA).is_empty(), "the search finds it where it is");
        let before: Vec<String> = events(&scene, "order/erased");
        // Under load the data may still be written at this moment.
        let erased = scene.one(&["erase", "order/erased", "--yes"]);
        assert_eq!(
            erased["executions"], 4,
            "itself, two children of its Map Run and that of a step: {erased}"
        );
        assert_eq!(
            (&erased["of"], &erased["answers"], &erased["more"]),
            (&json!(4), &json!(1), &json!(false))
        );
        assert_eq!(files_with(&scene, DATA), Vec::<String>::new());
        let told = told(&scene, &names) + &told_by_apis(&server, "erased");
        assert!(!told.contains(DATA), "{told}");
        assert!(told.contains(OTHER) && told_by_apis(&server, "kept").contains(OTHER), "the other one stays");
        assert_eq!(events(&scene, "order/erased"), before, "its history has every event");
    });
    let shown = scene.one(&["show", "order/erased"]);
    assert_eq!(
        (&shown["status"], &shown["input"]),
        (&json!("FAILED"), &json!("{\"erased\":true}")),
        "{shown}"
    );
    assert!(shown["erasedAt"].is_string() && shown["labels"].is_null(), "{shown}");
    assert_eq!((&shown["rootKey"], &shown["error"]), (&json!(KEY), &json!("Perdura.Erased")), "{shown}");
    let listed = scene.json(&["ps", "--machine", "order"]);
    let erased = listed.iter().filter(|row| row["erasedAt"].is_string()).count();
    assert_eq!((listed.len(), erased), (2, 1), "{listed:?}");
    // Again it does no harm, and a key finds the same.
    for arguments in [&["erase", "order/erased", "--yes"][..], &["erase", "--key", KEY, "--yes"]] {
        let again = scene.one(arguments);
        assert_eq!((&again["executions"], &again["of"]), (&json!(0), &json!(4)), "{again}");
    }
    scene.on_data(&["redrive", "order/erased"]).fails(1, &["the execution was erased"]);
    // The request is not carried out anew, and not answered with what is gone.
    let (status, repeated) = post(&server, "/v1/executions", KEY, &start_body("erased", DATA));
    assert_eq!((status, &repeated["reason"]), (409, &json!("RESULT_EXPIRED")), "{repeated}");
    scene.one(&["backup", "copy.db"]);
    for copy in ["copy.db", "copy.db.idempotency"] {
        let bytes = std::fs::read(scene.path(copy)).expect("it is there");
        assert!(!bytes.windows(10).any(|window| window == &DATA.as_bytes()[..10]), "{copy}");
    }
    server.end("-TERM");
    assert_eq!(files_with(&scene, DATA), Vec::<String>::new());
    assert!(!files_with(&scene, OTHER).is_empty());
    assert_eq!(scene.one(&["check"])["findings"], json!([]));
}

/// The names of its events, with their numbers and times.
fn events(scene: &Scene, name: &str) -> Vec<String> {
    let events = scene.json(&["history", name]).into_iter();
    events.map(|event| format!("{} {} {}", event["id"], event["type"], event["timestamp"])).collect()
}

#[test]
fn what_has_not_ended_is_not_erased_and_neither_is_a_child_alone() {
    let scene = scene("erase-refused");
    let server = Server::start(&scene, &[]);
    deploy(&scene);
    run(&scene, &server, "whole", OTHER, &KEY.replace('f', "e"));
    let (status, _) = post(&server, "/v1/executions", KEY, &start_body("waits", DATA));
    assert_eq!(status, 201);
    for arguments in [&["erase", "order/waits", "--yes"][..], &["erase", "--key", KEY, "--yes"]] {
        scene.on_data(arguments).fails(1, &["has not ended", "perdura stop"]);
    }
    scene.on_data(&["erase", "order/waits"]).fails(2, &["cannot be undone", "--yes"]);
    scene
        .on_data(&["erase", "--key", "nobody", "--yes"])
        .fails(1, &["no execution began with the key nobody"]);
    let child = scene.json(&["ps", "--machine", "pass"])[0]["id"].as_str().expect("it has an id").to_owned();
    scene.on_data(&["erase", &child, "--yes"]).fails(1, &["was started by", "perdura erase"]);
    assert!(told(&scene, &["order/waits", "order/whole"]).contains(OTHER));
}

#[test]
fn without_a_server_it_is_erased_all_the_same() {
    let scene = scene("erase-alone");
    let server = Server::start(&scene, &[]);
    deploy(&scene);
    run(&scene, &server, "erased", DATA, KEY);
    server.end("-KILL");
    assert!(!files_with(&scene, DATA).is_empty());
    let erased = scene.one(&["erase", "--key", KEY, "--yes"]);
    assert_eq!((&erased["executions"], &erased["answers"]), (&json!(4), &json!(1)), "{erased}");
    assert_eq!(files_with(&scene, DATA), Vec::<String>::new());
    let server = Server::start(&scene, &[]);
    let (status, repeated) = post(&server, "/v1/executions", KEY, &start_body("erased", DATA));
    assert_eq!((status, &repeated["reason"]), (409, &json!("RESULT_EXPIRED")), "{repeated}");
    assert!(!told(&scene, &["order/erased"]).contains(DATA));
}

#[test]
fn a_server_that_is_killed_has_erased_all_or_nothing() {
    let scene = scene("erase-killed");
    let mut server = Server::start(&scene, &[]);
    deploy(&scene);
    for round in 0..6_u64 {
        let (name, data) = (format!("n{round}"), format!("{DATA}{round}"));
        run(&scene, &server, &name, &data, &KEY.replace("0d0c", &format!("{round}d0c")));
        let name = format!("order/{name}");
        let mut erasing = scene.start(&["erase", &name, "--yes", "--data", "data"]);
        // Somewhere between its request and its answer, at another place in each round.
        let until = std::time::Instant::now() + std::time::Duration::from_millis(round * 4);
        wait_until("its moment", || std::time::Instant::now() >= until);
        server.end("-KILL");
        let _ = erasing.wait();
        server = Server::start(&scene, &[]);
        let shown = scene.one(&["show", &name]);
        let children = scene.json(&["ps", "--machine", "pass"]);
        let erased = children.iter().filter(|row| row["erasedAt"].is_string()).count() as u64;
        let is_erased = shown["erasedAt"].is_string();
        assert_eq!(erased, round + u64::from(is_erased), "with its children or without: {children:?}");
        assert_eq!(told(&scene, &[&name]).contains(&data), !is_erased);
        scene.one(&["erase", &name, "--yes"]);
        assert_eq!(files_with(&scene, &data[..20]), Vec::<String>::new(), "in round {round}");
    }
}
