//! Of many executions most are erased, one after the other: pages are balanced meanwhile, and nothing stays in their gaps.

mod common;

use common::Scene;
use common::server::Server;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

const COUNT: usize = 300;
/// How long what is looked for is, with its number.
const MARK: &str = "Zq7Xw2Kp";

fn post(server: &Server, path: &str, key: usize, body: &str) -> Value {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: 0f0e0d0c-0b0a-4908-8706-{key:012}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream.write_all(request.as_bytes()).expect("a request can be sent");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("an answer comes");
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or((&told, ""));
    assert!(head.starts_with("HTTP/1.1 20"), "{told}");
    serde_json::from_str(body).unwrap_or_default()
}

/// The numbers of those whose bytes are in files, each with the file.
fn left(scene: &Scene, files: &[String]) -> BTreeSet<(usize, String)> {
    let mut found = BTreeSet::new();
    for file in files {
        let Ok(bytes) = std::fs::read(scene.path(file)) else { continue };
        for at in 0..bytes.len().saturating_sub(MARK.len() + 4) {
            if &bytes[at..at + MARK.len()] == MARK.as_bytes()
                && let Ok(number) = std::str::from_utf8(&bytes[at + MARK.len()..at + MARK.len() + 4])
                && let Ok(number) = number.parse()
            {
                found.insert((number, file.clone()));
            }
        }
    }
    found
}

fn files(scene: &Scene) -> Vec<String> {
    let entries = std::fs::read_dir(scene.path("data")).expect("there is data").flatten();
    entries.map(|entry| format!("data/{}", entry.file_name().to_string_lossy())).collect()
}

fn of(found: &BTreeSet<(usize, String)>, erased: &BTreeSet<usize>) -> Vec<(usize, String)> {
    found.iter().filter(|(number, _)| erased.contains(number)).cloned().collect()
}

#[test]
fn of_many_that_are_erased_nothing_is_left_in_the_gaps_of_pages() {
    let scene = Scene::new("erase-many")
        .file("p.json", r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "p.json", "--name", "p"]);
    let mut ids = Vec::new();
    for number in 0..COUNT {
        let mark = format!("{MARK}{number:04}");
        // Sizes that fit pages in different ways; the same in each run.
        let size = |of: &[usize], salt: usize| of[(number * 7 + number / 3 + salt) % of.len()];
        let labels: serde_json::Map<String, Value> = (0..size(&[1, 1, 2, 5], 0))
            .map(|at| (format!("k{at}"), format!("{mark}{}", "z".repeat(size(&[0, 5, 50, 150], at))).into()))
            .collect();
        let input = json!({"who": mark, "pad": "y".repeat(size(&[0, 10, 100, 800, 3000], 1))});
        let body = json!({"machine": "p", "input": input, "labels": labels}).to_string();
        ids.push(post(&server, "/v1/executions", number, &body)["id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(left(&scene, &files(&scene)).iter().map(|one| one.0).collect::<BTreeSet<_>>().len(), COUNT);
    // In another order than that of their starts; each tenth stays, so that pages stay in use.
    let order = (0..COUNT).map(|at| at * 187 % COUNT).filter(|number| number % 10 != 0);
    let mut erased = BTreeSet::new();
    for number in order {
        let told = post(&server, &format!("/v1/executions/{}/erase", ids[number]), COUNT + number, "");
        let counts = (&told["executions"], &told["answers"]);
        assert_eq!(counts, (&json!(1), &json!(1)), "{told}");
        assert!(told["more"] != true && told["rewrite"] != true, "{told}");
        erased.insert(number);
        if erased.len() % 45 == 0 {
            assert_eq!(of(&left(&scene, &files(&scene)), &erased), [], "after {}", erased.len());
        }
    }
    let kept = left(&scene, &files(&scene));
    assert_eq!(
        kept.iter().map(|one| one.0).collect::<BTreeSet<_>>().len(),
        COUNT - erased.len(),
        "others stay"
    );
    scene.one(&["backup", "copy.db"]);
    let copies = ["copy.db".to_owned(), "copy.db.idempotency".to_owned()];
    assert_eq!(of(&left(&scene, &copies), &erased), []);
    assert_eq!(server.end("-TERM"), Some(0));
    assert_eq!(of(&left(&scene, &files(&scene)), &erased), []);
    assert_eq!(scene.one(&["check"])["findings"], json!([]));
}

#[test]
fn what_is_too_large_to_be_written_anew_beside_a_server_is_told_and_compacting_does_it() {
    let scene = Scene::new("erase-large")
        .file("p.json", r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#);
    let server = Server::start(&scene, &[]);
    scene.one(&["deploy", "p.json", "--name", "p"]);
    let body = json!({"machine": "p", "name": "n", "labels": {"who": format!("{MARK}0000")}}).to_string();
    post(&server, "/v1/executions", 0, &body);
    let other =
        json!({"machine": "p", "name": "other", "labels": {"who": format!("{MARK}0001")}}).to_string();
    post(&server, "/v1/executions", 1, &other);
    scene.until_status("n", "SUCCEEDED");
    scene.until_status("other", "SUCCEEDED");
    assert_eq!(server.end("-TERM"), Some(0));
    for file in ["data/perdura.db", "data/idempotency.db"] {
        let connection = Connection::open(scene.path(file)).expect("it can be opened");
        // As if there were much else.
        let ballast = "CREATE TABLE ballast (bytes); INSERT INTO ballast VALUES (zeroblob(33 << 20))";
        connection.execute_batch(ballast).expect("it can be written");
    }
    let erased = scene.on_data(&["erase", "p/n", "--yes", "--json"]);
    assert_eq!(erased.code, Some(0), "{erased:?}");
    assert!(erased.stderr.contains("stop the server and run `perdura compact`"), "{erased:?}");
    let told: Value = serde_json::from_str(&erased.stdout).expect("it is JSON");
    assert_eq!((&told["rewrite"], &told["more"]), (&json!(true), &json!(false)), "{told}");
    for file in ["data/perdura.db", "data/idempotency.db"] {
        let connection = Connection::open(scene.path(file)).expect("it can be opened");
        connection.execute_batch("DROP TABLE ballast").expect("it can be written");
    }
    scene.one(&["compact"]);
    for entry in files(&scene) {
        let bytes = std::fs::metadata(scene.path(&entry)).expect("it is there").len();
        assert!(bytes < 4 << 20, "{entry} has {bytes} bytes: it was not written anew");
    }
    assert_eq!(of(&left(&scene, &files(&scene)), &BTreeSet::from([0])), []);
    assert!(!left(&scene, &files(&scene)).is_empty(), "the other one stays");
}
