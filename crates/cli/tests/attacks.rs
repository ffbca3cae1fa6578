//! Attacks on `/v1` from a page in a browser, under a name of somebody else, and with requests hidden in others.

mod common;

use common::Scene;
use common::server::Server;

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
const KEY: &str = "0193a5b2-7c7e-7d31-8a52-0c5b1e0f9d46";

fn scene(name: &str) -> (Scene, Server) {
    let scene = Scene::new(name).file("m.asl.json", PASS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    (scene, server)
}

fn request(line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
        .into_bytes()
}

fn status(told: &str) -> u16 {
    let status = told.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {told}"))
}

/// How many executions there are; each attack would start one.
fn started(scene: &Scene) -> usize {
    scene.json(&["ps"]).len()
}

#[test]
fn a_page_in_a_browser_starts_nothing_and_reads_nothing() {
    let (scene, server) = scene("attacks-page");
    let start = r#"{"machine": "m"}"#;
    let key = format!("Idempotency-Key: {KEY}\r\n");
    let host = "Host: localhost\r\n";
    let json = "Content-Type: application/json\r\n";
    for origin in ["http://evil.example", "null", "http://localhost", "https://127.0.0.1:1"] {
        for line in
            ["POST /v1/executions", "GET /v1/executions", "GET /v1/executions:events", "PUT /v1/pause"]
        {
            let body = if line.starts_with("GET") { "" } else { start };
            let told = server.told(&request(line, &format!("{host}{json}{key}Origin: {origin}\r\n"), body));
            assert_eq!(status(&told), 403, "{line} {origin}: {told}");
            assert!(!told.to_ascii_lowercase().contains("access-control-"), "{told}");
        }
    }
    // What a page may send without being asked, from a browser that says no origin.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let headers = format!("{host}{key}Content-Type: {kind}\r\n");
        let told = server.told(&request("POST /v1/executions", &headers, start));
        assert!(matches!(status(&told), 400 | 415), "{kind}: {told}");
    }
    let told = server.told(&request("POST /v1/executions", &format!("{host}{key}"), start));
    assert_eq!(status(&told), 415, "a blob has no type: {told}");
    // What a browser asks before it sends anything else is not granted.
    let asks = format!(
        "{host}Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n\
         Access-Control-Request-Headers: content-type, idempotency-key\r\n"
    );
    for path in ["/v1/executions", "/v1/machines/m", "/v1/pause"] {
        let told = server.told(&request(&format!("OPTIONS {path}"), &asks, ""));
        assert!((400..500).contains(&status(&told)), "{told}");
        assert!(!told.to_ascii_lowercase().contains("access-control-"), "{told}");
    }
    assert_eq!(started(&scene), 0);
}

#[test]
fn a_name_that_was_made_to_lead_here_is_not_answered_under() {
    let (scene, server) = scene("attacks-rebinding");
    let more = format!("Content-Type: application/json\r\nIdempotency-Key: {KEY}\r\n");
    let (start, pause) = (r#"{"machine": "m"}"#, r#"{"now": true}"#);
    for host in [
        "evil.example",
        "evil.example:8083",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1].evil.example",
    ] {
        for (line, body) in [
            ("POST /v1/executions", start),
            ("PUT /v1/pause", pause),
            ("GET /v1/executions", ""),
            ("GET /openapi.json", ""),
        ] {
            let told = server.told(&request(line, &format!("Host: {host}\r\n{more}"), body));
            assert!(matches!(status(&told), 400 | 421), "{line} {host}: {told}");
        }
        // The target may name it too.
        let line = format!("POST http://{host}/v1/executions");
        let told = server.told(&request(&line, &format!("Host: localhost\r\n{more}"), start));
        assert!(matches!(status(&told), 400 | 421), "{line}: {told}");
    }
    for hosts in ["Host: localhost\r\nHost: evil.example\r\n", "Host: evil.example\r\nHost: localhost\r\n"] {
        let told = server.told(&request("POST /v1/executions", &format!("{hosts}{more}"), start));
        assert!(matches!(status(&told), 400 | 421), "{hosts:?}: {told}");
    }
    assert_eq!(started(&scene), 0);
}

#[test]
fn a_request_that_is_hidden_in_another_is_not_carried_out() {
    let (scene, server) = scene("attacks-smuggling");
    let hidden = format!(
        "PUT /v1/machines/hidden HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{PASS}",
        PASS.len()
    );
    let ended = format!("0\r\n\r\n{hidden}");
    let whole = ended.len();
    let both = [
        format!("Content-Length: {whole}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {whole}\r\n"),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        " Transfer-Encoding: chunked\r\n".to_owned(),
        "X: y\r\n\tTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: \x0bchunked\r\n".to_owned(),
        format!("Content-Length: 0\r\nContent-Length: {whole}\r\n"),
        format!("Content-Length: {whole}\r\nContent-Length: 0\r\n"),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 5, 5\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 0x5\r\n".to_owned(),
    ];
    for lengths in both {
        let head = format!(
            "POST /v1/machines:validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lengths}\r\n{ended}\
             GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        let told = server.told(head.as_bytes());
        let first = told.lines().next().unwrap_or_default().to_owned();
        // With both lengths the chunks count, and nothing after that request is looked at: RFC 9112, 6.3.
        let is_last = told.matches("HTTP/1.1 ").count() == 1 && told.contains("\r\nconnection: close\r\n");
        let is_refused = told.is_empty() || (400..500).contains(&status(&told));
        assert!(is_refused || is_last, "{lengths:?}: {first}\n{told}");
        let there = server.get("/v1/machines/hidden");
        assert_eq!(status(&there), 404, "{lengths:?}: {there}");
    }
    // Lines in a path or a header are no lines of a request.
    for line in [
        "GET /v1/machines%0d%0aPUT%20/v1/machines/hidden",
        "GET /v1/machines/m\u{b}HTTP/1.1",
        "GET /v1/executions?label=a:b%0d%0aX-Y:%20z",
    ] {
        let told = server.told(&request(line, "Host: localhost\r\n", ""));
        assert!((200..500).contains(&status(&told)), "{line}: {told}");
    }
    assert_eq!(status(&server.get("/v1/machines/hidden")), 404);
    assert_eq!(started(&scene), 0);
}

#[test]
fn a_token_counts_in_its_header_alone() {
    let scene = Scene::new("attacks-tokens").file("m.asl.json", PASS);
    let server = Server::start(&scene, &[]);
    let made = scene.one(&["token", "create", "t", "--role", "read"]);
    let token = made["token"].as_str().or(made["secret"].as_str()).expect("it is shown once").to_owned();
    let ask = |line: &str, headers: &str| {
        status(&server.told(&request(line, &format!("Host: localhost\r\n{headers}"), "")))
    };
    assert_eq!(ask("GET /v1/machines", &format!("Authorization: Bearer {token}\r\n")), 200);
    let half = &token[..token.len() - 1];
    for (line, headers) in [
        ("GET /v1/machines".to_owned(), String::new()),
        (format!("GET /v1/machines?access_token={token}"), String::new()),
        ("GET /v1/machines".to_owned(), format!("Cookie: token={token}\r\n")),
        ("GET /v1/machines".to_owned(), format!("X-Authorization: Bearer {token}\r\n")),
        ("GET /v1/machines".to_owned(), format!("Proxy-Authorization: Bearer {token}\r\n")),
        ("GET /v1/machines".to_owned(), format!("Authorization: Basic {token}\r\n")),
        ("GET /v1/machines".to_owned(), format!("Authorization: Bearer {half}\r\n")),
        ("GET /v1/machines".to_owned(), format!("Authorization: Bearer {token}x\r\n")),
        ("GET /v1/machines".to_owned(), format!("Authorization: Bearer {token}, Bearer {token}\r\n")),
        ("GET /v1/machines".to_owned(), "Authorization: Bearer\r\n".to_owned()),
        (
            "GET /v1/machines".to_owned(),
            "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n".to_owned(),
        ),
    ] {
        assert_eq!(ask(&line, &headers), 401, "{line} {headers}");
    }
}
