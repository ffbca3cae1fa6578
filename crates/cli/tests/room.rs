//! Chores stall nobody, and room that became free goes back to the disk.

mod common;

use common::Scene;
use common::server::Server;
use std::time::{Duration, Instant};

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// Data with so many ended executions of about 60 KB each.
fn full(name: &str, count: usize) -> (Scene, Server) {
    // Digits that do not repeat, so that they cannot be made smaller.
    let digit = |at: u64| (at.wrapping_mul(6_364_136_223_846_793_005) >> 33).to_string();
    let noise: String = (0..6_000u64).map(digit).collect();
    let scene = Scene::new(name).file("pass.asl.json", PASS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pass.asl.json"]);
    let arn = "arn:aws:states:us-east-1:123456789012:stateMachine:pass";
    for number in 0..count {
        let body = format!(r#"{{"stateMachineArn": "{arn}", "name": "n-{number}", "input": "\"{noise}\""}}"#);
        let answer = server.call("StartExecution", &body);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    scene.one(&["start", "pass", "--name", "last"]);
    scene.until_status("last", "SUCCEEDED");
    (scene, server)
}

fn free(scene: &Scene) -> u64 {
    scene.one(&["stats"])["freeBytes"].as_u64().expect("a number")
}

/// Waits until the file is small.
#[track_caller]
fn until_small(scene: &Scene, most: u64) {
    let began = Instant::now();
    let size = || std::fs::metadata(scene.path("data/perdura.db")).expect("there is a file").len();
    while size() > most {
        assert!(began.elapsed() < Duration::from_secs(20), "the file still has {} bytes", size());
        std::thread::yield_now();
    }
}

#[test]
fn room_goes_back_to_the_disk_while_a_server_runs() {
    let (scene, server) = full("room-server", 40);
    let would = scene.one(&["cleanup", "--older-than", "0s", "--dry-run"]);
    assert!(would["executions"].as_u64() >= Some(40), "{would}");
    let swept = scene.one(&["cleanup", "--older-than", "0s"]);
    assert!(swept["executions"].as_u64() >= Some(40), "{swept}");
    assert!(free(&scene) > 1_000_000, "{}", free(&scene));
    let room = scene.one(&["compact"]);
    assert_eq!((&room["freeBytes"], &room["more"]), (&0.into(), &false.into()), "{room}");
    until_small(&scene, 700_000);
    scene.one(&["start", "pass", "--name", "after"]);
    scene.until_status("after", "SUCCEEDED");
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
}

#[test]
fn room_goes_back_to_the_disk_where_no_server_runs() {
    let (scene, server) = full("room-alone", 20);
    assert_eq!(server.end("-TERM"), Some(0));
    scene.one(&["cleanup", "--older-than", "0s"]);
    assert!(free(&scene) > 500_000, "{}", free(&scene));
    scene.one(&["compact"]);
    until_small(&scene, 700_000);
    assert_eq!(free(&scene), 0);
}

#[test]
fn above_the_most_bytes_the_oldest_go_by_themselves_and_the_file_shrinks_while_the_server_runs() {
    let (scene, server) = full("room-most", 80);
    assert_eq!(server.end("-TERM"), Some(0));
    // The log of the database holds it all, until it is brought into the file.
    scene.one(&["compact"]);
    let size = || std::fs::metadata(scene.path("data/perdura.db")).expect("there is a file").len();
    assert!(size() > 9_000_000, "{}", size());
    let bound = "[retention]\nbytes_max = 1000000\n";
    std::fs::write(scene.path("perdura.toml"), bound).expect("a file can be written");
    let server = Server::start(&scene, &[]);
    // The bound, and the 4 MiB that stay free for what comes next.
    until_small(&scene, 5_300_000);
    scene.on_data(&["show", "n-0"]).fails(1, &["n-0"]);
    for kept in ["n-79", "last"] {
        assert_eq!(scene.one(&["show", kept])["status"], "SUCCEEDED");
    }
    scene.one(&["start", "pass", "--name", "after"]);
    scene.until_status("after", "SUCCEEDED");
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
}
