//! Services of AWS, called by the command: addresses from the file, credentials from the environment.

mod common;

use common::{Ended, Scene};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

const MACHINE: &str = r#"{"StartAt": "Send", "States": {"Send": {"Type": "Task", "End": true,
    "Resource": "arn:aws:states:::aws-sdk:sqs:sendMessage", "Parameters": {"QueueUrl": "q", "MessageBody": {"a": 1}}}}}"#;

/// A request's headers, by their names in lower case, and its body.
type Request = (BTreeMap<String, String>, String);

/// A queue that takes one message, and tells how it came.
fn queue() -> (SocketAddr, JoinHandle<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody calls");
        let mut reader = BufReader::new(stream);
        let mut headers = BTreeMap::new();
        for line in reader.by_ref().lines().skip(1) {
            let line = line.expect("headers are text");
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers["content-length"].parse().expect("a number");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body comes");
        let answer = r#"{"MessageId":"m-1"}"#;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        reader.into_inner().write_all((head + answer).as_bytes()).expect("the answer is taken");
        (headers, String::from_utf8(body).expect("text"))
    });
    (address, server)
}

fn scene(name: &str, config: &str) -> Scene {
    Scene::new(name).file("m.asl.json", MACHINE).file("perdura.toml", config)
}

fn run(scene: &Scene, arguments: &[&str], access_key: &str) -> Ended {
    let all = [&["run", "m.asl.json"], arguments].concat();
    let mut command = scene.command(&all);
    command.env("AWS_ACCESS_KEY_ID", access_key).env("AWS_SECRET_ACCESS_KEY", "hidden-secret");
    command.env("AWS_SESSION_TOKEN", "a-token").output().expect("perdura runs").into()
}

#[test]
fn a_service_is_called_with_the_credentials_of_the_environment() {
    for arguments in [&[][..], &["--data", "d", "--name", "n"]] {
        let (address, server) = queue();
        let config = format!("[aws]\nregion = 'eu-west-1'\n[aws.endpoints]\nsqs = 'http://{address}'");
        let scene = scene("services-signed", &config);
        let ended = run(&scene, arguments, "AKIDEXAMPLE");
        ended.gives(r#"{"MessageId":"m-1"}"#);
        let (headers, body) = server.join().expect("it ends");
        assert_eq!(body, r#"{"QueueUrl":"q","MessageBody":"{\"a\":1}"}"#);
        assert_eq!(
            (&*headers["x-amz-target"], &*headers["x-amz-security-token"]),
            ("AmazonSQS.SendMessage", "a-token")
        );
        let authorization = &headers["authorization"];
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
        assert!(authorization.contains("/eu-west-1/sqs/aws4_request"), "{authorization}");
        assert!(
            !ended.stderr.contains("hidden-secret") && !ended.stderr.contains("a-token"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn credentials_that_cannot_be_sent_are_refused_before_anything_runs() {
    let scene = scene("services-broken", "[aws]\nendpoint = 'http://127.0.0.1:1'");
    let ended = run(&scene, &[], "AKID EXAMPLE");
    assert!(ended.code != Some(0) && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains("credentials of AWS: the access key id or the session token"), "{ended:?}");
}

#[test]
fn a_service_without_an_address_is_a_warning_where_there_is_a_configuration() {
    let warning = "warning[UNCONFIGURED_SERVICE]: \"Send\" calls arn:aws:states:::aws-sdk:sqs:sendMessage, and sqs has \
                   no address";
    for (config, is_warned) in [
        (None, false),
        (Some("[aws.endpoints]\nsns = 'http://127.0.0.1:1'"), true),
        (Some("[aws]\nendpoint = 'http://127.0.0.1:1'"), false),
    ] {
        let mut scene = Scene::new("services-warning").file("m.asl.json", MACHINE);
        if let Some(config) = config {
            scene = scene.file("perdura.toml", config);
        }
        let ended = scene.perdura(&["validate", "m.asl.json"]);
        assert_eq!(
            (ended.code, ended.stderr.contains(warning)),
            (Some(0), is_warned),
            "{config:?}: {ended:?}"
        );
    }
    let scene = scene("services-mistake", "[aws.endpoints]\nsqss = 'http://a'");
    let ended = scene.perdura(&["validate", "m.asl.json"]);
    assert!(ended.stderr.contains("aws.endpoints: \"sqss\" is no service that can be called"), "{ended:?}");
}
