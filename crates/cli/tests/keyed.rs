//! `/v1` under the rule of the `Idempotency-Key`: a process killed between a deed and its record, and the same request
//! again.

mod common;

use common::Scene;
use common::server::{Server, kill, wait_until};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::io::Read;

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
const KEY: &str = "0193a5b2-7c7e-7d31-8a52-0c5b1e0f9d44";

fn scene(name: &str) -> Scene {
    Scene::new(name).file("m.asl.json", PASS)
}

fn post(path: &str, key: Option<&str>, more: &str, body: &Value) -> Vec<u8> {
    let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{key}{more}\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Status, whether it was given before, and the body.
#[track_caller]
fn read(told: &str) -> (u16, bool, Value) {
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((told, "null"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {told}"));
    let is_replayed = head.to_ascii_lowercase().contains("\r\nidempotency-replayed: true");
    (status, is_replayed, serde_json::from_str(body).unwrap_or_default())
}

#[track_caller]
fn start(server: &Server, key: Option<&str>, body: &Value) -> (u16, bool, Value) {
    read(&server.told(&post("/v1/executions", key, "", body)))
}

fn open(scene: &Scene, file: &str) -> Connection {
    let connection = Connection::open(scene.path("data").join(file)).expect("the file is there");
    connection.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout can be set");
    connection
}

fn lock(connection: &Connection) {
    connection.execute_batch("BEGIN IMMEDIATE").expect("a lock can be had");
}

fn unlock(connection: &Connection) {
    connection.execute_batch("ROLLBACK").expect("a lock can be given back");
}

/// How many requests are remembered.
fn remembered(connection: &Connection) -> i64 {
    let count = "SELECT count(*) FROM idempotency_record";
    connection.query_row(count, (), |row| row.get(0)).expect("it can be read")
}

#[test]
fn a_key_is_needed_on_tcp_and_on_the_socket_only_where_somebody_repeats() {
    let scene = scene("keyed-needed");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let (status, _, problem) = start(&server, None, &json!({"machine": "m", "name": "a"}));
    assert_eq!((status, &problem["reason"]), (400, &"IDEMPOTENCY_KEY_REQUIRED".into()), "{problem}");
    assert_eq!((&problem["next"], problem["detail"].is_string()), (&"new_key".into(), true), "{problem}");
    let (status, _, problem) = start(&server, Some("order-1"), &json!({"machine": "m"}));
    assert_eq!((status, &problem["reason"]), (400, &"IDEMPOTENCY_KEY_MALFORMED".into()), "{problem}");
    let validated = read(&server.told(&post("/v1/machines:validate", None, "", &json!({"StartAt": "x"}))));
    assert_eq!((validated.0, &validated.2["result"]), (200, &"FAIL".into()));
    let beat = read(&server.told(&post("/v1/tasks/heartbeat", None, "", &json!({"token": "x"}))));
    assert_eq!(beat.2.get("reason"), None, "{beat:?}");
    scene.one(&["start", "m", "--name", "b"]);
}

#[test]
fn the_same_request_again_gets_the_first_answer_and_another_one_a_conflict() {
    let scene = scene("keyed-again");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let asked = json!({"machine": "m", "input": {"a": 1}});
    let (status, is_replayed, first) = start(&server, Some(KEY), &asked);
    assert_eq!((status, is_replayed, &first["fresh"]), (201, false, &true.into()), "{first}");
    scene.until_status(first["id"].as_str().expect("an id"), "SUCCEEDED");
    assert_eq!(start(&server, Some(KEY), &asked), (201, true, first.clone()));
    let (status, _, problem) = start(&server, Some(KEY), &json!({"machine": "m", "input": {"a": 2}}));
    assert_eq!((status, &problem["reason"]), (409, &"CONFLICTING_IDEMPOTENT_REQUEST".into()), "{problem}");
    let waited = server.told(&post("/v1/executions", Some(KEY), "Prefer: wait=30\r\n", &asked));
    let (status, is_replayed, ended) = read(&waited);
    assert_eq!((status, is_replayed, &ended["status"]), (201, true, &"SUCCEEDED".into()), "{waited}");
    assert_eq!((&ended["id"], &ended["output"]), (&first["id"], &json!({"a": 1})), "{waited}");
    // What did nothing is forgotten: the same request is carried out when its reason is gone.
    let (other, early) = ("0193a5b2-7c7e-7d31-8a52-0c5b1e0f9d45", json!({"machine": "late"}));
    assert_eq!(start(&server, Some(other), &early).0, 404);
    scene.one(&["deploy", "m.asl.json", "--name", "late"]);
    assert_eq!(start(&server, Some(other), &early).0, 201);
    assert_eq!(scene.json(&["ps"]).len(), 2);
}

#[test]
fn another_process_that_remembers_gives_the_first_answer() {
    let scene = scene("keyed-recorded");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let (_, _, first) = start(&server, Some(KEY), &json!({"machine": "m"}));
    server.end("-KILL");
    let server = Server::start(&scene, &[]);
    assert_eq!(start(&server, Some(KEY), &json!({"machine": "m"})), (201, true, first));
    assert_eq!(scene.json(&["ps"]).len(), 1);
}

/// What is asked, and the ids that its answer has.
fn requests() -> [(&'static str, &'static str, Value); 3] {
    [
        ("unnamed", "/v1/executions", json!({"machine": "m", "input": {"a": 1}})),
        ("named", "/v1/executions", json!({"machine": "m", "name": "n", "input": {"a": 1}})),
        (
            "many",
            "/v1/executions:batch",
            json!({"executions": [{"machine": "m"}, {"machine": "m", "name": "n"}]}),
        ),
    ]
}

fn ids(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().into_iter().flatten().map(|one| &one["execution"]["id"]);
    let ids = items.chain(answer.get("id"));
    let mut ids: Vec<String> = ids.map(|id| id.as_str().expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

fn listed(scene: &Scene) -> Vec<String> {
    let all = scene.json(&["ps"]);
    let mut ids: Vec<String> = all.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn a_process_killed_before_the_commit_has_begun_nothing_and_the_same_request_begins_it_once() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-before-commit-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        let (data, record) = (open(&scene, "perdura.db"), open(&scene, "idempotency.db"));
        lock(&data);
        let _waits = server.sent(&post(path, Some(KEY), "", &asked));
        wait_until("it is claimed", || remembered(&record) == 1);
        server.end("-KILL");
        unlock(&data);
        drop((data, record));
        let server = Server::start(&scene, &[]);
        let (status, _, answer) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300, "{name}: {answer}");
        assert_eq!(ids(&answer), listed(&scene), "{name}: {answer}");
        assert_eq!(read(&server.told(&post(path, Some(KEY), "", &asked))), (status, true, answer), "{name}");
    }
}

#[test]
fn a_process_killed_after_the_commit_and_before_the_record_is_attached_to() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-before-record-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        let (data, record) = (open(&scene, "perdura.db"), open(&scene, "idempotency.db"));
        lock(&data);
        let mut cut_off = server.sent(&post(path, Some(KEY), "", &asked));
        wait_until("it is claimed", || remembered(&record) == 1);
        lock(&record);
        unlock(&data);
        let count = if name == "many" { 2 } else { 1 };
        scene.until(&["ps", "--status", "SUCCEEDED"], |ended| ended.len() == count);
        let begun = listed(&scene);
        server.end("-KILL");
        unlock(&record);
        drop((data, record));
        let mut nothing = Vec::new();
        let _ = cut_off.read_to_end(&mut nothing);
        assert_eq!(nothing, b"", "{name}: nobody is told what is not recorded");
        let server = Server::start(&scene, &[]);
        let (status, is_replayed, answer) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300 && !is_replayed, "{name}: {answer}");
        assert_eq!(ids(&answer), begun, "{name}: {answer}");
        assert_eq!(listed(&scene), begun, "{name}: it was begun once");
        assert_eq!(read(&server.told(&post(path, Some(KEY), "", &asked))), (status, true, answer), "{name}");
    }
}

#[test]
fn a_process_killed_before_the_claim_has_begun_nothing_and_the_same_request_begins_it_once() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-before-claim-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        let record = open(&scene, "idempotency.db");
        lock(&record);
        let mut cut_off = server.sent(&post(path, Some(KEY), "", &asked));
        // It is asked behind the request, and waits for the same lock.
        let _behind = server.sent(&post(path, Some(KEY), "", &asked));
        assert!(server.get("/healthz").starts_with("HTTP/1.1 200 "));
        server.end("-KILL");
        let mut nothing = Vec::new();
        let _ = cut_off.read_to_end(&mut nothing);
        assert_eq!(nothing, b"", "{name}: nobody is told");
        unlock(&record);
        assert_eq!(remembered(&record), 0, "{name}: nothing was claimed");
        drop(record);
        let server = Server::start(&scene, &[]);
        assert_eq!(listed(&scene), Vec::<String>::new(), "{name}: nothing was begun");
        let (status, is_replayed, answer) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300 && !is_replayed, "{name}: {answer}");
        assert_eq!(ids(&answer), listed(&scene), "{name}: {answer}");
        assert_eq!(read(&server.told(&post(path, Some(KEY), "", &asked))), (status, true, answer), "{name}");
    }
}

#[test]
fn a_process_killed_after_the_record_gives_its_answer_to_whoever_was_not_told() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-before-answer-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        let record = open(&scene, "idempotency.db");
        // Whoever asked has hung up: the answer is recorded, and reaches nobody.
        let asks = server.sent(&post(path, Some(KEY), "", &asked));
        let completed = "SELECT count(*) FROM idempotency_record WHERE state = 2";
        let is_recorded =
            || record.query_row(completed, (), |row| row.get::<_, i64>(0)).expect("it can be read") == 1;
        wait_until("it is recorded", is_recorded);
        server.end("-KILL");
        drop((asks, record));
        let server = Server::start(&scene, &[]);
        let (status, is_replayed, answer) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300 && is_replayed, "{name}: {answer}");
        assert_eq!(ids(&answer), listed(&scene), "{name}: {answer}");
    }
}

#[test]
fn a_process_that_stands_still_past_its_lease_and_goes_on_adds_nothing_to_what_was_done() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-stopped-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        let (data, record) = (open(&scene, "perdura.db"), open(&scene, "idempotency.db"));
        lock(&data);
        let mut waits = server.sent(&post(path, Some(KEY), "", &asked));
        wait_until("it is claimed", || remembered(&record) == 1);
        kill(server.id(), "-STOP");
        // Its lease is over, as it is half a minute later.
        record.execute_batch("UPDATE idempotency_record SET until_at = 1").expect("it can be written");
        unlock(&data);
        kill(server.id(), "-CONT");
        let (status, _, answer) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300 || status == 409, "{name}: {answer}");
        let mut told = String::new();
        let _ = waits.read_to_string(&mut told);
        let (status, is_replayed, last) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300 && is_replayed, "{name}: {last}");
        assert_eq!(ids(&last), listed(&scene), "{name}: {last}");
        server.end("-TERM");
    }
}

#[test]
fn servers_after_each_other_that_are_killed_at_any_moment_begin_it_once_and_give_one_answer() {
    for (name, path, asked) in requests() {
        let scene = scene(&format!("keyed-many-kills-{name}"));
        let server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        server.end("-KILL");
        let mut answers = Vec::new();
        for turn in 0..6 {
            let server = Server::start(&scene, &[]);
            let mut asks = server.sent(&post(path, Some(KEY), "", &asked));
            // Each of them gets a little further.
            for _ in 0..turn {
                server.get("/healthz");
            }
            server.end("-KILL");
            let mut told = Vec::new();
            let _ = asks.read_to_end(&mut told);
            answers.extend(String::from_utf8(told).ok().filter(|told| told.contains("\r\n\r\n{")));
        }
        let server = Server::start(&scene, &[]);
        let (status, _, last) = read(&server.told(&post(path, Some(KEY), "", &asked)));
        assert!(status < 300, "{name}: {last}");
        assert_eq!(ids(&last), listed(&scene), "{name}: {last}");
        for told in answers {
            let (status, _, answer) = read(&told);
            assert!(status >= 300 || ids(&answer) == ids(&last), "{name}: {answer} and {last}");
        }
    }
}

#[test]
fn what_is_remembered_is_in_backups_and_in_checks() {
    let scene = scene("keyed-backup");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let (_, _, first) = start(&server, Some(KEY), &json!({"machine": "m"}));
    scene.one(&["backup", "copy.db"]);
    assert_eq!(scene.one(&["check"])["requests"], 1);
    server.end("-TERM");
    let ended = scene.perdura(&["restore", "copy.db", "--data", "again"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    std::fs::remove_dir_all(scene.path("data")).expect("data can be lost");
    std::fs::rename(scene.path("again"), scene.path("data")).expect("it can be moved");
    let server = Server::start(&scene, &[]);
    assert_eq!(start(&server, Some(KEY), &json!({"machine": "m"})), (201, true, first));
    server.end("-TERM");
    let file = scene.path("data/idempotency.db");
    let mut bytes = std::fs::read(&file).expect("it can be read");
    bytes[4096..].fill(0xA5);
    std::fs::write(&file, bytes).expect("it can be damaged");
    let checked = scene.on_data(&["check", "--json"]);
    assert!(checked.code != Some(0), "{checked:?}");
}

#[test]
fn a_server_that_can_record_no_key_is_not_ready_until_it_can() {
    let scene = scene("keyed-ready");
    let server = Server::start(&scene, &[]);
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200 "), "{}", server.get("/readyz"));
    let record = open(&scene, "idempotency.db");
    lock(&record);
    let told = server.get("/readyz");
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("no key can be recorded"), "{told}");
    assert!(server.metric("perdura_ready") < 1.0, "metrics say so too");
    unlock(&record);
    wait_until("it is ready", || server.get("/readyz").starts_with("HTTP/1.1 200 "));
}
