//! Tokens: made once, seen at once by a server that runs, and never found again in what is stored or logged.

mod common;

use common::Scene;
use common::server::Server;

fn metrics(server: &Server, headers: &[&str]) -> String {
    asked(server, "GET /metrics", headers)
}

fn asked(server: &Server, what: &str, headers: &[&str]) -> String {
    let headers: Vec<String> = headers.iter().map(|value| format!("Authorization: {value}\r\n")).collect();
    let headers = headers.concat();
    let request = format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    server.told(request.as_bytes())
}

fn is_refused(told: &str) -> bool {
    let head = told.to_ascii_lowercase();
    head.starts_with("http/1.1 401 ") && head.contains("\r\nwww-authenticate: bearer\r\n")
}

#[test]
fn a_running_server_takes_a_token_at_once_and_refuses_it_at_once_when_it_is_revoked() {
    let scene = Scene::new("tokens-live");
    let server = Server::start(&scene, &["--log", "debug"]);
    assert!(metrics(&server, &[]).starts_with("HTTP/1.1 200 "), "nobody is asked yet");
    let made = scene.one(&["token", "create", "prometheus", "--role", "read"]);
    let (id, token) = (made["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let bearer = format!("Bearer {token}");
    assert!(metrics(&server, &[&bearer]).starts_with("HTTP/1.1 200 "));
    let cut = &bearer[..bearer.len() - 1];
    for wrong in [&[][..], &[cut], &[&bearer, &bearer], &["Basic YTpi", &bearer], &["Basic YTpi"]] {
        let told = metrics(&server, wrong);
        assert!(is_refused(&told), "{wrong:?}: {told}");
    }
    let listed = scene.json(&["token", "list"]);
    assert_eq!((&listed[0]["id"], &listed[0]["role"]), (&id.into(), &"read".into()), "{listed:?}");
    assert!(listed[0].get("hash").is_none(), "{listed:?}");
    assert_eq!(scene.one(&["token", "revoke", id])["id"], id);
    assert!(is_refused(&metrics(&server, &[&bearer])), "it is revoked");
    assert!(is_refused(&metrics(&server, &[])), "the end of the last token opens no door");
    assert_eq!(server.end("-TERM"), Some(0));
    let secret = &token[16..80];
    for file in std::fs::read_dir(scene.path("data")).expect("there is data") {
        let file = file.expect("it can be read").path();
        let Ok(bytes) = std::fs::read(&file) else { continue };
        let has = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!has, "{} has the secret", file.display());
    }
}

#[test]
fn a_role_opens_the_operations_that_it_is_for_and_no_others() {
    let scene = Scene::new("tokens-roles");
    let server = Server::start(&scene, &[]);
    assert!(asked(&server, "GET /v1/executions", &[]).starts_with("HTTP/1.1 200 "), "nobody is asked yet");
    let bearer = |name: &str, more: &[&str]| {
        let made = scene.one(&[&["token", "create", name, "--role"], more].concat());
        format!("Bearer {}", made["token"].as_str().expect("a token"))
    };
    let (reader, admin) = (bearer("reader", &["read"]), bearer("boss", &["admin"]));
    let bound = bearer("bound", &["admin", "--machines", "pay-"]);
    for (what, who, status) in [
        ("GET /v1/executions", &[][..], "401"),
        ("GET /v1/executions", &[&*reader], "200"),
        ("GET /v1/tokens", &[&*reader], "403"),
        ("POST /v1/compact", &[&*reader], "403"),
        ("GET /v1/tokens", &[&*admin], "200"),
        ("GET /v1/executions", &[&*bound], "200"),
        ("GET /v1/stats", &[&*bound], "403"),
        ("POST /", &[], "403"),
    ] {
        let told = asked(&server, what, who);
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {told}");
    }
    assert!(asked(&server, "POST /", &[]).contains("MissingAuthenticationToken"));
}

#[test]
fn tokens_are_made_and_revoked_without_a_server() {
    let scene = Scene::new("tokens-alone");
    let made = scene.one(&["token", "create", "ci", "--role", "run", "--machines", "pay-", "--ends", "90d"]);
    assert_eq!((&made["machines"], &made["tenant"]), (&"pay-".into(), &"default".into()), "{made}");
    scene.on_data(&["token", "create", "ci", "--role", "run"]).fails(1, &["there is a token \"ci\" already"]);
    scene.on_data(&["token", "create", "x", "--role", "root"]).fails(2, &["read, run, operate, admin"]);
    let id = made["id"].as_str().expect("an id");
    scene.on_data(&["token", "revoke", "ci"]).fails(1, &["there is no token \"ci\""]);
    assert!(scene.one(&["token", "revoke", id])["revokedAt"].is_string());
    let server = Server::start(&scene, &[]);
    let told = metrics(&server, &[&format!("Bearer {}", made["token"].as_str().expect("a token"))]);
    assert!(is_refused(&told), "{told}");
}
