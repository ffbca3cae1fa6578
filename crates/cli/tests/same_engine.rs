//! `perdura run` is the engine that serves, over memory or over a directory: what one can do, the other can.

mod common;

use common::server::Server;
use common::{Ended, Scene};
use serde_json::json;

/// Keeping nothing, and keeping everything.
const BOTH: [&[&str]; 2] = [&[], &["--data", "kept", "--name", "one"]];

fn run(scene: &Scene, file: &str, arguments: &[&[&str]]) -> Ended {
    scene.perdura(&[&["run", file][..], &arguments.concat()].concat())
}

fn machine(states: &str) -> String {
    format!(r#"{{"StartAt": "A", "States": {{{states}}}}}"#)
}

#[test]
fn every_kind_of_task_is_answered_by_a_mock_and_waits_are_skipped() {
    let states = r#"
        "A": {"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:work", "ResultPath": "$.a", "Next": "B",
            "TimeoutSeconds": 60, "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 3600}]},
        "B": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "ResultPath": "$.b", "Next": "C",
            "Parameters": {"QueueUrl": "q", "MessageBody.$": "$$.Task.Token"}, "HeartbeatSeconds": 60},
        "C": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "ResultPath": "$.c", "Next": "D",
            "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:elsewhere"}},
        "D": {"Type": "Wait", "Seconds": 3888000, "End": true}"#;
    let mock = r#"{"A": [{"error": "Busy"}, {"result": 1}], "B": [{"result": 2}], "C": [{"result": 3}]}"#;
    let scene = Scene::new("engine-mocks").file("m.json", &machine(states)).file("mock.json", mock);
    for kept in BOTH {
        let ended = run(&scene, "m.json", &[&["--mock", "mock.json", "--skip-time"], kept]);
        ended.gives(r#"{"a":1,"b":2,"c":3}"#);
        let told = [
            "A  entered",
            "A  retry 1 in 1 h: Busy",
            "A  succeeded",
            "B  entered",
            "B  succeeded",
            "C  entered",
            "C  succeeded",
            "D  entered",
            "D  waits 45 d",
            "D  succeeded",
        ];
        assert_eq!(ended.told(), told, "{kept:?}");
        assert!(ended.stderr.contains("SUCCEEDED after 45 d "), "{ended:?}");
    }
    // It is on record as if a worker had taken the task, and the clock goes on from there.
    let history = scene.perdura(&["history", "one", "--data", "kept"]);
    assert!(history.stdout.contains("ActivityStarted"), "{history:?}");
    run(&scene, "m.json", &[&["--mock", "mock.json", "--skip-time"], BOTH[1]])
        .gives(r#"{"a":1,"b":2,"c":3}"#);
}

#[test]
fn a_child_is_started_by_its_name_and_a_mock_is_not_for_its_states() {
    let parent = machine(
        r#""A": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "End": true,
            "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"},
            "OutputPath": "$.Output", "Catch": [{"ErrorEquals": ["Never"], "Next": "Call"}]},
        "Call": {"Type": "Task", "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}"#,
    );
    let scene = Scene::new("engine-children")
        .function("echo '\"real\"'", "")
        .file("parent.json", &parent)
        .file("mock.json", r#"{"Call": [{"result": "mocked"}]}"#);
    std::fs::rename(scene.path("m.asl.json"), scene.path("child.asl.json")).expect("it is there");
    for kept in BOTH {
        let arguments: [&[&str]; 3] = [&["--machine", "child.asl.json"], &["--mock", "mock.json"], kept];
        run(&scene, "parent.json", &arguments).gives("\"real\"");
    }
    let none = run(&scene, "parent.json", &[]);
    none.fails(1, &["StepFunctions.StateMachineDoesNotExistException"]);
}

#[test]
fn a_child_is_started_by_its_version_and_by_its_alias() {
    let child =
        |result: &str| machine(&format!(r#""A": {{"Type": "Pass", "Result": "{result}", "End": true}}"#));
    let scene = Scene::new("engine-alias");
    let server = Server::start(&scene, &[]);
    let arn = server.create("child", "STANDARD", &child("first"));
    let version = server.api("PublishStateMachineVersion", &json!({ "stateMachineArn": arn }));
    let routes = [json!({ "stateMachineVersionArn": version["stateMachineVersionArn"], "weight": 100 })];
    server.api("CreateStateMachineAlias", &json!({ "name": "live", "routingConfiguration": routes }));
    server.api("UpdateStateMachine", &json!({ "stateMachineArn": arn, "definition": child("second") }));
    server.end("-TERM");
    for (qualifier, given) in [("", "second"), (":1", "first"), (":live", "first")] {
        let parent = machine(&format!(
            r#""A": {{"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "End": true,
                "Parameters": {{"StateMachineArn": "{arn}{qualifier}"}}, "OutputPath": "$.Output"}}"#
        ));
        std::fs::write(scene.path("parent.json"), parent).expect("it can be written");
        run(&scene, "parent.json", &[&["--data", "data"]]).gives(&format!("\"{given}\""));
    }
}

/// A Map over items that are read, each of which waits.
fn reads(resource: &str) -> String {
    machine(&format!(
        r#""A": {{"Type": "Map", "End": true, "MaxConcurrency": 2,
            "ItemReader": {{"Resource": "{resource}", "ReaderConfig": {{"InputType": "JSON", "MaxItems": 3}},
                "Parameters": {{"Bucket": "b", "Key": "k.json"}}}},
            "ItemProcessor": {{"ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}}, "StartAt": "B",
                "States": {{"B": {{"Type": "Wait", "Seconds": 7200, "End": true}}}}}}}}"#
    ))
}

#[test]
fn items_are_read_or_mocked() {
    let scene = Scene::new("engine-items")
        .file("m.json", &reads("arn:aws:states:::s3:getObject"))
        .file("perdura.toml", "[items]\nlocal = 'files'\n[items.buckets.b]\nfolder = 'b'\n")
        .file("mock.json", r#"{"A": [{"result": [5, 6, 7, 8]}]}"#)
        .file("broken.json", r#"{"A": [{"error": "States.ItemReaderFailed", "cause": "no such bucket"}]}"#)
        .file("wrong.json", r#"{"A": [{"result": {}}]}"#);
    std::fs::create_dir_all(scene.path("files/b")).expect("a folder can be made");
    let scene = scene.file("files/b/k.json", "[1, 2, 3, 4]");
    for is_kept in [false, true] {
        let with = |arguments: &[&str], name: &str| {
            let kept = ["--data", "kept", "--name", name];
            run(&scene, "m.json", &[arguments, &["--skip-time"], if is_kept { &kept } else { &[] }])
        };
        with(&[], "read").gives("[1,2,3]");
        let mocked = with(&["--mock", "mock.json"], "mocked");
        mocked.gives("[5,6,7]");
        assert!(mocked.told().contains(&"B[2]  entered"), "{is_kept}: {mocked:?}");
        assert!(mocked.stderr.contains("SUCCEEDED after 4 h, of which "), "{is_kept}: {mocked:?}");
        with(&["--mock", "broken.json"], "broken").fails(1, &["States.ItemReaderFailed: no such bucket"]);
        with(&["--mock", "wrong.json"], "wrong").fails(2, &["1:2: the items of \"A\" are a list"]);
    }
}

#[test]
fn nobody_can_reach_a_run_that_keeps_nothing() {
    for resource in [
        "arn:aws:states:us-east-1:123456789012:activity:work",
        "arn:aws:states:::lambda:invoke.waitForTaskToken",
    ] {
        let state = format!(
            r#""A": {{"Type": "Task", "Resource": "{resource}", "Parameters": {{"FunctionName": "f", "Payload.$": "$$.Task"}},
                "End": true, "Catch": [{{"ErrorEquals": ["States.ALL"], "Next": "B"}}]}}, "B": {{"Type": "Succeed"}}"#
        );
        let state = if resource.contains("activity") {
            state.replace(r#""Parameters": {"FunctionName": "f", "Payload.$": "$$.Task"},"#, "")
        } else {
            state
        };
        let scene = Scene::new("engine-reach").file("m.json", &machine(&state));
        let sentence = format!("The state \"A\" calls {resource}, which `perdura run` cannot do.");
        scene.perdura(&["run", "m.json"]).fails(1, &[&sentence]);
    }
}

#[test]
fn time_is_not_skipped_for_others_in_the_same_directory() {
    let wait = machine(r#""A": {"Type": "Wait", "Seconds": 3600, "End": true}"#);
    let scene = Scene::new("engine-others").file("m.json", &wait);
    let run = ["run", "m.json", "--data", "data", "--skip-time", "--name", "mine"];
    scene.one(&["deploy", "m.json"]);
    scene.one(&["start", "m", "--name", "mine"]);
    // What is its own may run already.
    scene.perdura(&run).gives("{}");
    scene.one(&["start", "m", "--name", "theirs"]);
    scene
        .perdura(&["run", "m.json", "--data", "data", "--skip-time"])
        .fails(2, &["other executions run in data, and their time would pass too"]);
}
