//! Commands that ask a server through the Step Functions API: the real binary on both sides, and a server that misbehaves.

mod common;

use common::server::Server;
use common::{Ended, Scene};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

const PASS: &str =
    r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "Result": {"done": true}, "End": true}}}"#;
const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;
/// It fails the first time, and succeeds the second.
const SECOND_TIME: &str = r#"
if [ -e "seen" ]; then echo '{"paid": true}'; else touch seen; echo '{"errorType": "Declined"}'; exit 1; fi"#;

/// A command with this environment, on nothing but an endpoint.
fn asked(scene: &Scene, url: &str, keys: Option<(&str, &str)>, arguments: &[&str]) -> Ended {
    let mut command = scene.command(arguments);
    for variable in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"] {
        command.env_remove(variable);
    }
    command.env("PERDURA_ENDPOINT", url);
    if let Some((id, secret)) = keys {
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
    }
    command.output().expect("perdura runs").into()
}

/// A server with what its API is asked.
struct Far<'a> {
    scene: &'a Scene,
    url: String,
}

impl Far<'_> {
    fn ask(&self, arguments: &[&str]) -> Ended {
        asked(self.scene, &self.url, None, arguments)
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let ended = self.ask(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        let lines = ended.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    #[track_caller]
    fn one(&self, arguments: &[&str]) -> Value {
        let mut all = self.json(arguments);
        assert_eq!(all.len(), 1, "{arguments:?}: {all:?}");
        all.remove(0)
    }
}

fn far<'a>(scene: &'a Scene, server: &Server) -> Far<'a> {
    Far { scene, url: format!("http://{}", server.address) }
}

#[test]
fn an_execution_is_the_same_whoever_is_asked() {
    let scene = Scene::new("endpoint-same").file("pass.json", PASS);
    let server = Server::start(&scene, &[]);
    let far = far(&scene, &server);
    let deployed = far.one(&["deploy", "pass.json"]);
    let machine = "arn:aws:states:us-east-1:123456789012:stateMachine:pass";
    assert_eq!((&deployed["machine"], &deployed["arn"]), (&"pass".into(), &machine.into()));
    assert_eq!(far.one(&["deploy", "pass.json"])["createdAt"], deployed["createdAt"]);
    let started = far.one(&["start", "pass", "--name", "a", "--input", r#"{"x": 1}"#]);
    let arn = "arn:aws:states:us-east-1:123456789012:execution:pass:a";
    assert_eq!((&started["id"], &started["performs"]), (&arn.into(), &true.into()));
    let watched = far.ask(&["watch", "a"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let lines: Vec<&str> = watched.stdout.lines().collect();
    assert!(lines[0].ends_with("P  entered") && lines.last() == Some(&r#"{"done":true}"#), "{lines:?}");
    let near = scene.until_status("a", "SUCCEEDED");
    for which in ["a", "pass/a", arn] {
        let shown = far.one(&["show", which]);
        assert_eq!((&shown["id"], &shown["arn"]), (&arn.into(), &arn.into()), "{which}");
        for member in ["name", "machine", "status", "startedAt", "endedAt", "input", "output", "redrives"] {
            assert_eq!(shown[member], near[member], "{which} {member}");
        }
        assert_eq!(far.json(&["history", which]), scene.json(&["history", "a"]), "{which}");
    }
    assert_eq!(far.json(&["watch", "a"]), scene.json(&["watch", "a"]));
    let listed = far.one(&["ps", "--machine", machine]);
    assert_eq!((&listed[0]["id"], &listed[0]["name"]), (&arn.into(), &"a".into()));
    let people = far.ask(&["show", "a"]);
    assert!(people.stdout.contains(arn) && !people.stdout.contains("turns"), "{}", people.stdout);
}

#[test]
fn executions_of_several_machines_are_listed_stopped_and_redriven() {
    let scene = Scene::new("endpoint-several").function(SECOND_TIME, "").file("wait.json", WAITS);
    let server = Server::start(&scene, &[]);
    let far = far(&scene, &server);
    far.one(&["deploy", "wait.json"]);
    far.one(&["deploy", "m.asl.json", "--name", "pay", "--role", "arn:aws:iam::123456789012:role/pay"]);
    far.one(&["start", "wait", "--name", "a"]);
    far.one(&["start", "wait", "--name", "b"]);
    far.one(&["start", "pay", "--name", "b"]);
    assert_eq!(far.ask(&["watch", "pay/b"]).code, Some(1));
    scene.until(&["ps"], |rows| rows.len() == 3);
    let names = |rows: &Value| -> Vec<String> {
        let row = |row: &Value| format!("{}/{}", row["machine"], row["name"]).replace('"', "");
        rows.as_array().expect("a list").iter().map(row).collect()
    };
    assert_eq!(names(&far.one(&["ps"])), ["pay/b", "wait/b", "wait/a"]);
    assert_eq!(names(&far.one(&["ps", "--limit", "2"])), ["pay/b", "wait/b"]);
    assert_eq!(names(&far.one(&["ps", "--status", "running"])), ["wait/b", "wait/a"]);
    far.ask(&["show", "b"]).fails(1, &["several executions are called \"b\"", "wait/b"]);
    let stopped = far.one(&["stop", "wait/b", "--error", "Enough", "--cause", "seen"]);
    assert_eq!(stopped["status"], "ABORTED");
    let shown = far.one(&["show", "wait/b"]);
    assert_eq!((&shown["error"], &shown["cause"]), (&"Enough".into(), &"seen".into()));
    assert_eq!(far.ask(&["stop", "wait/b"]).code, Some(1));
    far.ask(&["redrive", "a"]).fails(1, &["ExecutionNotRedrivable"]);
    assert_eq!(far.one(&["redrive", "pay/b"])["status"], "RUNNING");
    let watched = far.ask(&["watch", "pay/b"]);
    assert_eq!(
        (watched.code, watched.stdout.lines().last()),
        (Some(0), Some(r#"{"paid":true}"#)),
        "{watched:?}"
    );
}

#[test]
fn a_refusal_has_the_servers_words_and_a_hint() {
    let scene = Scene::new("endpoint-refusals").file("pass.json", PASS).file("wait.json", WAITS);
    let server = Server::start(&scene, &[]);
    let far = far(&scene, &server);
    far.ask(&["show", "a"]).fails(1, &["there is no execution \"a\"", "hint: "]);
    far.ask(&["start", "pass"]).fails(1, &["there is no machine \"pass\"", "perdura deploy"]);
    far.one(&["deploy", "wait.json"]);
    far.ask(&["show", "wait/a"]).fails(1, &["ExecutionDoesNotExist: ", "hint: "]);
    far.one(&["start", "wait", "--name", "a"]);
    far.one(&["start", "wait", "--name", "a"]);
    let other = ["start", "wait", "--name", "a", "--input", "5"];
    far.ask(&other).fails(1, &["ExecutionAlreadyExists: ", "choose another name"]);
    far.ask(&["deploy", "wait.json", "--type", "express"]).fails(1, &["of type STANDARD", "--type standard"]);
}

const TEMPLATE: &str = r#"{"Resources": {
    "Worker": {"Type": "AWS::StepFunctions::Activity", "Properties": {"Name": "worker"}},
    "Role": {"Type": "AWS::IAM::Role"},
    "Order": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
        "StateMachineName": "order", "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
        "Definition": {"StartAt": "P", "States": {"P": {"Type": "Pass", "Result": {"Ref": "Worker"}, "End": true}}}}},
    "Far": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
        "RoleArn": {"Fn::ImportValue": "role"}, "DefinitionString":
        "{\"StartAt\": \"S\", \"States\": {\"S\": {\"Type\": \"Succeed\"}}}"}}}}"#;

#[test]
fn a_template_is_deployed_elsewhere_with_its_roles_in_the_account_that_is_there() {
    let scene = Scene::new("endpoint-template").file("t.json", TEMPLATE).file("pass.json", PASS);
    let server = Server::start(&scene, &["--account", "111122223333", "--region", "eu-west-1"]);
    let far = far(&scene, &server);
    let unknown = far.ask(&["deploy", "t.json"]);
    unknown.fails(2, &["nothing there tells the account", "Resources/Far/Properties/RoleArn", "--role"]);
    far.one(&["deploy", "pass.json"]);
    let role = "role=arn:aws:iam::111122223333:role/far";
    let told = far.json(&["deploy", "t.json", "--parameter", role]);
    let names: Vec<&Value> = told.iter().flat_map(|one| [&one["activity"], &one["machine"]]).collect();
    assert_eq!(
        names,
        [&"worker".into(), &Value::Null, &Value::Null, &"order".into(), &Value::Null, &"Far".into()]
    );
    assert_eq!(told[1]["arn"], "arn:aws:states:eu-west-1:111122223333:stateMachine:order");
    far.one(&["start", "order", "--name", "a"]);
    let watched = far.ask(&["watch", "order/a"]);
    let worker = r#""arn:aws:states:eu-west-1:111122223333:activity:worker""#;
    assert_eq!((watched.code, watched.stdout.lines().last()), (Some(0), Some(worker)), "{watched:?}");
}

#[test]
fn starts_through_the_api_are_measured() {
    let scene = Scene::new("endpoint-bench");
    let ended = scene.perdura(&[
        "bench",
        "starts",
        "--via",
        "aws",
        "-c",
        "4",
        "--seconds",
        "0.5",
        "--data",
        "b",
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!((&told["workload"], &told["via"]), (&"starts".into(), &"aws".into()));
    for member in ["per_s", "p50_ms", "p99_ms", "cpu_us_per_start", "describe_p99_ms"] {
        assert!(told[member].as_f64().is_some_and(|figure| figure > 0.0), "{member}: {told}");
    }
    scene
        .perdura(&["bench", "map", "--via", "aws", "--data", "b"])
        .fails(2, &["unexpected argument '--via'"]);
}

#[test]
fn keys_are_signed_with_where_the_server_has_some() {
    let scene = Scene::new("endpoint-keys")
        .file("pass.json", PASS)
        .file("keys", "AKIDEXAMPLE hidden-secret-of-the-test\n");
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    let url = format!("http://{}", server.address);
    let ask = |keys, arguments: &[&str]| asked(&scene, &url, keys, arguments);
    let good = Some(("AKIDEXAMPLE", "hidden-secret-of-the-test"));
    assert_eq!(ask(good, &["deploy", "pass.json"]).code, Some(0));
    assert_eq!(ask(good, &["ps", "--json"]).stdout, "[]\n");
    ask(None, &["ps"]).fails(1, &["AWS_ACCESS_KEY_ID"]);
    let wrong = ask(Some(("AKIDEXAMPLE", "wrong")), &["ps"]);
    wrong.fails(1, &["hint: "]);
    assert!(!wrong.stderr.contains("hidden"), "{wrong:?}");
    ask(good, &["ps", "--region", "eu-west-1"]).fails(1, &["--region"]);
}

#[test]
fn a_data_directory_on_the_command_line_counts_before_the_environment() {
    let scene = Scene::new("endpoint-data").file("wait.json", WAITS);
    let nobody = "http://127.0.0.1:1";
    assert_eq!(asked(&scene, nobody, None, &["deploy", "wait.json", "--data", "data"]).code, Some(0));
    assert_eq!(asked(&scene, nobody, None, &["ps", "--data", "data", "--json"]).stdout, "[]\n");
    asked(&scene, nobody, None, &["ps"]).fails(2, &["no connection to 127.0.0.1"]);
    asked(&scene, "here", None, &["ps"]).fails(2, &["PERDURA_ENDPOINT is \"here\""]);
    asked(&scene, nobody, None, &["ps", "--data", "data", "--endpoint", nobody])
        .fails(2, &["cannot be used with"]);
}

/// A server that gives these answers, each to one request, and then what it was asked.
fn script(answers: Vec<(u16, &'static str)>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let serving = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for (status, body) in answers {
            let (stream, _) = listener.accept().expect("a client comes");
            asked.push(answer(stream, status, body));
        }
        asked
    });
    (url, serving)
}

/// Takes one request, answers it and hangs up.
fn answer(stream: TcpStream, status: u16, body: &str) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let from = head.len();
        reader.read_line(&mut head).expect("a line of the head");
        let line = head[from..].to_lowercase();
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut asked = vec![0; length];
    reader.read_exact(&mut asked).expect("the body");
    let text =
        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    reader.get_mut().write_all(text.as_bytes()).expect("an answer can be sent");
    head.to_lowercase() + &String::from_utf8_lossy(&asked)
}

#[test]
fn a_busy_server_is_asked_again_with_the_same_request() {
    let scene = Scene::new("endpoint-busy");
    let started =
        r#"{"executionArn": "arn:aws:states:eu-west-1:1:execution:m:x", "startDate": 1700000000.5}"#;
    let busy = r#"{"__type": "ThrottlingException", "message": "Rate exceeded"}"#;
    let (url, serving) = script(vec![(400, busy), (503, "<html>"), (200, started)]);
    let arguments = ["start", "arn:aws:states:eu-west-1:1:stateMachine:m", "--region", "eu-west-1", "--json"];
    let ended = asked(&scene, &url, Some(("AKIDEXAMPLE", "hidden")), &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(told["startedAt"], "2023-11-14T22:13:20.500Z");
    let requests = serving.join().expect("the server ends");
    let body = |request: &String| request.split("\r\n\r\n").nth(1).map(str::to_owned);
    assert!(requests.windows(2).all(|two| body(&two[0]) == body(&two[1])), "{requests:?}");
    for part in [
        "post / http/1.1",
        "x-amz-target: awsstepfunctions.startexecution",
        "content-type: application/x-amz-json-1.0",
        "authorization: aws4-hmac-sha256 credential=akidexample/",
        "/eu-west-1/states/aws4_request, signedheaders=content-type;host;x-amz-date;x-amz-target, signature=",
    ] {
        assert!(requests[0].contains(part), "{part:?} is not in {}", requests[0]);
    }
    assert!(!requests[0].contains("hidden"), "{}", requests[0]);
}

#[test]
fn what_is_no_step_functions_is_told_so() {
    let scene = Scene::new("endpoint-strange");
    for (status, body, expected) in [
        (404, "<html>", "it gives the status 404 Not Found; is the URL"),
        (200, "welcome", "what it says is no JSON"),
        (200, r#"{"items": []}"#, "stateMachines is missing"),
    ] {
        let (url, serving) = script(vec![(status, body)]);
        asked(&scene, &url, None, &["ps"]).fails(2, &[expected]);
        serving.join().expect("the server ends");
    }
    let (url, serving) = script(vec![(400, r#"{"__type": "UnknownOperationException"}"#)]);
    asked(&scene, &url, None, &["ps"]).fails(1, &["error: UnknownOperationException", "hint: this server"]);
    serving.join().expect("the server ends");
}
