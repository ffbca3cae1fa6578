//! The real binary under a real crash: processes killed and stopped, a disk that fills up, a clock that is stepped.

mod common;

use common::Scene;
use common::server::{Server, stepped, wait_until};
use serde_json::Value;

/// How often processes are killed: a few times in each run of the tests, more often where asked for.
fn rounds() -> String {
    std::env::var("PERDURA_KILLS").unwrap_or_else(|_| "5".into())
}

/// Load, a process killed under it, and another that goes on: what the receiver, which outlives them all, counted.
fn crashed(name: &str, more: &[&str]) -> Value {
    let scene = Scene::new(name);
    let mut arguments = vec!["bench", "recovery", "--concurrency", "64", "--data", "data", "--json"];
    arguments.extend(more);
    let ended = scene.perdura(&arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).expect("a line of JSON")
}

fn nothing_lost_and_nothing_twice(counted: &Value) {
    assert_eq!((&counted["lost"], &counted["applied_twice"]), (&0.into(), &0.into()), "{counted}");
    assert!(counted["bodies_run_twice"].as_u64() <= counted["in_flight"].as_u64(), "{counted}");
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing_and_does_nothing_twice() {
    nothing_lost_and_nothing_twice(&crashed("crash-kill", &["--rounds", &rounds()]));
}

#[test]
fn a_process_that_was_stopped_for_a_while_goes_on_as_if_nothing_had_been() {
    nothing_lost_and_nothing_twice(&crashed("crash-stop", &["--rounds", "2", "--pause-ms", "400"]));
}

/// Four megabytes are all that a file may have at first; the process is told so by an error, not by a signal.
const FULL: &str = "trap '' XFSZ; ulimit -S -f 8192; exec \"$0\" \"$@\"";

/// A string of that many numbers, whose digits do not repeat, so that they cannot be made smaller.
fn noise(numbers: u64) -> String {
    let digits = |at: u64| (at.wrapping_mul(6_364_136_223_846_793_005) >> 33).to_string();
    format!("\"{}\"", (0..numbers).map(digits).collect::<String>())
}

#[test]
fn a_call_that_was_answered_is_not_made_again_while_the_disk_is_full() {
    let scene = Scene::new("crash-answer")
        .function("echo $PERDURA_IDEMPOTENCY_KEY >> calls; cat large.json", "")
        .file("large.json", &noise(1_000_000));
    let server = Server::start_by(&scene, &["sh", "-c", FULL], &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "a"]);
    let is_failure = |line: &&String| line.contains("nothing can be written");
    let failures = || scene.lines("serve.log").iter().filter(is_failure).count();
    wait_until("the answer could not be written, again and again", || failures() >= 3);
    common::server::lift_limit_of_files(server.id());
    server.until_ready();
    scene.until_status("a", "SUCCEEDED");
    assert_eq!(scene.lines("calls").len(), 1, "{:?}", scene.lines("calls"));
}

#[test]
fn a_disk_that_fills_up_loses_nothing_and_goes_on_when_there_is_room() {
    let scene = Scene::new("crash-full").file(
        "pass.json",
        r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "Result": 1, "End": true}}}"#,
    );
    let server = Server::start_by(&scene, &["sh", "-c", FULL], &[]);
    scene.one(&["deploy", "pass.json"]);
    let scene = scene.file("large.json", &noise(50_000));
    let mut acknowledged = Vec::new();
    let refused = loop {
        let ended = scene.on_data(&["start", "pass", "--input", "@large.json", "--json"]);
        match ended.code {
            Some(0) => {
                let started: Value = serde_json::from_str(&ended.stdout).expect("a line of JSON");
                acknowledged.push(started["id"].as_str().expect("an id").to_owned());
            }
            _ => break ended,
        }
        assert!(acknowledged.len() < 100, "the disk never fills up");
    };
    refused.fails(1, &["the store cannot be written"]);
    assert!(!acknowledged.is_empty(), "nothing was written at all");
    assert!(server.get("/readyz").starts_with("HTTP/1.1 503 "));
    common::server::lift_limit_of_files(server.id());
    server.until_ready();
    scene.one(&["start", "pass", "--name", "after"]);
    for id in acknowledged {
        assert_eq!(scene.until_status(&id, "SUCCEEDED")["id"], *id);
    }
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
}

#[test]
fn a_stepped_clock_neither_loses_nor_doubles_timers_nor_times_out_what_is_alive() {
    let call = r#""Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "TimeoutSeconds": 600"#;
    let waits = |wait: &str| {
        format!(r#"{{"StartAt": "W", "States": {{"W": {{"Type": "Wait", {wait}, "End": true}}}}}}"#)
    };
    let scene = Scene::new("crash-clock")
        .function("echo up > up; read x < go; echo 1", "")
        .pipe("go")
        .pipe("up")
        .file("m.asl.json", &format!(r#"{{"StartAt": "C", "States": {{"C": {{{call}, "End": true}}}}}}"#))
        .file("hour.json", &waits(r#""Seconds": 3600"#))
        .file("second.json", &waits(r#""Seconds": 1"#))
        .file("until.json", &waits(r#""TimestampPath": "$.at""#))
        .file("clock", "+0");
    let server = Server::start_by(&scene, &["sh", "-c", &stepped()], &[]);
    for machine in ["m.asl.json", "hour.json", "second.json", "until.json"] {
        scene.one(&["deploy", machine]);
    }
    let in_half_an_hour = scene.one(&["start", "second", "--name", "now"])["startedAt"].clone();
    let in_half_an_hour = later(in_half_an_hour.as_str().expect("a time"), 1800);
    scene.one(&["start", "m", "--name", "called"]);
    std::fs::read_to_string(scene.path("up")).expect("the function runs");
    scene.one(&["start", "hour", "--name", "hour"]);
    scene.one(&[
        "start",
        "until",
        "--name",
        "until",
        "--input",
        &format!(r#"{{"at": "{in_half_an_hour}"}}"#),
    ]);
    assert_eq!(scene.one(&["show", "until"])["status"], "RUNNING");

    std::fs::write(scene.path("clock"), "+3600").expect("the clock can be set");
    scene.until_status("until", "SUCCEEDED");
    for name in ["called", "hour"] {
        assert_eq!(scene.one(&["show", name])["status"], "RUNNING", "{name}");
    }
    std::fs::write(scene.path("clock"), "-3600").expect("the clock can be set");
    scene.one(&["start", "second", "--name", "before"]);
    scene.until_status("before", "SUCCEEDED");
    assert_eq!(scene.one(&["show", "hour"])["status"], "RUNNING");
    std::fs::write(scene.path("go"), "now\n").expect("the function waits");
    scene.until_status("called", "SUCCEEDED");
    let events = scene.json(&["history", "until"]);
    assert_eq!(events.iter().filter(|event| event["type"] == "WaitStateExited").count(), 1);
    assert_eq!(server.end("-TERM"), Some(0));
}

fn later(time: &str, seconds: i64) -> String {
    let time: jiff::Timestamp = time.parse().expect("a time");
    (time + jiff::SignedDuration::from_secs(seconds)).to_string()
}
