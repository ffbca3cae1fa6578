//! Secrets stay where they belong: a command finds none of perdura's own, a connection goes only to its hosts, and no
//! part of it comes back in an answer.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver, Seen};
use common::server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Runs the machine on the server, and what it came to.
fn ran(scene: &Scene, status: &str) -> serde_json::Value {
    scene.one(&["deploy", "m.asl.json"]);
    let execution = scene.one(&["start", "m", "--input", "{}"])["id"].as_str().expect("an id").to_owned();
    scene.until_status(&execution, status)
}

#[test]
fn a_command_finds_nothing_of_perduras_own_in_its_environment() {
    let settings = "env_pass = ['DATABASE_URL']\nenv = {STAGE = 'live'}\n[commands]\nenv_pass = ['REGION']\n";
    let scene = Scene::new("secrets-command").function("env | sort > env.txt; echo 1", settings);
    let set = [
        "env",
        &format!("PERDURA_CONNECTION_KEY={KEY}"),
        "PERDURA_ACCESS_KEYS=AKIDEXAMPLE:marker-access",
        "PERDURA_ACCOUNT=210987654321",
        "AWS_ACCESS_KEY_ID=marker-id",
        "AWS_SECRET_ACCESS_KEY=marker-secret",
        "AWS_SESSION_TOKEN=marker-token",
        "SOMETHING_ELSE=marker-else",
        "DATABASE_URL=db",
        "REGION=eu",
        "LC_ALL=C",
    ];
    let _server = Server::start_by(&scene, &set, &[]);
    ran(&scene, "SUCCEEDED");
    let found = scene.lines("env.txt");
    let names: Vec<&str> = found.iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    for name in ["PATH", "LC_ALL", "PERDURA_IDEMPOTENCY_KEY"] {
        assert!(names.contains(&name), "{name} is missing: {found:?}");
    }
    for line in ["DATABASE_URL=db", "REGION=eu", "STAGE=live"] {
        assert!(found.iter().any(|found| found == line), "{line} is missing: {found:?}");
    }
    let ours = |name: &&&str| name.starts_with("AWS_") || name.starts_with("PERDURA_");
    assert_eq!(names.iter().filter(ours).collect::<Vec<_>>(), [&"PERDURA_IDEMPOTENCY_KEY"]);
    assert!(!found.iter().any(|line| line.contains("marker") || line.contains(KEY)), "{found:?}");
}

fn http_task(url: &str) -> String {
    format!(
        r#"{{"Type": "Task", "Resource": "arn:aws:states:::http:invoke", "End": true, "Parameters": {{
            "ApiEndpoint": "{url}", "Method": "POST", "RequestBody": {{"amount": 1}},
            "InvocationConfig": {{"ConnectionArn": "bank"}}}}}}"#
    )
}

fn with_connection(name: &str, url: &str, hosts: &str) -> Scene {
    let connection = format!(
        r#"{{"hosts": ["{hosts}"], "api_key": {{"header": "x-key", "value": "marker-key"}},
            "headers": {{"x-tenant": "marker-tenant"}}, "query": {{"q": "marker query/1", "pin": "4711"}},
            "body": {{"b": "marker-body", "code": "0815"}}}}"#
    );
    Scene::new(name)
        .file("key", KEY)
        .file("bank.json", &connection)
        .file("perdura.toml", "[connections]\nkey_file = 'key'\n")
        .file("m.asl.json", &format!(r#"{{"StartAt": "Call", "States": {{"Call": {}}}}}"#, http_task(url)))
}

/// Repeats all that it was sent.
fn echo(status: u16) -> impl Fn(usize, &Seen) -> Act {
    move |_, seen| {
        let said = serde_json::json!({
            "line": seen.line, "key": seen.header("x-key"), "tenant": seen.header("x-tenant"), "body": seen.body,
        });
        Act::Answer(status, said.to_string())
    }
}

#[test]
fn no_part_of_a_connection_is_in_a_history_or_a_log() {
    for (status, ends) in [(200, "SUCCEEDED"), (400, "FAILED")] {
        let receiver = Receiver::start(echo(status));
        let scene = with_connection(&format!("secrets-echo-{status}"), &receiver.url("/pay"), "127.0.0.1");
        let server = Server::start(&scene, &["--log", "trace"]);
        scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
        let shown = ran(&scene, ends);
        let seen = receiver.until_seen(1).remove(0);
        assert_eq!((seen.header("x-key"), seen.header("x-tenant")), ("marker-key", "marker-tenant"));
        assert!(seen.line.contains("marker%20query%2F1") && seen.body.contains("marker-body"), "{seen:?}");
        let history = scene.on_data(&["history", shown["id"].as_str().expect("an id"), "--json"]).stdout;
        assert!(history.contains('…') && !history.contains("marker"), "{history}");
        assert!(!shown.to_string().contains("marker"), "{shown}");
        // A PIN and a code are as secret as what is long.
        assert!(seen.line.contains("pin=4711") && seen.body.contains("\"0815\""), "{seen:?}");
        let said = if status == 200 { &shown["output"] } else { &shown["cause"] };
        let said = said.as_str().expect("a text");
        assert!(said.contains("pin=…") && !said.contains("4711") && !said.contains("0815"), "{said}");
        assert!(!history.contains("pin=4711") && !history.contains("\"0815"), "{history}");
        assert_eq!(server.end("-TERM"), Some(0));
        let log = std::fs::read_to_string(scene.path("serve.log")).expect("there is a log");
        assert!(!log.contains("marker"), "{log}");
    }
}

#[test]
fn a_secret_that_is_spelled_otherwise_is_in_no_history() {
    // Each is `marker"é&/` as somebody spells it: in JSON, in JSON within JSON, in HTML.
    let spelled = r#"marker\u0022\u00e9&\/ marker\"\u00E9\u0026/ marker\\\"\\u00e9&\\/ marker&quot;&#233;&amp;/ marker&#34;&#xE9;&#38;/"#;
    for (number, body) in [spelled.to_owned(), format!(r#"{{"said": "{spelled}"}}"#)].into_iter().enumerate()
    {
        let receiver = Receiver::start(move |_, _| Act::Answer(200, body.clone()));
        let connection = r#"{"hosts": ["127.0.0.1"], "api_key": {"header": "x-key", "value": "marker-key"},
            "body": {"mode": "marker\"é&/"}}"#;
        let name = format!("secrets-spelled-{number}");
        let scene = with_connection(&name, &receiver.url("/pay"), "127.0.0.1").file("bank.json", connection);
        let _server = Server::start(&scene, &[]);
        scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
        let shown = ran(&scene, "SUCCEEDED").to_string();
        assert_eq!((shown.matches('…').count(), shown.contains("marker")), (5, false), "{shown}");
    }
}

#[test]
fn a_short_secret_is_masked_as_a_word_and_as_a_number_and_the_answer_stays_json() {
    let said = r#"{"pin": 4711, "all": [4711, 47110, "0815", 815, "4711-a", "x4711", "id_0815"], "4711": null,
        "text": "PIN 4711, code:\n0815 \u0034711 %204711%20"}"#;
    let receiver = Receiver::start(move |_, _| Act::Answer(200, said.to_owned()));
    let scene = with_connection("secrets-short", &receiver.url("/pay"), "127.0.0.1");
    let _server = Server::start(&scene, &[]);
    scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
    let shown = ran(&scene, "SUCCEEDED");
    let output: serde_json::Value =
        serde_json::from_str(shown["output"].as_str().expect("a text")).expect("it is JSON");
    let expected = serde_json::json!({
        "pin": "…", "all": ["…", 47110, "…", 815, "…-a", "x4711", "id_0815"], "…": null,
        "text": "PIN …, code:\n… … %20…%20",
    });
    assert_eq!(output["ResponseBody"], expected);
}

#[test]
fn whoever_tries_a_state_out_sees_no_part_of_its_connection() {
    let receiver = Receiver::start(echo(200));
    let scene = with_connection("secrets-tried", &receiver.url("/pay"), "127.0.0.1");
    let server = Server::start(&scene, &[]);
    scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
    let asked = serde_json::json!({
        "definition": http_task(&receiver.url("/pay")), "input": "{}", "inspectionLevel": "TRACE",
        "roleArn": "arn:aws:iam::123456789012:role/r",
    });
    let body = asked.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: AWSStepFunctions.TestState\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream.write_all((head + &body).as_bytes()).expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("SUCCEEDED"), "{answer}");
    assert!(answer.contains("inspectionData") && answer.contains("amount"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("there is a body");
    let tried: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
    let request = tried["inspectionData"]["request"].to_string();
    let hidden = ["marker", "4711", "0815", "x-key", "x-tenant"];
    assert!(hidden.iter().all(|part| !request.contains(part)), "{request}");
    assert!(request.contains("q=~hidden~") && request.contains("amount"), "{request}");
    assert!(!answer.contains("marker") && !answer.contains("pin=4711"), "{answer}");
    let output = tried["output"].as_str().expect("an output");
    assert!(!output.contains("4711") && !output.contains("0815"), "{output}");
}

#[test]
fn a_connection_is_sent_to_no_other_host_than_its_own() {
    let receiver = Receiver::start(echo(200));
    let scene = with_connection("secrets-bound", &receiver.url("/pay"), "api.bank.example");
    let _server = Server::start(&scene, &[]);
    scene.one(&["connection", "put", "bank", "--file", "bank.json"]);
    let shown = ran(&scene, "FAILED");
    assert_eq!(shown["error"], "Events.ConnectionResource.AccessDenied", "{shown}");
    let cause = shown["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("connection `bank` is not sent to 127.0.0.1"), "{cause}");
    assert!(cause.contains("its hosts are api.bank.example"), "{cause}");
    assert!(receiver.seen().is_empty());
}
