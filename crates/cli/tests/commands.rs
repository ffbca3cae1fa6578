//! The commands that look: lists, stories, settings; with a server and without.

mod common;

use common::Scene;
use common::server::Server;
use serde_json::Value;
use std::io::{BufRead, BufReader};

const PASS: &str =
    r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "Result": {"done": true}, "End": true}}}"#;
const WAITS: &str = r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;
/// It fails once and then succeeds, for each key.
const SECOND_TIME: &str = r#"
if [ -e "seen" ]; then echo '{"paid": true}'; else touch seen; echo '{"errorType": "Busy"}'; exit 1; fi"#;
const RETRIES: &str = r#"{"StartAt": "Pay", "States": {"Pay": {"Type": "Task",
    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 2}], "End": true}}}"#;

#[test]
fn ps_gives_a_list_and_takes_a_status_as_aws_writes_it() {
    let scene = Scene::new("commands-ps").file("wait.json", WAITS);
    scene.one(&["deploy", "wait.json"]);
    scene.one(&["start", "wait", "--name", "a"]);
    for (status, expected) in [("RUNNING", 1), ("running", 1), ("TIMED_OUT", 0), ("timed-out", 0)] {
        let listed = scene.on_data(&["ps", "--status", status, "--json"]);
        let list: Vec<Value> = serde_json::from_str(&listed.stdout).expect("one list");
        assert_eq!((listed.code, list.len()), (Some(0), expected), "{status}");
    }
    let ledger = scene.on_data(&["ledger", "--json"]);
    assert_eq!(ledger.stdout, "[]\n");
}

#[test]
fn a_run_can_be_told_to_a_program() {
    let scene = Scene::new("commands-run").file("pass.json", PASS).file(
        "fail.json",
        r#"{"StartAt": "F", "States": {"F": {"Type": "Fail", "Error": "No", "Cause": "because"}}}"#,
    );
    let told = |file: &str, code: i32| -> Value {
        let ended = scene.perdura(&["run", file, "--json", "--quiet"]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        serde_json::from_str(&ended.stdout).expect("one document")
    };
    let well = told("pass.json", 0);
    assert_eq!((&well["status"], &well["output"]["done"]), (&"SUCCEEDED".into(), &true.into()));
    let badly = told("fail.json", 1);
    assert_eq!(
        (&badly["status"], &badly["error"], &badly["cause"]),
        (&"FAILED".into(), &"No".into(), &"because".into())
    );
}

/// What came of a key, whichever of its forms is asked for.
fn a_key_is_traced(scene: &Scene) {
    let whole = scene.one(&["trace", "a"]);
    assert_eq!((&whole["by"], &whole["execution"]["status"]), (&"execution".into(), &"SUCCEEDED".into()));
    let steps = whole["steps"].as_array().expect("steps");
    let rounds: Vec<_> = steps.iter().map(|step| (step["round"].as_u64(), step["status"].as_str())).collect();
    assert_eq!(rounds, [(Some(1), Some("failed")), (Some(2), Some("completed"))]);
    let what = |step: &Value| -> Vec<String> {
        let events = step["events"].as_array().expect("events");
        events.iter().map(|event| event["what"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let first = what(&steps[0]);
    assert_eq!(first[..2], ["sent", "failed"], "{first:?}");
    assert!(first[2].starts_with("tried again at "), "{first:?}");
    assert_eq!(what(&steps[1]), ["sent", "succeeded"]);
    assert_eq!(steps[0]["events"][1]["error"], "Busy");
    let (id, text) = (whole["execution"]["id"].as_str().expect("an id"), |at: &str| {
        steps[1][at].as_str().expect("text").to_owned()
    });
    let wire = text("wireKey");
    let header = format!("00-{}-{}-01", id.replace('-', ""), &wire.replace('-', "")[..16]);
    for (form, by) in
        [(text("key"), "key"), (wire, "wireKey"), (header, "traceParent"), (id.to_owned(), "execution")]
    {
        let traced = scene.one(&["trace", &form]);
        assert_eq!((&traced["by"], &traced["steps"]), (&by.into(), &whole["steps"]), "{form}");
    }
    let unknown = "8c1f6d1e-6f0e-5d5c-9a57-5f4f0f8f2f61";
    scene
        .on_data(&["trace", unknown])
        .fails(1, &["no execution and no key is", "1 executions were searched"]);
    scene.on_data(&["trace", &format!("{id}:Pay#9:1")]).fails(1, &["never sent anything under"]);
    let people = scene.on_data(&["trace", "a"]);
    assert!(people.stdout.contains("Pay#1, round 2") && people.stdout.contains("Busy"), "{}", people.stdout);
}

#[test]
fn a_key_is_traced_in_every_form_with_a_server_and_without() {
    let scene =
        Scene::new("commands-trace").function(SECOND_TIME, "refused = ['Busy']").file("pay.json", RETRIES);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pay.json"]);
    scene.one(&["start", "pay", "--name", "a"]);
    scene.until_status("a", "SUCCEEDED");
    a_key_is_traced(&scene);
    assert_eq!(server.end("-TERM"), Some(0));
    a_key_is_traced(&scene);
}

#[test]
fn an_execution_is_watched_to_its_end() {
    let scene = Scene::new("commands-watch").function(SECOND_TIME, "").file("pay.json", RETRIES);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pay.json"]);
    scene.one(&["start", "pay", "--name", "a"]);
    let watched = scene.on_data(&["watch", "a"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let lines: Vec<&str> = watched.stdout.lines().collect();
    let told: Vec<&str> = lines.iter().filter_map(|line| line.get(14..)).collect();
    assert!(told[0].starts_with("Pay  entered"), "{told:?}");
    assert!(told[1].starts_with("Pay  retry 1 in 1 s: Busy"), "{told:?}");
    assert!(told[2].starts_with("Pay  succeeded"), "{told:?}");
    assert_eq!(lines.last(), Some(&r#"{"paid":true}"#), "{lines:?}");
    assert!(watched.stderr.contains("SUCCEEDED after "), "{}", watched.stderr);
    let kinds = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(kinds(&scene.json(&["watch", "a"])), kinds(&scene.json(&["history", "a"])));
    drop(server);
    assert_eq!(scene.on_data(&["watch", "a"]).stdout, watched.stdout);
}

#[test]
fn the_exit_code_of_watch_is_that_of_the_execution() {
    let scene = Scene::new("commands-watch-codes").file("wait.json", WAITS);
    scene.one(&["deploy", "wait.json"]);
    scene.one(&["start", "wait", "--name", "a"]);
    scene.one(&["stop", "a", "--error", "Enough"]);
    let watched = scene.on_data(&["watch", "a"]);
    assert_eq!(watched.code, Some(4), "{watched:?}");
    assert!(watched.stderr.contains("ABORTED after "), "{watched:?}");
    scene.on_data(&["watch", "nobody"]).fails(1, &["there is no execution \"nobody\""]);
}

#[test]
fn all_that_run_are_watched_and_what_changes_is_told() {
    let scene = Scene::new("commands-watch-all").file("wait.json", WAITS).file("pass.json", PASS);
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "wait.json"]);
    scene.one(&["deploy", "pass.json"]);
    scene.one(&["start", "wait", "--name", "a"]);
    let mut watching = scene.start(&["watch", "--json", "--data", "data"]);
    let mut lines = BufReader::new(watching.stdout.take().expect("stdout is a pipe")).lines();
    let mut next = |name: &str| loop {
        let line = lines.next().expect("a line").expect("a line can be read");
        let news: Value = serde_json::from_str(&line).expect("each line is JSON");
        if news["name"] == name {
            return news;
        }
    };
    let first = next("a");
    assert_eq!((&first["status"], &first["standing"][0]), (&"RUNNING".into(), &"W waiting".into()));
    scene.one(&["start", "pass", "--name", "b"]);
    assert_eq!(next("b")["status"], "SUCCEEDED");
    scene.one(&["stop", "a"]);
    let last = next("a");
    assert_eq!(last["status"], "ABORTED");
    assert!(last["tookMs"].is_u64(), "{last}");
    watching.kill().expect("it can be ended");
    watching.wait().expect("it ends");
}

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[test]
fn settings_are_shown_with_where_they_came_from_and_without_secrets() {
    let file = "data = 'kept'\n[serve]\ngrace = '3s'\n[functions.f]\ncommand = ['sh']\n";
    let scene = Scene::new("commands-config").file("perdura.toml", file);
    let config = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        command.env("PERDURA_LOG", "debug").env("PERDURA_CONNECTION_KEY", KEY);
        common::Ended::from(command.output().expect("perdura runs"))
    };
    let told = config(&["config", "--listen", "127.0.0.1:1", "--json"]);
    let list: Vec<Value> = serde_json::from_str(&told.stdout).expect("one list");
    let of = |name: &str| {
        let found = list.iter().find(|one| one["name"] == name).expect("the setting is there");
        (
            found["value"].as_str().unwrap_or("-").to_owned(),
            found["from"].as_str().expect("a place").to_owned(),
        )
    };
    for (name, value, from) in [
        ("data", "kept", "perdura.toml:1"),
        ("serve.grace", "3s", "perdura.toml:3"),
        ("serve.listen", "127.0.0.1:1", "--listen"),
        ("serve.log", "debug", "PERDURA_LOG"),
        ("serve.log_format", "text", "default"),
        ("connections.key", "********", "PERDURA_CONNECTION_KEY"),
        ("functions.f", "-", "perdura.toml:4"),
    ] {
        assert_eq!(of(name), (value.to_owned(), from.to_owned()), "{name}");
    }
    let people = config(&["config"]);
    assert!(people.stdout.contains("********") && !people.stdout.contains(KEY), "{}", people.stdout);
}

#[test]
fn the_data_is_found_by_flag_variable_and_file() {
    let scene = Scene::new("commands-data").file("wait.json", WAITS).file("perdura.toml", "data = 'filed'");
    let deploy = |variable: Option<&str>, more: &[&str]| {
        let mut command = scene.command(&[&["deploy", "wait.json"], more].concat());
        command.envs(variable.map(|folder| ("PERDURA_DATA", folder)));
        assert!(command.output().expect("perdura runs").status.success());
    };
    deploy(None, &[]);
    assert!(scene.path("filed/perdura.db").exists() || scene.path("filed").is_dir());
    deploy(Some("told"), &[]);
    assert!(scene.path("told").is_dir());
    deploy(Some("told"), &["--data", "flagged"]);
    assert!(scene.path("flagged").is_dir());
    let wrong = Scene::new("commands-data-wrong").file("perdura.toml", "\n[serv]\nlisten = '1'");
    wrong
        .perdura(&["ps"])
        .fails(2, &["perdura.toml is wrong: line 2: there is no setting \"serv\"; did you mean \"serve\"?"]);
}

#[test]
fn a_server_says_in_json_that_it_is_ready_where_it_was_told_so() {
    let scene = Scene::new("commands-serve-json")
        .file("perdura.toml", "data = 'd'\n[serve]\nlisten = '127.0.0.1:0'\n");
    let mut child = scene.start(&["serve", "--json"]);
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout is a pipe")).read_line(&mut ready).expect("a line");
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    let ready: Value = serde_json::from_str(&ready).expect("it is JSON");
    assert!(ready["address"].as_str().is_some_and(|at| at.starts_with("http://127.0.0.1:")), "{ready}");
    assert_eq!((&ready["data"], &ready["executions"]), (&"d".into(), &0.into()));
}
