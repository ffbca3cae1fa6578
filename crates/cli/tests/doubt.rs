//! Doubt is not forgotten: receivers that act and die, commands that are killed, workers that overlap, branches that fail
//! beside a call under way. Whatever follows, the key stays until somebody knows.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver, Seen};
use common::server::Server;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};

/// A machine of one Task that calls the function `f`, and tries again every second.
const TRIES: &str = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task", "End": true,
    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 30}]}}}"#;

/// A machine of one task for a worker that is given up when it falls silent, and tries again every second.
const WORKED: &str = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task", "End": true, "HeartbeatSeconds": 1,
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:charge",
    "Retry": [{"ErrorEquals": ["States.Timeout", "No"], "IntervalSeconds": 1, "BackoffRate": 1}]}}}"#;

/// A Parallel that tries again: one branch calls `left`, the other `right`.
const BOTH: &str = r#"{"StartAt": "Both", "States": {"Both": {"Type": "Parallel", "End": true,
    "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 30}],
    "Branches": [
        {"StartAt": "Left", "States": {"Left": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:left"}}},
        {"StartAt": "Right", "States": {"Right": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:right"}}}]}}}"#;

/// A server that runs this machine as `a`.
fn started(scene: &Scene) -> Server {
    let server = Server::start(scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "a"]);
    server
}

/// How often the history of `a` has an event of this type.
fn count(history: &[Value], wanted: &str) -> usize {
    history.iter().filter(|event| event["type"] == wanted).count()
}

/// What the ledger says of all keys of `a`.
fn statuses(scene: &Scene) -> Vec<Value> {
    scene.json(&["ledger", "--execution", "a"]).iter().map(|entry| entry["status"].clone()).collect()
}

/// Takes one request whole, and gives its key. The connection is answered by `answer`, or closed.
fn take(listener: &TcpListener, answer: Option<&str>) -> String {
    let mut stream = BufReader::new(listener.accept().expect("a call comes").0);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a request has a head");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("idempotency-key", value)) => value.clone_into(&mut key),
            Some(("content-length", value)) => length = value.parse().expect("a length is a number"),
            None if line.trim_end().is_empty() => break,
            Some(_) | None => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).expect("the body comes");
    if let Some(answer) = answer {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
        stream.get_mut().write_all((head + answer).as_bytes()).expect("the answer goes out");
    }
    key
}

#[test]
fn a_receiver_that_acts_and_dies_is_called_again_under_the_same_key() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    let scene = Scene::new("doubt-dies")
        .file("m.asl.json", TRIES)
        .file("perdura.toml", &format!("[functions.f]\nurl = 'http://{address}/charge'\n"));
    let server = started(&scene);
    // It charges, and is gone before it answers; then nobody listens there.
    let charged = take(&listener, None);
    drop(listener);
    scene.until(&["history", "a"], |history| count(history, "LambdaFunctionFailed") >= 3);
    assert_ne!(statuses(&scene), [json!("failed")], "it may have been done");
    let listener = TcpListener::bind(address).expect("its port is free again");
    assert_eq!(take(&listener, Some("1")), charged, "the charge is known by its key");
    scene.until_status("a", "SUCCEEDED");
    assert_eq!(statuses(&scene), [json!("completed")]);
    drop(server);
}

#[test]
fn a_redirect_is_no_refusal() {
    let receiver = Receiver::start(|number, _| match number {
        0 | 1 => Act::Head(303, "Location: /done\r\n".into()),
        _ => Act::Answer(200, "1".into()),
    });
    let scene = Scene::new("doubt-303")
        .file("m.asl.json", TRIES)
        .file("perdura.toml", &format!("[functions.f]\nurl = '{}'\n", receiver.url("/charge")));
    let _server = started(&scene);
    scene.until_status("a", "SUCCEEDED");
    let keys: Vec<String> = receiver.seen().iter().map(|seen| seen.key().to_owned()).collect();
    assert_eq!((keys.len(), &keys[0]), (3, &keys[2]), "{keys:?}");
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn a_command_that_was_killed_with_its_server_keeps_its_key_though_its_repeat_exits_with_an_error() {
    // The first one charges and hangs; the second finds the lock held; the third could charge.
    let script = "
        echo $PERDURA_IDEMPOTENCY_KEY >> calls
        if [ ! -e charged ]; then echo > charged; echo > begun; cat go; exit 0; fi
        if [ ! -e tried ]; then echo > tried; echo 'the lock is held' >&2; exit 1; fi
        echo 1";
    let scene =
        Scene::new("doubt-killed").function(script, "").file("m.asl.json", TRIES).pipe("begun").pipe("go");
    let server = started(&scene);
    std::fs::read_to_string(scene.path("begun")).expect("the command begins");
    server.end("-KILL");
    let _server = Server::start(&scene, &[]);
    scene.until_status("a", "SUCCEEDED");
    drop(std::fs::OpenOptions::new().write(true).open(scene.path("go")).expect("the first one still waits"));
    let calls = scene.lines("calls");
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls.iter().all(|key| *key == calls[0]), "one key for one charge: {calls:?}");
}

#[test]
fn a_worker_that_missed_its_heartbeat_cannot_end_the_attempt_of_the_next_one() {
    let machine = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task", "End": true, "HeartbeatSeconds": 1,
        "Resource": "arn:aws:states:us-east-1:123456789012:activity:charge",
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 3}]}}}"#;
    let scene = Scene::new("doubt-workers").file("m.asl.json", machine);
    let _server = started(&scene);
    let token = |task: &Value| task["token"].as_str().expect("a token").to_owned();
    let first = scene.one(&["activity", "poll", "charge", "--worker", "A"]);
    scene.until(&["history", "a"], |history| count(history, "ActivityScheduled") == 2);
    let second = scene.one(&["activity", "poll", "charge", "--worker", "B"]);
    assert_eq!(first["key"], second["key"], "both do the same thing");
    assert_ne!(token(&first), token(&second), "each answers for itself");
    scene.on_data(&["activity", "fail", &token(&first), "--error", "Late"]).fails(1, &["nobody waits"]);
    scene.on_data(&["activity", "heartbeat", &token(&first)]).fails(1, &["nobody waits"]);
    assert_eq!(scene.one(&["activity", "succeed", &token(&second), "--output", "\"B\""])["taken"], true);
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "\"B\"");
}

#[test]
fn a_late_success_under_a_refused_key_is_believed() {
    let scene = Scene::new("doubt-contradicted").file("m.asl.json", WORKED);
    let _server = started(&scene);
    let token = |task: &Value| task["token"].as_str().expect("a token").to_owned();
    let first = scene.one(&["activity", "poll", "charge", "--worker", "A"]);
    scene.until(&["history", "a"], |history| count(history, "ActivityScheduled") == 2);
    let second = scene.one(&["activity", "poll", "charge", "--worker", "B"]);
    scene.one(&["activity", "fail", &token(&second), "--error", "No", "--refused"]);
    assert_eq!(statuses(&scene), ["failed"]);
    let third = scene.one(&["activity", "poll", "charge", "--worker", "C"]);
    assert_ne!(first["key"], third["key"]);
    for _ in 0..2 {
        scene.on_data(&["activity", "succeed", &token(&first)]).fails(1, &["nobody waits"]);
        assert_eq!(statuses(&scene), ["uncertain", "pending"]);
    }
    let entry = scene.one(&["ledger", first["key"].as_str().expect("a key")]);
    assert!(
        entry["error"].as_str().is_some_and(|error| error.starts_with("Perdura.Contradicted")),
        "{entry}"
    );
    assert_eq!(scene.json(&["ledger", "--uncertain"]).len(), 1, "it is listed");
    scene.one(&["activity", "succeed", &token(&third), "--output", "\"C\""]);
    scene.until_status("a", "SUCCEEDED");
    assert_eq!(statuses(&scene), ["uncertain", "completed"]);
}

/// Worker A falls silent, B takes its task and refuses it, and the next key lies in the queue. Gives A's task.
fn refused_and_queued(scene: &Scene) -> Value {
    let first = scene.one(&["activity", "poll", "charge", "--worker", "A"]);
    scene.until(&["history", "a"], |history| count(history, "ActivityScheduled") == 2);
    let second = scene.one(&["activity", "poll", "charge", "--worker", "B"]);
    let token = second["token"].as_str().expect("a token");
    scene.one(&["activity", "fail", token, "--error", "No", "--refused"]);
    scene.until(&["history", "a"], |history| count(history, "ActivityScheduled") == 3);
    assert_eq!(statuses(scene), ["failed", "pending"], "the next key waits for a worker");
    first
}

#[test]
fn a_late_success_counts_while_no_worker_has_taken_the_next_key() {
    let scene = Scene::new("doubt-queued").file("m.asl.json", WORKED);
    let _server = started(&scene);
    let first = refused_and_queued(&scene);
    let token = first["token"].as_str().expect("a token");
    for _ in 0..2 {
        assert_eq!(scene.one(&["activity", "succeed", token, "--output", "\"A\""])["taken"], true);
    }
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "\"A\"");
    assert_eq!(statuses(&scene), ["completed", "failed"]);
    scene.one(&["start", "m", "--name", "b"]);
    let next = scene.one(&["activity", "poll", "charge", "--worker", "C"]);
    assert!(
        next["key"].as_str().is_some_and(|key| key.ends_with("Charge#1:1")),
        "the queue is empty: {next}"
    );
}

#[test]
fn a_late_success_counts_after_a_crash_while_no_worker_has_taken_the_next_key() {
    let scene = Scene::new("doubt-queued-crash").file("m.asl.json", WORKED);
    let server = started(&scene);
    let first = refused_and_queued(&scene);
    server.end("-KILL");
    let server = Server::start(&scene, &[]);
    let token = first["token"].as_str().expect("a token");
    assert_eq!(scene.one(&["activity", "succeed", token, "--output", "\"A\""])["taken"], true);
    server.end("-KILL");
    let _server = Server::start(&scene, &[]);
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "\"A\"");
    assert_eq!(statuses(&scene), ["completed", "failed"]);
}

/// What calls `left` and `right`, and where.
fn two(scene: Scene, left: &Receiver, right: &Receiver, policy: &str) -> Scene {
    let config = format!(
        "[functions.left]\nurl = '{}'\n{policy}\n[functions.right]\nurl = '{}'\n",
        left.url("/left"),
        right.url("/right")
    );
    scene.file("m.asl.json", BOTH).file("perdura.toml", &config)
}

#[test]
fn a_retry_of_a_parallel_keeps_the_key_of_what_is_in_doubt() {
    let left = Receiver::start(|number, _| match number {
        0 => Act::Hang,
        _ => Act::Answer(200, "1".into()),
    });
    let right = Receiver::start(|number, _| match number {
        0 => Act::Answer(503, "{}".into()),
        _ => Act::Answer(200, "2".into()),
    });
    let scene = two(Scene::new("doubt-parallel"), &left, &right, "");
    let _server = started(&scene);
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "[1,2]");
    for receiver in [&left, &right] {
        let keys: Vec<String> = receiver.seen().iter().map(|seen| seen.key().to_owned()).collect();
        assert_eq!(keys, [keys[0].clone(), keys[0].clone()], "twice under one key");
    }
}

#[test]
fn what_is_held_keeps_a_parallel_from_being_run_again() {
    let left = Receiver::start(|_, _| Act::Hang);
    let right = Receiver::start(|number, _| match number {
        0 => Act::Answer(400, "{}".into()),
        _ => Act::Answer(200, "2".into()),
    });
    let scene = two(Scene::new("doubt-held"), &left, &right, "uncertain = 'hold'");
    let server = started(&scene);
    let held = scene.until(&["ledger", "--uncertain"], |entries| entries.len() == 1);
    let key = held[0]["key"].as_str().expect("a key").to_owned();
    // Also through a restart.
    server.end("-KILL");
    let _server = Server::start(&scene, &[]);
    assert_eq!(scene.one(&["show", "a"])["status"], "RUNNING");
    assert_eq!(
        (left.seen().len(), right.seen().len()),
        (1, 1),
        "nothing is called again before it is resolved"
    );
    scene.on_data(&[
        "ledger",
        "resolve",
        &key,
        "--completed",
        "\"paid\"",
        "--reason",
        "it is on the statement",
    ]);
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "[\"paid\",2]");
    assert_eq!((left.seen().len(), right.seen().len()), (1, 2), "what was resolved is not called again");
}

/// A machine of one Task that calls the function `f`, once.
const ONCE: &str = r#"{"StartAt": "Charge", "States": {"Charge": {"Type": "Task", "End": true,
    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}"#;

/// The execution `a` has called `f`, which charged and died. Gives its key and address; nobody listens there now.
fn charged_and_gone(scene: Scene, machine: &str, policy: &str) -> (Scene, Server, String, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    let config = format!("[functions.f]\nurl = 'http://{address}/charge'\n{policy}\n");
    let scene = scene.file("m.asl.json", machine).file("perdura.toml", &config);
    let server = started(&scene);
    let charged = take(&listener, None);
    (scene, server, charged, address)
}

#[test]
fn a_second_redrive_keeps_the_key_though_the_first_one_reached_nobody() {
    let (scene, _server, charged, address) = charged_and_gone(Scene::new("doubt-redriven"), ONCE, "");
    scene.until_status("a", "FAILED");
    scene.one(&["redrive", "a"]);
    let has_failed_again = |shown: &[Value]| shown[0]["status"] == "FAILED" && shown[0]["redrives"] == 1;
    scene.until(&["show", "a"], has_failed_again);
    assert_eq!(statuses(&scene), [json!("uncertain")], "it may have been done");
    let listener = TcpListener::bind(address).expect("its port is free again");
    scene.one(&["redrive", "a"]);
    assert_eq!(take(&listener, Some("1")), charged, "the charge is known by its key");
    scene.until_status("a", "SUCCEEDED");
    assert_eq!(statuses(&scene), [json!("completed")]);
}

#[test]
fn a_call_that_a_person_wants_again_and_that_reaches_nobody_is_held_again() {
    let (scene, _server, charged, address) =
        charged_and_gone(Scene::new("doubt-again"), TRIES, "uncertain = 'hold'");
    let key = scene.until(&["ledger", "--uncertain"], |held| held.len() == 1)[0]["key"].clone();
    let again =
        ["ledger", "resolve", key.as_str().expect("a key"), "--again", "--reason", "the bank knows it"];
    scene.one(&again);
    scene.until(&["history", "a"], |history| count(history, "LambdaFunctionScheduled") == 2);
    let held = scene.until(&["ledger", "--uncertain"], |held| held.len() == 1);
    assert_eq!(held[0]["key"], key, "the doubt is of the first attempt, and stays");
    let listener = TcpListener::bind(address).expect("its port is free again");
    scene.one(&again);
    assert_eq!(take(&listener, Some("1")), charged, "the charge is known by its key");
    scene.until_status("a", "SUCCEEDED");
    assert_eq!(statuses(&scene), [json!("completed")]);
}

#[test]
fn a_retry_of_a_map_keeps_the_keys_of_what_is_in_doubt() {
    let machine = r#"{"StartAt": "All", "States": {"All": {"Type": "Map", "End": true,
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 30}],
        "ItemProcessor": {"StartAt": "Charge", "States": {"Charge": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}}}}"#;
    // Of the first two calls, that of one item is never answered, and that of the other fails with a doubt.
    let receiver = Receiver::start(|number, seen| match (number, &*seen.body) {
        (0 | 1, "1") => Act::Hang,
        (0 | 1, _) => Act::Answer(503, "{}".into()),
        (_, item) => Act::Answer(200, item.to_owned()),
    });
    let scene = Scene::new("doubt-map")
        .file("m.asl.json", machine)
        .file("perdura.toml", &format!("[functions.f]\nurl = '{}'\n", receiver.url("/charge")));
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "a", "--input", "[1, 2]"]);
    assert_eq!(scene.until_status("a", "SUCCEEDED")["output"], "[1,2]");
    for item in ["1", "2"] {
        let seen = receiver.seen();
        let keys: Vec<&str> = seen.iter().filter(|seen| seen.body == item).map(Seen::key).collect();
        assert_eq!(keys, [keys[0], keys[0]], "twice under one key");
    }
}
