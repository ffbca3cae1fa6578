//! Answers from files, in both formats, for every way in which a task is awaited.

mod common;

use common::Scene;

const MACHINE: &str = r#"{"StartAt": "Pay", "States": {
    "Pay": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "Next": "Ask",
        "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "ResultPath": "$.pay",
        "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 3600, "MaxAttempts": 2}]},
    "Ask": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Next": "Nest",
        "Parameters": {"QueueUrl": "q", "MessageBody.$": "$$.Task.Token"}, "ResultPath": "$.ask", "HeartbeatSeconds": 60},
    "Nest": {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2", "Next": "Work",
        "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:x"}, "ResultPath": "$.nest"},
    "Work": {"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:work", "End": true,
        "ResultPath": "$.work"}}}"#;

#[test]
fn every_kind_of_task_is_answered_by_our_format() {
    let mock = r#"{"Pay": [{"error": "Busy", "cause": "later"}, {"result": 1}], "Ask": [{"result": "yes"}],
        "Nest": [{"result": {"Status": "SUCCEEDED"}}], "Work": [{"result": null}]}"#;
    let scene = Scene::new("mock-own").file("order.asl.json", MACHINE).file("mock.json", mock);
    let ended = scene.perdura(&["run", "order.asl.json", "--mock", "mock.json", "--skip-time"]);
    ended.gives(r#"{"pay":1,"ask":"yes","nest":{"Status":"SUCCEEDED"},"work":null}"#);
    let told = [
        "Pay  entered",
        "Pay  retry 1 in 1 h: Busy: later",
        "Pay  succeeded",
        "Ask  entered",
        "Ask  succeeded",
        "Nest  entered",
        "Nest  succeeded",
        "Work  entered",
        "Work  succeeded",
    ];
    assert_eq!(ended.told(), told);
}

#[test]
fn mocks_may_be_yaml() {
    let mock = "Pay:\n  - error: Bad\n    cause: because\n";
    let scene = Scene::new("mock-yaml").file("order.asl.json", MACHINE).file("mock.yaml", mock);
    let ended = scene.perdura(&["run", "order.asl.json", "--mock", "mock.yaml", "--skip-time"]);
    ended.fails(1, &["Pay  failed", "FAILED after ", ": Bad: because"]);
}

#[test]
fn step_functions_locals_format_works_with_its_test_cases() {
    let mock = r#"{"StateMachines": {
            "order": {"TestCases": {
                "Happy": {"Pay": "Good", "Ask": "Good", "Nest": "Good", "Work": "Good"},
                "Retry": {"Pay": "BusyTwice", "Ask": "Good", "Nest": "Good", "Work": "Good"}}},
            "another": {"TestCases": {"Happy": {}}}},
        "MockedResponses": {
            "Good": {"0": {"Return": 1}},
            "BusyTwice": {"0-1": {"Throw": {"Error": "Busy", "Cause": "later"}}, "2": {"Return": 3}}}}"#;
    let scene = Scene::new("mock-local").file("order.asl.json", MACHINE).file("mocks.json", mock);
    let run = |mock: &str| scene.perdura(&["run", "order.asl.json", "--mock", mock, "--skip-time"]);
    run("mocks.json#Happy").gives(r#"{"pay":1,"ask":1,"nest":1,"work":1}"#);
    let retried = run("mocks.json#Retry");
    retried.gives(r#"{"pay":3,"ask":1,"nest":1,"work":1}"#);
    assert!(retried.stderr.contains("Pay  retry 2 in 2 h: Busy: later"), "{retried:?}");
    run("mocks.json").fails(2, &["mocks.json:", "more than one test case: \"Happy\", \"Retry\""]);
    run("mocks.json#Sad").fails(2, &["there is no test case \"Sad\""]);
}

#[test]
fn a_mocked_function_is_not_run() {
    let scene = Scene::new("mock-function")
        .function("touch ran; echo 1", "")
        .file("mock.json", r#"{"Call": [{"result": {"from": "mock"}}]}"#);
    scene.perdura(&["run", "m.asl.json", "--mock", "mock.json"]).gives(r#"{"from":"mock"}"#);
    assert!(!scene.path("ran").exists());
}

#[test]
fn all_iterations_draw_from_one_list() {
    let machine = r#"{"StartAt": "All", "States": {"All": {"Type": "Map", "End": true, "MaxConcurrency": 1,
        "ItemProcessor": {"StartAt": "One", "States": {"One": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}}}}"#;
    let scene = Scene::new("mock-map")
        .file("m.json", machine)
        .file("mock.json", r#"{"One": [{"result": "a"}, {"result": "b"}]}"#);
    let ended = scene.perdura(&["run", "m.json", "--mock", "mock.json", "--input", "[1,2,3]"]);
    ended.gives(r#"["a","b","b"]"#);
}

#[test]
fn a_typing_mistake_does_not_pass_for_a_mock() {
    let scene =
        Scene::new("mock-typo").file("order.asl.json", MACHINE).file("mock.json", "{\n  \"Pya\": []\n}");
    scene.perdura(&["run", "order.asl.json", "--mock", "mock.json"]).fails(
        2,
        &["the mock file is wrong: mock.json:2:3: the machine has no state \"Pya\"; its Task states are: \"Pay\", \"Ask\""],
    );
}
