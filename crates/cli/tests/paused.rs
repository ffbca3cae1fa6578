//! Pause, resume and drain: what is held stands through kills, is told everywhere, and goes on; a drain ends when nothing
//! would be cut off.

mod common;

use common::Scene;
use common::server::{Server, lift_limit_of_files, limit_files_to, wait_until};
use std::fs::{self, File};
use std::io::Write;

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
/// Twice the function, which ends when somebody writes into the pipe.
const TWICE: &str = r#"{"StartAt": "One", "States": {
    "One": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "Next": "Two"},
    "Two": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}}}"#;

#[test]
fn what_is_paused_stands_through_a_kill_and_goes_on_when_it_is_resumed() {
    let scene = Scene::new("paused-killed").file("m.asl.json", PASS).file("o.asl.json", PASS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["deploy", "o.asl.json"]);
    scene.on_data(&["pause", "m"]).gives("m is paused: starts wait, and what runs goes on");
    for name in ["a", "b", "c"] {
        scene.one(&["start", "m", "--name", name]);
    }
    server.end("-KILL");
    let server = Server::start(&scene, &[]);
    server.until_ready();
    scene.one(&["start", "o", "--name", "other"]);
    scene.until_status("o/other", "SUCCEEDED");
    scene.until(&["stats"], |stats| stats[0]["held"] == 3);
    for name in ["a", "b", "c"] {
        let shown = scene.one(&["show", name]);
        assert_eq!((&shown["status"], &shown["events"]), (&"RUNNING".into(), &1.into()), "{shown}");
    }
    let seen = scene.on_data(&["ps"]);
    assert!(seen.stderr.contains("m is paused since ") && seen.stderr.contains(", 3 wait"), "{seen:?}");
    let ready = server.get("/readyz");
    assert!(ready.contains("ready\npaused: 1 machine\n"), "{ready}");
    assert_eq!(server.metric("perdura_pauses"), 1.0);
    server.end("-KILL");
    let server = Server::start(&scene, &[]);
    scene.on_data(&["resume", "m"]).gives("m goes on");
    for name in ["a", "b", "c"] {
        scene.until_status(name, "SUCCEEDED");
    }
    assert_eq!(server.metric("perdura_pauses"), 0.0);
    scene.on_data(&["resume", "m"]).fails(1, &["the machine \"m\" is not paused"]);
    let audit = scene.json(&["audit", "--machine", "m"]);
    let all = scene.json(&["audit"]);
    let pauses = all.iter().filter(|entry| entry["kind"] == "pause");
    let verbs: Vec<&str> = pauses.map(|entry| entry["verb"].as_str().expect("a verb")).collect();
    assert_eq!(verbs, ["put", "delete"], "{audit:?}");
}

#[test]
fn a_drain_waits_for_calls_under_way_and_says_for_which() {
    let scene = Scene::new("paused-drained")
        .function("echo x >> calls; read line < gate; echo 1", "")
        .file("m.asl.json", TWICE)
        .pipe("gate");
    let server = Server::start(&scene, &["--config", "perdura.toml"]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    let calls = || fs::read_to_string(scene.path("calls")).unwrap_or_default().lines().count();
    wait_until("the first call is under way", || calls() == 1);
    let cut = scene.on_data(&["drain", "--timeout", "1s"]);
    cut.fails(1, &["waits for 1 call: ", ":One#1:1", "everything stays paused"]);
    // A start is taken all the same.
    scene.one(&["start", "m", "--name", "late"]);
    File::create(scene.path("gate")).and_then(|mut gate| gate.write_all(b"go\n")).expect("it can be let go");
    let drained = scene.on_data(&["drain"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert!(drained.stdout.starts_with("nothing is under way"), "{drained:?}");
    let shown = scene.one(&["show", "n"]);
    assert_eq!(
        (&shown["status"], &shown["standing"][0]["state"]),
        (&"RUNNING".into(), &"Two".into()),
        "{shown}"
    );
    assert_eq!(calls(), 1, "the second call is not made");
    server.end("-TERM");
    let server = Server::start(&scene, &["--config", "perdura.toml"]);
    assert_eq!(calls(), 1, "nor by the next server");
    assert!(server.get("/readyz").contains("paused: all machines"));
    scene.on_data(&["resume", "--all"]).gives("all machines go on");
    // Each call opens the gate for itself, so that it is written to as often as it is read.
    for _ in 0..2 {
        File::create(scene.path("gate"))
            .and_then(|mut gate| gate.write_all(b"go\n"))
            .expect("it can be let go");
        wait_until("a call is made", || calls() >= 2);
    }
    wait_until("all calls are let go", || {
        let ended = scene.json(&["ps", "--status", "SUCCEEDED"]).len() == 2;
        if !ended {
            File::create(scene.path("gate")).and_then(|mut gate| gate.write_all(b"go\n")).ok();
        }
        ended
    });
    assert_eq!(calls(), 4, "each call once");
}

#[test]
fn nothing_is_drained_while_nobody_can_say_what_is_under_way() {
    let scene = Scene::new("paused-full")
        .function("echo x >> calls; read line < gate; echo 1", "")
        .file("m.asl.json", TWICE)
        .pipe("gate");
    let server = Server::start_by(
        &scene,
        &["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""],
        &["--config", "perdura.toml"],
    );
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    wait_until("the call is under way", || !scene.lines("calls").is_empty());
    assert_eq!(scene.on_data(&["pause", "--all", "--now"]).code, Some(0));
    // The store is shut, and the call goes on.
    limit_files_to(server.id(), Some(4_096));
    wait_until("nothing can be written", || {
        drop(scene.on_data(&["start", "m"]));
        server.get("/readyz").starts_with("HTTP/1.1 503 ")
    });
    let drained = scene.on_data(&["drain", "--timeout", "1s"]);
    assert_ne!(drained.code, Some(0), "{drained:?}");
    lift_limit_of_files(server.id());
    server.until_ready();
    scene.on_data(&["drain", "--timeout", "1s"]).fails(1, &["waits for 1 call: "]);
    File::create(scene.path("gate")).and_then(|mut gate| gate.write_all(b"go\n")).expect("it can be let go");
    let drained = scene.on_data(&["drain"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
}

#[test]
fn a_machine_is_paused_without_a_server_for_the_next_one() {
    let scene = Scene::new("paused-alone").file("m.asl.json", PASS);
    scene.one(&["deploy", "m.asl.json"]);
    scene
        .on_data(&["pause", "--all", "--now"])
        .gives("all machines are paused: starts wait, and what runs stops at its next state");
    scene.one(&["start", "m", "--name", "n"]);
    scene.on_data(&["pause", "none"]).fails(1, &["there is no machine \"none\""]);
    scene.on_data(&["pause"]).fails(2, &["--all"]);
    let _server = Server::start(&scene, &[]);
    assert_eq!(scene.one(&["show", "n"])["events"], 1);
    scene.on_data(&["resume", "--all"]).gives("all machines go on");
    scene.until_status("n", "SUCCEEDED");
}
