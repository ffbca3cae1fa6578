//! The real binary with a Distributed Map that is stopped: its run and its children end, whatever happens to the process
//! just then, and what is told of them is so.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver, Seen};
use common::server::{Server, call, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const ACTIVITY: &str = "arn:aws:states:us-east-1:123456789012:activity:a";
const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:f";
const ITEMS: usize = 120;
const AT_ONCE: usize = 90;

/// A Distributed Map whose children have these states and begin with `T`.
fn map(fields: &Value, states: &Value) -> String {
    let mut map = json!({"Type": "Map", "End": true, "ItemProcessor": {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "T", "States": states}});
    map.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    json!({"StartAt": "M", "States": {"M": map}}).to_string()
}

fn task(resource: &str) -> Value {
    json!({"Type": "Task", "Resource": resource, "End": true})
}

/// The ARNs of the execution `n` of the machine `dm` and of its only Map Run.
fn arns(server: &Server) -> (String, String) {
    let execution = "arn:aws:states:us-east-1:123456789012:execution:dm:n".to_owned();
    let listed = server.api("ListMapRuns", &json!({"executionArn": execution}));
    let runs = listed["mapRuns"].as_array().expect("a list");
    assert_eq!(runs.len(), 1, "{listed}");
    (execution, runs[0]["mapRunArn"].as_str().expect("an ARN").to_owned())
}

/// How the children of a run stand, as their list says.
fn children(server: &Server, run: &str) -> Vec<Value> {
    let listed = server.api("ListExecutions", &json!({"mapRunArn": run, "maxResults": 1_000}));
    listed["executions"].as_array().expect("a list").iter().map(|child| child["status"].clone()).collect()
}

/// Kills the process with the first bytes of its answer to a stop. Whoever kills it is there before.
fn stop_and_kill(server: Server, execution: &str) {
    let script = format!("read line; kill -KILL {}", server.id());
    let mut killer =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("a shell runs");
    let mut word = killer.stdin.take().expect("a pipe");
    let stop = json!({"executionArn": execution}).to_string();
    let mut answer = [0; 12];
    server.sent(&call("StopExecution", &[], stop.as_bytes())).read_exact(&mut answer).expect("an answer");
    word.write_all(b"now\n").expect("the shell reads");
    assert_eq!(answer, *b"HTTP/1.1 200");
    assert!(killer.wait().expect("it ends").success());
    server.end("-KILL");
}

/// Children that wait for something are stopped with their run; the process is killed as soon as the stop is answered.
fn stopped_and_killed(name: &str, states: &Value, settings: &str, begun: impl Fn(&Server, &str) -> bool) {
    let fields = json!({"MaxConcurrency": AT_ONCE});
    let scene = Scene::new(name).file("dm.json", &map(&fields, states)).file("perdura.toml", settings);
    let server = Server::start(&scene, &[]);
    server.api("CreateActivity", &json!({"name": "a"}));
    scene.one(&["deploy", "dm.json"]);
    let items: Vec<String> = (0..ITEMS).map(|item| item.to_string()).collect();
    scene.one(&["start", "dm", "--name", "n", "--input", &format!("[{}]", items.join(","))]);
    wait_until("the run has its children", || {
        let listed = server.api(
            "ListMapRuns",
            &json!({"executionArn": "arn:aws:states:us-east-1:123456789012:execution:dm:n"}),
        );
        listed["mapRuns"].as_array().is_some_and(|runs| !runs.is_empty())
    });
    let (execution, run) = arns(&server);
    wait_until("all that may run do", || children(&server, &run).len() == AT_ONCE && begun(&server, &run));
    wait_until("its row has them", || {
        server.api("DescribeMapRun", &json!({"mapRunArn": run}))["itemCounts"]["running"] == AT_ONCE
    });
    stop_and_kill(server, &execution);

    let server = Server::start(&scene, &[]);
    let describe = || server.api("DescribeMapRun", &json!({"mapRunArn": run}));
    wait_until("the Map Run has ended", || describe()["status"] == "ABORTED");
    let told = describe();
    let counts = |what: &str| {
        let count = |of: &str| told[what][of].as_u64().unwrap_or_default() as usize;
        ["total", "running", "succeeded", "failed", "aborted", "pending"].map(count)
    };
    assert_eq!(counts("itemCounts"), [ITEMS, 0, 0, 0, AT_ONCE, ITEMS - AT_ONCE], "{told}");
    assert_eq!(counts("executionCounts"), [AT_ONCE, 0, 0, 0, AT_ONCE, 0], "{told}");
    assert!(told["stopDate"].is_number(), "{told}");
    assert_eq!(children(&server, &run), vec![json!("ABORTED"); AT_ONCE]);
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], json!([]));
}

#[test]
fn a_stopped_map_run_with_held_children_ends_after_a_kill() {
    let receiver = Receiver::start(|_, _| Act::Close);
    let settings = format!("[functions.f]\nurl = \"{}\"\nuncertain = \"hold\"\n", receiver.url("/"));
    let states = json!({"T": task(FUNCTION)});
    stopped_and_killed("stopped-held", &states, &settings, |server, _| {
        server.metric("perdura_steps_uncertain_total") as usize == AT_ONCE
    });
    assert_eq!(receiver.seen().len(), AT_ONCE, "nobody is called again");
}

#[test]
fn a_stopped_map_run_whose_children_wait_for_a_worker_ends_after_a_kill() {
    let states = json!({"T": task(ACTIVITY)});
    stopped_and_killed("stopped-worker", &states, "", |server, _| {
        server.metric("perdura_activity_tasks_waiting") as usize == AT_ONCE
    });
}

#[test]
fn children_that_sleep_for_a_month_end_soon_after_a_stop_and_a_kill() {
    let states = json!({"T": {"Type": "Wait", "Seconds": 2_592_000, "Next": "Then"}, "Then": task(ACTIVITY)});
    stopped_and_killed("stopped-asleep", &states, "", |server, _| {
        server.metric("perdura_executions_in_memory") == 0.0
    });
}

#[test]
fn each_retry_of_a_map_run_is_told_as_a_redrive() {
    let fields = json!({"Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 5}]});
    // It is refused twice, and then not.
    let script = "echo x >> calls; [ $(wc -l < calls) -gt 2 ] || { echo no >&2; exit 1; }; echo 1";
    let scene = Scene::new("retried-run")
        .function(script, "")
        .file("dm.json", &map(&fields, &json!({"T": task(FUNCTION)})));
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "dm.json"]);
    scene.one(&["start", "dm", "--name", "n", "--input", "[1]"]);
    scene.until_status("n", "SUCCEEDED");
    let (execution, run) = arns(&server);
    let history = server.api("GetExecutionHistory", &json!({"executionArn": execution}));
    let mut newest_first = history["events"].as_array().expect("a list").iter().rev();
    let told = newest_first.find_map(|event| event["mapRunRedrivenEventDetails"]["redriveCount"].as_u64());
    let described = server.api("DescribeMapRun", &json!({"mapRunArn": run}));
    assert_eq!((told, &described["redriveCount"]), (Some(2), &json!(2)), "{described}");
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn what_was_redriven_counts_against_the_quota_of_executions() {
    let refuses_first = |call: usize, _: &Seen| match call {
        0 => Act::Answer(400, r#"{"errorType": "No"}"#.to_owned()),
        _ => Act::Hang,
    };
    let receiver = Receiver::start(refuses_first);
    let settings = format!("[functions.f]\nurl = \"{}\"\n[quotas]\nexecutions = 1\n", receiver.url("/"));
    let scene = Scene::new("redriven-quota").function("", "").file("perdura.toml", &settings);
    let mut server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    scene.one(&["start", "m", "--name", "n"]);
    scene.until_status("n", "FAILED");
    scene.one(&["redrive", "n"]);
    for _ in 0..2 {
        let another = json!({"stateMachineArn": common::server::machine_arn("m"), "name": "another"});
        let told = server.call("StartExecution", &another.to_string());
        assert!(told.contains("ExecutionLimitExceeded"), "one runs, and one may run: {told}");
        server.end("-KILL");
        server = Server::start(&scene, &[]);
    }
}
