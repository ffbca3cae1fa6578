//! A receiver that hangs starves nobody: others are called meanwhile.

mod common;

use common::Scene;
use common::receiver::{Act, Receiver};
use common::server::Server;

/// Starts an execution of the machine.
fn started(scene: &Scene, machine: &str, input: &str) -> String {
    let started = scene.one(&["start", machine, "--input", input]);
    started["id"].as_str().expect("an id").to_owned()
}

#[test]
fn an_api_that_hangs_does_not_keep_others_from_being_called() {
    let hung = Receiver::start(|_, _| Act::Hang);
    let well = Receiver::start(|_, _| Act::Answer(200, "{}".to_owned()));
    let machine = r#"{"StartAt": "Call", "States": {"Call": {"Type": "Task", "End": true,
        "Resource": "arn:aws:states:::http:invoke",
        "Parameters": {"ApiEndpoint.$": "$.url", "Method": "POST", "RequestBody": {}}}}}"#;
    let scene = Scene::new("receivers-http")
        .file("m.asl.json", machine)
        .file("perdura.toml", "[http]\nat_once = 4\n");
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let input = |receiver: &Receiver| format!(r#"{{"url": "{}"}}"#, receiver.url("/"));
    for _ in 0..6 {
        started(&scene, "m", &input(&hung));
    }
    hung.until_seen(2);
    for _ in 0..3 {
        scene.until_status(&started(&scene, "m", &input(&well)), "SUCCEEDED");
    }
    assert_eq!(hung.seen().len(), 2, "half of the four places are its share");
}

#[test]
fn a_command_that_hangs_does_not_keep_others_from_being_run() {
    let task = |name: &str| {
        format!(
            r#"{{"StartAt": "Call", "States": {{"Call": {{"Type": "Task", "End": true,
                "Resource": "arn:aws:lambda:us-east-1:123456789012:function:{name}"}}}}}}"#
        )
    };
    let config = "[functions.hung]\ncommand = ['sh', 'hung.sh']\n[functions.well]\ncommand = ['echo', '1']\n\
                  [commands]\nat_once = 4\n";
    let scene = Scene::new("receivers-commands")
        .file("hung.asl.json", &task("hung"))
        .file("well.asl.json", &task("well"))
        .file("hung.sh", "echo begun >> begun; exec sleep 600")
        .file("perdura.toml", config);
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "hung.asl.json"]);
    scene.one(&["deploy", "well.asl.json"]);
    let hung: Vec<String> = (0..6).map(|_| started(&scene, "hung", "{}")).collect();
    scene.until(&["show", &hung[5]], |_| scene.lines("begun").len() >= 2);
    for _ in 0..3 {
        scene.until_status(&started(&scene, "well", "{}"), "SUCCEEDED");
    }
    assert_eq!(scene.lines("begun").len(), 2, "half of the four places are its share");
    // A place that is given back goes to the next in line.
    scene.one(&["stop", &hung[0]]);
    scene.until(&["show", &hung[5]], |_| scene.lines("begun").len() == 3);
}
