//! States that are tried out and definitions that are judged: they may take long, and nobody else waits for them.

mod common;

use common::Scene;
use common::server::{Server, call, wait_until};
use serde_json::json;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// As costly as an expression may be.
const COSTLY: &str = "{% $count($filter([1..100000], function($a) { $sum([1..1000]) > $a })) %}";

fn trial() -> Vec<u8> {
    let state = json!({"Type": "Pass", "QueryLanguage": "JSONata", "Output": COSTLY, "End": true});
    let body = json!({"definition": state.to_string(), "input": "{}"});
    call("TestState", &[], body.to_string().as_bytes())
}

#[test]
fn states_that_evaluate_for_long_keep_nobody_from_being_answered() {
    let scene = Scene::new("evaluations-health");
    let server = Server::start(&scene, &[]);
    let trials: Vec<TcpStream> = (0..8).map(|_| server.sent(&trial())).collect();
    for _ in 0..50 {
        let began = Instant::now();
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 "));
        server.api("ListStateMachines", &json!({}));
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    drop(trials);
}

#[test]
fn definitions_that_are_judged_for_long_keep_nobody_from_being_answered() {
    let scene = Scene::new("evaluations-judged");
    let server = Server::start(&scene, &[]);
    // About a megabyte, in which every state has a mistake.
    let states: serde_json::Map<String, serde_json::Value> = (0..9_000)
        .map(|number| (format!("S{number}"), json!({"Type": "Choice", "Choices": [], "Default": "nowhere"})))
        .collect();
    let definition = json!({"StartAt": "S0", "States": states}).to_string();
    let body = json!({"definition": definition}).to_string();
    let judged = call("ValidateStateMachineDefinition", &[], body.as_bytes());
    let judges: Vec<TcpStream> = (0..16).map(|_| server.sent(&judged)).collect();
    for _ in 0..50 {
        let began = Instant::now();
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 "));
        server.api("ListStateMachines", &json!({}));
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    drop(judges);
}

#[test]
fn too_many_states_under_test_are_told_to_come_again() {
    let scene = Scene::new("evaluations-line");
    let server = Server::start(&scene, &[]);
    let (tell, told) = mpsc::channel();
    for _ in 0..30 {
        let (tell, mut stream) = (tell.clone(), server.sent(&trial()));
        thread::spawn(move || {
            let mut answer = String::new();
            let _ = std::io::Read::read_to_string(&mut stream, &mut answer);
            let _ = tell.send(answer);
        });
    }
    let first = told.recv_timeout(Duration::from_secs(30)).expect("somebody is answered");
    assert!(first.starts_with("HTTP/1.1 429 "), "{first}");
    assert!(first.contains(r#""__type":"ThrottlingException""#), "{first}");
    assert!(first.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n"), "{first}");
}

/// A disk that takes nothing while the file `stalled` is there, for half a minute at most.
const STALLING_DISK: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
static void wait(void) { for (int ms = 0; ms < 30000 && access("stalled", F_OK) == 0; ms++) usleep(1000); }
int fdatasync(int file) { wait(); return syscall(SYS_fdatasync, file); }
int fsync(int file) { wait(); return syscall(SYS_fsync, file); }
"#;

/// A server whose disk can be stalled.
fn on_stalling_disk(name: &str) -> (Scene, Server) {
    let scene = Scene::new(name).file("disk.c", STALLING_DISK);
    let compiled = scene.command_of("cc", &["-shared", "-fPIC", "-o", "disk.so", "disk.c"]).status();
    assert!(compiled.expect("cc is needed here: scripts/test installs it").success());
    let server = Server::start_by(&scene, &["sh", "-c", r#"LD_PRELOAD=./disk.so exec "$0" "$@""#], &[]);
    (scene, server)
}

#[test]
fn changes_that_wait_for_the_disk_keep_nobody_from_reading() {
    let (scene, server) = on_stalling_disk("evaluations-changes");
    let machine = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
    let arn = server.create("pass", "STANDARD", machine);
    std::fs::write(scene.path("stalled"), "").expect("a file can be written");
    // More than there are threads for changes.
    let mut changes: Vec<TcpStream> = (0..40)
        .map(|number| {
            let body = json!({"name": format!("activity-{number}")}).to_string();
            server.sent(&call("CreateActivity", &[], body.as_bytes()))
        })
        .collect();
    for _ in 0..50 {
        server.api("ListStateMachines", &json!({}));
        server.api("DescribeStateMachine", &json!({"stateMachineArn": arn}));
        server.api("ListExecutions", &json!({"stateMachineArn": arn}));
    }
    for change in &changes {
        change.set_nonblocking(true).expect("a socket can be asked");
        let unanswered = change.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(unanswered, Err(std::io::ErrorKind::WouldBlock), "the changes still wait");
        change.set_nonblocking(false).expect("a socket can be waited for");
    }
    std::fs::remove_file(scene.path("stalled")).expect("a file can be removed");
    for change in &mut changes {
        let mut answer = String::new();
        std::io::Read::read_to_string(change, &mut answer).expect("it is answered");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(server.api("ListActivities", &json!({}))["activities"].as_array().map(Vec::len), Some(40));
}

#[test]
fn a_node_that_does_not_move_while_work_waits_is_not_ready_and_still_alive() {
    let (scene, server) = on_stalling_disk("evaluations-ready");
    let machine = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
    let arn = server.create("pass", "STANDARD", machine);
    server.until_ready();
    std::fs::write(scene.path("stalled"), "").expect("a file can be written");
    let start = json!({"stateMachineArn": arn}).to_string();
    let mut starting = server.sent(&call("StartExecution", &[], start.as_bytes()));
    wait_until("it is not ready", || {
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 "));
        server.get("/readyz").starts_with("HTTP/1.1 503 ")
    });
    let told = server.get("/readyz");
    assert!(told.contains("work waits"), "{told}");
    std::fs::remove_file(scene.path("stalled")).expect("a file can be removed");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut starting, &mut answer).expect("the start is answered");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("executionArn"), "{answer}");
    server.until_ready();
}
