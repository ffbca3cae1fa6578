//! Commands that ask a perdura server elsewhere, by `/v1` and under a token.

mod common;

use common::server::Server;
use common::{Ended, Scene};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const WORK: &str = r#"{"StartAt": "T", "States": {"T": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:us-east-1:123456789012:activity:work"}}}"#;

/// A command that knows of nothing but this server.
fn asked(scene: &Scene, url: &str, token_file: Option<&str>, arguments: &[&str]) -> Ended {
    let mut command = scene.command(arguments);
    command.args(["--server", url]).env_remove("PERDURA_ENDPOINT");
    if let Some(file) = token_file {
        command.args(["--token-file", file]);
    }
    command.output().expect("perdura runs").into()
}

fn json(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    match &mut lines[..] {
        [Value::Array(list)] => std::mem::take(list),
        _ => lines,
    }
}

#[test]
fn every_command_says_of_a_server_elsewhere_what_it_says_of_the_data() {
    let scene = Scene::new("far-commands").file("t.json", WORK);
    let server = Server::start(&scene, &[]);
    let url = format!("http://{}", server.address);
    let far = |arguments: &[&str]| json(&asked(&scene, &url, None, &[arguments, &["--json"]].concat()));
    assert_eq!(far(&["deploy", "t.json"])[0]["machine"], "t");
    assert_eq!(far(&["start", "t", "--name", "a", "--label", "order=1", "--input", "1.0"])[0]["name"], "a");
    far(&["start", "t", "--name", "b"]);
    let task = far(&["activity", "poll", "work"]).remove(0);
    let token = task["token"].as_str().expect("it has a token");
    far(&["activity", "succeed", token, "--output", "1.50"]);
    scene.until_status("a", "SUCCEEDED");
    far(&["stop", "b", "--error", "Enough"]);
    far(&["redrive", "b"]);
    scene.until(&["ledger"], |rows| rows.len() == 1);
    for same in [
        &["ps"][..],
        &["ps", "--label", "order=1"],
        &["show", "a"],
        &["show", "t/b"],
        &["history", "a"],
        &["watch", "a"],
        &["ledger"],
        &["ledger", "--execution", "a"],
        &["trace", task["key"].as_str().expect("it has a key")],
        &["activity", "list"],
        &["connection", "list"],
        &["token", "list"],
        &["cleanup", "--older-than", "0s", "--dry-run"],
    ] {
        assert_eq!(far(same), scene.json(same), "{same:?}");
    }
    assert_eq!(far(&["stats"])[0]["executions"], json!({"RUNNING": 1, "SUCCEEDED": 1}));
    let shown = asked(&scene, &url, None, &["show", "a", "--json"]).stdout;
    assert!(shown.contains(r#""input":"1.0""#) && shown.contains(r#""output":"1.50""#), "{shown}");
    asked(&scene, &url, None, &["show", "none"]).fails(1, &["there is no execution \"none\"", "hint: "]);
    asked(&scene, &url, None, &["start", "none"]).fails(1, &["none"]);
    asked(&scene, &url, None, &["check"]).fails(2, &["--server"]);
}

#[test]
fn a_token_says_what_a_command_may_do_elsewhere() {
    let scene = Scene::new("far-tokens").file("t.json", WORK).file("empty", "").file("no", "pdr_nonsense");
    let server = Server::start(&scene, &[]);
    let url = format!("http://{}", server.address);
    scene.one(&["deploy", "t.json"]);
    let made = scene.one(&["token", "create", "looks", "--role", "read"]);
    let scene = scene.file("looks", made["token"].as_str().expect("a token"));
    let ask = |file: Option<&str>, arguments: &[&str]| asked(&scene, &url, file, arguments);
    assert_eq!(ask(Some("looks"), &["ps"]).code, Some(0));
    ask(Some("looks"), &["start", "t"]).fails(1, &["this needs the role run"]);
    for file in [None, Some("empty"), Some("no")] {
        ask(file, &["ps"]).fails(1, &["token"]);
    }
    ask(Some("away"), &["ps"]).fails(2, &["the token in away cannot be read"]);
    asked(&scene, "http://perdura.example", Some("looks"), &["ps"]).fails(2, &["over https only"]);
}

/// Passes each connection on to the server; of the first the answer is lost.
fn careless(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let (url, to) =
        (format!("http://{}", listener.local_addr().expect("it is bound")), server.address.clone());
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            let server = TcpStream::connect(&to).expect("the server listens");
            let (mut ask, mut tell) =
                (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
            std::thread::spawn(move || std::io::copy(&mut ask, &mut tell));
            let (mut server, mut client) = (server, client);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                if number == 0 {
                    // It was answered, so it was done.
                    let _ = server.read(&mut bytes);
                    return client.shutdown(std::net::Shutdown::Both);
                }
                while let Ok(length @ 1..) = server.read(&mut bytes) {
                    client.write_all(&bytes[..length])?;
                }
                Ok(())
            });
        }
    });
    url
}

#[test]
fn a_start_whose_answer_is_lost_is_done_once() {
    let scene = Scene::new("far-lost").file("t.json", WORK);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "t.json"]);
    let started = json(&asked(&scene, &careless(&server), None, &["start", "t", "--json"]));
    let listed = scene.json(&["ps"]);
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &started[0]["id"]), "{listed:?}");
}

#[test]
fn who_is_no_perdura_server_is_told_from_one_that_refuses() {
    let scene = Scene::new("far-strange");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let page = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n";
            let _ = client.write_all(page.as_bytes());
        }
    });
    asked(&scene, &url, None, &["ps"]).fails(2, &["is no perdura server", "404"]);
}
