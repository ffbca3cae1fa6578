//! Executions are found by what they were started with, at once, after a kill, and by whoever only reads.

mod common;

use common::Scene;
use common::server::Server;
use serde_json::{Value, json};

const HANGS: &str = "echo up > up; timeout 20 sh -c 'read x < go'; echo 1";

fn ids(listed: &[Value]) -> Vec<&str> {
    listed.iter().filter_map(|one| one["id"].as_str()).collect()
}

#[test]
fn one_that_has_just_begun_is_found_by_label_and_key_also_after_a_kill() {
    let scene = Scene::new("labels-kill").function(HANGS, "").pipe("go");
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "m.asl.json"]);
    let start =
        ["start", "m", "--name", "a", "--label", "order=A-1042", "--label", "tenant=x", "--key", "k-17"];
    let started = scene.one(&start);
    assert_eq!(started["labels"], json!({"order": "A-1042", "tenant": "x"}));
    let id = started["id"].as_str().expect("it has an id").to_owned();
    scene.one(&["start", "m", "--name", "b", "--label", "order=A-1043"]);
    let is_found = |when: &str| {
        for filter in [
            &["--label", "order=A-1042"][..],
            &["--name-prefix", "a"],
            &["--label", "tenant=x", "--since", "1h"],
        ] {
            let mut arguments = vec!["ps"];
            arguments.extend(filter);
            assert_eq!(ids(&scene.json(&arguments)), [&*id], "{when}: {filter:?}");
        }
        assert_eq!(scene.json(&["ps", "--label", "order=A-1044"]), Vec::<Value>::new(), "{when}");
        let shown = scene.one(&["show", "m/a"]);
        assert_eq!(
            (&shown["labels"]["order"], &shown["rootKey"]),
            (&json!("A-1042"), &json!("k-17")),
            "{when}"
        );
        let traced = scene.one(&["trace", "k-17"]);
        assert_eq!((&traced["by"], &traced["execution"]["id"]), (&json!("rootKey"), &json!(id)), "{when}");
    };
    is_found("it has just begun");
    server.end("-KILL");
    is_found("nobody runs it");
    let server = Server::start(&scene, &[]);
    is_found("another process runs it");
    scene.one(&["stop", "m/a", "--error", "Cancelled"]);
    is_found("it has ended");
    assert_eq!(ids(&scene.json(&["ps", "--error", "Cancelled", "--sort", "end"])), [&*id]);
    server.end("-TERM");
    is_found("its row is all there is");
}

#[test]
fn people_see_labels_and_are_told_which_are_none() {
    let scene = Scene::new("labels-people").function("echo 1", "");
    scene.one(&["deploy", "m.asl.json"]);
    let started = scene.on_data(&["start", "m", "--label", "order=A-1", "--label", "a b=c=d", "--key", "k"]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let listed = scene.on_data(&["ps"]).stdout;
    assert!(listed.contains("LABELS") && listed.contains("a b=c=d order=A-1"), "{listed}");
    let shown = scene.on_data(&["show", started.stdout.trim()]).stdout;
    assert!(shown.contains("a b=c=d order=A-1") && shown.contains("root key"), "{shown}");
    for (arguments, code, why) in [
        (&["start", "m", "--label", "order"][..], 2, "key and value with ="),
        (&["start", "m", "--label", "=x"], 2, "cannot be the key of a label"),
        (&["start", "m", "--key", "a\nb"], 2, "has a character that it cannot have"),
        (&["ps", "--since", "yesterday"], 2, "write an instant"),
    ] {
        let ended = scene.on_data(arguments);
        assert!(ended.code == Some(code) && ended.stderr.contains(why), "{arguments:?}: {ended:?}");
    }
}
