//! What reaches the HTTP side and is no request of a well-behaved client: it is answered as AWS answers, never with a
//! failure of ours, and the next client is served as if nothing had been.

mod common;

use common::Scene;
use common::server::Server;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// A connection over which these bytes were sent.
fn sent(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    match stream.write_all(bytes) {
        Ok(()) => {}
        // It has answered already and does not read the rest.
        Err(error) => assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)),
    }
    stream
}

/// What the server answers to these bytes, after which it closes the connection.
fn answer(server: &Server, bytes: &[u8]) -> String {
    let mut stream = sent(server, bytes);
    let mut answer = Vec::new();
    // What came before a reset counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

const TYPE: &str = "application/x-amz-json-1.0";

fn post(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request = String::from("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").expect("a text takes everything");
    }
    write!(request, "Content-Length: {}\r\n\r\n", body.len()).expect("a text takes everything");
    [request.as_bytes(), body].concat()
}

fn call(action: &str, body: &[u8]) -> Vec<u8> {
    post(&[("Content-Type", TYPE), ("X-Amz-Target", &format!("AWSStepFunctions.{action}"))], body)
}

#[test]
fn whatever_comes_is_answered_as_aws_answers() {
    let scene = Scene::new("edges");
    let server = Server::start(&scene, &[]);
    let deep = "[".repeat(100_000);
    let target = ("X-Amz-Target", "AWSStepFunctions.ListStateMachines");
    let cases: &[(&str, Vec<u8>, &str, &str)] = &[
        ("a call", call("ListStateMachines", b"{}"), "200", r#"{"stateMachines":[]}"#),
        ("a member that nobody knows", call("ListStateMachines", br#"{"color": 1}"#), "200", "stateMachines"),
        (
            "version 1.1 of the protocol",
            post(&[("Content-Type", "application/x-amz-json-1.1"), target], b"{}"),
            "200",
            "stateMachines",
        ),
        ("an unknown action", call("ListDreams", b"{}"), "400", r#""__type":"UnknownOperationException""#),
        (
            "an action of another service",
            post(&[("Content-Type", TYPE), ("X-Amz-Target", "DynamoDB_20120810.ListTables")], b"{}"),
            "400",
            "UnknownOperationException",
        ),
        ("no action", post(&[("Content-Type", TYPE)], b"{}"), "400", "UnknownOperationException"),
        (
            "a form",
            post(
                &[("Content-Type", "application/x-www-form-urlencoded"), target],
                b"Action=ListStateMachines",
            ),
            "400",
            "UnknownOperationException",
        ),
        ("no JSON", call("ListStateMachines", b"{"), "400", "SerializationException"),
        ("no text", call("ListStateMachines", b"\xff\xfe"), "400", "SerializationException"),
        ("nothing", call("ListStateMachines", b""), "400", "SerializationException"),
        ("a list", call("ListStateMachines", b"[]"), "400", "SerializationException"),
        ("brackets without end", call("ListStateMachines", deep.as_bytes()), "400", "SerializationException"),
        (
            "a number for a text",
            call("DescribeExecution", br#"{"executionArn": 7}"#),
            "400",
            "NUMBER_VALUE cannot be converted to String",
        ),
        (
            "a text for a number",
            call("ListStateMachines", br#"{"maxResults": "7"}"#),
            "400",
            "STRING_VALUE cannot be converted to Integer",
        ),
        (
            "a page in a browser",
            post(&[("Content-Type", TYPE), target, ("Origin", "http://elsewhere")], b"{}"),
            "403",
            "MissingAuthenticationTokenException",
        ),
        (
            "another path",
            b"POST /elsewhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
            "404",
            "",
        ),
        (
            "another method",
            b"DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".to_vec(),
            "404",
            "",
        ),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00".to_vec(), "400", ""),
    ];
    for (what, request, status, says) in cases {
        let answer = answer(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
        assert!(answer.contains(says), "{what}: {answer}");
    }
    let half = call("ListStateMachines", b"{}");
    for end in 0..half.len() {
        // A client that hangs up in the middle of its request is told nothing.
        let mut stream = sent(&server, &half[..end]);
        stream.shutdown(Shutdown::Write).expect("a connection can be closed");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("the server closes it too");
        assert!(!told.starts_with("HTTP/1.1 5"), "cut at {end}: {told}");
    }
    assert!(answer(&server, &half).starts_with("HTTP/1.1 200 "), "it serves on");
}

#[test]
fn in_strict_mode_a_request_is_as_large_as_on_aws() {
    let scene = Scene::new("edges-strict");
    let server = Server::start(&scene, &["--strict"]);
    let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2)).into_bytes();
    assert!(answer(&server, &call("ListStateMachines", &padded(1 << 20))).starts_with("HTTP/1.1 200 "));
    let refused = answer(&server, &call("ListStateMachines", &padded((1 << 20) + 1)));
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    let mut chunked = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TYPE}\r\nX-Amz-Target: AWSStepFunctions.ListStateMachines\r\n\
         Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..20 {
        chunked.extend(format!("{:x}\r\n", 1 << 16).into_bytes());
        chunked.extend(vec![b' '; 1 << 16]);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let refused = answer(&server, &chunked);
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
}

#[test]
fn nobody_is_listened_to_from_elsewhere_without_keys() {
    let scene = Scene::new("edges-keys").file("keys", "AKIAEXAMPLE topsecret\n");
    let ended = scene.perdura(&["serve", "--data", "data", "--listen", "0.0.0.0:0"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("serve.access_key_file"), "{ended:?}");
    let server = Server::start(&scene, &["--access-key-file", "keys"]);
    let refused = answer(&server, &call("ListStateMachines", b"{}"));
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(refused.contains("MissingAuthenticationTokenException"), "{refused}");
}
