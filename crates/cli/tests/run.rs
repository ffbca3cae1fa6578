//! `perdura run`: what goes where, how it ends, and what time is.

mod common;

use common::Scene;

fn machine(states: &str) -> String {
    format!(r#"{{"StartAt": "A", "States": {{{states}}}}}"#)
}

#[test]
fn the_output_alone_goes_to_stdout_as_one_line() {
    let scene = Scene::new("run-output")
        .file("m.asl.json", &machine(r#""A": {"Type": "Pass", "End": true}"#))
        .file("in.json", "{\n  \"b\": 1.50,\n  \"a\": [12345678901234567890, null]\n}\n");
    let ended = scene.perdura(&["run", "m.asl.json", "--input", "@in.json"]);
    ended.gives(r#"{"b":1.50,"a":[12345678901234567890,null]}"#);
    assert_eq!(ended.told(), ["A  entered"]);
    assert!(ended.stderr.ends_with(" ms\n") || ended.stderr.ends_with("after 0 s\n"), "{}", ended.stderr);
    let quiet = scene.perdura(&["run", "m.asl.json", "--quiet"]);
    assert_eq!(quiet.gives("{}").stderr, "");
}

#[test]
fn each_status_has_its_exit_code() {
    let fail = machine(r#""A": {"Type": "Fail", "Error": "Broken", "Cause": "on purpose\nand twice"}"#);
    let scene = Scene::new("run-failed").file("m.json", &fail);
    scene
        .perdura(&["run", "m.json"])
        .fails(1, &["A  failed\n", "FAILED after ", ": Broken: on purpose\n  and twice\n"]);
    let quiet = scene.perdura(&["run", "m.json", "-q"]);
    assert!(quiet.fails(1, &["Broken: on purpose"]).told().is_empty(), "{quiet:?}");

    let late = r#"{"StartAt": "A", "TimeoutSeconds": 10, "States": {"A": {"Type": "Wait", "Seconds": 60, "End": true}}}"#;
    let scene = Scene::new("run-late").file("m.json", late);
    scene
        .perdura(&["run", "m.json", "--skip-time"])
        .fails(3, &["A  failed: States.Timeout", "TIMED_OUT after 10 s, of which "]);
}

#[test]
fn what_cannot_be_started_has_code_2_and_a_remedy() {
    let good = machine(r#""A": {"Type": "Pass", "End": true}"#);
    let bad = machine(r#""A": {"Type": "Pass", "Next": "B"}"#);
    let scene = Scene::new("run-refused")
        .file("good.json", &good)
        .file("bad.json", &bad)
        .file("in.json", "{}")
        .file("broken.json", "{\n  \"a\": 1,\n}")
        .file("wrong.toml", "[functions.f]\ncommand = 'sh'");
    for (arguments, expected) in [
        (&["run"][..], "<FILE>"),
        (&["run", "no.json"], "cannot read no.json: No such file"),
        (&["run", "."], "it is a folder"),
        (&["run", "bad.json"], "bad.json cannot be run: 2 errors"),
        (&["run", "good.json", "--input", "in.json"], "write --input @in.json"),
        (&["run", "good.json", "--input", "{a: 1}"], "write an @ before its name"),
        (&["run", "good.json", "--input", "@broken.json"], "broken.json:3:1: "),
        (&["run", "good.json", "--input", "@no.json"], "cannot read no.json"),
        (
            &["run", "good.json", "--name", "a b"],
            "--name is wrong: the name of an execution cannot have ' ' in it",
        ),
        (&["run", "good.json", "--config", "no.toml"], "cannot read no.toml"),
        (&["run", "good.json", "--config", "wrong.toml"], "wrong.toml is wrong: TOML parse error at line 2"),
        (&["run", "good.json", "--mock", "no.json"], "cannot read no.json"),
        (&["run", "good.json", "--mock", "broken.json"], "broken.json:"),
        (&["run", "-", "--input", "@-"], "stdin can be the definition or the input, not both"),
        (&["run", "good.json", "--frobnicate"], "--frobnicate"),
        (&["run", "good.json", "--type", "fast"], "possible values: standard, express"),
    ] {
        scene.perdura(arguments).fails(2, &[expected]);
    }
}

#[test]
fn a_wait_of_45_days_is_skipped_and_seen_as_waited() {
    let states = r#""A": {"Type": "Wait", "Seconds": 3888000, "Next": "B"},
        "B": {"Type": "Pass", "Parameters": {"from.$": "$$.Execution.StartTime", "to.$": "$$.State.EnteredTime"}, "End": true}"#;
    let scene = Scene::new("run-skip").file("m.json", &machine(states));
    let ended = scene.perdura(&["run", "m.json", "--skip-time"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.told(), ["A  entered", "A  waits 45 d", "A  succeeded", "B  entered"]);
    assert!(ended.stderr.contains("SUCCEEDED after 45 d, of which "), "{}", ended.stderr);
    let output: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the output is JSON");
    let day = |name: &str| output[name].as_str().unwrap_or_default()[..10].to_owned();
    assert_ne!(day("from"), day("to"));
}

#[test]
fn yaml_is_read_as_definition_and_as_input() {
    let scene = Scene::new("run-yaml")
        .file(
            "m.asl.yaml",
            "StartAt: A\nStates:\n  A:\n    Type: Pass\n    InputPath: $.list\n    End: true\n",
        )
        .file("in.yaml", "list:\n  - one\n  - 2\n");
    scene.perdura(&["run", "m.asl.yaml", "--input", "@in.yaml"]).gives(r#"["one",2]"#);
}

#[test]
fn definition_and_input_may_come_from_stdin() {
    use std::io::Write;
    let scene = Scene::new("run-stdin").file("m.json", &machine(r#""A": {"Type": "Pass", "End": true}"#));
    for (arguments, text, expected) in [
        (["run", "-", "--input", "5"], machine(r#""A": {"Type": "Pass", "End": true}"#), "5"),
        (["run", "m.json", "--input", "@-"], "[7]".into(), "[7]"),
    ] {
        let mut command = scene.command(&arguments);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("perdura runs");
        child.stdin.take().expect("stdin is a pipe").write_all(text.as_bytes()).expect("it reads stdin");
        common::Ended::from(child.wait_with_output().expect("it ends")).gives(expected);
    }
}

#[test]
fn name_and_type_are_seen_by_the_execution() {
    let states = r#""A": {"Type": "Pass", "Parameters": {"name.$": "$$.Execution.Name", "id.$": "$$.Execution.Id",
        "machine.$": "$$.StateMachine.Name"}, "End": true}"#;
    let scene = Scene::new("run-name").file("my order.asl.json", &machine(states));
    scene.perdura(&["run", "my order.asl.json", "--name", "n-1"]).gives(
        r#"{"name":"n-1","id":"arn:aws:states:us-east-1:123456789012:execution:my-order:n-1","machine":"my-order"}"#,
    );
    let express = scene.perdura(&["run", "my order.asl.json", "--name", "n-1", "--type", "express"]);
    assert!(express.stdout.contains(":express:my-order:n-1:"), "{express:?}");
}

#[test]
fn what_needs_a_mock_fails_uncatchably_and_says_how_to_give_one() {
    let states = r#""A": {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage",
        "Parameters": {"QueueUrl": "q", "MessageBody": "m"}, "End": true,
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "B"}]}, "B": {"Type": "Succeed"}"#;
    let scene = Scene::new("run-unmocked").file("m.json", &machine(states));
    let sentence = "States.Runtime: The state \"A\" calls arn:aws:states:::sqs:sendMessage, which `perdura run` \
                    cannot do. Give it an answer in a mock file: {\"A\": [{\"result\": …}]}";
    scene.perdura(&["run", "m.json"]).fails(1, &[sentence]);
}

#[test]
fn an_endless_loop_runs_until_it_is_stopped_and_strict_limits_stop_it() {
    let states = r#""A": {"Type": "Pass", "Next": "B"}, "B": {"Type": "Choice",
        "Choices": [{"Variable": "$.stop", "IsPresent": true, "Next": "C"}], "Default": "A"}, "C": {"Type": "Succeed"}"#;
    let scene = Scene::new("run-loop").file("m.json", &machine(states));
    let ended = scene.perdura(&["run", "m.json", "--strict", "-q"]);
    ended.fails(1, &["States.Runtime", "maximum number of history events (25000)"]);
}

#[test]
fn strict_payloads_are_aws_s() {
    let scene = Scene::new("run-strict")
        .file("m.json", &machine(r#""A": {"Type": "Pass", "End": true}"#))
        .file("in.json", &format!("\"{}\"", "x".repeat(262_200)));
    scene
        .perdura(&["run", "m.json", "--input", "@in.json", "--strict"])
        .fails(2, &["the most is 262144 bytes"]);
    assert_eq!(scene.perdura(&["run", "m.json", "--input", "@in.json"]).code, Some(0));
    let scene = Scene::new("run-strict-result").function("head -c 262200 /dev/zero | tr '\\0' 7", "");
    let ended = scene.perdura(&["run", "m.asl.json", "--strict"]);
    ended.fails(1, &["States.DataLimitExceeded"]);
}

#[test]
fn a_distributed_map_runs_its_children_here() {
    let states = r#""A": {"Type": "Map", "End": true, "MaxConcurrency": 2, "ToleratedFailureCount": 1,
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}, "StartAt": "B",
        "States": {"B": {"Type": "Choice", "Choices": [{"Variable": "$", "NumericEquals": 2, "Next": "C"}], "Default": "D"},
        "C": {"Type": "Fail", "Error": "Two"}, "D": {"Type": "Wait", "Seconds": 5, "End": true}}}}"#;
    let scene = Scene::new("run-distributed").file("m.json", &machine(states));
    let ended = scene.perdura(&["run", "m.json", "--skip-time", "--input", "[1,2,3]"]);
    ended.gives(r#"[1,{"Error":"Two"},3]"#);
    assert!(ended.told().contains(&"C[1]  failed: Two"), "{ended:?}");
    scene
        .perdura(&["run", "m.json", "--skip-time", "--input", "[2,2,3]"])
        .fails(1, &["States.ExceedToleratedFailureThreshold"]);
    let reader = machine(
        r#""A": {"Type": "Map", "End": true, "ItemReader": {"Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSON"}, "Parameters": {"Bucket": "b", "Key": "k"}},
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"}, "StartAt": "D",
        "States": {"D": {"Type": "Pass", "End": true}}}}"#,
    );
    let scene = Scene::new("run-reader").file("m.json", &reader);
    scene
        .perdura(&["run", "m.json"])
        .fails(1, &["States.ItemReaderFailed", "The items in S3://b/k cannot be read"]);
}

#[test]
fn completions_version_and_help_are_there() {
    let scene = Scene::new("run-help");
    for shell in ["bash", "zsh", "fish"] {
        let script = scene.perdura(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains("skip-time"), "{shell}");
    }
    assert!(scene.perdura(&["--version"]).stdout.starts_with("perdura 0."));
    for arguments in
        [&["--help"][..], &["run", "--help"], &["validate", "--help"], &["completions", "--help"]]
    {
        let help = scene.perdura(arguments);
        assert!(help.code == Some(0) && help.stdout.contains("Examples:\n  perdura "), "{help:?}");
    }
    scene.perdura(&[]).fails(2, &["Usage: perdura <COMMAND>"]);
}
