//! What cases of other services need: moto's server, with the queues, topics, buckets and objects that a case calls.
//!
//! The recordings say which they were only by how they are used, so they are made from that: a queue where an input
//! names one, an object with the items that the recorded output shows. A case in which AWS found none has none.

use super::client::Client;
use super::recording::{Case, text};
use perdura_engine::asl::json::{Map, Value, parse};
use perdura_engine::asl::object;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

/// The group of logs of all cases.
pub(crate) const LOG_GROUP_NAME: &str = "recorded";
const LOG_GROUP: &str = "arn:aws:logs:us-east-1:000000000000:log-group:recorded:*";

/// AWS encrypts every object, and says so.
const ENCRYPTED: &str = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
    <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
    </ServerSideEncryptionConfiguration>";

/// Errors of AWS by which a case says that what it names is not there.
const MISSING: [&str; 2] = ["SNS.NotFoundException", "S3.NoSuchBucketException"];

pub(crate) struct Moto {
    server: Child,
    address: String,
}

impl Moto {
    pub(crate) fn start() -> Self {
        let room = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = room.join("../../target/venv/bin/python");
        assert!(program.exists(), "target/venv is missing: scripts/test installs it");
        let mut server = Command::new(program)
            .arg(room.join("tests/conformance/services.py"))
            .arg("0")
            .env("MOTO_ACCOUNT_ID", "000000000000")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto starts");
        let mut lines = BufReader::new(server.stderr.take().expect("a pipe")).lines();
        let address = lines
            .by_ref()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.split_once("Running on http://")?.1.trim().to_owned()))
            .expect("moto says where it listens");
        // It logs every request, and would wait for somebody to read them.
        thread::spawn(move || lines.for_each(drop));
        log_group(&mut Client::new(&address));
        Self { server, address }
    }

    /// What the server under test has to know of it.
    pub(crate) fn settings(&self) -> String {
        let Self { address, .. } = self;
        let services = ["cloudwatchlogs", "dynamodb", "s3", "secretsmanager", "sns", "sqs"];
        let endpoints = services.map(|service| format!("{service} = 'http://{address}'\n")).concat();
        format!("[aws.endpoints]\n{endpoints}[items]\nendpoint = 'http://{address}'\nallow_http = true\n")
    }

    /// Makes what a case needs, and gives the case with the names of what was made.
    pub(crate) fn furnish(&self, case: Case) -> Case {
        if case.tier != "services" {
            return case;
        }
        let recorded = case.value.get("expected").map(Value::to_string).unwrap_or_default();
        let is_missing = MISSING.iter().any(|error| recorded.contains(error));
        let mut client = Client::new(&self.address);
        let name: String =
            case.file.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let name = &name[name.len().saturating_sub(60)..];
        let calls = case.calls().iter().map(|call| {
            let call = &logged(call);
            let start = call.get("params").filter(|_| text(call, "op") == "StartExecution");
            let input = start.and_then(|params| parse(text(params, "input")).ok());
            let (Some(params), Some(input)) = (start.and_then(Value::as_object), input) else {
                return call.clone();
            };
            let mut input: Map = input.as_object().cloned().unwrap_or_default();
            if input.contains_key("QueueUrl") {
                input.insert("QueueUrl", queue(&mut client, name));
            }
            if input.contains_key("TopicArn") {
                input.insert("TopicArn", format!("arn:aws:sns:us-east-1:000000000000:{name}"));
                if !is_missing {
                    topic(&mut client, name);
                }
            }
            if let Some(bucket) = input.get("Bucket").and_then(Value::as_str).filter(|_| !is_missing) {
                put(&mut client, bucket, "");
                put(&mut client, &format!("{bucket}?encryption"), ENCRYPTED);
                for (key, body) in objects(&case, input.get("Key").and_then(Value::as_str)) {
                    put(&mut client, &format!("{bucket}/{key}"), &body);
                }
            }
            let mut params = params.clone();
            params.insert("input", Value::from(input).to_string());
            with(call, "params", params.into())
        });
        let calls: Vec<Value> = calls.collect();
        let value = with(&case.value, "calls", calls.into());
        Case { value, ..case }
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.server.kill().expect("moto can be stopped");
        self.server.wait().expect("moto stops");
    }
}

fn with(value: &Value, name: &'static str, member: Value) -> Value {
    let mut members: Map = value.as_object().cloned().unwrap_or_default();
    members.insert(name, member);
    members.into()
}

/// With a group of logs wherever one is named.
fn logged(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| match &**name {
                "logGroupArn" => (name.clone(), LOG_GROUP.into()),
                _ => (name.clone(), logged(member)),
            });
            members.collect::<Map>().into()
        }
        Value::Array(items) => items.iter().map(logged).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// Moto tells services apart by what requests are signed for.
fn signed(service: &str) -> (&'static str, String) {
    let scope = format!("AKIDEXAMPLE/20260101/us-east-1/{service}/aws4_request");
    ("Authorization", format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"))
}

fn queue(client: &mut Client, name: &str) -> Value {
    let head = [
        signed("sqs"),
        ("X-Amz-Target", "AmazonSQS.CreateQueue".to_owned()),
        ("Content-Type", "application/x-amz-json-1.0".to_owned()),
    ];
    let wanted = object! {"QueueName" => name}.to_string();
    let (status, body) = client.send("POST", "/", &head, wanted.as_bytes());
    let answer = parse(&String::from_utf8_lossy(&body)).expect("moto answers in JSON");
    assert_eq!(status, 200, "{answer}");
    text(&answer, "QueueUrl").into()
}

fn log_group(client: &mut Client) {
    let head = [
        signed("logs"),
        ("X-Amz-Target", "Logs_20140328.CreateLogGroup".to_owned()),
        ("Content-Type", "application/x-amz-json-1.1".to_owned()),
    ];
    let wanted = object! {"logGroupName" => LOG_GROUP_NAME}.to_string();
    let (status, body) = client.send("POST", "/", &head, wanted.as_bytes());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

fn topic(client: &mut Client, name: &str) {
    let head = [signed("sns"), ("Content-Type", "application/x-www-form-urlencoded".to_owned())];
    let form = format!("Action=CreateTopic&Version=2010-03-31&Name={name}");
    let (status, body) = client.send("POST", "/", &head, form.as_bytes());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

/// A bucket, something about it, or an object in it.
fn put(client: &mut Client, path: &str, body: &str) {
    let (status, answer) = client.send("PUT", &format!("/{path}"), &[signed("s3")], body.as_bytes());
    assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&answer));
}

/// The objects that the recorded output was made of: key and body.
fn objects(case: &Case, key: Option<&str>) -> Vec<(String, String)> {
    let output = output(case);
    let Some(key) = key else {
        let listed = output.as_array().unwrap_or_default().iter();
        let size = |item: &Value| {
            item.get("Size").and_then(Value::as_i64).and_then(|size| usize::try_from(size).ok())
        };
        return listed
            .map(|item| (text(item, "Key").to_owned(), "x".repeat(size(item).unwrap_or(0))))
            .collect();
    };
    if output.get("Body").is_some() {
        return vec![(key.to_owned(), text(&output, "Body").to_owned())];
    }
    let mut items: Vec<Value> = Vec::new();
    for item in output.as_array().unwrap_or_default() {
        match item.get("Items").and_then(Value::as_array) {
            Some(batch) => items.extend_from_slice(batch),
            None => items.push(item.clone()),
        }
    }
    let is_limited = case.calls().iter().any(|call| call.to_string().contains("MaxItems"));
    // One more than is read, so that a limit is seen to hold.
    if let (true, Some(last)) = (is_limited && !reads_all(case), items.last().cloned()) {
        items.push(last);
    }
    let body = if key.rsplit_once('.').is_some_and(|(_, kind)| kind == "csv") {
        csv(&items)
    } else {
        Value::from(items).to_string()
    };
    vec![(key.to_owned(), body)]
}

/// Whether the limit of a case is none: 0, or more than AWS reads.
fn reads_all(case: &Case) -> bool {
    let inputs =
        case.calls().iter().map(|call| call.get("params").map(|params| text(params, "input").to_owned()));
    let limits = inputs.flatten().filter_map(|input| parse(&input).ok()?.get("MaxItems")?.as_i64());
    limits.into_iter().any(|limit| limit <= 0 || limit > 1_000)
}

/// What the execution gave, whether it is recorded as a text or parsed.
fn output(case: &Case) -> Value {
    let recorded = case.recorded();
    let mut ends = recorded.iter().filter_map(|one| one.answer.get("events")?.as_array()?.last());
    let output = ends.find_map(|end| end.get("executionSucceededEventDetails")?.get("output"));
    match output {
        Some(Value::String(written)) => parse(written).unwrap_or_default(),
        Some(parsed) => parsed.clone(),
        None => {
            // A Map Run that is only counted; what its items are does not matter.
            let counted =
                recorded.iter().filter_map(|one| one.answer.get("itemCounts")?.get("total")?.as_i64());
            let items = (0..counted.max().unwrap_or(2)).map(|item| object! {"Item" => item.to_string()});
            items.collect::<Vec<_>>().into()
        }
    }
}

fn csv(items: &[Value]) -> String {
    let line = |cells: Vec<&str>| format!("{}\n", cells.join(","));
    let Some(first) = items.first().and_then(Value::as_object) else { return String::new() };
    let names: Vec<&str> = first.keys().map(|name| &**name).collect();
    let rows = items.iter().map(|item| line(names.iter().map(|name| text(item, name)).collect()));
    [line(names.clone())].into_iter().chain(rows).collect()
}
