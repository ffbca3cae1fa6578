//! A wall clock that is wrong when a process begins, and is set right seconds later.

mod common;

use common::Scene;
use common::server::{Server, kill, stepped};

/// Waits until the file `go` is there.
const SLOW: &str =
    "echo $PERDURA_IDEMPOTENCY_KEY >> keys; while [ ! -e go ]; do sleep 0.05; done; echo '\"done\"'";
const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 5, "End": true}}}"#;
const SHORT: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 2, "End": true}}}"#;
const CALLS: &str = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "TimeoutSeconds": 600, "End": true,
    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}"#;

fn scene(name: &str) -> Scene {
    Scene::new(name)
        .function(SLOW, "")
        .file("waits.json", WAITS)
        .file("calls.json", CALLS)
        .file("short.json", SHORT)
}

/// A server whose wall clock is this many seconds off until the file `clock` says otherwise.
fn start_at(scene: &Scene, clock: &str) -> Server {
    set(scene, clock);
    Server::start_by(scene, &["sh", "-c", &stepped()], &[])
}

fn set(scene: &Scene, clock: &str) {
    std::fs::write(scene.path("clock"), clock).expect("the clock can be set");
}

#[test]
fn a_wall_clock_that_is_an_hour_behind_at_first_delays_no_wait() {
    let scene = scene("clocks-behind");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "waits.json"]);
    scene.one(&["start", "waits", "--name", "w"]);
    kill(server.id(), "-KILL");
    drop(server);
    let _server = start_at(&scene, "-3600");
    assert_eq!(scene.one(&["show", "w"])["status"], "RUNNING");
    set(&scene, "+0");
    scene.until_status("w", "SUCCEEDED");
}

#[test]
fn a_wall_clock_that_is_an_hour_ahead_at_first_ends_no_timeout() {
    let scene = scene("clocks-ahead");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "calls.json"]);
    scene.one(&["start", "calls", "--name", "c"]);
    scene.until(&["ledger", "--execution", "c"], |rows| !rows.is_empty());
    kill(server.id(), "-KILL");
    drop(server);
    let server = start_at(&scene, "+3600");
    assert_eq!(scene.one(&["show", "c"])["status"], "RUNNING");
    set(&scene, "+0");
    assert_eq!(scene.one(&["show", "c"])["status"], "RUNNING");
    // Nor does what it has recorded meanwhile, in the next process.
    kill(server.id(), "-KILL");
    drop(server);
    let _server = start_at(&scene, "+0");
    scene.one(&["deploy", "short.json"]);
    scene.one(&["start", "short", "--name", "s"]);
    scene.until_status("s", "SUCCEEDED");
    assert_eq!(scene.one(&["show", "c"])["status"], "RUNNING");
    std::fs::write(scene.path("go"), "").expect("a file can be written");
    scene.until_status("c", "SUCCEEDED");
}
