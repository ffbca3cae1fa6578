//! The real binary with a Distributed Map: killed in the middle, and taken up again.

mod common;

use common::Scene;
use common::server::Server;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ITEMS: usize = 60;
const AT_ONCE: usize = 4;
/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(50);

/// What was worked on, and how often.
fn worked(scene: &Scene) -> BTreeMap<String, usize> {
    let mut worked = BTreeMap::new();
    for line in std::fs::read_to_string(scene.path("worked")).unwrap_or_default().lines() {
        *worked.entry(line.to_owned()).or_default() += 1;
    }
    worked
}

/// Waits until so many items were worked on.
fn until_worked(scene: &Scene, count: usize) {
    let began = Instant::now();
    while worked(scene).len() < count {
        assert!(began.elapsed() < PATIENCE, "it stands still at {:?}", worked(scene));
        std::thread::yield_now();
    }
}

#[test]
fn a_map_run_that_is_killed_goes_on_and_no_finished_child_runs_again() {
    let map = format!(
        r#"{{"StartAt": "Each", "States": {{"Each": {{"Type": "Map", "MaxConcurrency": {AT_ONCE}, "End": true,
            "ItemProcessor": {{"ProcessorConfig": {{"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}},
                "StartAt": "Do", "States": {{"Do": {{"Type": "Task",
                    "Resource": "arn:aws:lambda:us-east-1:123456789012:function:f", "End": true}}}}}}}}}}}}"#
    );
    let scene = Scene::new("map-run")
        // Whoever is killed may leave a command without its input: that is no item.
        .function("x=$(cat); [ -n \"$x\" ] || exit 1; echo \"$x\" >> worked; echo \"$x\"", "")
        .file("map.json", &map);
    let items: Vec<String> = (0..ITEMS).map(|item| item.to_string()).collect();
    let input = format!("[{}]", items.join(","));
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "map.json"]);
    scene.one(&["start", "map", "--name", "all", "--input", &input]);
    for share in [1, 2] {
        until_worked(&scene, ITEMS * share / 4);
    }
    assert_eq!(server.end("-KILL"), None);
    let before = worked(&scene);
    assert!(before.len() < ITEMS, "it was killed too late");

    let server = Server::start(&scene, &[]);
    let ended = scene.until_status("all", "SUCCEEDED");
    assert_eq!(ended["output"].as_str(), Some(&*input), "{ended}");
    let worked = worked(&scene);
    assert_eq!(worked.len(), ITEMS);
    // What was under way may be called again, under its key; nothing else is.
    let again = worked.values().filter(|times| **times > 1).count();
    assert!(again <= AT_ONCE && worked.values().all(|times| *times <= 2), "{worked:?}");
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
}
