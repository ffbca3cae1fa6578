//! Who is let in: pages that lend themselves our name, collectors of numbers, and whoever asks for secrets.

mod common;

use common::Scene;
use common::server::{Server, call};
use serde_json::json;

/// `AKIAEXAMPLE` with its secret, as a name and a password.
const KEYS: &str = "AKIAEXAMPLE topsecret\n";
const PASSWORD: &str = "Basic QUtJQUVYQU1QTEU6dG9wc2VjcmV0";

fn get(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n", lines.collect::<String>()).into_bytes()
}

#[track_caller]
fn is(told: &str, status: u16, says: &str) {
    assert!(
        told.starts_with(&format!("HTTP/1.1 {status} ")) && told.contains(says),
        "{status} {says}: {told}"
    );
}

#[test]
fn only_names_that_are_known_to_lead_here_are_answered_under() {
    let scene = Scene::new("doors-names").file("perdura.toml", "[serve]\nhosts = 'flow.internal'\n");
    let server = Server::start(&scene, &[]);
    let under = |host: &str| server.told(&call("ListStateMachines", &[("Host", host)], b"{}"));
    for host in [&*server.address, "localhost:1", "[::1]", "sync-127.0.0.1:8083", "states.localhost"] {
        is(&under(host), 200, "stateMachines");
    }
    for host in ["flow.internal:8083", "sync-flow.internal", "states.flow.internal"] {
        is(&under(host), 200, "stateMachines");
    }
    for host in ["evil.example", "flow.internal.evil.example", "127.0.0.1.evil.example:8083"] {
        is(&under(host), 400, r#""__type":"AccessDeniedException""#);
        is(&under(host), 400, "serve.hosts");
        is(&server.told(&get("/metrics", &[("Host", host)])), 421, "serve.hosts");
        is(&server.told(&get("/healthz", &[("Host", host)])), 200, "alive");
    }
    let both = get("http://evil.example/metrics", &[("Host", "localhost")]);
    is(&server.told(&both), 421, "evil.example");
}

#[test]
fn numbers_are_told_to_whoever_has_a_key_also_on_this_machine() {
    let scene = Scene::new("doors-metrics").file("keys", KEYS);
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    let host = ("Host", &*server.address);
    is(&server.told(&get("/metrics", &[host])), 401, "www-authenticate: Basic");
    let wrong = get("/metrics", &[host, ("Authorization", "Basic QUtJQUVYQU1QTEU6d3Jvbmc=")]);
    is(&server.told(&wrong), 401, "metrics need a token (Authorization: Bearer), or an access key");
    let right = get("/metrics", &[host, ("Authorization", PASSWORD)]);
    is(&server.told(&right), 200, "\nperdura_ready 1\n");
    is(&server.told(&get("/healthz", &[host])), 200, "alive");
    is(&server.told(&get("/readyz", &[host])), 200, "ready");
}

#[test]
fn a_body_is_not_read_before_its_client_is_known() {
    let scene = Scene::new("doors-bodies").file("keys", KEYS);
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    // Nothing of the body ever comes, and the answer does.
    for (length, status, code) in [
        ("10", 403, "MissingAuthenticationTokenException"),
        ("1000000", 403, "MissingAuthenticationTokenException"),
    ] {
        let head = call("ListStateMachines", &[("Content-Length", length)], b"");
        is(&server.told(&head), status, code);
    }
    let open = Scene::new("doors-bodies-open");
    let server = Server::start(&open, &[]);
    let head = call("ListStateMachines", &[("Content-Length", "134217729")], b"");
    is(&server.told(&head), 413, "RequestEntityTooLargeException");
}

#[test]
fn secrets_are_shown_only_where_that_is_allowed() {
    let ask = |reveals: bool| {
        let state = r#"{"Type": "Pass", "End": true}"#;
        let body =
            json!({"definition": state, "input": "{}", "inspectionLevel": "TRACE", "revealSecrets": reveals});
        call("TestState", &[], body.to_string().as_bytes())
    };
    let scene = Scene::new("doors-secrets");
    let server = Server::start(&scene, &[]);
    is(&server.told(&ask(true)), 400, r#""__type":"AccessDeniedException""#);
    is(&server.told(&ask(true)), 400, "serve.reveal_secrets");
    is(&server.told(&ask(false)), 200, "SUCCEEDED");
    let scene = Scene::new("doors-secrets-shown").file("perdura.toml", "[serve]\nreveal_secrets = true\n");
    let server = Server::start(&scene, &[]);
    is(&server.told(&ask(true)), 200, "SUCCEEDED");
}
