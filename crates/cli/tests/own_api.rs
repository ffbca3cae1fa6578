//! `/v1` over TCP, where several ask at once, where somebody waits, and where a request is not quite right.

mod common;

use common::Scene;
use common::server::{Server, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;

fn definition(comment: &str) -> String {
    json!({"Comment": comment, "StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}).to_string()
}

/// A request as it goes over the wire.
fn request(line: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let named = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let length = body.len().to_string();
    let usual = [
        ("Host", "localhost"),
        ("Connection", "close"),
        ("Content-Type", "application/json"),
        ("Content-Length", &*length),
    ];
    let usual =
        usual.iter().filter(|(name, _)| !named(name) && (*name != "Content-Length" || !body.is_empty()));
    let lines = headers.iter().chain(usual).map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{line} HTTP/1.1\r\n{}\r\n{body}", lines.collect::<String>()).into_bytes()
}

struct Told {
    status: u16,
    /// In lower case.
    head: String,
    body: Value,
}

fn read(text: &str) -> Told {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("it is no answer: {text}"));
    Told { status, head: head.to_ascii_lowercase(), body: serde_json::from_str(body).unwrap_or_default() }
}

fn ask(server: &Server, line: &str, headers: &[(&str, &str)], body: &str) -> Told {
    read(&server.told(&request(line, headers, body)))
}

fn tag(server: &Server, path: &str) -> String {
    let told = ask(server, &format!("GET {path}"), &[], "");
    let (_, tag) = told.head.split_once("\r\netag: ").unwrap_or_else(|| panic!("{}", told.head));
    tag.split("\r\n").next().unwrap_or_default().replace("w/", "W/")
}

/// The statuses of these requests, sent at once.
fn at_once(server: &Server, requests: &[(&str, &str)], headers: &[(&str, &str)]) -> Vec<u16> {
    let all = Barrier::new(requests.len());
    std::thread::scope(|scope| {
        let asking = requests.iter().map(|(line, body)| {
            let all = &all;
            scope.spawn(move || {
                all.wait();
                ask(server, line, headers, body).status
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|one| one.join().expect("it is answered")).collect()
    })
}

#[test]
fn of_two_changes_of_a_machine_that_saw_the_same_one_is_refused() {
    let scene = Scene::new("own-match");
    let server = Server::start(&scene, &[]);
    for round in 0..15 {
        ask(&server, "PUT /v1/machines/m", &[], &definition(&format!("{round}")));
        let seen = tag(&server, "/v1/machines/m");
        let (one, other) = (definition(&format!("{round} one")), definition(&format!("{round} other")));
        let puts = [("PUT /v1/machines/m", &*one), ("PUT /v1/machines/m", &*other)];
        let mut statuses = at_once(&server, &puts, &[("If-Match", &seen)]);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "in round {round}");
    }
    for round in 0..15 {
        let path = format!("/v1/machines/d{round}");
        let (put, delete) = (format!("PUT {path}"), format!("DELETE {path}"));
        ask(&server, &put, &[], &definition("seen"));
        let seen = tag(&server, &path);
        let new = definition("new");
        let both = at_once(&server, &[(&put, &*new), (&delete, "")], &[("If-Match", &seen)]);
        assert!(both == [200, 412] || both == [412, 204], "in round {round}: {both:?}");
    }
    for round in 0..15 {
        let put = format!("PUT /v1/machines/new{round}");
        let (one, other) = (definition("one"), definition("other"));
        let mut statuses = at_once(&server, &[(&put, &*one), (&put, &*other)], &[("If-None-Match", "*")]);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412], "in round {round}");
    }
}

#[test]
fn conditions_are_asked_as_http_has_them() {
    let scene = Scene::new("own-conditions").file("m.json", WAITS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    scene.one(&["start", "m", "--name", "n"]);
    for path in ["/v1/machines/m", "/v1/executions/m/n"] {
        wait_until("it stands", || tag(&server, path) == tag(&server, path));
        let tag = tag(&server, path);
        let plain = tag.trim_start_matches("W/").to_owned();
        for (known, status) in [
            (tag.clone(), 304),
            (plain.clone(), 304),
            (format!("W/{plain}"), 304),
            (format!("\"x\", {tag}"), 304),
            ("*".to_owned(), 304),
            ("\"x\"".to_owned(), 200),
        ] {
            let told = ask(&server, &format!("GET {path}"), &[("If-None-Match", &known)], "");
            assert_eq!(told.status, status, "{path} {known}");
        }
    }
    let tag = tag(&server, "/v1/machines/m");
    for (name, value, line, status) in [
        ("If-None-Match", "*", "PUT /v1/machines/m", 412),
        ("If-None-Match", &*tag, "PUT /v1/machines/m", 412),
        ("If-None-Match", "*", "PUT /v1/machines/new", 200),
        ("If-Match", "*", "PUT /v1/machines/newer", 412),
        ("If-Match", &*format!("W/{tag}"), "PUT /v1/machines/m", 412),
        ("If-Match", "\"x\"", "DELETE /v1/machines/m", 412),
        ("If-Match", &*format!("\"x\", {tag}"), "PUT /v1/machines/m", 200),
        ("If-Match", "*", "PUT /v1/machines/m", 200),
    ] {
        let body = if line.starts_with("PUT") { definition(line) } else { String::new() };
        let told = ask(&server, line, &[(name, value)], &body);
        assert_eq!(told.status, status, "{name}: {value}: {line}: {}", told.body);
    }
}

/// A POST whose body comes in chunks.
fn chunked(line: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let headers = [&[("Transfer-Encoding", "chunked")], headers].concat();
    let mut bytes = request(line, &headers, "");
    bytes.extend(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    bytes
}

#[test]
fn whoever_waits_keeps_nobody_else_waiting() {
    let scene = Scene::new("own-waits").file("m.json", WAITS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    scene.one(&["start", "m", "--name", "n"]);
    ask(&server, "PUT /v1/activities/jobs", &[], "");
    let long = ("Prefer", "wait=60");
    let mut waiting: Vec<TcpStream> = Vec::new();
    for at in 0..4 {
        waiting.push(server.sent(&request("GET /v1/executions/m/n", &[long], "")));
        waiting.push(server.sent(&chunked("POST /v1/activities/jobs/poll", &[long], "{}")));
        let key = format!("0193a5b2-7c7e-7d31-8a52-0c5b1e0f9d{at:02}");
        let start = json!({"machine": "m", "name": format!("w{at}")}).to_string();
        waiting.push(server.sent(&chunked(
            "POST /v1/executions",
            &[long, ("Idempotency-Key", &key)],
            &start,
        )));
    }
    let running = || scene.one(&["stats"])["executions"]["RUNNING"] == 5;
    wait_until("all executions have begun", running);
    let began = Instant::now();
    for line in ["GET /v1/server", "GET /v1/executions/m/n", "GET /v1/machines"] {
        assert_eq!(ask(&server, line, &[], "").status, 200, "{line}");
    }
    let told = read(&server.told(&chunked("POST /v1/machines:validate", &[], WAITS)));
    assert_eq!(told.status, 200, "{}", told.body);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

fn created(scene: &Scene, name: &str, role: &str) -> (String, String) {
    let made = scene.one(&["token", "create", name, "--role", role]);
    let text = |member: &str| made[member].as_str().expect("a text").to_owned();
    (text("id"), format!("Bearer {}", text("token")))
}

#[test]
fn a_token_is_made_once_and_a_revoked_one_stays_revoked() {
    let scene = Scene::new("own-tokens");
    let server = Server::start(&scene, &[]);
    let (_, admin) = created(&scene, "boss", "admin");
    let post = |key: u32, body: &Value| {
        let key = format!("0193a5b2-7c7e-7d31-8a52-0c5b1e0f{key:04}");
        let headers = [("Authorization", &*admin), ("Idempotency-Key", &key)];
        ask(&server, "POST /v1/tokens", &headers, &body.to_string())
    };
    let new =
        json!({"id": "0a0b0c0d0e0f", "hash": "1".repeat(64), "name": "ci", "role": "read", "tenant": "t"});
    let and = |name: &str, value: Value| {
        let mut other = new.clone();
        other[name] = value;
        other
    };
    assert_eq!(post(1, &new).status, 200);
    assert_eq!(post(2, &new).status, 200, "the very same");
    let others = [
        and("role", "admin".into()),
        and("hash", "2".repeat(64).into()),
        and("name", "other".into()),
        and("tenant", "u".into()),
        and("machines", "pay-".into()),
        and("endsInMs", 1_000_000.into()),
    ];
    for (at, other) in others.iter().enumerate() {
        let told = post(10 + at as u32, other);
        assert_eq!((told.status, &told.body["code"]), (409, &json!("conflict")), "{other}: {}", told.body);
    }
    scene.one(&["token", "revoke", "0a0b0c0d0e0f"]);
    let told = post(3, &new);
    assert!(told.status == 200 && told.body["revokedAt"].is_string(), "{}", told.body);
    for (at, other) in others.iter().enumerate() {
        assert_eq!(post(20 + at as u32, other).status, 409, "{other}");
    }
    let tokens = scene.json(&["token", "list"]);
    let kept = tokens.iter().find(|one| one["id"] == "0a0b0c0d0e0f").expect("it is there");
    assert!(kept["revokedAt"].is_string() && kept["role"] == "read", "{kept}");
}

#[test]
fn two_tokens_with_one_id_are_not_both_made() {
    let scene = Scene::new("own-token-race");
    let server = Server::start(&scene, &[]);
    for round in 0..10 {
        // Each for itself: the first of them that is made makes all others need one.
        let (_, admin) = created(&scene, &format!("boss{round}"), "admin");
        let one = |name: &str, hash: &str| {
            let id = format!("0a0b0c0d0e{round:02}");
            json!({"id": id, "hash": hash.repeat(64), "name": format!("{name}{round}"), "role": "read", "tenant": "t"})
                .to_string()
        };
        let (one, other) = (one("one", "1"), one("other", "2"));
        let all = Barrier::new(2);
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let asking = [(&one, 1), (&other, 2)].map(|(body, key)| {
                let (all, server, admin) = (&all, &server, &admin);
                scope.spawn(move || {
                    let key = format!("0193a5b2-7c7e-7d31-8a52-0c5b1e{key:02}{round:04}");
                    all.wait();
                    let headers = [("Authorization", &**admin), ("Idempotency-Key", &*key)];
                    ask(server, "POST /v1/tokens", &headers, body).status
                })
            });
            asking.into_iter().map(|one| one.join().expect("it is answered")).collect()
        });
        let counts = statuses.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<u16, u32>, status| {
            *counts.entry(*status).or_default() += 1;
            counts
        });
        assert_eq!(counts, BTreeMap::from([(200, 1), (409, 1)]), "in round {round}");
    }
}

#[test]
fn what_is_no_token_and_no_connection_is_not_kept() {
    let scene = Scene::new("own-wrong");
    let server = Server::start(&scene, &[]);
    let good =
        json!({"id": "0a0b0c0d0e0f", "hash": "1".repeat(64), "name": "ci", "role": "read", "tenant": "t"});
    for (at, (member, value)) in [
        ("id", json!("é")),
        ("id", json!("0A0B0C0D0E0F")),
        ("id", json!("0a0b0c0d0e0")),
        ("name", json!("a\u{200b}b")),
        ("name", json!("\u{202e}ic")),
        ("name", json!("..")),
        ("tenant", json!("\u{feff}t")),
        ("endsInMs", json!(0)),
        ("endsInMs", json!(-5)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = good.clone();
        body[member] = value;
        let key = format!("0193a5b2-7c7e-7d31-8a52-0c5b1e0f{at:04}");
        let told = ask(&server, "POST /v1/tokens", &[("Idempotency-Key", &key)], &body.to_string());
        assert_eq!((told.status, &told.body["code"]), (400, &json!("invalid")), "{body}: {}", told.body);
    }
    scene
        .on_data(&["token", "create", "ci", "--role", "read", "--ends", "0s"])
        .fails(1, &["cannot end before"]);
    assert_eq!(ask(&server, "PUT /v1/connections/c", &[], r#"{"sealed": ""}"#).status, 400);
    for path in ["machines", "activities", "connections"] {
        for name in ["%2E", "%2e%2E"] {
            let told = ask(&server, &format!("PUT /v1/{path}/{name}"), &[], &definition("x"));
            assert_eq!(told.status, 400, "{path}/{name}: {}", told.body);
        }
    }
    assert!(scene.json(&["token", "list"]).is_empty() && scene.json(&["connection", "list"]).is_empty());
}

#[test]
fn whoever_is_not_known_is_told_how_to_show_who_it_is() {
    let scene = Scene::new("own-who");
    let server = Server::start(&scene, &[]);
    created(&scene, "ci", "read");
    for headers in [&[][..], &[("Authorization", "Bearer pdr_x")]] {
        let told = ask(&server, "GET /v1/server", headers, "");
        assert!(told.status == 401 && told.head.contains("\r\nwww-authenticate: bearer"), "{}", told.head);
    }
}

#[test]
fn a_worker_whose_token_is_revoked_while_it_waits_gets_no_task_and_the_next_one_gets_it() {
    let arn = "arn:aws:states:us-east-1:123456789012:activity:jobs";
    let machine = json!({"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": arn, "End": true}}});
    let scene = Scene::new("own-revoked").file("m.json", &machine.to_string());
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    let ((id, gone), (_, stays)) = (created(&scene, "gone", "run"), created(&scene, "stays", "run"));
    let poll = |bearer: &str| {
        let headers = [("Authorization", bearer), ("Prefer", "wait=20")];
        server.sent(&request("POST /v1/activities/jobs/poll", &headers, "{}"))
    };
    let mut waits = poll(&gone);
    wait_until("it waits", || server_metric(&server, &stays, "perdura_activity_workers_waiting") >= 1.0);
    scene.one(&["token", "revoke", &id]);
    let began = Instant::now();
    let mut told = String::new();
    waits.read_to_string(&mut told).expect("it is answered");
    assert_eq!(read(&told).status, 401, "{told}");
    assert!(began.elapsed() < Duration::from_secs(10), "it was not kept waiting");
    scene.one(&["start", "m", "--name", "n"]);
    let mut told = String::new();
    poll(&stays).read_to_string(&mut told).expect("it is answered");
    let task = read(&told);
    assert!(task.status == 200 && task.body["token"].is_string(), "{told}");
}

#[test]
fn a_task_is_not_ended_by_a_token_whose_secret_was_altered() {
    let arn = "arn:aws:states:us-east-1:123456789012:activity:jobs";
    let machine = json!({"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": arn, "End": true}}});
    let scene = Scene::new("own-altered").file("m.json", &machine.to_string());
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.json", "--name", "m"]);
    scene.one(&["start", "m", "--name", "n"]);
    let task = ask(&server, "POST /v1/activities/jobs/poll", &[("Prefer", "wait=20")], "{}").body;
    let token = task["token"].as_str().expect("there is a task");
    let complete = |token: &str, key: usize| {
        let key = format!("0193a5b2-7c7e-7d31-8a52-0c5b1e0f{key:04}");
        let body = json!({"token": token, "output": 1}).to_string();
        ask(&server, "POST /v1/tasks/complete", &[("Idempotency-Key", &key)], &body).status
    };
    for at in 40..72 {
        let other = if &token[at..=at] == "0" { "1" } else { "0" };
        let altered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        assert_eq!(complete(&altered, at), 404, "digit {at}");
    }
    assert_eq!(complete(&token.to_uppercase(), 1), 400);
    assert_eq!(complete(token, 2), 204);
}

fn server_metric(server: &Server, bearer: &str, name: &str) -> f64 {
    let told = server.told(&request("GET /metrics", &[("Authorization", bearer)], ""));
    let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name} is not in {told}"))
}

#[test]
fn json_is_utf_8() {
    let scene = Scene::new("own-charset");
    let server = Server::start(&scene, &[]);
    for (kind, status) in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/json;charset=\"UTF-8\"", 200),
        ("application/problem+json; x=y", 200),
        ("application/json; charset=utf-16", 415),
        ("application/json; charset=iso-8859-1", 415),
        ("text/plain", 415),
    ] {
        let told = ask(&server, "POST /v1/machines:validate", &[("Content-Type", kind)], WAITS);
        assert_eq!(told.status, status, "{kind}: {}", told.body);
    }
}

#[test]
fn a_body_above_the_bound_is_read_on_so_that_its_client_reads_why() {
    let scene = Scene::new("own-large").file("perdura.toml", "strict = true\n");
    let server = Server::start(&scene, &[]);
    // More than sockets hold on their way.
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let length = (48_usize << 20).to_string();
    let head = request("POST /v1/machines:validate", &[("Content-Length", &length)], "");
    stream.write_all(&head).expect("a head can be sent");
    let part = vec![b' '; 1 << 20];
    for _ in 0..48 {
        stream.write_all(&part).expect("the server reads on");
    }
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("nothing is reset");
    let told = read(&told);
    assert_eq!((told.status, &told.body["code"]), (413, &json!("tooLarge")), "{}", told.body);
}
