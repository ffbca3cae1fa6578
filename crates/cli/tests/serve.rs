//! `perdura serve`, and the commands that reach its data: with a server and without.

mod common;

use common::Scene;
use common::server::{Server, kill, wait_until};
use perdura_store::{SqliteOptions, SqliteStore};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "Next": "E"}, "E": {"Type": "Succeed"}}}"#;

/// Everything that can be done to an execution that waits.
fn the_life_of_an_execution(scene: &Scene) {
    assert_eq!(scene.one(&["deploy", "wait.json"])["machine"], "wait");
    let started = scene.one(&["start", "wait", "--name", "a", "--input", r#"{"x": 1}"#]);
    assert_eq!(started["fresh"], true);
    let id = started["id"].as_str().expect("an id");
    let again = scene.one(&["start", "wait", "--name", "a", "--input", r#"{"x": 1}"#]);
    assert_eq!((again["fresh"].as_bool(), again["id"].as_str()), (Some(false), Some(id)));
    let other = scene.on_data(&["start", "wait", "--name", "a", "--input", "[]"]);
    other.fails(1, &["an execution with this name exists already", &format!("perdura show {id}")]);
    scene.on_data(&["start", "nothing"]).fails(1, &["there is no machine \"nothing\"", "there is wait;"]);

    for which in [id, "a", "wait/a", "arn:aws:states:us-east-1:123456789012:execution:wait:a"] {
        let shown = scene.one(&["show", which]);
        assert_eq!((&shown["id"], &shown["status"]), (&id.into(), &"RUNNING".into()), "{which}");
        assert_eq!(
            (&shown["standing"][0]["state"], &shown["standing"][0]["doing"]),
            (&"W".into(), &"waiting".into())
        );
        assert_eq!(shown["input"], r#"{"x": 1}"#);
    }
    scene.on_data(&["show", "z"]).fails(1, &["there is no execution \"z\"", "`perdura ps` lists them"]);
    let listed = scene.until(&["ps", "--machine", "wait", "--status", "running"], |rows| !rows.is_empty());
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &"a".into()));

    let stopped = scene.one(&["stop", "a", "--error", "Enough", "--cause", "by a test"]);
    assert_eq!(stopped["status"], "ABORTED");
    let shown = scene.one(&["show", "a"]);
    assert_eq!((&shown["status"], &shown["error"]), (&"ABORTED".into(), &"Enough".into()));
    scene.on_data(&["stop", "a"]).fails(1, &["is not stopped: "]);
    assert_eq!(scene.one(&["redrive", "a"])["status"], "RUNNING");
    scene.one(&["stop", "a"]);

    let kinds: Vec<String> = scene
        .json(&["history", "a"])
        .iter()
        .map(|event| event["type"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(kinds[..2], ["ExecutionStarted", "WaitStateEntered"], "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind == "ExecutionRedriven"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "ExecutionAborted").count(), 2, "{kinds:?}");

    let stats = scene.one(&["stats"]);
    assert_eq!(stats["executions"]["ABORTED"], 1, "{stats}");
    let checked = scene.one(&["check"]);
    assert_eq!((&checked["executions"], &checked["findings"]), (&1.into(), &serde_json::json!([])));
    // The last one to end stays until something else happens.
    scene.one(&["start", "wait", "--name", "b"]);
    assert_eq!(scene.one(&["cleanup", "--older-than", "0s", "--dry-run"])["executions"], 1);
    assert_eq!(scene.one(&["cleanup", "--older-than", "1h"])["executions"], 0);
    assert_eq!(scene.one(&["cleanup", "--older-than", "0s"])["executions"], 1);
    scene.on_data(&["show", id]).fails(1, &["there is no execution"]);
}

#[test]
fn an_execution_is_steered_through_the_server() {
    let scene = Scene::new("serve-life").file("wait.json", WAITS);
    let server = Server::start(&scene, &[]);
    the_life_of_an_execution(&scene);
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn the_same_commands_work_without_a_server() {
    let scene = Scene::new("serve-without").file("wait.json", WAITS);
    the_life_of_an_execution(&scene);
}

#[test]
fn without_data_there_is_a_clear_word() {
    let scene = Scene::new("serve-nothing");
    scene.on_data(&["ps"]).fails(1, &["there is no such file", "name the data directory"]);
    scene.on_data(&["stop", "a"]).fails(2, &["there is no data in data", "perdura deploy"]);
    assert!(!scene.path("data").exists());
}

#[test]
fn a_second_server_is_refused_and_told_who_holds_the_data() {
    let scene = Scene::new("serve-second").file("wait.json", WAITS);
    let _server = Server::start(&scene, &[]);
    let second = scene.on_data(&["serve", "--listen", "127.0.0.1:0"]);
    second.fails(1, &["data: it is held by process ", " since 2", "stop that process"]);
    let run = scene.perdura(&["run", "wait.json", "--data", "data"]);
    run.fails(2, &["a server holds data: use `perdura deploy` and `perdura start`"]);
}

#[test]
fn a_server_waits_for_a_command_that_holds_the_data_for_a_moment() {
    let scene = Scene::new("serve-waits").file("wait.json", WAITS);
    scene.one(&["deploy", "wait.json"]);
    let holder = SqliteStore::open(&scene.path("data"), SqliteOptions::default()).expect("nobody holds it");
    let log = std::fs::File::create(scene.path("serve.log")).expect("a log can be written");
    let mut command = scene.command(&["serve", "--listen", "127.0.0.1:0", "--data", "data", "--grace", "0s"]);
    let mut server = command.stderr(log).spawn().expect("perdura runs");
    let waits = |line: &String| line.contains("waits for the data") && line.contains("it is held by process");
    wait_until("it says for whom it waits", || scene.lines("serve.log").iter().any(waits));
    drop(holder);
    let mut ready = String::new();
    let stdout = server.stdout.as_mut().expect("stdout is a pipe");
    BufReader::new(stdout).read_line(&mut ready).expect("stdout can be read");
    assert!(ready.starts_with("perdura serves data on "), "{ready}");
    kill(server.id(), "-TERM");
    assert_eq!(server.wait().expect("it ends").code(), Some(0));
}

#[test]
fn only_this_machine_is_listened_on() {
    let scene = Scene::new("serve-closed");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let ended = scene.on_data(&["serve", "--listen", address]);
        ended.fails(2, &["can be reached from other machines", "Set access keys (serve.access_key_file)"]);
    }
}

#[test]
fn health_and_numbers_are_told_by_http() {
    let scene = Scene::new("serve-health")
        .file("pass.json", r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#);
    let server = Server::start(&scene, &[]);
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200 OK"));
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200 OK"));
    assert!(server.get("/nothing").starts_with("HTTP/1.1 404"));
    scene.one(&["deploy", "pass.json"]);
    scene.one(&["start", "pass", "--name", "p"]);
    scene.until_status("p", "SUCCEEDED");
    let metrics = server.get("/metrics");
    assert!(metrics.contains("\nperdura_executions_succeeded_total 1\n"), "{metrics}");
    assert!(metrics.contains("\nperdura_ready 1\n"), "{metrics}");
    let docs = include_str!("../../../docs/operating.md");
    for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(docs.contains(&format!("| `{name}` |")), "docs/operating.md does not tell of {name}");
    }
}

#[test]
fn the_socket_is_private_and_a_bad_client_costs_nothing_but_itself() {
    let scene = Scene::new("serve-socket").file("wait.json", WAITS);
    let _server = Server::start(&scene, &[]);
    let socket = scene.path("data").join("control.sock");
    let mode = std::fs::metadata(&socket).expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let silent: Vec<UnixStream> = (0..5).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let mut rude = UnixStream::connect(&socket).expect("it listens");
    rude.write_all(b"{\"start\": 5}\n").expect("it reads");
    let mut answer = String::new();
    BufReader::new(&rude).read_line(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let mut curl = UnixStream::connect(&socket).expect("it listens");
    curl.write_all(b"GET /v1/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut answer = String::new();
    curl.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"version\""), "{answer}");
    scene.one(&["deploy", "wait.json"]);
    drop(silent);
}

#[test]
fn a_broken_definition_is_not_deployed() {
    let scene = Scene::new("serve-broken").file("bad.json", r#"{"StartAt": "A", "States": {}}"#);
    scene.on_data(&["deploy", "bad.json"]).fails(1, &["bad.json cannot be deployed: "]);
    assert!(!scene.path("data").exists());
}
