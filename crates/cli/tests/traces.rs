//! Traces reach a collector, joined with the calls by their keys, and logs of executions their files.

mod common;

use common::Scene;
use common::server::{Server, machine_arn, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// A collector that answers its first requests with these, and 200 from then on; what it was sent: head and body.
fn collector(answers: Vec<&'static str>) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("it has an address"));
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming().flatten() {
            let Some(request) = take(&stream) else { continue };
            let answer = answers.next().unwrap_or("200 OK");
            let head = format!("HTTP/1.1 {answer}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
            if (&stream).write_all(head.as_bytes()).is_err() || sender.send(request).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn take(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" || line.is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).ok()?))
}

fn spans(body: &Value) -> Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default()
}

#[test]
fn an_ended_execution_is_told_to_the_collector_under_the_ids_of_its_keys() {
    let (endpoint, requests) = collector(vec!["503 Service Unavailable\r\nRetry-After: 0"]);
    let file = format!(
        "[functions.f]\ncommand = ['sh', 'f.sh']\n[telemetry]\nendpoint = '{endpoint}'\nheaders = 'x-key=hunter2'\nservice_name = 'shop'\n"
    );
    let scene = Scene::new("traces").function("echo 1", "").file("perdura.toml", &file);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let id = scene.one(&["start", "m"])["id"].as_str().expect("an id").to_owned();
    let first = requests.recv_timeout(PATIENCE).expect("a first try");
    let (head, body) =
        requests.recv_timeout(PATIENCE).expect("a second one, after the collector was not ready");
    assert_eq!(first.1, body);
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("x-key: hunter2"), "{head}");
    assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "shop");
    let spans = spans(&body);
    let (root, step) = (&spans[0], &spans[1]);
    assert_eq!((spans.len(), &root["name"], &step["name"]), (2, &"m".into(), &"Call".into()));
    assert_eq!(root["traceId"], id.replace('-', ""));
    assert_eq!((&step["traceId"], &step["parentSpanId"]), (&root["traceId"], &root["spanId"]));
    let wire = scene.one(&["trace", &id])["steps"][0]["wireKey"].as_str().expect("a key").replace('-', "");
    assert_eq!(step["spanId"], wire[..16]);
    assert_eq!(server.end("-TERM"), Some(0));
    let log = std::fs::read_to_string(scene.path("serve.log")).expect("there is a log");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn what_waits_at_the_end_is_told_before_the_server_closes() {
    let (endpoint, requests) = collector(Vec::new());
    let file = format!("[telemetry]\nendpoint = '{endpoint}'\n");
    let scene = Scene::new("traces-end").file("pass.json", PASS).file("perdura.toml", &file);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pass.json"]);
    for _ in 0..20 {
        scene.one(&["start", "pass"]);
    }
    assert_eq!(server.end("-TERM"), Some(0));
    // What was on its way when the signal came may be told twice, under the same ids.
    let all = requests.try_iter().flat_map(|(_, body)| spans(&body));
    let told: BTreeSet<String> = all.map(|span| format!("{} {}", span["traceId"], span["spanId"])).collect();
    assert_eq!(told.len(), 40);
}

#[test]
fn a_collector_that_refuses_is_not_asked_again_and_what_is_dropped_is_counted() {
    let (endpoint, requests) = collector(vec!["400 Bad Request"]);
    let scene = Scene::new("traces-refused").file("pass.json", PASS);
    let mut command = scene.command(&["serve", "--listen", "127.0.0.1:0", "--data", "data", "--json"]);
    let mut child = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).spawn().expect("perdura runs");
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout is a pipe"))
        .read_line(&mut ready)
        .expect("it is ready");
    let ready: Value = serde_json::from_str(&ready).expect("it is JSON");
    let address =
        ready["address"].as_str().and_then(|at| at.strip_prefix("http://")).expect("an address").to_owned();
    scene.one(&["deploy", "pass.json"]);
    scene.one(&["start", "pass"]);
    requests.recv_timeout(PATIENCE).expect("it is told");
    scene.one(&["start", "pass"]);
    requests.recv_timeout(PATIENCE).expect("the next is told all the same");
    let numbers = |name: &str| {
        let mut stream = TcpStream::connect(&address).expect("the server listens");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("it can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer comes");
        let line = answer.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.unwrap_or_default()
    };
    let began = Instant::now();
    while numbers("perdura_spans_sent_total") != "perdura_spans_sent_total 2" {
        assert!(began.elapsed() < PATIENCE, "{}", numbers("perdura_spans_sent_total"));
        thread::yield_now();
    }
    assert_eq!(numbers("perdura_traces_dropped_total"), "perdura_traces_dropped_total 1");
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
}

#[test]
fn what_a_machine_wants_logged_is_in_its_file_where_cloudwatch_logs_has_no_address() {
    let scene =
        Scene::new("execution-logs").file("perdura.toml", "[serve]\nexecution_logs = 'execution-logs'\n");
    let server = Server::start(&scene, &[]);
    let group = "arn:aws:logs:us-east-1:123456789012:log-group:g:*";
    let made = |name: &str, level: &str| {
        server.api(
            "CreateStateMachine",
            &json!({"name": name, "definition": PASS, "roleArn": "arn:aws:iam::123456789012:role/any",
                "loggingConfiguration": {"level": level, "includeExecutionData": false,
                    "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": group}}]}}),
        )
    };
    made("all", "ALL");
    made("bad-ends", "FATAL");
    for machine in ["all", "bad-ends"] {
        let input =
            json!({"stateMachineArn": machine_arn(machine), "name": "n", "input": r#"{"secret": 1}"#});
        server.api("StartExecution", &input);
    }
    let logged = || scene.lines("execution-logs/all.jsonl");
    wait_until("its end is logged", || logged().iter().any(|line| line.contains("ExecutionSucceeded")));
    let records: Vec<Value> =
        logged().iter().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let types: Vec<&str> = records.iter().filter_map(|record| record["type"].as_str()).collect();
    assert_eq!(types, ["ExecutionStarted", "PassStateEntered", "PassStateExited", "ExecutionSucceeded"]);
    assert_eq!(records[1]["previous_event_id"], "0");
    assert!(!logged().concat().contains("secret"), "data is not included");
    server.end("-TERM");
    assert_eq!(scene.lines("execution-logs/bad-ends.jsonl"), Vec::<String>::new(), "it ended well");
}
