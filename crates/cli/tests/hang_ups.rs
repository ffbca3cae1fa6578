//! Clients that hang up, and clients that bring much: what they held is free again, and nobody else waits for it.

mod common;

use common::Scene;
use common::server::{Server, call, wait_until};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;
const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// More than there are threads for what blocks.
const CLIENTS: usize = 520;

/// More sockets than a server has that nobody is connected to. Counted before a test they may be too many: a call that has
/// been answered may not be closed yet.
const ITS_OWN: usize = 16;

/// A request with so many bytes, most of which say nothing.
fn padded(machine: &str, bytes: usize) -> Vec<u8> {
    let body = json!({"stateMachineArn": machine, "traceHeader": "x"}).to_string();
    let pad = bytes - body.len();
    let body = body.replacen('{', &format!("{{{}", " ".repeat(pad)), 1);
    call("StartSyncExecution", &[], body.as_bytes())
}

/// The most memory that the process ever had, in bytes.
fn peak_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// How many connections it has. Of its files only those count: readers of the data open others at any time.
fn sockets(server: &Server) -> usize {
    let is_socket =
        |path: &Path| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.id())).expect("it runs");
    files.filter(|file| file.as_ref().is_ok_and(|file| is_socket(&file.path()))).count()
}

#[test]
fn hundreds_of_large_calls_wait_at_once_and_leave_nothing_when_their_clients_hang_up() {
    let scene = Scene::new("hang-ups-sync");
    let server = Server::start(&scene, &[]);
    let waits = server.create("waits", "EXPRESS", WAITS);
    let pass = server.create("pass", "EXPRESS", PASS);
    let large = padded(&waits, (1 << 20) + 1);
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.sent(&large)).collect();
    let started = || server.metric("perdura_executions_started_total");
    wait_until("all of them wait", || started() >= CLIENTS as f64);
    let began = Instant::now();
    let told = server.told(&padded(&pass, (1 << 20) + 1));
    assert!(told.contains(r#""status":"SUCCEEDED""#), "{told}");
    drop(clients);
    for _ in 0..4 {
        let told = server.told(&padded(&pass, 2 << 20));
        assert!(told.contains(r#""status":"SUCCEEDED""#), "{told}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // They hung up on the answer, and not on the execution.
    scene.until(&["stats"], |stats| stats[0]["executions"]["RUNNING"] == CLIENTS);
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_sends_more_than_its_request_and_hangs_up_is_missed_too() {
    let scene = Scene::new("hang-ups-more");
    let server = Server::start(&scene, &[]);
    let waits = server.create("waits", "EXPRESS", WAITS);
    let mut request = padded(&waits, 200);
    request.extend(b"POST / HTTP/1.1\r\n");
    let sockets = || sockets(&server);
    let clients: Vec<TcpStream> = (0..100).map(|_| server.sent(&request)).collect();
    wait_until("all of them wait", || server.metric("perdura_executions_started_total") >= 100.0);
    let held = sockets();
    for client in &clients {
        (&*client).write_all(b"Host: ").expect("the server holds the connection");
    }
    drop(clients);
    wait_until("their connections are gone", || sockets() <= held - 100);
}

#[test]
fn bytes_of_requests_in_hand_are_bounded_and_small_requests_pass() {
    let scene = Scene::new("hang-ups-bytes");
    let server = Server::start(&scene, &[]);
    let pass = server.create("pass", "EXPRESS", PASS);
    let before = peak_bytes(&server);
    // All but the last byte.
    let mut large = padded(&pass, 1 << 20);
    large.pop();
    let clients: Vec<TcpStream> = (0..400).map(|_| server.sent(&large)).collect();
    for _ in 0..200 {
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 "));
        server.api("ListStateMachines", &json!({}));
    }
    let taken = peak_bytes(&server) - before;
    assert!(taken < 300 << 20, "{taken} bytes were taken for requests that have not come");
    drop(clients);
    let told = server.told(&padded(&pass, 1 << 20));
    assert!(told.contains(r#""status":"SUCCEEDED""#), "{told}");
}

#[test]
fn workers_that_hang_up_while_they_wait_leave_nothing_and_get_no_task() {
    let scene = Scene::new("hang-ups-workers");
    let server = Server::start(&scene, &[]);
    let activity = server.api("CreateActivity", &json!({"name": "approve"}))["activityArn"].clone();
    let task = json!({"Type": "Task", "Resource": activity, "End": true});
    let asks = server.create("asks", "STANDARD", &json!({"StartAt": "A", "States": {"A": task}}).to_string());
    let poll = call("GetActivityTask", &[], json!({"activityArn": activity}).to_string().as_bytes());
    let workers: Vec<TcpStream> = (0..CLIENTS).map(|_| server.sent(&poll)).collect();
    wait_until("all of them wait", || server.metric("perdura_activity_workers_waiting") >= CLIENTS as f64);
    drop(workers);
    wait_until("their connections are gone", || sockets(&server) <= ITS_OWN);
    server.api("StartExecution", &json!({"stateMachineArn": asks, "input": "7"}));
    let told = server.api("GetActivityTask", &json!({"activityArn": activity}));
    assert_eq!(told["input"], "7", "nobody else has taken it");
}
