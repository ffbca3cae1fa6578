//! Functions as local commands: what they are given, and every way in which they can end.

mod common;

use common::Scene;

fn run(scene: &Scene) -> common::Ended {
    scene.perdura(&["run", "m.asl.json", "--input", r#"{"a": 1}"#])
}

#[test]
fn a_function_gets_the_payload_the_key_and_the_folder_of_its_configuration() {
    let script =
        r#"printf '{"got": %s, "key": "%s", "here": "%s"}' "$(cat)" "$PERDURA_IDEMPOTENCY_KEY" "$(ls f.sh)""#;
    let ended = run(&Scene::new("function-given").function(script, ""));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let output: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the output is JSON");
    assert_eq!((&output["got"]["a"], &output["here"]), (&1.into(), &"f.sh".into()));
    let key = output["key"].as_str().unwrap_or_default();
    assert_eq!((key.len(), &key[14..15]), (36, "5"), "a name-based UUID: {key}");
}

#[test]
fn every_end_of_a_function_has_its_error() {
    for (name, script, settings, expected) in [
        (
            "exit",
            "echo some chatter; echo 'the card was declined' >&2; exit 1",
            "",
            "FAILED after * Runtime.ExitError: the card was declined",
        ),
        ("silent", "exit 7", "", "Runtime.ExitError: the command ended with exit code 7"),
        (
            "named",
            r#"echo '{"errorType": "CardDeclined", "errorMessage": "no"}'; exit 1"#,
            "",
            "CardDeclined: {\"errorType\": \"CardDeclined\", \"errorMessage\": \"no\"}",
        ),
        ("garbage", "echo hello", "", "Runtime.MarshalError: the answer on stdout is no JSON value"),
        ("binary", r"printf '\377\376'", "", "Runtime.MarshalError: the answer on stdout is not UTF-8"),
        ("killed", "kill -9 $$", "", "Runtime.ExitError: the command was killed by signal 9"),
        (
            "late",
            "sleep 600",
            "timeout_seconds = 0.05",
            "Sandbox.Timedout: {\"errorType\":\"Sandbox.Timedout\",\"errorMessage\":\"Error: Task timed out after 0.05 seconds\"}",
        ),
        (
            "flood",
            "yes | head -c 300000000",
            "",
            "States.DataLimitExceeded: The state/task 'arn:aws:lambda:us-east-1:123456789012:function:f' returned a result with a size exceeding the maximum number of bytes service limit.",
        ),
    ] {
        let ended = run(&Scene::new(&format!("function-{name}")).function(script, settings));
        let expected: Vec<&str> = expected.split('*').collect();
        ended.fails(1, &expected);
    }
}

#[test]
fn a_function_need_not_read_or_answer() {
    run(&Scene::new("function-deaf").function("exec <&-; exit 0", "")).gives("null");
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(1_000_000));
    let scene = Scene::new("function-deaf-large").function("echo 5", "").file("in.json", &large);
    scene.perdura(&["run", "m.asl.json", "--input", "@in.json"]).gives("5");
}

#[test]
fn stderr_of_a_function_that_succeeds_is_its_own_affair() {
    let script = "yes chatter | head -c 1000000 >&2; echo '{\"ok\": true}'";
    let ended = run(&Scene::new("function-chatty").function(script, ""));
    ended.gives("{\"ok\":true}");
    assert!(!ended.stderr.contains("chatter"), "{}", ended.stderr);
}

#[test]
fn what_a_function_has_started_is_ended_with_it() {
    let in_background = "exec 3> alive; (sleep 20; echo late >&3) &";
    for (name, rest, settings, code) in [
        ("daemon", "echo 1", "", 0),
        ("daemon-failed", "exit 1", "", 1),
        ("daemon-late", "sleep 20", "timeout_seconds = 0.2", 1),
        ("daemon-flood", "cat /dev/zero", "", 1),
    ] {
        let script = format!("{in_background}\n{rest}");
        let scene = Scene::new(&format!("function-{name}")).function(&script, settings).pipe("alive");
        let child = scene.start(&["run", "m.asl.json"]);
        // Opens when the function does, and closes when nothing is left that holds it.
        let said = std::fs::read_to_string(scene.path("alive")).expect("the function opens the pipe");
        assert_eq!(said, "", "{name} outlives its function");
        let ended = child.wait_with_output().expect("perdura ends");
        assert_eq!(ended.status.code(), Some(code), "{name}");
    }
}

#[test]
fn the_states_own_timeout_ends_the_function_too() {
    let scene = Scene::new("function-state-timeout").function("echo begun > begun; sleep 600", "").file(
        "m.asl.json",
        r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true, "TimeoutSeconds": 1,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}"#,
    );
    run(&scene).fails(1, &["Call  failed", "FAILED after 1", "States.Timeout"]);
    assert!(scene.path("begun").exists());
}

#[test]
fn a_retry_after_a_refusal_has_a_new_key_and_after_a_timeout_the_same() {
    let scene = |name: &str, script: &str, settings: &str| {
        let machine = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f",
            "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 1}]}}}"#;
        let scene = Scene::new(name).function(script, settings).file("m.asl.json", machine);
        scene.perdura(&["run", "m.asl.json", "--skip-time"]).fails(1, &["retry 1 in 1 s"]);
        let keys = std::fs::read_to_string(scene.path("keys")).expect("the function wrote its keys");
        let keys: Vec<String> = keys.lines().map(str::to_owned).collect();
        assert_eq!(keys.len(), 2, "{keys:?}");
        keys
    };
    let declines = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; echo '{\"errorType\": \"Declined\"}'; exit 1";
    let refused = scene("key-refused", declines, "refused = ['Declined']");
    assert_ne!(refused[0], refused[1]);
    let late = "echo $PERDURA_IDEMPOTENCY_KEY >> keys; sleep 600";
    let ambiguous = scene("key-ambiguous", late, "timeout_seconds = 0.3");
    assert_eq!(ambiguous[0], ambiguous[1]);
}

#[test]
fn a_function_that_is_missing_or_cannot_start_says_so() {
    let scene = Scene::new("function-missing").function("", "").file("perdura.toml", "");
    run(&scene).fails(
        1,
        &[
            "hint: Call calls the function f, which is not configured: add [functions.f] to perdura.toml",
            "Lambda.ResourceNotFoundException: Function not found: \
             arn:aws:lambda:us-east-1:123456789012:function:f:$LATEST (Service: AWSLambda; Status Code: 404; \
             Error Code: ResourceNotFoundException; Request ID: ",
        ],
    );
    let config = "[functions.f]\ncommand = ['./no-such-program']";
    let scene = Scene::new("function-unstartable").function("", "").file("perdura.toml", config);
    run(&scene).fails(1, &["Runtime.InvalidEntrypoint: cannot start", "no-such-program", "No such file"]);
}

#[test]
fn lambda_invoke_wraps_the_answer_as_lambda_does() {
    let machine = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "arn:aws:lambda:us-east-1:123456789012:function:f:live", "Payload.$": "$.a"}}}}"#;
    let scene = Scene::new("function-invoke").function("cat", "").file("m.asl.json", machine);
    run(&scene).gives(r#"{"ExecutedVersion":"$LATEST","Payload":1,"StatusCode":200}"#);
}

#[test]
fn more_calls_than_may_run_at_once_wait_for_a_place() {
    let machine = r#"{"StartAt": "Spread", "States": {"Spread": {"Type": "Map", "End": true,
        "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Call",
        "States": {"Call": {"Type": "Task", "End": true,
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f"}}}}}}"#;
    let items = format!("[{}]", (0..100).map(|item| item.to_string()).collect::<Vec<_>>().join(","));
    let scene = Scene::new("function-many").function("cat", "").file("m.asl.json", machine);
    scene.perdura(&["run", "m.asl.json", "--input", &items]).gives(&items);
}

#[test]
fn a_function_at_a_url_is_called_from_here_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody calls");
        let mut reader = std::io::BufReader::new(stream);
        let mut key = String::new();
        for line in std::io::BufRead::lines(&mut reader) {
            let line = line.expect("headers are text").to_ascii_lowercase();
            key = line.strip_prefix("idempotency-key: ").map_or(key, str::to_owned);
            if line.is_empty() {
                break;
            }
        }
        let mut stream = reader.into_inner();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"ok\": 17}")
            .expect("the answer is taken");
        key
    });
    let config = format!("[functions.f]\nurl = 'http://{address}/f'");
    let scene = Scene::new("function-url").function("", "").file("perdura.toml", &config);
    run(&scene).gives("{\"ok\":17}");
    assert_eq!(server.join().expect("it ends").len(), 36, "the key is a UUID");
}

#[test]
fn what_cannot_be_run_is_a_warning_with_its_line() {
    let machine = r#"{"StartAt": "Charge", "States": {
        "Charge": {"Type": "Task", "Next": "Send",
            "Resource": "arn:aws:lambda:us-east-1:123456789012:function:charge"},
        "Send": {"Type": "Task", "End": true,
            "Resource": "arn:aws:states:::glue:startJobRun",
            "Parameters": {"JobName": "j"}}}}"#;
    let send = [
        "warning[UNSUPPORTED_RESOURCE]: \"Send\" calls arn:aws:states:::glue:startJobRun",
        "m.asl.json:5:25",
    ];
    let charge = ["warning[UNCONFIGURED_FUNCTION]: \"Charge\" calls the function charge", "m.asl.json:3:25"];
    let has =
        |ended: &common::Ended, expected: &[&str; 2]| expected.iter().all(|part| ended.stderr.contains(part));
    for (arguments, config, warns_of_charge) in [
        (&["validate", "m.asl.json"][..], None, false),
        (&["validate", "m.asl.json"], Some(""), true),
        (&["validate", "m.asl.json"], Some("[functions.charge]\ncommand = ['c']"), false),
        (&["validate", "m.asl.json", "--lambda-endpoint", "http://127.0.0.1:1"], Some(""), false),
        (&["deploy", "m.asl.json", "--data", "d"], Some(""), true),
    ] {
        let mut scene = Scene::new("function-warnings").file("m.asl.json", machine);
        if let Some(config) = config {
            scene = scene.file("perdura.toml", config);
        }
        let ended = scene.perdura(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        assert!(has(&ended, &send), "{arguments:?}: {ended:?}");
        assert_eq!(has(&ended, &charge), warns_of_charge, "{arguments:?}, {config:?}: {ended:?}");
    }
}
