//! The same for answers of HTTP Tasks, of a Lambda endpoint, of a service of AWS and of children; for callbacks, for a
//! person's word, and for the doors of `/v1`.

use crate::common::Scene;
use crate::common::receiver::{Act, Receiver, Seen};
use crate::common::server::{Server, wait_until};
use crate::{
    Deep, End, Fate, Kept, Marked, Refused, Rewritten, Taken, arn, call, near, settled, shows_inputs, start,
    task, texts,
};
use perdura_asl::json::{self, Value as Document};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use uuid::Uuid;

/// What takes the place of a text that a door refuses.
const INSTEAD: &str = "\"instead\"";

/// What `/v1` says of a body that is no JSON.
const NOT_JSON: u16 = 415;

/// A machine whose Task gets the text of a number from outside.
fn asking(resource: &str, parameters: &Value, path: &str) -> String {
    near(&json!({"Type": "Task", "Resource": resource, "Parameters": parameters, "OutputPath": path}))
        .to_string()
}

/// Answers with the text of the number in the body, in the form in which it is asked for.
fn answered(texts: &[(String, Fate)], seen: &Seen) -> Act {
    let whole = |kind: &str, body: String| Act::Whole(200, format!("Content-Type: {kind}\r\n"), body);
    let asked: Value = serde_json::from_str(&seen.body).expect("a body is JSON");
    let text = |asked: &Value| texts[asked["n"].as_u64().expect("a number") as usize].0.clone();
    match seen.line.split(' ').nth(1).unwrap_or_default() {
        "/token" => whole("application/json", "null".into()),
        "/held" => Act::Answer(500, "{}".into()),
        "/" => {
            let message = asked["MessageBody"].as_str().expect("a message");
            let text = text(&serde_json::from_str(message).expect("JSON"));
            whole("application/x-amz-json-1.0", format!("{{\"MessageId\":{text}}}"))
        }
        // An HTTP Task, or a function, as a URL or at the endpoint of Lambda.
        _ => whole("application/json", text(&asked)),
    }
}

fn scene(receiver: &Receiver) -> Scene {
    let function = |name: &str| task("lambda", &format!("function:{name}"));
    let mut child = function("url");
    child["End"] = true.into();
    let child = json!({"StartAt": "One", "States": {"One": child}}).to_string();
    let post = json!({"ApiEndpoint": receiver.url("/http"), "Method": "POST", "RequestBody.$": "$"});
    let starts = json!({"StateMachineArn": arn("stateMachine", "one"), "Input.$": "$"});
    let sends = json!({"QueueUrl": "q", "MessageBody.$": "States.JsonToString($)"});
    let calls = json!({"FunctionName": "token", "Payload": {"token.$": "$$.Task.Token"}});
    let states = "arn:aws:states:::";
    let config = format!(
        "[functions.url]\nurl = '{0}/url'\n[functions.token]\nurl = '{0}/token'\n\
         [functions.held]\nurl = '{0}/held'\nuncertain = 'hold'\n\
         [lambda]\nendpoint = '{0}'\n[aws.endpoints]\nsqs = '{0}'\n",
        receiver.url("")
    );
    Scene::new("read-back-answers")
        .file("perdura.toml", &config)
        .file("one.json", &child)
        .file("http.json", &asking(&format!("{states}http:invoke"), &post, "$.ResponseBody"))
        .file("lambda.json", &near(&function("elsewhere")).to_string())
        .file("sqs.json", &asking(&format!("{states}aws-sdk:sqs:sendMessage"), &sends, "$.MessageId"))
        .file("child.json", &asking(&format!("{states}states:startExecution.sync"), &starts, "$.Output"))
        .file("child2.json", &asking(&format!("{states}states:startExecution.sync:2"), &starts, "$.Output"))
        .file("callback.json", &asking(&format!("{states}lambda:invoke.waitForTaskToken"), &calls, "$"))
        .file("held.json", &near(&function("held")).to_string())
        .file("input.json", &near(&json!({"Type": "Pass"})).to_string())
        .file("answer.json", &near(&task("states", "activity:answer")).to_string())
}

/// What a POST to `/v1` gives, under a key that is made of a name: its status and body. The body is sent as it is written.
fn post(server: &Server, path: &str, named: &str, body: &str) -> (u16, String) {
    let key = Uuid::new_v5(&Uuid::NAMESPACE_URL, named.as_bytes());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream.write_all((head + body).as_bytes()).expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes, and it is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

/// As it is printed.
fn printed(text: &str) -> String {
    json::parse(text).expect("JSON").to_string()
}

/// The text as a JSON string.
fn quoted(text: &str) -> String {
    Document::from(text).to_string()
}

#[test]
fn what_the_other_doors_take_is_shown_again_byte_for_byte_after_a_crash_too() {
    let texts = texts();
    let receiver = Receiver::start({
        let texts = texts.clone();
        move |_, seen| answered(&texts, seen)
    });
    let scene = scene(&receiver);
    let server = Server::start(&scene, &[]);
    let machines = ["one", "http", "lambda", "sqs", "child", "child2", "callback", "held", "input", "answer"];
    for machine in machines {
        scene.one(&["deploy", &format!("{machine}.json")]);
    }
    assert_eq!(call(&server, "CreateActivity", &json!({"name": "answer"})).0, 200);
    let mut taken = Taken::new();
    for (n, (text, fate)) in texts.iter().enumerate() {
        let as_text = match fate {
            Kept | Deep => Some(&**text),
            Rewritten(other) => Some(*other),
            Refused | Marked(_) => None,
        };
        let as_bytes = if let Marked(other) = fate { Some(*other) } else { as_text };
        let begin = |machine: &str| {
            let (status, told) =
                start(&server, machine, &format!("{machine}{n}"), &json!({"n": n}).to_string());
            assert_eq!(status, 200, "{told}");
        };
        let mut expected = |machine: &str, end: End| {
            taken.insert(format!("{machine}:{machine}{n}"), (n, end));
        };
        let is = |form: Option<String>| form.map_or(End::Failed, End::Both);
        for machine in ["http", "lambda", "sqs", "child", "child2", "callback", "held", "answer"] {
            begin(machine);
        }
        // What claims to be JSON and cannot be read as such, or is too deep to be passed on, stays a text.
        let is_read = as_bytes.filter(|_| *fate != Deep);
        expected("http", End::Both(is_read.map_or_else(|| quoted(text), printed)));
        expected("lambda", End::of(*fate, as_bytes));
        expected("sqs", is(as_text.filter(|_| *fate != Deep).map(printed)));
        expected("child", is(as_bytes.map(quoted)));
        expected("child2", is(is_read.map(printed)));
        answer_callbacks(&server, &receiver, n, text, as_text.is_some());
        expected("callback", End::of(*fate, as_text.or(Some(INSTEAD))));
        // A body of `/v1`, which the command sends too, is one deeper than the document in it.
        let in_body = as_text.filter(|_| *fate != Deep);
        let or_instead = in_body.unwrap_or(INSTEAD).to_owned();
        let code = if as_text.is_none() { 2 } else { i32::from(*fate == Deep) };
        resolve(&scene, &server, &format!("held{n}"), text, code);
        expected("held", End::Both(or_instead.clone()));
        complete(&server, n, text, in_body.is_some());
        expected("answer", End::Both(or_instead));
        let body = format!("{{\"machine\":\"input\",\"name\":\"input{n}\",\"input\":{text}}}");
        let (status, told) = post(&server, "/v1/executions", &format!("start-{n}"), &body);
        assert_eq!(status, if in_body.is_some() { 201 } else { NOT_JSON }, "{text:.80}: {told}");
        if let Some(text) = in_body {
            expected("input", End::Both(text.to_owned()));
        }
    }
    let ended = settled(&scene, server, &texts, &taken);
    shows_inputs(&ended, &texts, &taken);
}

/// Answers both callbacks of the newest execution: the `n`th.
fn answer_callbacks(server: &Server, receiver: &Receiver, n: usize, text: &str, is_taken: bool) {
    let handed_over = || -> Vec<String> {
        let seen = receiver.seen();
        seen.into_iter().filter(|seen| seen.line.contains(" /token ")).map(|seen| seen.body).collect()
    };
    wait_until("both callbacks are handed over", || handed_over().len() == 2 * (n + 1));
    for body in &handed_over()[2 * n..] {
        let asked: Value = serde_json::from_str(body).expect("JSON");
        let succeed = |output: &str| {
            call(server, "SendTaskSuccess", &json!({"taskToken": asked["token"], "output": output})).0
        };
        assert_eq!(succeed(text), if is_taken { 200 } else { 400 }, "{text:.80}");
        if !is_taken {
            assert_eq!(succeed(INSTEAD), 200);
        }
    }
}

/// Says of both held calls of an execution that they were done, with this text as their result: of one by the command,
/// which ends with this code, of the other through `/v1`.
fn resolve(scene: &Scene, server: &Server, name: &str, text: &str, code: i32) {
    let list = ["ledger", "--execution", name];
    let held =
        scene.until(&list, |held| held.len() == 2 && held.iter().all(|entry| entry["status"] == "uncertain"));
    let [first, second] = [&held[0], &held[1]].map(|entry| entry["key"].as_str().expect("a key"));
    let by_command = |result: &str, code: i32| {
        let resolve = ["ledger", "resolve", first, "--completed", result, "--reason", "somebody looked"];
        let ended = scene.on_data(&resolve);
        assert_eq!(ended.code, Some(code), "{text:.80}: {ended:?}");
    };
    let by_request = |result: &str, status: u16| {
        let body = format!("{{\"key\":\"{second}\",\"completed\":{result},\"reason\":\"somebody looked\"}}");
        let told = post(server, "/v1/ledger/resolve", &format!("{name}-{status}"), &body);
        assert_eq!(told.0, status, "{text:.80}: {told:?}");
    };
    // More than fits on a command line comes in a file.
    let given = if text.len() > 100_000 {
        std::fs::write(scene.path("result.json"), text).expect("a file can be written");
        "@result.json"
    } else {
        text
    };
    by_command(given, code);
    by_request(text, if code == 0 { 200 } else { NOT_JSON });
    if code != 0 {
        by_command(INSTEAD, 0);
        by_request(INSTEAD, 200);
    }
}

/// Says of both tasks of the newest execution that they are done, through `/v1`.
fn complete(server: &Server, n: usize, text: &str, is_taken: bool) {
    for branch in 0..2 {
        let (_, task) = call(server, "GetActivityTask", &json!({"activityArn": arn("activity", "answer")}));
        let succeed = |output: &str, key: &str| {
            let body = format!("{{\"token\":{},\"output\":{output}}}", task["taskToken"]);
            post(server, "/v1/tasks/complete", &format!("{key}-{n}-{branch}"), &body).0
        };
        assert_eq!(succeed(text, "first"), if is_taken { 204 } else { NOT_JSON }, "{text:.80}");
        if !is_taken {
            assert_eq!(succeed(INSTEAD, "second"), 204);
        }
    }
}
