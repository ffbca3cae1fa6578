//! More clients than there is room for: those who say nothing take nothing from executions, nor from other clients.

mod common;

use common::Scene;
use common::server::{Server, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

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
fn a_head_has_seconds_and_a_connection_between_two_requests_has_longer() {
    let scene = Scene::new("crowds-slow");
    let server = Server::start(&scene, &[]);
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answered = |stream: &mut TcpStream| {
        stream.write_all(request).expect("it is held");
        let mut answer = Vec::new();
        while !answer.ends_with(b"alive\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it is answered");
            answer.extend(byte);
        }
    };
    let mut resting = TcpStream::connect(&server.address).expect("the server listens");
    answered(&mut resting);
    let mut slow = TcpStream::connect(&server.address).expect("the server listens");
    slow.write_all(&request[..20]).expect("it reads");
    slow.set_read_timeout(Some(Duration::from_secs(20))).expect("a time can be set");
    let ended = slow.read_to_end(&mut Vec::new());
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    answered(&mut resting);
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
    let begun = scene.lines("serve.log").len();
    let silent: Vec<TcpStream> = (0..400).map(half).collect();
    scene.one(&["start", "m", "--name", "a"]);
    let shown = scene.until_status("a", "SUCCEEDED");
    assert_eq!(shown["output"], r#"{"paid": true}"#);
    wait_until("another client is answered", || {
        server
            .told(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .contains("alive")
    });
    let log = scene.lines("serve.log").split_off(begun);
    assert!(log.len() < 20, "{log:#?}");
    drop(silent);
}
