//! `perdura validate`, held to what it printed before: `fixtures/NAME` gives `fixtures/NAME.txt`.
//!
//! After a change that is meant, run with `PERDURA_BLESS=1` and read the difference before committing it.

mod common;

use common::{Ended, Scene};
use std::path::Path;

fn fixtures() -> Scene {
    Scene { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures") }
}

#[track_caller]
fn golden(file: &str, found: &str) {
    let path = fixtures().path(file);
    if std::env::var_os("PERDURA_BLESS").is_some() {
        std::fs::write(&path, found).expect("a golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{file} differs");
}

#[test]
fn mistakes_are_shown_as_a_compiler_shows_them() {
    for file in ["mistakes.asl.json", "mistakes.asl.yaml", "not-json.asl.json", "warning.asl.json"] {
        let ended = fixtures().perdura(&["validate", file]);
        assert_eq!(ended.code, Some(i32::from(file != "warning.asl.json")), "{ended:?}");
        assert_eq!(ended.stdout, "");
        golden(&format!("{file}.txt"), &ended.stderr);
    }
}

#[test]
fn programs_get_one_line_for_each_file() {
    let ended = fixtures().perdura(&["validate", "--json", "good.asl.json", "mistakes.asl.json"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(1), ""));
    golden("json.txt", &ended.stdout);
    let lines: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| line.parse().expect("a line is JSON")).collect();
    assert_eq!((&lines[0]["result"], &lines[1]["result"]), (&"OK".into(), &"FAIL".into()));
    assert_eq!(lines[1]["diagnostics"][0]["severity"], "ERROR");
}

#[test]
fn exit_codes_tell_good_bad_and_unread_apart() {
    let scene = fixtures();
    let code = |arguments: &[&str]| scene.perdura(arguments).code;
    assert_eq!(code(&["validate", "good.asl.json"]), Some(0));
    assert_eq!(code(&["validate", "good.asl.json", "mistakes.asl.json"]), Some(1));
    let unread = scene.perdura(&["validate", "no-such.json", "mistakes.asl.json", "good.asl.json"]);
    unread.fails(2, &["error: cannot read no-such.json: No such file", "error[", "2 files checked: "]);
    assert!(unread.stderr.ends_with(", 1 file could not be read\n"), "{unread:?}");
    scene.perdura(&["validate"]).fails(2, &["<FILE>..."]);
}

#[test]
fn a_dash_is_stdin() {
    use std::io::Write;
    for (text, code) in
        [(r#"{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}"#, 0), ("StartAt: A\nStates: {}", 1)]
    {
        let mut command = fixtures().command(&["validate", "-"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("perdura runs");
        child.stdin.take().expect("stdin is a pipe").write_all(text.as_bytes()).expect("it reads stdin");
        let ended = Ended::from(child.wait_with_output().expect("it ends"));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(code == 0 || ended.stderr.contains("--> <stdin>:"), "{ended:?}");
    }
}

#[test]
fn the_type_of_the_machine_and_strict_limits_count() {
    let callback = r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": "q", "MessageBody.$": "$$.Task.Token"}}}}"#;
    let long = format!(
        r#"{{"Comment": "{}", "StartAt": "A", "States": {{"A": {{"Type": "Succeed"}}}}}}"#,
        "x".repeat(1_100_000)
    );
    let scene = Scene::new("validate-type").file("callback.json", callback).file("long.json", &long);
    let code = |arguments: &[&str]| scene.perdura(arguments).code;
    assert_eq!(code(&["validate", "callback.json"]), Some(0));
    assert_eq!(code(&["validate", "callback.json", "--type", "express"]), Some(1));
    assert_eq!(code(&["validate", "long.json"]), Some(0));
    assert_eq!(code(&["validate", "long.json", "--strict"]), Some(1));
}

#[test]
fn what_a_template_names_twice_is_a_warning_at_its_line() {
    let yaml = "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties:\n      Definition:\n        \
                StartAt: A\n        States:\n          A:\n            Type: Pass\n            Result: 1\n            \
                Result: 2\n            End: true\n";
    let json = r#"{"Resources": {"M": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {"Definition":
        {"StartAt": "A", "States": {"A": {"Type": "Fail"}, "A": {"Type": "Succeed"}}}}}}}"#;
    let scene = Scene::new("validate-doubled").file("t.yaml", yaml).file("t.json", json);
    for (file, place) in [("t.yaml", "t.yaml:11:13"), ("t.json", "t.json:2:60")] {
        let ended = scene.perdura(&["validate", file]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for part in [
            "warning[DUPLICATE_FIELD]: Duplicate field",
            place,
            "first written here",
            "no errors and 1 warning",
        ] {
            assert!(ended.stderr.contains(part), "stderr lacks {part:?}:\n{}", ended.stderr);
        }
        let told = scene.perdura(&["validate", file, "--json"]);
        assert!(
            told.stdout.contains(r#""code":"DUPLICATE_FIELD""#) && !told.stdout.contains("FAIL"),
            "{told:?}"
        );
        let deployed = scene.perdura(&["deploy", file, "--data", "data"]);
        assert_eq!(deployed.code, Some(0), "{deployed:?}");
        assert!(deployed.stderr.contains(place), "{deployed:?}");
    }
}

#[test]
fn a_text_with_one_of_the_two_marks_of_an_expression_is_a_warning() {
    let machine = r#"{"StartAt": "A", "QueryLanguage": "JSONata", "States": {"A": {"Type": "Pass", "End": true,
        "Output": {"total": "$states.input.total %}"}}}}"#;
    let old = r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true,
        "Parameters": {"total": "{% $states.input.total"}}}}"#;
    let scene = Scene::new("validate-half").file("new.json", machine).file("old.json", old);
    for file in ["new.json", "old.json"] {
        let ended = scene.perdura(&["validate", file]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let place = format!("{file}:2:{}", if file == "new.json" { 29 } else { 33 });
        for part in ["warning[HALF_AN_EXPRESSION]", &*place, "1 warning"] {
            assert!(ended.stderr.contains(part), "stderr lacks {part:?}:\n{}", ended.stderr);
        }
    }
}
