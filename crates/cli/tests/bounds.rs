//! Bad and huge input: a sentence and an exit code, never a crash.

mod common;

use common::Scene;
use std::fs::File;

const PASS: &str = r#"{"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}"#;

#[test]
fn depth_is_bounded_in_definitions_inputs_and_mocks() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let deep_yaml =
        "a:\n".to_owned() + &(1..2_000).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>();
    let scene = Scene::new("bounds-deep")
        .file("good.json", PASS)
        .file("deep.json", &deep)
        .file("deep.yaml", &deep_yaml);
    for file in ["deep.json", "deep.yaml"] {
        let ended = scene.perdura(&["validate", file]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        scene.perdura(&["run", file]).fails(2, &["cannot be run: 1 error"]);
        scene
            .perdura(&["run", "good.json", "--input", &format!("@{file}")])
            .fails(2, &["the input is wrong"]);
        scene.perdura(&["run", "good.json", "--mock", file]).fails(2, &["the mock file is wrong"]);
    }
}

#[test]
fn the_deepest_input_passes_through_every_kind_of_state() {
    let deepest = "[".repeat(256) + &"]".repeat(256);
    let machine = r#"{"StartAt": "A", "States": {
        "A": {"Type": "Pass", "ResultPath": "$[0]", "Next": "B"},
        "B": {"Type": "Parallel", "Branches": [{"StartAt": "C", "States": {"C": {"Type": "Succeed"}}}], "Next": "D"},
        "D": {"Type": "Map", "ItemProcessor": {"StartAt": "E", "States": {"E": {"Type": "Pass", "End": true}}}, "End": true}}}"#;
    let scene = Scene::new("bounds-deepest").file("m.json", machine).file("in.json", &deepest);
    let ended = scene.perdura(&["run", "m.json", "--input", "@in.json"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{:?} {}", ended.code, ended.stderr);
}

#[test]
fn files_of_100_mb_are_read_or_refused() {
    let scene = Scene::new("bounds-large").file("good.json", PASS);
    let file = File::create(scene.path("large.json")).expect("a file can be made");
    file.set_len(100 * 1024 * 1024 + 1).expect("a file can be long");
    scene
        .perdura(&["validate", "large.json"])
        .fails(2, &["large.json is too large: the most is 104857600 bytes"]);
    scene.perdura(&["run", "large.json"]).fails(2, &["too large"]);
    scene.perdura(&["run", "good.json", "--input", "@large.json"]).fails(2, &["too large", "67108864"]);
    scene.perdura(&["run", "good.json", "--mock", "large.json"]).fails(2, &["too large"]);
    scene.perdura(&["run", "good.json", "--config", "large.json"]).fails(2, &["too large"]);
    file.set_len(100 * 1024 * 1024).expect("a file can be cut");
    scene.perdura(&["validate", "large.json"]).fails(1, &["large.json:1:1"]);
    std::fs::remove_file(scene.path("large.json")).expect("it can be removed");
}

#[test]
fn what_is_no_text_is_refused() {
    let scene = Scene::new("bounds-text").file("good.json", PASS);
    std::fs::write(scene.path("binary.json"), b"{\"a\": \"\xff\xfe\"}").expect("a file can be written");
    for arguments in [
        &["validate", "binary.json"][..],
        &["run", "binary.json"],
        &["run", "good.json", "--input", "@binary.json"],
        &["run", "good.json", "--mock", "binary.json"],
        &["run", "good.json", "--config", "binary.json"],
    ] {
        scene.perdura(arguments).fails(2, &["binary.json is not UTF-8 text: byte 7"]);
    }
}

#[test]
fn names_from_files_cannot_play_with_the_terminal() {
    let machine = "{\"StartAt\": \"A\\u001b[2J\", \"States\": {\"A\\u001b[2J\": {\"Type\": \"Fail\", \"Cause\": \"x\\u001b[2Jy\"}}}";
    let scene = Scene::new("bounds-escape").file("m.json", machine);
    let ended = scene.perdura(&["run", "m.json"]);
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:?}");
}

#[test]
fn a_large_map_does_not_flood_the_lines() {
    let machine = r#"{"StartAt": "All", "States": {"All": {"Type": "Map", "End": true,
        "ItemProcessor": {"StartAt": "One", "States": {"One": {"Type": "Pass", "End": true}}}}}}"#;
    let items = format!("[{}]", vec!["1"; 10_000].join(","));
    let scene = Scene::new("bounds-map").file("m.json", machine).file("in.json", &items);
    let ended = scene.perdura(&["run", "m.json", "--input", "@in.json"]);
    ended.gives(&items);
    assert_eq!(ended.told().len(), 12, "{}", ended.stderr);
}
