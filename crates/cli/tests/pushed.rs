//! Events as they happen: pushed, each once, and gone on with where a client was cut off.

mod common;

use common::Scene;
use common::server::Server;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A step that a worker has to do, twice.
const MACHINE: &str = r#"{"StartAt": "A", "States": {
    "A": {"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:jobs", "Next": "B"},
    "B": {"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:jobs", "End": true}}}"#;

/// A client of a stream.
struct Client {
    stream: BufReader<TcpStream>,
    status: u16,
}

impl Client {
    fn of(server: &Server, path: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).expect("a request can be sent");
        let mut client = Self { stream: BufReader::new(stream), status: 0 };
        let head = client.block();
        let status = head[0].split(' ').nth(1).and_then(|status| status.parse().ok());
        client.status = status.expect("there is a status");
        client
    }

    /// The lines up to an empty one; none at the end of the stream.
    fn block(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).expect("the stream can be read");
            if read == 0 || line.trim().is_empty() {
                return lines;
            }
            lines.push(line.trim_end().to_owned());
        }
    }

    /// The next event: its id and its document.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let block = self.block();
            if block.is_empty() {
                return None;
            }
            let field =
                |name: &str| block.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            if let (Some(id), Some(data)) = (field("id"), field("data")) {
                return Some((id.to_owned(), serde_json::from_str(data).expect("a document")));
            }
        }
    }

    /// All that come until the end, or so many.
    fn take(&mut self, most: usize) -> Vec<(String, Value)> {
        std::iter::from_fn(|| self.next()).take(most).collect()
    }
}

fn work(scene: &Scene, server: &Server, times: usize) {
    for _ in 0..times {
        let task = scene.perdura(&["activity", "poll", "jobs", "--data", "data", "--json"]);
        let task: Value =
            serde_json::from_str(&task.stdout).unwrap_or_else(|_| panic!("{task:?} {}", server.ready));
        scene.one(&["activity", "succeed", task["token"].as_str().expect("a token"), "--output", "1"]);
    }
}

#[test]
fn events_are_pushed_once_each_and_a_client_goes_on_where_it_was_cut_off() {
    let scene = Scene::new("pushed-events").file("m.json", MACHINE);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    scene.one(&["start", "m", "--name", "a"]);
    let mut whole = Client::of(&server, "/v1/executions/m/a/events", None);
    let mut cut = Client::of(&server, "/v1/executions/m/a/events", None);
    assert_eq!((whole.status, cut.status), (200, 200));
    let first = cut.take(2);
    drop(cut);
    work(&scene, &server, 1);
    let mut again = Client::of(&server, "/v1/executions/m/a/events", Some(&first[1].0));
    work(&scene, &server, 1);
    let (told, rest) = (whole.take(usize::MAX), again.take(usize::MAX));
    let documents =
        |events: &[(String, Value)]| events.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>();
    assert_eq!(documents(&told), scene.json(&["history", "a"]));
    assert_eq!([documents(&first), documents(&rest)].concat(), documents(&told));
    let last = &told.last().expect("there are events").0;
    assert_eq!(Client::of(&server, "/v1/executions/m/a/events", Some(last)).status, 204, "there is no more");
    for none_of_it in ["x", "500-1", "1-500", "500-0", "9223372036854775807-1"] {
        let told = Client::of(&server, "/v1/executions/m/a/events", Some(none_of_it)).status;
        assert_eq!(told, 400, "{none_of_it}");
    }
    assert_eq!(Client::of(&server, "/v1/executions/m/none/events", None).status, 404);
}

#[test]
fn a_list_that_is_to_be_read_again_is_told_of() {
    let scene = Scene::new("pushed-list").file("m.json", MACHINE);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    let mut all = Client::of(&server, "/v1/executions:events", None);
    assert_eq!(all.block()[0], "event: open");
    scene.one(&["start", "m", "--name", "a"]);
    assert_eq!(all.block()[0], "event: moved");
}

#[test]
fn whoever_watches_is_told_what_happens_to_its_end() {
    let scene = Scene::new("pushed-watch").file("m.json", MACHINE);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    scene.one(&["start", "m", "--name", "a"]);
    let watches = scene.start(&["watch", "a", "--json", "--data", "data"]);
    let mut all = scene.start(&["watch", "--json", "--data", "data"]);
    work(&scene, &server, 2);
    let watched = watches.wait_with_output().expect("it ends");
    let told: Vec<Value> = String::from_utf8(watched.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document"))
        .collect();
    assert_eq!(told, scene.json(&["history", "a"]));
    let mut lines = BufReader::new(all.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.expect("it can be read").contains("SUCCEEDED")));
    common::server::kill(all.id(), "-TERM");
    all.wait().expect("it ends");
}
