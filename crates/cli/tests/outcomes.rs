//! What an outcome says about the deed: only a receiver's own word that it did nothing gives a retry a new key.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver};
use common::server::Server;

/// A machine of one Task that is tried twice more.
fn retried(task: &str) -> String {
    format!(
        r#"{{"StartAt": "Call", "States": {{"Call": {{"Type": "Task", {task}, "End": true,
            "Retry": [{{"ErrorEquals": ["States.ALL"], "MaxAttempts": 2}}]}}}}}}"#
    )
}

/// How many different ones there are.
fn different(keys: &[String]) -> usize {
    keys.iter().collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn a_request_gets_a_new_key_only_after_a_refusal() {
    for (status, refused, keys) in [
        (303, "", 1),
        (302, "", 1),
        (409, "", 1),
        (422, "", 1),
        (500, "", 1),
        (400, "", 3),
        (404, "", 3),
        (409, "refused = [409]", 3),
        (303, "refused = [303]", 3),
        (500, "refused = ['States.Http.StatusCode.500']", 3),
    ] {
        let receiver = Receiver::start(move |_, _| Act::Head(status, "Location: /done\r\n".to_owned()));
        let task = format!(
            r#""Resource": "arn:aws:states:::http:invoke",
               "Parameters": {{"ApiEndpoint": "{}", "Method": "POST", "RequestBody": {{}}}}"#,
            receiver.url("/pay")
        );
        let config = format!("[[destinations]]\nhost = '127.0.0.1'\n{refused}\n");
        let scene =
            Scene::new("outcomes-http").file("m.asl.json", &retried(&task)).file("perdura.toml", &config);
        scene.perdura(&["run", "m.asl.json", "--skip-time"]).fails(1, &["retry 2"]);
        let seen: Vec<String> = receiver.seen().iter().map(|seen| seen.key().to_owned()).collect();
        assert_eq!((seen.len(), different(&seen)), (3, keys), "{status} {refused}: {seen:?}");
    }
}

#[test]
fn a_command_gets_a_new_key_only_after_an_error_that_is_listed_as_refused() {
    let named = "echo '{\"errorType\": \"CardDeclined\"}'; exit 1";
    for (end, settings, keys) in [
        ("exit 1", "", 1),
        ("kill -9 $$", "", 1),
        (named, "", 1),
        (named, "refused = ['OutOfStock']", 1),
        (named, "refused = ['OutOfStock', 'CardDeclined']", 3),
        (named, "[[destinations]]\nresource = 'f'\nrefused = ['CardDeclined']", 3),
    ] {
        let script = format!("echo $PERDURA_IDEMPOTENCY_KEY >> keys; {end}");
        let task = r#""Resource": "arn:aws:lambda:us-east-1:123456789012:function:f""#;
        let scene =
            Scene::new("outcomes-command").function(&script, settings).file("m.asl.json", &retried(task));
        scene.perdura(&["run", "m.asl.json", "--skip-time"]).fails(1, &["retry 2"]);
        let seen = scene.lines("keys");
        assert_eq!((seen.len(), different(&seen)), (3, keys), "{end} {settings}: {seen:?}");
    }
}

#[test]
fn a_function_error_over_http_gets_a_new_key_only_where_it_is_listed() {
    for (status, headers, settings, keys) in [
        (200, "X-Amz-Function-Error: Unhandled\r\n", "", 1),
        (200, "X-Amz-Function-Error: Unhandled\r\n", "refused = ['CardDeclined']", 3),
        (400, "", "", 3),
        (500, "", "", 1),
        (500, "", "refused = [500]", 3),
    ] {
        let body = r#"{"errorType": "CardDeclined"}"#;
        let receiver = Receiver::start(move |_, _| Act::Whole(status, headers.to_owned(), body.to_owned()));
        let config = format!("[functions.f]\nurl = '{}'\n{settings}\n", receiver.url("/f"));
        let task = r#""Resource": "arn:aws:lambda:us-east-1:123456789012:function:f""#;
        let scene =
            Scene::new("outcomes-url").file("m.asl.json", &retried(task)).file("perdura.toml", &config);
        scene.perdura(&["run", "m.asl.json", "--skip-time"]).fails(1, &["retry 2", "CardDeclined"]);
        let seen: Vec<String> = receiver.seen().iter().map(|seen| seen.key().to_owned()).collect();
        assert_eq!((seen.len(), different(&seen)), (3, keys), "{status} {settings}: {seen:?}");
    }
}

#[test]
fn a_workers_error_gives_a_new_key_only_where_it_is_listed() {
    let arn = "arn:aws:states:us-east-1:123456789012:activity:approve";
    for (name, refused, keys) in [("unlisted", "[]", 1), ("listed", "['Declined']", 2)] {
        let config = format!("[[destinations]]\nresource = '{arn}'\nrefused = {refused}\n");
        let scene = Scene::new(&format!("outcomes-worker-{name}"))
            .file("m.asl.json", &retried(&format!(r#""Resource": "{arn}""#)))
            .file("perdura.toml", &config);
        let _server = Server::start(&scene, &[]);
        scene.one(&["deploy", "m.asl.json"]);
        scene.one(&["start", "m", "--name", "a"]);
        let taken = || scene.one(&["activity", "poll", "approve"]);
        let first = taken();
        let token = first["token"].as_str().expect("a token");
        scene.one(&["activity", "fail", token, "--error", "Declined"]);
        let seen = [&first, &taken()].map(|task| task["key"].as_str().expect("a key").to_owned());
        assert_eq!(different(&seen), keys, "{refused}: {seen:?}");
    }
}

#[test]
fn what_cannot_be_a_refusal_is_not_taken_for_one() {
    for (refused, expected) in [
        ("['States.Timeout']", "functions.f: refused has States.Timeout, which is no refusal"),
        ("[402]", "functions.f: refused has 402, and a command has no statuses"),
        ("[true]", "a status or an error's name, as in refused = [402, \"CardDeclined\"]"),
        ("[70000]", "a status or an error's name, as in refused = [402, \"CardDeclined\"]"),
    ] {
        let scene = Scene::new("outcomes-mistakes").function("echo 1", &format!("refused = {refused}"));
        scene.perdura(&["run", "m.asl.json"]).fails(2, &[expected]);
    }
}
