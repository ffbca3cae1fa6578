//! What is left of an execution that cannot be read is kept until a person has decided.

mod common;

use common::Scene;
use common::server::Server;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_store::record::JournalWriter;
use perdura_store::{Catalog, Claim, Group, Row, SqliteOptions, SqliteStore, Store};

const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

/// All there is, for a moment.
fn claim() -> Claim {
    Claim { holder: "test".into(), most: u16::MAX, now: Timestamp(0), expires_at: Timestamp(1) }
}

/// Adds two executions to the journal: one whose only Turn this version cannot read, and one whose first Turn is missing.
fn spoil(scene: &Scene) -> [String; 2] {
    let mut store =
        SqliteStore::open(&scene.path("data"), SqliteOptions::default()).expect("nobody holds it");
    let lease = store.acquire(&claim()).expect("it is free");
    let recovery = store.recover(&lease).expect("it can be read");
    let spoilt = [7, 8].map(ExecutionId::from_random);
    let mut journal = JournalWriter::new(&recovery.totals);
    journal.push(spoilt[0], 1, b"what only a later version reads");
    journal.push(spoilt[1], 2, b"the rest of it");
    let group = Group {
        position: Some(recovery.next),
        journal: journal.seal(),
        keep_from: recovery.next,
        ..Group::under(lease)
    };
    store.commit(&group).expect("it can be written");
    spoilt.map(|id| id.to_string())
}

#[test]
fn what_cannot_be_read_outlives_the_next_commits_until_it_is_given_up() {
    let scene = Scene::new("damage").file("pass.asl.json", PASS);
    scene.one(&["deploy", "pass.asl.json"]);
    let [id, other] = spoil(&scene);
    for round in 0..2 {
        let server = Server::start(&scene, &[]);
        for number in 0..3 {
            let name = format!("n-{round}-{number}");
            scene.one(&["start", "pass", "--name", &name]);
            scene.until_status(&name, "SUCCEEDED");
        }
        scene.one(&["cleanup", "--older-than", "0s"]);
        server.end("-KILL");
    }
    let checked = scene.on_data(&["check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for part in [&*id, &*other, "cannot be read", &format!("perdura give-up {id} --save FILE")] {
        assert!(checked.stderr.contains(part), "{part:?} is missing: {checked:?}");
    }
    let server = Server::start(&scene, &[]);
    // The others are not held up: what ended is swept all the same.
    scene.one(&["start", "pass", "--name", "last"]);
    scene.until_status("last", "SUCCEEDED");
    scene.one(&["cleanup", "--older-than", "0s"]);
    assert!(scene.json(&["ps"]).len() <= 1, "{:?}", scene.json(&["ps"]));
    scene.one(&["start", "pass", "--name", "kept"]);
    scene.on_data(&["give-up", "kept"]).fails(1, &["can be read, and is not given up"]);
    let given_up = scene.one(&["give-up", &id, "--save", "left.jsonl"]);
    assert_eq!(given_up["saved"], 1, "{given_up}");
    assert_eq!(scene.lines("left.jsonl"), [r#"{"turn":1,"body":"what only a later version reads"}"#]);
    assert_eq!(scene.one(&["give-up", &other, "--save", "other.jsonl"])["saved"], 1);
    assert_eq!(scene.lines("other.jsonl"), [r#"{"turn":2,"body":"the rest of it"}"#]);
    server.end("-KILL");
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
    let server = Server::start(&scene, &[]);
    let log = std::fs::read_to_string(scene.path("serve.log")).expect("there is a log");
    assert!(!log.contains(&id) && !log.contains(&other), "{log}");
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn a_name_that_leads_to_an_execution_of_another_name_is_told_by_check() {
    let scene = Scene::new("damage-name").file("pass.asl.json", PASS);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "pass.asl.json"]);
    let id = scene.one(&["start", "pass", "--name", "mine"])["id"].as_str().map(str::to_owned);
    scene.until_status("mine", "SUCCEEDED");
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(scene.one(&["check"])["findings"], serde_json::json!([]));
    let id: ExecutionId = serde_json::from_value(id.into()).expect("an id");
    let mut store =
        SqliteStore::open(&scene.path("data"), SqliteOptions::default()).expect("nobody holds it");
    let (row, _) =
        store.reader().and_then(|mut reader| reader.row(id)).expect("it can be read").expect("a row");
    let lease = store.acquire(&claim()).expect("it is free");
    let keep_from = store.recover(&lease).expect("it can be read").next;
    let rows = vec![Row { name: Some("theirs".into()), ..row }];
    store.commit(&Group { keep_from, rows, ..Group::under(lease) }).expect("it can be written");
    drop(store);
    let checked = scene.on_data(&["check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let told = "it is found by theirs, its Turns say mine";
    assert!(checked.stderr.contains(told) || checked.stdout.contains(told), "{checked:?}");
}
