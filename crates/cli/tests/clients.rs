//! Clients that do not know us: boto3, the `aws` command, the JavaScript SDK, CDK, schemathesis and a client that was
//! generated from our own document, against the real binary.
//!
//! The programs are in `clients/`, each a story with assertions of its own; here they get a server each. One that
//! wants its server ended and started again, or a further one, says so on a line and reads the new address.
//! `scripts/test` installs what they need into `target/`.

mod common;

use common::Scene;
use common::server::{Server, call, wait_until};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The stories that boto3 tells. Between them they call every action.
const STORIES: [&str; 8] =
    ["machines", "versions", "executions", "express", "activities", "map_runs", "test_state", "pages"];

/// So little of everything that a test runs out of it, and keys that do not work.
const SMALL: &str = "
[quotas]
state_machines = 4
activities = 2
executions = 2
pollers = 1
versions = 2
aliases = 1
[kms]
\"alias/good\" = \"enabled\"
\"alias/closed\" = \"denied\"
\"alias/busy\" = \"throttled\"
";

/// A name by which one story asks for its server.
const NAMED: &str = "[serve]\nhosts = 'states.internal'\n";

const ACCESS_KEYS: &str = "AKIAEXAMPLE000000001 wJalrXUtnFEMI0K7MDENG1bPxRfiCYEXAMPLEKEY2\n";

/// Something that `scripts/test` has put below `target/`.
fn installed(path: &str) -> PathBuf {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(path);
    assert!(found.exists(), "target/{path} is missing: scripts/test installs it");
    found
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// A program of Python, with its modules.
fn python(name: &str) -> Command {
    let mut command = Command::new(installed("venv/bin/python3"));
    command.arg(program(&format!("{name}.py"))).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a program against a server of its own, and gives the lines that it printed.
#[track_caller]
fn tell(name: &str, mut command: Command, settings: &str, more: &[&str]) -> Vec<String> {
    let scene =
        Scene::new(&format!("client-{name}")).file("perdura.toml", settings).file("keys", ACCESS_KEYS);
    let mut server = Server::start(&scene, more);
    let mut further = Vec::new();
    let mut child = command
        .arg(url(&server))
        .current_dir(&scene.folder)
        // Nothing of the machine's own settings of AWS.
        .env("AWS_CONFIG_FILE", "none")
        .env("AWS_SHARED_CREDENTIALS_FILE", "none")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(scene.path("errors")).expect("a file can be written"))
        .spawn()
        .unwrap_or_else(|error| panic!("{name} cannot be run: {error}"));
    let mut answers = child.stdin.take().expect("stdin is a pipe");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines() {
        let line = line.expect("it prints text");
        match line.as_str() {
            "restart" => {
                server.end("-TERM");
                server = Server::start(&scene, more);
                writeln!(answers, "{}", url(&server)).expect("it reads the address");
            }
            "another" => {
                let scene = Scene::new(&format!("client-{name}-{}", further.len())).file("perdura.toml", "");
                further.push(Server::start(&scene, &[]));
                writeln!(answers, "{}", further.last().map(url).expect("there is one")).expect("it reads it");
            }
            _ => lines.push(line),
        }
    }
    let ended = child.wait().expect("it ends");
    let errors = std::fs::read_to_string(scene.path("errors")).expect("the errors are there");
    assert!(ended.success(), "{name} ended with {ended}:\n{}\n{errors}", lines.join("\n"));
    lines
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn boto3_drives_every_action() {
    let called = thread::scope(|threads| {
        let stories =
            STORIES.map(|story| (story, threads.spawn(move || tell(story, python(story), NAMED, &[]))));
        let lines = stories.into_iter().flat_map(|(story, ended)| {
            ended.join().unwrap_or_else(|_| panic!("the story of {story} went wrong; see above"))
        });
        let called = lines.filter_map(|line| line.strip_prefix("called ").map(str::to_owned));
        called
            .flat_map(|names| names.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .collect::<BTreeSet<_>>()
    });
    assert_eq!(called.len(), 37, "{called:?}");
}

#[test]
fn each_required_member_is_missed_by_its_name() {
    tell("missing", python("missing"), "", &[]);
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_code() {
    tell("odd", python("odd"), "", &[]);
}

#[test]
fn every_exception_of_the_model_can_be_provoked() {
    tell("exceptions", python("exceptions"), SMALL, &[]);
}

#[test]
fn only_requests_that_are_signed_with_a_known_key_are_taken() {
    tell("signatures", python("signatures"), "", &["--access-key-file", "keys"]);
}

#[test]
fn every_operation_of_ours_answers_as_its_document_says() {
    tell("openapi", python("openapi"), "", &[]);
}

#[test]
fn a_client_that_was_generated_from_the_document_tells_a_story() {
    tell("generated", python("generated"), "", &[]);
}

#[test]
fn the_aws_command_tells_a_story() {
    let mut command = Command::new("bash");
    command.arg(program("story.sh")).arg(installed("venv/bin/aws"));
    tell("aws", command, "", &[]);
}

#[test]
fn the_javascript_sdk_tells_a_story() {
    let mut command = Command::new("node");
    command.arg(program("story.cjs")).env("NODE_PATH", installed("node/node_modules"));
    tell("javascript", command, NAMED, &[]);
}

#[test]
fn a_stack_that_cdk_synthesises_is_deployed_and_runs() {
    let scene = Scene::new("client-cdk").file("perdura.toml", "[functions.charge]\ncommand = ['cat']\n");
    let synthesised = Command::new("node")
        .arg(program("cdk.cjs"))
        .arg(&scene.folder)
        .env("NODE_PATH", installed("node/node_modules"))
        .output()
        .expect("node runs");
    let told = String::from_utf8_lossy(&synthesised.stdout).trim().to_owned();
    assert!(synthesised.status.success(), "{}", String::from_utf8_lossy(&synthesised.stderr));
    let _server = Server::start(&scene, &[]);
    let deployed = scene.on_data(&["deploy", &told]);
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    let input = r#"{"total": 17, "items": ["a", "b"]}"#;
    scene.one(&["start", "orders", "--name", "first", "--input", input]);
    let shown = scene.until_status("first", "SUCCEEDED");
    let shipped = r#""charged":{"total":17},"shipped":[{"shipped":"a"},{"shipped":"b"}]}"#;
    assert_eq!(shown["output"], format!(r#"{{"total":17,"items":["a","b"],{shipped}"#));
    assert_eq!(scene.json(&["activity", "list"])[0]["name"], "pack");
}

/// What each SDK sends beside the protocol's own headers: signed, with the number of the attempt, and asking for compression or
/// not. A request's members are those that were set, in the order of the model in Java and Rust, by name in Go.
const SDKS: [(&str, &[(&str, &str)]); 3] = [
    (
        "go",
        &[
            (
                "User-Agent",
                "aws-sdk-go-v2/1.41.0 ua/2.1 os/linux lang/go#1.25.4 md/GOOS#linux md/GOARCH#amd64 api/sfn#1.40.0",
            ),
            ("Accept-Encoding", "gzip"),
            ("Amz-Sdk-Invocation-Id", "6f1c9d4e-41b1-4b4c-8e0b-1b2b3c4d5e6f"),
            ("Amz-Sdk-Request", "attempt=1; max=3"),
            ("X-Amz-Date", "20261119T060000Z"),
        ],
    ),
    (
        "java",
        &[
            (
                "User-Agent",
                "aws-sdk-java/2.40.0 md/io#sync md/http#Apache ua/2.1 os/Linux#6.1 lang/java#21.0.5 md/OpenJDK_64-Bit_Server_VM",
            ),
            ("amz-sdk-invocation-id", "6f1c9d4e-41b1-4b4c-8e0b-1b2b3c4d5e6f"),
            ("amz-sdk-request", "attempt=1; max=4"),
            ("X-Amz-Date", "20261119T060000Z"),
            ("X-Amz-Security-Token", "session"),
            ("Connection", "close"),
        ],
    ),
    (
        "rust",
        &[
            ("user-agent", "aws-sdk-rust/1.3.9 os/linux lang/rust/1.95.0"),
            ("x-amz-user-agent", "aws-sdk-rust/1.3.9 ua/2.1 api/sfn/1.125.0 os/linux lang/rust/1.95.0 m/E"),
            ("amz-sdk-invocation-id", "6f1c9d4e-41b1-4b4c-8e0b-1b2b3c4d5e6f"),
            ("amz-sdk-request", "attempt=1; max=3"),
            ("x-amz-date", "20261119T060000Z"),
        ],
    ),
];

#[test]
fn requests_in_the_forms_of_other_sdks_are_answered() {
    let scene = Scene::new("client-forms");
    let server = Server::start(&scene, &[]);
    for (sdk, headers) in SDKS {
        let mut headers = headers.to_vec();
        headers.push(("Authorization", "AWS4-HMAC-SHA256 Credential=any/20261119/us-east-1/states/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-target, Signature=00"));
        let ask = |action: &str, body: serde_json::Value| {
            let told = server.told(&call(action, &headers, body.to_string().as_bytes()));
            let (head, answer) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
            assert!(head.starts_with("HTTP/1.1 200 "), "{sdk}, {action}: {told}");
            assert!(head.to_ascii_lowercase().contains("content-type: application/x-amz-json-1.0"), "{head}");
            assert!(head.to_ascii_lowercase().contains("x-amzn-requestid: "), "{head}");
            serde_json::from_str::<serde_json::Value>(answer).expect("an answer is JSON")
        };
        let definition = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;
        let role = "arn:aws:iam::123456789012:role/any";
        let made = ask("CreateStateMachine", json!({"definition": definition, "name": sdk, "roleArn": role}));
        let start =
            json!({"stateMachineArn": made["stateMachineArn"], "name": "once", "input": r#"{"n":1}"#});
        let started = ask("StartExecution", start);
        assert!(started["startDate"].is_number(), "{started}");
        let execution = json!({"executionArn": started["executionArn"]});
        wait_until("it has ended", || ask("DescribeExecution", execution.clone())["status"] == "SUCCEEDED");
        let history = json!({"executionArn": started["executionArn"], "maxResults": 2, "reverseOrder": true});
        assert_eq!(ask("GetExecutionHistory", history)["events"][0]["type"], "ExecutionSucceeded");
        assert_eq!(ask("DeleteStateMachine", json!({"stateMachineArn": made["stateMachineArn"]})), json!({}));
    }
}
