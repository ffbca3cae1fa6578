//! Whatever any door takes can be read back: after being passed on, put into lists, given to children, and after a crash.

mod answers;
#[path = "../common/mod.rs"]
mod common;

use common::Scene;
use common::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a door does with a text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Takes it as it is.
    Kept,
    /// Takes it in another way of writing.
    Rewritten(&'static str),
    /// Refuses it.
    Refused,
    /// Refuses it as text; where bytes are read, takes what stands behind the byte order mark.
    Marked(&'static str),
    /// Takes it as it is; in a list it is too deep.
    Deep,
}

use Fate::{Deep, Kept, Marked, Refused, Rewritten};

fn texts() -> Vec<(String, Fate)> {
    let mut texts: Vec<(String, Fate)> = [
        ("\u{feff}{\"a\":1}", Marked("{\"a\":1}")),
        ("\u{feff}\"x\"", Marked("\"x\"")),
        ("\u{feff}\u{feff}1", Refused),
        ("{\"a\":\u{feff}1}", Refused),
        ("\"a\u{feff}b\"", Kept),
        (r#"{"\ufeff":"\u0000\u001f"}"#, Kept),
        (r#"{"a":"x\ud800y"}"#, Rewritten(r#"{"a":"x\ufffdy"}"#)),
        (r#"{"\ud800":1,"\ud801":2}"#, Refused),
        (r#"["\ud83d\ude00"]"#, Kept),
        ("[-0,-0.0,0e10,1.0,9007199254740993,1e-7,123456789012345678901234567890]", Kept),
        ("1e400", Refused),
        (r#"{"a":1,"b":2,"a":3}"#, Rewritten(r#"{"a":3,"b":2}"#)),
        ("{ \"a\" : [ 1 ] }", Kept),
        ("{} {}", Refused),
        ("{\"a\":1}x", Refused),
        ("{\"a\":1,}", Refused),
        ("'a'", Refused),
        ("\"\u{7f}\u{fffe}\u{10ffff}\u{2028}\"", Kept),
    ]
    .map(|(text, fate)| (text.to_owned(), fate))
    .to_vec();
    texts.push((format!("\"{}\"", "é😀".repeat(20_000)), Kept));
    for (depth, fate) in [(254, Kept), (256, Deep), (257, Refused), (100_000, Refused)] {
        texts.push(("[".repeat(depth) + &"]".repeat(depth), fate));
    }
    texts
}

/// `first` in both branches of a Parallel, then each of the results through an inline and through a distributed Map.
fn machine(first: &Value) -> String {
    let mut machine = near(first);
    let pass = json!({"Type": "Pass", "End": true});
    let states = &mut machine["States"];
    states["Near"]["Next"] = "Far".into();
    states["Near"].as_object_mut().expect("a state").remove("End");
    states["Far"] = json!({"Type": "Map", "ItemProcessor": {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "There", "States": {"There": pass}}, "End": true});
    machine.to_string()
}

/// The same without the distributed Map.
fn near(first: &Value) -> Value {
    let pass = json!({"Type": "Pass", "End": true});
    let mut first = first.clone();
    first["End"] = true.into();
    let branch = |name: &str| json!({"StartAt": name, "States": {name: first}});
    json!({"StartAt": "Both", "States": {
        "Both": {"Type": "Parallel", "Branches": [branch("One"), branch("Two")], "Next": "Near"},
        "Near": {"Type": "Map", "ItemProcessor": {"StartAt": "Here", "States": {"Here": pass}}, "End": true},
    }})
}

/// What the API answers.
fn call(server: &Server, action: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: AWSStepFunctions.{action}\r\nContent-Length: {}\r\n\r\n",
        server.address,
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream.write_all((head + &body).as_bytes()).expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes, and it is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (
        head[9..12].parse().expect("a status"),
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")),
    )
}

/// Waits for the end of an execution, and gives all that is told of it.
fn told(server: &Server, arn: &str) -> (Value, Value) {
    let began = Instant::now();
    loop {
        let (status, shown) = call(server, "DescribeExecution", &json!({"executionArn": arn}));
        assert_eq!(status, 200, "{shown}");
        if shown["status"] != "RUNNING" {
            let (status, history) =
                call(server, "GetExecutionHistory", &json!({"executionArn": arn, "maxResults": 1000}));
            assert_eq!(status, 200, "{history}");
            return (shown, history);
        }
        assert!(began.elapsed() < PATIENCE, "{shown}");
        std::thread::yield_now();
    }
}

fn arn(kind: &str, rest: &str) -> String {
    format!("arn:aws:states:us-east-1:123456789012:{kind}:{rest}")
}

fn start(server: &Server, machine: &str, name: &str, input: &str) -> (u16, Value) {
    let body = json!({"stateMachineArn": arn("stateMachine", machine), "name": name, "input": input});
    call(server, "StartExecution", &body)
}

/// Answers every POST of `{"n": …}` with the text of that number.
fn receiver(texts: Vec<(String, Fate)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("somebody calls"));
            // A server that is killed while it asks has asked for nothing.
            let Some(number) = asked(&mut reader) else { continue };
            let text = &texts[number].0;
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", text.len());
            // A caller that goes away has what it wanted.
            let _ = reader.into_inner().write_all((head + text).as_bytes());
        }
    });
    address
}

/// The number in a request; `None`: its caller went away before it had sent it.
fn asked(reader: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    for line in reader.by_ref().lines() {
        let line = line.ok()?.to_ascii_lowercase();
        length = line.strip_prefix("content-length: ").map_or(length, |text| text.parse().expect("a length"));
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice::<Value>(&body).ok()?["n"].as_u64().map(|number| number as usize)
}

/// How an execution must end.
enum End {
    Failed,
    /// Its results cannot stand in a list.
    TooDeep,
    /// Both branches gave this text.
    Both(String),
}

impl End {
    /// That of one that took this form of a text; none: it took nothing.
    fn of(fate: Fate, form: Option<&str>) -> Self {
        match form {
            None => Self::Failed,
            Some(_) if fate == Deep => Self::TooDeep,
            Some(text) => Self::Both(text.into()),
        }
    }
}

/// What an execution that was given `text` must say at its end.
fn expect(what: &str, text: &str, end: &End, (shown, history): &(Value, Value)) {
    let taken = match end {
        End::Failed => {
            assert_eq!(shown["status"], "FAILED", "{what}: {text:.80}");
            return;
        }
        End::TooDeep => {
            assert_eq!(
                (&shown["status"], &shown["error"]),
                (&"FAILED".into(), &"States.DataLimitExceeded".into()),
                "{what}"
            );
            return;
        }
        End::Both(taken) => taken,
    };
    assert_eq!(shown["status"], "SUCCEEDED", "{what}: {text:.80} {shown}");
    let joined = history["events"].as_array().expect("events").iter().find_map(|event| {
        let left = &event["stateExitedEventDetails"];
        (left["name"] == "Both").then(|| left["output"].as_str().expect("a text").to_owned())
    });
    assert_eq!(joined.expect("Both was left"), format!("[{taken},{taken}]"), "{what}: byte for byte");
    let output = shown["output"].as_str().expect("an output");
    // Items of a Map are taken out of their list and printed anew.
    let printed = |text: &str| perdura_asl::json::parse(text).expect("JSON").to_string();
    assert_eq!(output, printed(&format!("[{taken},{taken}]")), "{what}: {text:.80}");
}

#[test]
fn whatever_is_taken_is_shown_again_byte_for_byte_after_a_crash_too() {
    let texts = texts();
    let scene = Scene::new("read-back")
        .file("input.json", &machine(&json!({"Type": "Pass"})))
        .file("command.json", &machine(&task("lambda", "function:command")))
        .file("url.json", &machine(&task("lambda", "function:url")))
        .file("answer.json", &machine(&task("states", "activity:answer")))
        .file("print.sh", "cat texts/$(tr -cd 0-9)")
        .file(
            "perdura.toml",
            &format!(
                "[functions.command]\ncommand = ['sh', 'print.sh']\n[functions.url]\nurl = 'http://{}/'\n",
                receiver(texts.clone())
            ),
        );
    std::fs::create_dir(scene.path("texts")).unwrap();
    for (n, (text, _)) in texts.iter().enumerate() {
        std::fs::write(scene.path("texts").join(n.to_string()), text).unwrap();
    }
    let server = Server::start(&scene, &[]);
    for machine in ["input", "command", "url", "answer"] {
        scene.one(&["deploy", &format!("{machine}.json")]);
    }

    assert_eq!(call(&server, "CreateActivity", &json!({"name": "answer"})).0, 200);
    let mut taken = Taken::new();
    for (n, (text, fate)) in texts.iter().enumerate() {
        // What came as text.
        let as_text = match fate {
            Kept | Deep => Some(&**text),
            Rewritten(other) => Some(*other),
            Refused | Marked(_) => None,
        };
        let (status, answer) = start(&server, "input", &format!("i{n}"), text);
        if as_text.is_some() {
            assert_eq!(status, 200, "{text:.80}: {answer}");
            taken.insert(format!("input:i{n}"), (n, End::of(*fate, as_text)));
        } else {
            assert_eq!(
                (status, &answer["__type"]),
                (400, &"InvalidExecutionInput".into()),
                "{text:.80}: {answer}"
            );
            let said = answer["message"].as_str().expect("a message");
            // What AWS would refuse too is told in its words, which have no place.
            assert!(said.starts_with("Invalid State Machine Execution Input: '"), "{said:.400}");
        }
        // What came as bytes.
        let as_bytes = if let Marked(other) = fate { Some(*other) } else { as_text };
        for machine in ["command", "url"] {
            let (status, answer) =
                start(&server, machine, &format!("{machine}{n}"), &json!({"n": n}).to_string());
            assert_eq!(status, 200, "{answer}");
            taken.insert(format!("{machine}:{machine}{n}"), (n, End::of(*fate, as_bytes)));
        }
        // What a worker answers, in both branches.
        let (status, answer) = start(&server, "answer", &format!("a{n}"), "{}");
        assert_eq!(status, 200, "{answer}");
        for _ in 0..2 {
            let (_, task) =
                call(&server, "GetActivityTask", &json!({"activityArn": arn("activity", "answer")}));
            assert_eq!((status, task["taskToken"].is_string()), (200, true), "{task}");
            let succeed = |output: &str| {
                call(&server, "SendTaskSuccess", &json!({"taskToken": task["taskToken"], "output": output}))
            };
            let (status, answer) = succeed(text);
            if as_text.is_some() {
                assert_eq!(status, 200, "{text:.80}: {answer}");
            } else {
                assert_eq!(
                    (status, &answer["__type"]),
                    (400, &"InvalidOutput".into()),
                    "{text:.80}: {answer}"
                );
                assert_eq!(succeed("\"instead\"").0, 200);
            }
        }
        taken.insert(format!("answer:a{n}"), (n, End::of(*fate, as_text.or(Some("\"instead\"")))));
    }
    let ended = settled(&scene, server, &texts, &taken);
    shows_inputs(&ended, &texts, &taken);
}

/// How executions that were given the text of a number must end, by name.
type Taken = BTreeMap<String, (usize, End)>;
/// All that is told of each.
type Told = BTreeMap<String, (Value, Value)>;

/// Inputs are shown as they were taken.
fn shows_inputs(ended: &Told, texts: &[(String, Fate)], taken: &Taken) {
    for (name, (n, _)) in taken.iter().filter(|(name, _)| name.starts_with("input:")) {
        let (text, fate) = &texts[*n];
        let text = if let Rewritten(other) = fate { other } else { &**text };
        assert_eq!(ended[name].0["input"].as_str(), Some(text), "what is shown is what was taken");
    }
}

/// All that is told of each at its end, which is as it must be, and the same after a crash.
fn settled(scene: &Scene, server: Server, texts: &[(String, Fate)], taken: &Taken) -> Told {
    let ended: Told =
        taken.keys().map(|name| (name.clone(), told(&server, &arn("execution", name)))).collect();
    for (name, (n, end)) in taken {
        expect(name, &texts[*n].0, end, &ended[name]);
    }
    assert_eq!(server.end("-KILL"), None);
    let server = Server::start(scene, &[]);
    for name in taken.keys() {
        assert_eq!(told(&server, &arn("execution", name)), ended[name], "{name} after a crash");
    }
    drop(server);
    let checked = scene.on_data(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    ended
}

/// A Task of this resource.
fn task(service: &str, rest: &str) -> Value {
    json!({"Type": "Task", "Resource": format!("arn:aws:{service}:us-east-1:123456789012:{rest}")})
}

/// A Distributed Map over a file, and its results in a list and in files.
fn reads(format: &str, writes: bool) -> String {
    let mut each = json!({"Type": "Map", "End": true, "Label": "each",
        "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": format},
            "Parameters": {"Bucket": "in", "Key": "items"}},
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "There", "States": {"There": {"Type": "Pass", "End": true}}}});
    if format == "CSV" {
        each["ItemReader"]["ReaderConfig"]["CSVHeaderLocation"] = "FIRST_ROW".into();
    }
    if writes {
        each["ResultWriter"] = json!({"Resource": "arn:aws:states:::s3:putObject",
            "Parameters": {"Bucket": "out", "Prefix": "all"}});
    }
    json!({"StartAt": "Each", "States": {"Each": each}}).to_string()
}

#[test]
fn items_of_a_file_are_taken_as_inputs_are() {
    let config =
        "[items]\nlocal = 'files'\n[items.buckets.in]\nfolder = 'in'\n[items.buckets.out]\nfolder = 'out'\n";
    let mut kept = Vec::new();
    for (text, fate) in texts() {
        match fate {
            Kept if text.len() < 200 => kept.push(text),
            Rewritten(other) => kept.push(other.replace("\\ufffd", "\u{fffd}")),
            Kept | Refused | Marked(_) | Deep => {}
        }
    }
    let plain = |text: &str| -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let all = plain(&format!("[{}]", kept.join(",")));
    let rows = "\u{feff}name,value\nx,\u{feff}\n\"a\u{0}b\",-0\n";
    for (format, text, expected) in [
        ("JSONL", format!("\u{feff}{}\n", kept.join("\n")), all.clone()),
        ("JSON", format!("\u{feff}[{}]", kept.join(", ")), all.clone()),
        (
            "CSV",
            rows.to_owned(),
            json!([{"name": "x", "value": "\u{feff}"}, {"name": "a\u{0}b", "value": "-0"}]),
        ),
    ] {
        for writes in [false, true] {
            let scene = Scene::new(&format!("read-back-{format}-{writes}")).file("perdura.toml", config);
            for folder in ["files/in", "files/out"] {
                std::fs::create_dir_all(scene.path(folder)).unwrap();
            }
            let scene = scene.file("m.json", &reads(format, writes)).file("files/in/items", &text);
            let ended = scene.perdura(&["run", "m.json", "--data", "data", "--name", "all", "--quiet"]);
            assert_eq!(ended.code, Some(0), "{format}: {ended:?}");
            let output = plain(ended.stdout.trim());
            let found = if writes {
                let file = |key: &Value| {
                    let key = key.as_str().expect("a key");
                    plain(&std::fs::read_to_string(scene.path("files/out").join(key)).unwrap())
                };
                let manifest = file(&output["ResultWriterDetails"]["Key"]);
                let children = file(&manifest["ResultFiles"]["SUCCEEDED"][0]["Key"]);
                children
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|child| plain(child["Output"].as_str().unwrap()))
                    .collect()
            } else {
                output
            };
            assert_eq!(found.to_string(), expected.to_string(), "{format}");
            let checked = scene.on_data(&["check"]);
            assert_eq!(checked.code, Some(0), "{checked:?}");
        }
    }
    for (format, text, why) in [
        ("JSONL", "1\n\u{feff}2\n", "line 2 is not valid JSON: a byte order mark"),
        ("JSON", "[1,\u{feff}2]", "byte order mark"),
        ("JSONL", r#"{"\udc00":1}"#, "half of a surrogate pair"),
    ] {
        let scene = Scene::new("read-back-refused")
            .file("perdura.toml", config)
            .file("m.json", &reads(format, false));
        for folder in ["files/in", "files/out"] {
            std::fs::create_dir_all(scene.path(folder)).unwrap();
        }
        let scene = scene.file("files/in/items", text);
        let ended = scene.perdura(&["run", "m.json", "--data", "data", "--quiet"]);
        ended.fails(1, &["States.ItemReaderFailed", why]);
    }
}

#[test]
fn a_file_may_begin_with_a_byte_order_mark_and_a_text_may_not() {
    let mock = "\u{feff}{\"One\": [{\"result\": {\"a\": -0}}], \"Two\": [{\"result\": [-0.0]}]}";
    let scene = Scene::new("read-back-files")
        .file("m.json", &format!("\u{feff}{}", machine(&json!({"Type": "Pass"}))))
        .file("t.json", &machine(&task("lambda", "function:f")))
        .file("in.json", "\u{feff}{\"a\": -0}")
        .file("mock.json", mock);
    let output = "[{\"a\":-0},{\"a\":-0}]";
    scene.perdura(&["run", "m.json", "--input", "@in.json", "--data", "data", "--quiet"]).gives(output);
    let refused = scene.perdura(&["run", "m.json", "--input", "\u{feff}{}", "--data", "data", "--quiet"]);
    refused.fails(2, &["byte order mark"]);
    scene.perdura(&["run", "t.json", "--mock", "mock.json", "--quiet"]).gives("[{\"a\":-0},[-0.0]]");
    let checked = scene.on_data(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn a_mocked_result_is_taken_as_an_answer_is() {
    let scene = Scene::new("read-back-mock");
    let server = Server::start(&scene, &[]);
    for (text, fate) in texts() {
        let mut definition = task("lambda", "function:f");
        definition["End"] = true.into();
        let body = json!({"definition": definition.to_string(),
            "mock": {"result": text, "fieldValidationMode": "NONE"}});
        let (status, answer) = call(&server, "TestState", &body);
        match fate {
            Kept | Deep => assert_eq!((status, answer["output"].as_str()), (200, Some(&*text)), "{answer}"),
            Rewritten(other) => {
                assert_eq!((status, answer["output"].as_str()), (200, Some(other)), "{answer}");
            }
            Refused | Marked(_) => {
                assert_eq!(
                    (status, &answer["__type"]),
                    (400, &"ValidationException".into()),
                    "{text:.80}: {answer}"
                );
                assert_eq!(answer["message"], "Mocked result must be valid JSON");
            }
        }
    }
}
