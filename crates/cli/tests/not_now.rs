//! Where this machine lacks files for the moment, a call is put off, and the workflow does not see it.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver};
use common::server::Server;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::sync::{Mutex, mpsc};

/// How many files the server may open from now on; those that are open stay so.
fn limit_files(server: &Server, files: u64) {
    let pid = Pid::from_raw(server.id().cast_signed()).expect("a process has a number");
    let limit = Rlimit { current: Some(files), maximum: Some(1_000) };
    prlimit(Some(pid), Resource::Nofile, limit).expect("the limit of one's own process can be set");
}

/// An execution whose second call comes when there are no files to be had, and what it came to once there were.
fn second_call_without_files(name: &str, second: &str, config: &str) {
    let (go, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let first = Receiver::start(move |_, _| {
        told.lock().expect("one at a time").recv().expect("the test goes on");
        Act::Answer(200, "{}".to_owned())
    });
    let machine = format!(
        r#"{{"StartAt": "First", "States": {{"First": {{"Type": "Task", "Resource": "arn:aws:states:::http:invoke",
            "Parameters": {{"ApiEndpoint": "{}", "Method": "POST"}}, "Next": "Second"}}, "Second": {second}}}}}"#,
        first.url("/")
    );
    let scene =
        Scene::new(name).file("m.asl.json", &machine).file("f.sh", "echo 1").file("perdura.toml", config);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let execution = scene.one(&["start", "m"])["execution"].as_str().expect("an id").to_owned();
    first.until_seen(1);
    limit_files(&server, 3);
    go.send(()).expect("the receiver waits");
    let began = std::time::Instant::now();
    while !scene.lines("serve.log").iter().any(|line| line.contains("Too many open files")) {
        assert!(began.elapsed().as_secs() < 30, "nothing was put off: {:?}", scene.lines("serve.log"));
        std::thread::yield_now();
    }
    limit_files(&server, 1_000);
    let shown = scene.until(&["show", &execution], |shown| shown[0]["status"] != "RUNNING").remove(0);
    assert_eq!(shown["status"], "SUCCEEDED", "{shown}");
    let history = scene.on_data(&["history", &execution, "--json"]).stdout;
    assert!(!history.contains("Failed") && !history.contains("Too many open files"), "{history}");
    let metrics = server.get("/metrics");
    let put_off = metrics.lines().find_map(|line| line.strip_prefix("perdura_calls_put_off_total "));
    assert!(put_off.is_some_and(|count| count != "0"), "{metrics}");
}

#[test]
fn a_request_for_which_there_are_no_files_is_sent_when_there_are() {
    let second = Receiver::start(|_, _| Act::Answer(200, "{}".to_owned()));
    let state = format!(
        r#"{{"Type": "Task", "Resource": "arn:aws:states:::http:invoke", "End": true,
            "Parameters": {{"ApiEndpoint": "{}", "Method": "POST"}}}}"#,
        second.url("/")
    );
    second_call_without_files("not-now-http", &state, "");
    assert_eq!(second.seen().len(), 1);
}

#[test]
fn a_command_for_which_there_are_no_files_is_run_when_there_are() {
    let state =
        r#"{"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}"#;
    second_call_without_files("not-now-command", state, "[functions.f]\ncommand = ['sh', 'f.sh']\n");
}
