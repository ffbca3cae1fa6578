//! Nobody is starved: a loop that computes for ever keeps neither others nor those who stop it waiting.

mod common;

use common::Scene;
use common::server::Server;
use std::time::{Duration, Instant};

/// Never ends, and computes all the time.
const HOG: &str = r#"{"QueryLanguage": "JSONata", "StartAt": "Spin", "States": {
    "Spin": {"Type": "Pass", "Output": "{% $sum([1..30000].($ * 3)) %}", "Next": "Again"},
    "Again": {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "Spin"}],
        "Default": "Done"}, "Done": {"Type": "Succeed"}}}"#;
const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// How many of them run.
const HOGS: usize = 4;
/// Far more than one Turn takes, on a machine that is busy with other tests; far less than a Turn of 1,000 states takes.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn loops_that_compute_for_ever_keep_no_start_and_no_stop_waiting() {
    let scene = Scene::new("fair-hogs").file("hog.json", HOG).file("pass.json", PASS);
    let _server = Server::start(&scene, &[]);
    scene.one(&["deploy", "hog.json"]);
    scene.one(&["deploy", "pass.json"]);
    for number in 0..HOGS {
        let name = format!("hog-{number}");
        scene.one(&["start", "hog", "--name", &name]);
    }
    for number in 0..2 {
        let (name, began) = (format!("pass-{number}"), Instant::now());
        scene.one(&["start", "pass", "--name", &name]);
        assert!(began.elapsed() < SOON, "it was started after {:?}", began.elapsed());
        scene.until_status(&name, "SUCCEEDED");
        assert!(began.elapsed() < SOON, "it ended after {:?}", began.elapsed());
    }
    let began = Instant::now();
    scene.one(&["stop", "hog-3"]);
    assert!(began.elapsed() < SOON, "it was stopped after {:?}", began.elapsed());
    scene.until_status("hog-3", "ABORTED");
}
