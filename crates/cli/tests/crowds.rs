//! More clients than there is room for: those who say nothing take nothing from executions, nor from other clients.

mod common;

use common::Scene;
use common::server::{Server, wait_until};
use std::io::Write;
use std::net::TcpStream;

/// A shell that lowers the limits of open files, the soft and the hard one, and becomes the server.
fn with_files(soft: u32, hard: u32) -> [String; 4] {
    let script = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
    ["sh".into(), "-c".into(), script, "sh".into()]
}

fn start(scene: &Scene, soft: u32, hard: u32) -> Server {
    let by = with_files(soft, hard);
    Server::start_by(scene, &by.each_ref().map(String::as_str), &[])
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let scene = Scene::new("crowds-raised");
    let server = start(&scene, 128, 700);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).expect("it runs");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("Linux tells it");
    assert_eq!(files.split_whitespace().skip(3).take(2).collect::<Vec<_>>(), ["700", "700"], "{files}");
}

#[test]
fn half_open_connections_take_no_files_from_executions_and_no_place_from_clients() {
    let scene = Scene::new("crowds-half-open").function("echo '{\"paid\": true}'", "");
    let server = start(&scene, 256, 256);
    scene.one(&["deploy", "m.asl.json"]);
    let half = |_| {
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        let _ = stream.write_all(b"POST / HTTP/1.1\r\nHost: localh");
        stream
    };
    let silent: Vec<TcpStream> = (0..400).map(half).collect();
    scene.one(&["start", "m", "--name", "a"]);
    let shown = scene.until_status("a", "SUCCEEDED");
    assert_eq!(shown["output"], r#"{"paid": true}"#);
    wait_until("another client is answered", || {
        server
            .told(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .contains("alive")
    });
    let log = scene.lines("serve.log");
    assert!(log.len() < 20, "{log:#?}");
    drop(silent);
}
