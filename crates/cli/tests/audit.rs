//! Who did what, told by the real binary: through every door, after a kill, and when somebody has changed it.

mod common;

use common::Scene;
use common::server::{Server, call, kill, machine_arn, wait_until};
use perdura_sigv4::{Credentials, Scope, Secret, Signable, sign};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::thread;

const PASS: &str = r#"{"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}"#;
const WAIT: &str = r#"{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":3600,"End":true}}}"#;
const SECRET: &str = "hunter2-is-no-secret";
const ORDER_1: &str = "00000000-0000-4000-8000-000000000001";
const ORDER_2: &str = "00000000-0000-4000-8000-000000000002";
const ORDER_3: &str = "00000000-0000-4000-8000-000000000003";
const STOP_1: &str = "00000000-0000-4000-8000-000000000004";
const STOP_2: &str = "00000000-0000-4000-8000-000000000005";
const REDRIVE_1: &str = "00000000-0000-4000-8000-000000000006";
const ANY: &str = "00000000-0000-4000-8000-000000000099";

/// Asks `/v1` with this token; the status and the body.
fn v1(server: &Server, token: &str, method: &str, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Idempotency-Key: \"{key}\"\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let told = server.told(request.as_bytes());
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Calls an action that is signed with this key.
fn signed(server: &Server, id: &str, action: &str, body: &Value) -> Value {
    let (target, body) = (format!("AWSStepFunctions.{action}"), body.to_string());
    let headers =
        [("host", "localhost"), ("content-type", "application/x-amz-json-1.0"), ("x-amz-target", &*target)];
    let request = Signable { method: "POST", path: "/", query: "", headers: &headers, body: body.as_bytes() };
    let secret_access_key = Secret::new("secret");
    let credentials = Credentials { access_key_id: id.into(), secret_access_key, session_token: None };
    let now = std::time::UNIX_EPOCH.elapsed().expect("it is after 1970").as_secs();
    let added = sign(&request, &credentials, Scope { region: "us-east-1", service: "states" }, now);
    let added: Vec<(&str, &str)> = added.iter().map(|(name, value)| (*name, &**value)).collect();
    let told = server.told(&call(action, &[&[("Host", "localhost")], &added[..]].concat(), body.as_bytes()));
    let (_, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    serde_json::from_str(body).expect("an answer is JSON")
}

fn token(scene: &Scene, name: &str, more: &[&str]) -> String {
    let made = scene.one(&[&["token", "create", name, "--role"], more].concat());
    made["token"].as_str().expect("a text").to_owned()
}

fn entries(scene: &Scene, more: &[&str]) -> Vec<Value> {
    scene.json(&[&["audit"], more].concat())
}

/// Member by member, as far as they are said.
#[track_caller]
fn has(entries: &[Value], said: &Value) {
    let said = said.as_object().expect("members");
    let is = |entry: &&Value| said.iter().all(|(name, value)| entry.get(name) == Some(value));
    let near: Vec<&Value> = entries.iter().filter(|entry| entry["operation"] == said["operation"]).collect();
    assert!(entries.iter().any(|entry| is(&entry)), "{said:?} is not among {near:#?}");
}

#[test]
fn every_door_tells_who_changed_what_and_who_was_told_what() {
    let keys = "AKIDADMIN secret admin\nAKIDREAD secret read\n";
    let scene =
        Scene::new("audit-doors").file("keys", keys).file("pass.asl.json", PASS).file("wait.asl.json", WAIT);
    // Without a server.
    scene.one(&["deploy", "wait.asl.json", "--name", "wait"]);
    let alone = scene.one(&["start", "wait", "--name", "alone"]);
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    // On the socket.
    scene.one(&["deploy", "pass.asl.json", "--name", "pass"]);
    let (ann, bob) =
        (token(&scene, "ann", &["admin"]), token(&scene, "bob", &["read", "--machines", "pay-"]));
    // On /v1.
    let started = json!({"machine": "wait", "name": "a", "input": {"card": SECRET}});
    let (status, made) = v1(&server, &ann, "POST", "/v1/executions", ORDER_1, &started);
    assert_eq!(status, 201, "{made}");
    let id = made["id"].clone();
    v1(&server, &ann, "POST", "/v1/executions", ORDER_1, &started);
    v1(&server, &ann, "POST", "/v1/executions", ORDER_2, &started);
    v1(&server, &ann, "GET", "/v1/executions/wait/a", ANY, &Value::Null);
    v1(&server, &ann, "GET", "/v1/executions/wait/a/history", ANY, &Value::Null);
    v1(&server, &ann, "POST", "/v1/executions/wait/a/stop", STOP_1, &json!({"error": "E"}));
    v1(&server, &ann, "POST", "/v1/executions/wait/a/stop", STOP_2, &json!({}));
    v1(&server, &ann, "POST", "/v1/executions/wait/a/redrive", REDRIVE_1, &json!({}));
    v1(&server, &ann, "PUT", "/v1/connections/bank", ANY, &json!({"sealed": "AAAA"}));
    v1(&server, &ann, "DELETE", "/v1/connections/bank", ANY, &Value::Null);
    assert_eq!(v1(&server, &bob, "POST", "/v1/executions", ORDER_3, &started).0, 403);
    assert_eq!(v1(&server, &bob, "GET", "/v1/audit", ANY, &Value::Null).0, 403);
    let bound = token(&scene, "bound", &["admin", "--machines", "pay-"]);
    assert_eq!(v1(&server, &bound, "GET", "/v1/audit", ANY, &Value::Null).0, 403);
    // On the API of AWS.
    let of = |name: &str| json!({"executionArn": format!("arn:aws:states:us-east-1:123456789012:execution:{name}")});
    let start = json!({"stateMachineArn": machine_arn("wait"), "name": "b"});
    signed(&server, "AKIDADMIN", "StartExecution", &start);
    signed(&server, "AKIDADMIN", "StartExecution", &start);
    signed(&server, "AKIDADMIN", "DescribeExecution", &of("wait:b"));
    signed(&server, "AKIDADMIN", "GetExecutionHistory", &of("wait:b"));
    signed(&server, "AKIDADMIN", "StopExecution", &of("wait:b"));
    signed(
        &server,
        "AKIDADMIN",
        "PublishStateMachineVersion",
        &json!({"stateMachineArn": machine_arn("wait")}),
    );
    let published = json!({
        "name": "live",
        "routingConfiguration": [{"stateMachineVersionArn": format!("{}:1", machine_arn("wait")), "weight": 100}]
    });
    signed(&server, "AKIDADMIN", "CreateStateMachineAlias", &published);
    signed(&server, "AKIDADMIN", "CreateActivity", &json!({"name": "work"}));
    signed(
        &server,
        "AKIDADMIN",
        "DeleteActivity",
        &json!({"activityArn":
        "arn:aws:states:us-east-1:123456789012:activity:work"}),
    );
    signed(&server, "AKIDADMIN", "DeleteStateMachine", &json!({"stateMachineArn": machine_arn("pass")}));
    signed(&server, "AKIDREAD", "StopExecution", &of("wait:b"));

    let all = entries(&scene, &[]);
    let aws = |operation: &str, verb: &str, result: &str| {
        json!({"door": "aws", "principal": "AKIDADMIN", "role": "admin", "operation": operation, "verb": verb,
            "result": result})
    };
    let ann = |operation: &str, verb: &str, key: &str, result: &str| {
        json!({"door": "v1", "principal": "ann", "operation": operation, "verb": verb, "key": key, "result": result,
            "execution": id, "role": "admin"})
    };
    for said in [
        json!({"door": "command", "principal": "owner", "operation": "Deploy", "verb": "change", "machine": "wait"}),
        json!({"door": "command", "principal": "owner", "operation": "Start", "verb": "start", "machine": "wait",
            "execution": alone["id"], "after": "RUNNING", "result": "done"}),
        json!({"door": "socket", "principal": "owner", "operation": "putMachine", "verb": "change", "machine": "pass",
            "result": "done"}),
        json!({"door": "socket", "operation": "createToken", "verb": "put", "kind": "token"}),
        ann("startExecution", "start", ORDER_1, "done"),
        ann("startExecution", "start", ORDER_2, "unchanged"),
        ann("describeExecution", "read", ANY, "done"),
        ann("listHistory", "read", ANY, "done"),
        ann("stopExecution", "stop", STOP_1, "done"),
        ann("stopExecution", "stop", STOP_2, "unchanged"),
        ann("redriveExecution", "redrive", REDRIVE_1, "done"),
        json!({"operation": "stopExecution", "before": "RUNNING", "after": "ABORTED", "result": "done"}),
        json!({"operation": "redriveExecution", "before": "ABORTED", "after": "RUNNING", "result": "done"}),
        json!({"operation": "putConnection", "principal": "ann", "verb": "put", "kind": "connection", "name": "bank"}),
        json!({"operation": "deleteConnection", "principal": "ann", "verb": "delete", "kind": "connection"}),
        json!({"operation": "startExecution", "principal": "bob", "verb": "try", "result": "refused"}),
        json!({"operation": "listAudit", "principal": "bob", "verb": "try", "result": "refused"}),
        json!({"operation": "listAudit", "principal": "bound", "verb": "try", "result": "refused"}),
        aws("StartExecution", "start", "done"),
        aws("StartExecution", "start", "unchanged"),
        aws("DescribeExecution", "read", "done"),
        aws("GetExecutionHistory", "read", "done"),
        aws("StopExecution", "stop", "done"),
        aws("PublishStateMachineVersion", "change", "done"),
        aws("CreateStateMachineAlias", "change", "done"),
        aws("CreateActivity", "put", "done"),
        aws("DeleteActivity", "delete", "done"),
        aws("DeleteStateMachine", "change", "done"),
        json!({"door": "aws", "principal": "AKIDREAD", "operation": "StopExecution", "verb": "try", "result": "refused"}),
    ] {
        has(&all, &said);
    }
    let key = |key: &str| all.iter().filter(|entry| entry["key"] == key).count();
    assert_eq!(key(ORDER_1), 1, "the second request under a key is answered from what is remembered");
    let alias =
        all.iter().find(|entry| entry["operation"] == "CreateStateMachineAlias").expect("it is there");
    assert!(
        alias["after"].to_string().contains("live") && !alias["before"].to_string().contains("live"),
        "{alias}"
    );
    let from = all.iter().find(|entry| entry["door"] == "v1").expect("it is there");
    assert!(from["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1:")), "{from}");
    assert!(!json!(all).to_string().contains(SECRET), "no input is told");
    // Filters, and the order for people.
    assert!(entries(&scene, &["--who", "bob"]).iter().all(|entry| entry["principal"] == "bob"));
    assert_eq!(entries(&scene, &["--key", STOP_1]).len(), 1);
    let of_it = entries(&scene, &["--execution", id.as_str().expect("an id"), "--verb", "stop"]);
    assert_eq!(of_it.len(), 2, "{of_it:#?}");
    let table = scene.on_data(&["audit", "--who", "AKIDREAD"]).stdout;
    let first = table.lines().nth(1).expect("a row");
    assert!(table.lines().count() == 2 && first.contains("AKIDREAD") && first.contains("refused"), "{table}");
    let verified = scene.on_data(&["audit", "--verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn what_was_acknowledged_before_a_kill_is_on_the_audit_once() {
    let scene = Scene::new("audit-kill").file("pass.asl.json", PASS);
    let mut server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pass.asl.json", "--name", "pass"]);
    let mut acknowledged = BTreeSet::new();
    for round in 0..3_i32 {
        let told: Vec<String> = thread::scope(|threads| {
            let ask = |client: usize| {
                let server = &server;
                move || {
                    let mut told = Vec::new();
                    for number in 0.. {
                        let name = format!("r{round}-c{client}-{number}");
                        let body = json!({"stateMachineArn": machine_arn("pass"), "name": name}).to_string();
                        let Ok(mut stream) = TcpStream::connect(&server.address) else { break };
                        let sent = stream.write_all(&call("StartExecution", &[], body.as_bytes()));
                        let mut answer = String::new();
                        let read = sent.and_then(|()| stream.read_to_string(&mut answer));
                        if read.is_err() || !answer.starts_with("HTTP/1.1 200") {
                            break;
                        }
                        told.push(name);
                    }
                    told
                }
            };
            let clients: Vec<_> = (0..4).map(|client| threads.spawn(ask(client))).collect();
            let wanted = f64::from(round + 1) * 60.0;
            wait_until("some were started", || server.metric("perdura_executions_started_total") > wanted);
            kill(server.id(), "-KILL");
            clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect()
        });
        acknowledged.extend(told);
        server = Server::start(&scene, &[]);
        server.until_ready();
    }
    assert!(acknowledged.len() > 30, "{}", acknowledged.len());
    let listed = scene.json(&["ps", "--limit", "100000"]);
    let started: Vec<Value> = entries(&scene, &["--verb", "start"]);
    let on_audit: BTreeSet<&str> = started.iter().filter_map(|entry| entry["execution"].as_str()).collect();
    assert_eq!(started.len(), on_audit.len(), "each start is there once");
    let names: BTreeSet<&str> = listed.iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(acknowledged.iter().all(|name| names.contains(&**name)));
    let ids: BTreeSet<&str> = listed.iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, on_audit, "what was started is on the audit, and nothing else is");
    assert_eq!(scene.on_data(&["audit", "--verify"]).code, Some(0));
}

#[test]
fn one_changed_bit_in_the_file_is_found_and_its_row_named() {
    let scene = Scene::new("audit-bit").file("wait.asl.json", WAIT);
    scene.one(&["deploy", "wait.asl.json", "--name", "wait"]);
    let started: Vec<Value> = (0..5).map(|_| scene.one(&["start", "wait"])).collect();
    let chains = scene.one(&["audit", "--verify"])["chains"].clone();
    let shard =
        chains.as_array().and_then(|all| all.iter().find(|one| one["chain"] == "shard-0")).expect("a chain");
    assert_eq!((&shard["entries"], &shard["last"]), (&5.into(), &5.into()), "{chains}");
    let noted = format!("shard-0:{}", shard["head"].as_str().expect("a hash"));
    scene.one(&["start", "wait"]);
    assert_eq!(scene.on_data(&["audit", "--verify", "--head", &noted]).code, Some(0));
    let other = format!("shard-0:{}", "a".repeat(64));
    let missing = scene.on_data(&["audit", "--verify", "--head", &other]);
    missing.fails(1, &["has no row with the hash"]);
    assert_eq!(scene.on_data(&["check"]).code, Some(0));
    // The third start, in the file, which has all of the log now.
    scene.on_data(&["compact"]);
    let wanted = format!("\"execution\":\"{}\"", started[2]["id"].as_str().expect("an id"));
    let path = scene.path("data/perdura.db");
    let mut bytes = fs::read(&path).expect("it is there");
    let at =
        (0..bytes.len()).find(|at| bytes[*at..].starts_with(wanted.as_bytes())).expect("it is in the file");
    bytes[at + 15] ^= 1;
    let mut file = fs::File::options().write(true).open(&path).expect("it can be written");
    file.seek(SeekFrom::Start(at as u64 + 15)).expect("there is such a place");
    file.write_all(&bytes[at + 15..=at + 15]).expect("it can be written");
    drop(file);
    // The first row is that of the deployment.
    scene
        .on_data(&["audit", "--verify"])
        .fails(1, &["audit row 4", "its hash is not that of what stands in it"]);
    let checked = scene.on_data(&["check"]);
    assert!(checked.code == Some(1) && checked.stderr.contains("audit: audit row 4"), "{checked:?}");
}
