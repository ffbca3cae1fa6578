//! What `/v1` tells and does of the server itself: settings, backups, and who asks through a proxy.

mod common;

use common::Scene;
use common::server::Server;
use serde_json::Value;

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
const CONFIG: &str = r#"
[serve]
backup_folder = "backups"
trusted_proxies = "127.0.0.1, 10.0.0.0/8"
[retention]
ended_days = 7
"#;

fn ask(server: &Server, line: &str, headers: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let told = server.told(request.as_bytes());
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_default())
}

fn token(scene: &Scene, name: &str, role: &str) -> String {
    let made = scene.one(&["token", "create", name, "--role", role]);
    format!("Authorization: Bearer {}\r\n", made["token"].as_str().expect("it is shown once"))
}

fn key(number: u32) -> String {
    format!("Idempotency-Key: 0193a5b2-7c7e-7d31-8a52-{number:012}\r\n")
}

#[test]
fn settings_are_told_with_their_source_and_secrets_are_not() {
    let scene = Scene::new("house-settings").file("perdura.toml", CONFIG);
    let admin = token(&scene, "boss", "admin");
    let operator = token(&scene, "night", "operate");
    let server = Server::start(&scene, &["--config", "perdura.toml"]);
    assert_eq!(ask(&server, "GET /v1/settings", &operator, "").0, 403);
    let (status, told) = ask(&server, "GET /v1/settings?prefix=retention.", &admin, "");
    let items = told["items"].as_array().expect("a list");
    let ended = items.iter().find(|one| one["name"] == "retention.ended_days").expect("it is told");
    assert_eq!((status, &ended["value"], items.len()), (200, &"7".into(), 4), "{told}");
    assert!(ended["from"].as_str().is_some_and(|from| from.starts_with("perdura.toml:")), "{ended}");
    let (_, told) = ask(&server, "GET /v1/settings", &admin, "");
    let names = told["items"].as_array().expect("a list").len();
    assert_eq!(
        names,
        scene
            .json(&["config", "--config", "perdura.toml"])
            .iter()
            .filter(|one| one["help"].is_string())
            .count()
    );
}

#[test]
fn a_backup_is_made_where_that_is_configured_and_nowhere_else() {
    let scene = Scene::new("house-backup").file("perdura.toml", CONFIG).file("m.asl.json", PASS);
    let admin = token(&scene, "boss", "admin");
    let server = Server::start(&scene, &["--config", "perdura.toml"]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    scene.until_status("n", "SUCCEEDED");
    let with = |number| format!("{admin}{}", key(number));
    let (status, made) = ask(&server, "POST /v1/backup", &with(1), r#"{"name": "monday"}"#);
    assert_eq!((status, &made["file"]), (201, &"monday.db".into()), "{made}");
    assert_eq!(made["bytes"], scene.path("backups/monday.db").metadata().expect("it is there").len());
    // The same request is the same backup, and another one of the same name is refused.
    assert_eq!(ask(&server, "POST /v1/backup", &with(1), r#"{"name": "monday"}"#), (201, made));
    let (status, problem) = ask(&server, "POST /v1/backup", &with(2), r#"{"name": "monday"}"#);
    assert_eq!((status, &problem["code"]), (409, &"conflict".into()), "{problem}");
    for name in ["../out", "/tmp/out", ".hidden", "a/b", "", "ü", "a b"] {
        let body = serde_json::json!({"name": name}).to_string();
        let (status, problem) = ask(&server, "POST /v1/backup", &with(3), &body);
        assert_eq!(status, 400, "{name}: {problem}");
    }
    let (status, made) = ask(&server, "POST /v1/backup", &with(4), "{}");
    assert_eq!(status, 201, "{made}");
    let audit = scene.json(&["audit", "--verb", "read", "--who", "boss"]);
    assert_eq!(audit.iter().filter(|entry| entry["operation"] == "createBackup").count(), 3, "{audit:?}");
    server.end("-TERM");
    let restored = scene.perdura(&["restore", "backups/monday.db", "--data", "again"]);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let shown = scene.perdura(&["show", "m/n", "--data", "again", "--json"]);
    assert!(shown.stdout.contains("SUCCEEDED"), "{shown:?}");
    // Without a folder nothing is written.
    let bare = Scene::new("house-backup-bare");
    let server = Server::start(&bare, &[]);
    let (status, problem) = ask(&server, "POST /v1/backup", &key(5), "{}");
    assert_eq!((status, &problem["code"]), (409, &"conflict".into()), "{problem}");
}

#[test]
fn a_proxy_that_is_trusted_says_who_asks_and_nobody_comes_through_it_unasked() {
    let scene = Scene::new("house-proxies").file("perdura.toml", CONFIG).file("m.asl.json", PASS);
    scene.one(&["deploy", "m.asl.json"]);
    let unasked = scene.on_data(&["serve", "--config", "perdura.toml", "--listen", "127.0.0.1:0"]);
    unasked.fails(2, &["others can ask through a proxy"]);
    let runner = token(&scene, "shop", "run");
    let server = Server::start(&scene, &["--config", "perdura.toml"]);
    let start = |number, headers: &str| {
        ask(&server, "POST /v1/executions", &format!("{headers}{}", key(number)), r#"{"machine": "m"}"#).0
    };
    let client = "X-Forwarded-For: 127.0.0.1, 203.0.113.9, 10.0.0.2\r\n";
    assert_eq!(start(1, &format!("{runner}{client}")), 201);
    assert_eq!(start(2, client), 401);
    assert_eq!(start(3, "X-Forwarded-For: 127.0.0.1\r\n"), 401);
    assert_eq!(start(4, ""), 401);
    assert_eq!(start(5, &format!("{runner}X-Forwarded-For: rubbish\r\n")), 201);
    let audit = scene.json(&["audit", "--verb", "start"]);
    let from: Vec<&str> = audit.iter().filter_map(|entry| entry["from"].as_str()).collect();
    assert!(from.contains(&"203.0.113.9"), "{audit:?}");
    assert!(from.iter().any(|from| from.starts_with("127.0.0.1:")), "{audit:?}");
}
