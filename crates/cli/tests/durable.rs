//! What survives: a server that is ended, a process that is killed, a backup.

mod common;

use common::Scene;
use common::server::{Server, kill, wait_until};
use std::io::{BufRead, BufReader, Read};

/// Writes its key to `keys` and its process to the pipe `up`, then waits for the file `go` to be there, which on a
/// later call it is.
const SLOW: &str = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; if [ -e go ]; then echo '\"done\"'; exit; fi; \
                    echo $$ > up; exec sleep 600";

fn slow(name: &str) -> Scene {
    Scene::new(name).function(SLOW, "").pipe("up")
}

/// The process of the function, once it is under way.
fn up(scene: &Scene) -> u32 {
    let mut line = String::new();
    let pipe = std::fs::File::open(scene.path("up")).expect("the function opens the pipe");
    BufReader::new(pipe).read_line(&mut line).expect("the function writes");
    line.trim().parse().expect("a number")
}

fn go(scene: &Scene) {
    std::fs::write(scene.path("go"), "").expect("a file can be written");
}

/// One key, seen so often.
#[track_caller]
fn assert_one_key(scene: &Scene, times: usize) {
    let mut keys = scene.lines("keys");
    assert_eq!(keys.len(), times, "{keys:?}");
    keys.dedup();
    assert_eq!(keys.len(), 1, "{keys:?}");
}

#[test]
fn a_run_that_was_killed_goes_on_under_the_same_key() {
    let scene = slow("durable-kill");
    let run = ["run", "m.asl.json", "--data", "data", "--name", "n", "--input", "[1]"];
    let mut child = scene.start(&run);
    let function = up(&scene);
    kill(child.id(), "-KILL");
    child.wait().expect("it ends");
    // Its function is an orphan now; what it would answer reaches nobody.
    kill(function, "-KILL");
    go(&scene);
    scene.perdura(&run).gives("\"done\"");
    assert_one_key(&scene, 2);
    // It has ended: the same again gives what is on record.
    scene.perdura(&run).gives("\"done\"");
    assert_one_key(&scene, 2);
    let other = ["run", "m.asl.json", "--data", "data", "--name", "n", "--input", "[2]"];
    scene.perdura(&other).fails(2, &["an execution named n has another input"]);
    let entries = scene.json(&["ledger", "--execution", "n"]);
    assert_eq!((entries.len(), &entries[0]["status"]), (1, &"completed".into()), "{entries:?}");
    assert_eq!(
        (&entries[0]["wireKey"], &entries[0]["result"]),
        (&scene.lines("keys")[0].clone().into(), &"\"done\"".into())
    );
}

#[test]
fn an_interrupted_run_leaves_nothing_running_and_goes_on() {
    let scene = slow("durable-interrupt");
    let run = ["run", "m.asl.json", "--data", "data", "--name", "n"];
    let child = scene.start(&run);
    let function = up(&scene);
    kill(child.id(), "-INT");
    let ended: common::Ended = child.wait_with_output().expect("it ends").into();
    ended.fails(4, &["left where it is; the same command goes on with it"]);
    assert!(!std::path::Path::new(&format!("/proc/{function}/cwd")).exists(), "the function was ended too");
    go(&scene);
    scene.perdura(&run).gives("\"done\"");
    assert_one_key(&scene, 2);
}

#[test]
fn a_server_that_is_ended_goes_on_after_the_next_start() {
    let scene = slow("durable-term");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    let function = up(&scene);
    let shown = scene.one(&["show", "n"]);
    assert_eq!(shown["standing"][0]["live"], true, "{shown}");
    assert_eq!(server.end("-TERM"), Some(0));
    assert!(!std::path::Path::new(&format!("/proc/{function}/cwd")).exists(), "the function was ended too");
    assert!(!scene.path("data").join("control.sock").exists());
    go(&scene);
    let server = Server::start(&scene, &[]);
    assert!(server.ready.contains(": 1 execution taken up in "), "{}", server.ready);
    assert_eq!(scene.until_status("n", "SUCCEEDED")["output"], "\"done\"");
    assert_one_key(&scene, 2);
    let log = scene.lines("serve.log").join("\n");
    assert!(log.contains("repeated after a restart") && log.contains("step=\"Call#1\""), "{log}");
}

#[test]
fn a_server_that_is_ended_begins_no_call_and_the_next_one_makes_it() {
    let call = |rest: &str| {
        let resource = "arn:aws:lambda:us-east-1:123456789012:function:f";
        format!(r#"{{"Type": "Task", "Resource": "{resource}", {rest}}}"#)
    };
    let (first, second) = (call(r#""Next": "Then""#), call(r#""End": true"#));
    let machine = format!(r#"{{"StartAt": "Call", "States": {{"Call": {first}, "Then": {second}}}}}"#);
    let script = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo $$ > up; read answer < go; echo $answer";
    let scene = Scene::new("durable-grace").function(script, "uncertain = 'hold'").pipe("up").pipe("go");
    let scene = scene.file("m.asl.json", &machine);
    let server = Server::start(&scene, &["--grace", "60s"]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    up(&scene);
    kill(server.id(), "-TERM");
    wait_until("it shuts down", || scene.lines("serve.log").join("\n").contains("shuts down"));
    std::fs::write(scene.path("go"), "1\n").expect("the function reads");
    assert_eq!(server.end("-0"), Some(0), "it ends once the call has its answer");
    assert_eq!(scene.lines("keys").len(), 1, "no other call was begun");
    let server = Server::start(&scene, &[]);
    up(&scene);
    std::fs::write(scene.path("go"), "2\n").expect("the function reads");
    assert_eq!(scene.until_status("n", "SUCCEEDED")["output"], "2");
    assert_eq!((scene.lines("keys").len(), server.metric("perdura_steps_repeated_total")), (2, 0.0));
}

#[test]
fn a_server_that_was_killed_is_followed_by_one_that_goes_on() {
    let scene = slow("durable-serve-kill");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let id = scene.one(&["start", "m", "--name", "n"])["id"].as_str().expect("an id").to_owned();
    let function = up(&scene);
    server.end("-KILL");
    kill(function, "-KILL");
    go(&scene);
    // The socket is left over; nobody listens on it.
    assert_eq!(scene.one(&["show", &id])["status"], "RUNNING");
    let _server = Server::start(&scene, &[]);
    scene.until_status("n", "SUCCEEDED");
    assert_one_key(&scene, 2);
}

#[test]
fn what_was_started_without_a_server_runs_with_the_next() {
    let scene = Scene::new("durable-deposit").function("echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo 7", "");
    scene.one(&["deploy", "m.asl.json"]);
    let ended = scene.on_data(&["start", "m", "--name", "n"]);
    assert!(ended.stderr.contains("runs when `perdura serve` is started"), "{ended:?}");
    let shown = scene.one(&["show", "n"]);
    assert_eq!((&shown["status"], &shown["standing"][0]["live"]), (&"RUNNING".into(), &false.into()));
    assert_eq!(scene.json(&["ledger"]).len(), 0, "nothing was sent");
    // Another command opens the data, and performs nothing either.
    scene.one(&["start", "m", "--name", "other"]);
    assert!(scene.lines("keys").is_empty());
    // A run performs its own execution only.
    scene.perdura(&["run", "m.asl.json", "--data", "data", "--name", "third"]).gives("7");
    assert_eq!(scene.lines("keys").len(), 1);
    let _server = Server::start(&scene, &[]);
    scene.until_status("n", "SUCCEEDED");
    scene.until_status("other", "SUCCEEDED");
    assert_eq!(scene.lines("keys").len(), 3);
}

#[test]
fn what_was_started_without_a_server_is_neither_held_nor_repeated() {
    let script = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo 7";
    let scene = Scene::new("durable-unsent").function(script, "uncertain = 'hold'");
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    scene.one(&["start", "m", "--name", "other"]);
    let server = Server::start(&scene, &[]);
    scene.until_status("n", "SUCCEEDED");
    scene.until_status("other", "SUCCEEDED");
    assert_eq!((scene.lines("keys").len(), server.metric("perdura_steps_repeated_total")), (2, 0.0));
}

#[test]
fn a_run_leaves_the_calls_of_others_as_it_found_them() {
    let script = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo 7";
    let scene = Scene::new("durable-others").function(script, "uncertain = 'hold'");
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    scene.perdura(&["run", "m.asl.json", "--data", "data", "--name", "third"]).gives("7");
    let server = Server::start(&scene, &[]);
    scene.until_status("n", "SUCCEEDED");
    assert_eq!((scene.lines("keys").len(), server.metric("perdura_steps_repeated_total")), (2, 0.0));
}

#[test]
fn a_run_that_was_killed_goes_on_with_its_children_and_leaves_others() {
    let calls = "arn:aws:lambda:us-east-1:123456789012:function:f";
    let child = format!(
        r#"{{"StartAt": "Call", "States": {{"Call": {{"Type": "Task", "Resource": "{calls}", "End": true}}}}}}"#
    );
    let parent = format!(
        r#"{{"StartAt": "Both", "States": {{"Both": {{"Type": "Parallel", "End": true, "Branches": [
        {{"StartAt": "Child", "States": {{"Child": {{"Type": "Task", "End": true,
            "Resource": "arn:aws:states:::states:startExecution.sync:2", "Parameters": {{
            "StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}}}}},
        {{"StartAt": "Items", "States": {{"Items": {{"Type": "Map", "ItemsPath": "$", "End": true, "ItemProcessor": {{
            "ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}}, "StartAt": "Each",
            "States": {{"Each": {{"Type": "Task", "Resource": "{calls}", "End": true}}}}}}}}}}}}]}}}}}}"#
    );
    let scene = slow("durable-family").file("child.asl.json", &child).file("parent.asl.json", &parent);
    scene.one(&["deploy", "child.asl.json"]);
    scene.one(&["start", "child", "--name", "other"]);
    let run = [
        "run",
        "parent.asl.json",
        "--machine",
        "child.asl.json",
        "--data",
        "data",
        "--name",
        "n",
        "--input",
        "[1]",
    ];
    let mut running = scene.start(&run);
    let mut functions = Vec::new();
    while functions.len() < 2 {
        let pipe = std::fs::File::open(scene.path("up")).expect("the functions open the pipe");
        functions.extend(BufReader::new(pipe).lines().map(|line| line.expect("the functions write")));
    }
    kill(running.id(), "-KILL");
    running.wait().expect("it ends");
    for function in functions {
        kill(function.trim().parse().expect("a number"), "-KILL");
    }
    go(&scene);
    let ended = scene.perdura(&run);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut keys = scene.lines("keys");
    assert_eq!(keys.len(), 4, "two calls, each made twice: {keys:?}");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert_eq!(scene.one(&["show", "child/other"])["status"], "RUNNING");
}

#[test]
fn a_child_of_a_parent_that_was_stopped_while_no_server_ran_begins_no_further_call() {
    let script = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo 7";
    let child = r#"{"StartAt": "Rest", "States": {"Rest": {"Type": "Wait", "Seconds": 2, "Next": "Call"},
        "Call": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}}}"#;
    let parent = r#"{"StartAt": "Child", "States": {"Child": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:::states:startExecution.sync:2", "Parameters": {"Name": "c",
        "StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}}}}"#;
    let scene = Scene::new("durable-orphan").function(script, "");
    let scene = scene.file("child.asl.json", child).file("parent.asl.json", parent);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "child.asl.json"]);
    scene.one(&["deploy", "parent.asl.json"]);
    scene.one(&["start", "parent", "--name", "p"]);
    scene.until(&["show", "child/c"], |shown| shown[0]["standing"][0]["doing"] == "waiting");
    server.end("-KILL");
    scene.one(&["stop", "p"]);
    let _server = Server::start(&scene, &[]);
    scene.until_status("child/c", "ABORTED");
    assert!(scene.lines("keys").is_empty(), "it was stopped before it moved");
}

#[test]
fn a_person_ends_a_hold() {
    let script = "echo x >> calls; [ -e go ] && { echo 9; exit; }; kill -9 $$";
    let scene = Scene::new("durable-hold").function(script, "uncertain = 'hold'");
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    for (name, how, status, output) in [
        ("done", &["--completed", r#"{"paid": true}"#][..], "SUCCEEDED", r#"{"paid": true}"#),
        ("refused", &["--failed", "Declined", "--cause", "no"], "FAILED", ""),
        ("again", &["--again"], "SUCCEEDED", "9"),
    ] {
        scene.one(&["start", "m", "--name", name]);
        let held = scene.until(&["show", name], |shown| shown[0]["standing"][0]["doing"] == "held");
        let key = held[0]["standing"][0]["key"].as_str().expect("it has a key").to_owned();
        let uncertain = scene.json(&["ledger", "--uncertain"]);
        assert!(uncertain.iter().any(|entry| entry["key"] == *key), "{uncertain:?}");
        go(&scene);
        let mut resolve = vec!["ledger", "resolve", &key, "--reason", "a test says so"];
        resolve.extend(how);
        scene.one(&resolve);
        let shown = scene.until_status(name, status);
        assert_eq!(shown["output"].as_str().unwrap_or_default(), output, "{shown}");
        let traced = scene.one(&["trace", &key]);
        let events = traced["steps"][0]["events"].as_array().expect("a list").clone();
        let at = |what: &str| {
            let told =
                events.iter().find(|event| event["what"].as_str().is_some_and(|it| it.starts_with(what)));
            told.unwrap_or_else(|| panic!("{what} is not in {traced}"))["at"].to_string()
        };
        let (sent, held, resolved) = (at("sent"), at("held"), at("resolved by a person"));
        assert!(sent <= held && held < resolved, "each has its own instant: {traced}");
        let twice = scene.on_data(&resolve);
        assert_eq!(twice.code, Some(1), "{twice:?}");
        std::fs::remove_file(scene.path("go")).expect("it is there");
    }
    // Three calls, and one again.
    assert_eq!(scene.lines("calls").len(), 4);
}

#[test]
fn a_restored_backup_holds_what_was_under_way() {
    let scene = slow("durable-restore");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    up(&scene);
    let backup = scene.one(&["backup", "copy.db"]);
    assert!(backup["bytes"].as_u64() > Some(0), "{backup}");
    scene.on_data(&["backup", "copy.db"]).fails(1, &["exists"]);
    server.end("-TERM");
    scene.on_data(&["restore", "copy.db"]).fails(1, &["there is data already, and it is not overwritten"]);
    std::fs::rename(scene.path("data"), scene.path("lost")).expect("the data is lost");
    let held = scene.one(&["restore", "copy.db"]);
    assert_eq!(
        (&held["status"], &held["wireKey"]),
        (&"uncertain".into(), &scene.lines("keys")[0].clone().into())
    );
    go(&scene);
    let _server = Server::start(&scene, &[]);
    // What an earlier process left is resumed by and by.
    scene.until(&["show", "n"], |shown| shown[0]["standing"][0]["doing"] == "held");
    assert_eq!(scene.one(&["show", "n"])["status"], "RUNNING");
    assert_one_key(&scene, 1);
    let key = held["key"].as_str().expect("it has a key");
    scene.one(&["ledger", "resolve", key, "--again", "--reason", "it was not done"]);
    scene.until_status("n", "SUCCEEDED");
    assert_one_key(&scene, 2);
}

#[test]
fn a_restored_backup_holds_a_task_that_lay_in_its_queue() {
    let machine = r#"{"StartAt": "T", "States": {"T": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:us-east-1:123456789012:activity:work"}}}"#;
    let scene = Scene::new("durable-restore-queue").file("t.json", machine);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "t.json"]);
    scene.one(&["start", "t", "--name", "n"]);
    scene.one(&["backup", "copy.db"]);
    let task = scene.one(&["activity", "poll", "work"]);
    scene.one(&["activity", "succeed", task["token"].as_str().expect("it has a token"), "--output", "1"]);
    scene.until_status("n", "SUCCEEDED");
    server.end("-TERM");
    std::fs::rename(scene.path("data"), scene.path("lost")).expect("the data is lost");
    let held = scene.one(&["restore", "copy.db"]);
    assert_eq!((&held["status"], &held["key"]), (&"uncertain".into(), &task["key"]), "{held}");
    let _server = Server::start(&scene, &[]);
    // What an earlier process left is resumed by and by.
    scene.until(&["show", "n"], |shown| shown[0]["standing"][0]["doing"] == "held");
    assert_eq!(scene.one(&["show", "n"])["status"], "RUNNING");
    let key = held["key"].as_str().expect("it has a key");
    scene.one(&["ledger", "resolve", key, "--again", "--reason", "it was not done"]);
    let again = scene.one(&["activity", "poll", "work"]);
    assert_eq!(again["key"], task["key"]);
}

#[test]
fn what_nobody_can_perform_fails_and_is_named() {
    let machine = r#"{"StartAt": "Send", "States": {"Send": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:::sqs:sendMessage", "Parameters": {"QueueUrl": "q", "MessageBody": "b"}}}}"#;
    let scene =
        Scene::new("durable-nobody").file("sends.json", machine).function("", "").file("perdura.toml", "");
    let _server = Server::start(&scene, &[]);
    let deployed = scene.one(&["deploy", "sends.json"]);
    assert_eq!(deployed["warnings"][0]["code"], "UNCONFIGURED_SERVICE", "{deployed}");
    scene.one(&["start", "sends", "--name", "s"]);
    let shown = scene.until_status("s", "FAILED");
    assert!(
        shown["cause"].as_str().unwrap_or_default().contains("sqs:sendMessage has no address"),
        "{shown}"
    );
    let deployed = scene.one(&["deploy", "m.asl.json"]);
    assert_eq!(deployed["warnings"][0]["location"], "/States/Call/Resource", "{deployed}");
    scene.one(&["start", "m", "--name", "f"]);
    let shown = scene.until_status("f", "FAILED");
    assert!(shown["cause"].as_str().unwrap_or_default().contains("function:f"), "{shown}");
}

#[test]
fn logs_for_programs_name_execution_step_and_key() {
    let scene = Scene::new("durable-logs").function("echo 1", "");
    let server = Server::start(&scene, &["--log-format", "json"]);
    scene.one(&["deploy", "m.asl.json"]);
    let id = scene.one(&["start", "m", "--name", "n"])["id"].clone();
    scene.until_status("n", "SUCCEEDED");
    server.end("-TERM");
    let lines: Vec<serde_json::Value> = scene
        .lines("serve.log")
        .iter()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let called = lines.iter().find(|line| line["message"] == "called").expect("the call is logged");
    assert_eq!((&called["execution"], &called["step"]), (&id, &"Call#1".into()), "{called}");
    assert!(called["key"].as_str().unwrap_or_default().ends_with(":Call#1:1"), "{called}");
}

#[test]
fn stopping_an_execution_ends_its_function() {
    // All processes of the function hold the pipe open: that it closes shows that none is left.
    let script = "exec 3> alive; echo up >&3; (sleep 600; echo late >&3) & sleep 600";
    let scene = Scene::new("durable-stop").function(script, "").pipe("alive");
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let id = scene.one(&["start", "m"])["id"].as_str().expect("an id").to_owned();
    let mut alive = BufReader::new(std::fs::File::open(scene.path("alive")).expect("the function opens it"));
    let mut line = String::new();
    alive.read_line(&mut line).expect("the function writes");
    assert_eq!(scene.one(&["stop", &id])["status"], "ABORTED");
    assert_eq!(alive.read_to_string(&mut line).expect("the pipe closes"), 0);
    let entries = scene.json(&["ledger", "--execution", &id]);
    assert_eq!(entries[0]["status"], "uncertain", "{entries:?}");
}

#[test]
fn a_server_takes_away_what_is_too_old() {
    let scene = Scene::new("durable-retention").function("echo 1", "");
    for name in ["old", "newer"] {
        scene.perdura(&["run", "m.asl.json", "--data", "data", "--name", name]).gives("1");
    }
    let config = std::fs::read_to_string(scene.path("perdura.toml")).expect("it is there");
    let scene = scene.file("perdura.toml", &format!("{config}\n[retention]\nended_days = 0\n"));
    let _server = Server::start(&scene, &[]);
    scene.until(&["ps"], |rows| rows.iter().all(|row| row["name"] != "old"));
    scene.on_data(&["show", "old"]).fails(1, &["there is no execution \"old\""]);
}

#[test]
fn a_server_that_cannot_write_says_so_and_still_shows_what_there_is() {
    let scene = Scene::new("durable-full").file(
        "wait.json",
        r#"{"StartAt": "W", "States": {"W": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#,
    );
    // Half a megabyte is all that a file may have; more is refused as on a disk that is full.
    let serve = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"";
    let server = Server::start_by(&scene, &["sh", "-c", serve], &[]);
    scene.one(&["deploy", "wait.json"]);
    let id = scene.one(&["start", "wait"])["id"].as_str().expect("an id").to_owned();
    // Digits that do not repeat, so that they cannot be made smaller.
    let noise: String =
        (0..300_000u64).map(|at| (at.wrapping_mul(6_364_136_223_846_793_005) >> 33).to_string()).collect();
    let scene = scene.file("large.json", &format!("\"{noise}\""));
    let refused = scene.on_data(&["start", "wait", "--input", "@large.json"]);
    refused.fails(1, &["the store cannot be written", "start it again with the same name"]);
    let ready = server.get("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("application/problem+json"), "{ready}");
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200 OK"));
    assert_eq!(scene.one(&["show", &id])["status"], "RUNNING");
}
