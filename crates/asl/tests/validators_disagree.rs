//! Definitions that validators answer in different ways: the table in docs/step-functions.md is made of `validators.json`,
//! where each row has definitions, and what the reader says of them.
//!
//! After a change that is meant, run with `PERDURA_BLESS=1` and read the difference before committing it.

#![allow(clippy::disallowed_methods, reason = "tests read their data; the room itself does not")]

use perdura_asl::diagnostic::Severity;
use perdura_asl::json::{Map, Value, parse};
use perdura_asl::machine::MachineType;
use perdura_asl::object;
use perdura_asl::read::{ReadOptions, read};
use perdura_asl::source::Source;
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "## Where validators disagree\n\nLinters and emulators answer some definitions in different ways. What \
    perdura does, and why:\n\n| Definition | perdura | Source |\n|---|---|---|\n";

fn rows() -> Vec<Value> {
    let rows = parse(include_str!("validators.json")).expect("the rows are JSON");
    rows.as_array().expect("the rows are a list").to_vec()
}

fn text<'v>(row: &'v Value, name: &str) -> &'v str {
    row.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{row} has no {name}"))
}

/// A machine of this state, and of another one if the state leads to it.
fn machine(case: &Value) -> String {
    let state = case.get("state").expect("a case has a state");
    let mut states: Map = [("A", state.clone())].into_iter().collect();
    if state.to_string().contains(r#""Next":"B""#) {
        states.insert("B", object! {"Type" => "Succeed"});
    }
    let mut machine: Map = case.get("machine").and_then(Value::as_object).cloned().unwrap_or_default();
    machine.insert("StartAt", "A");
    machine.insert("States", states);
    Value::from(machine).to_string()
}

#[test]
fn the_reader_answers_as_the_table_says() {
    for row in rows() {
        let is_refused = text(&row, "perdura").starts_with("refused");
        let cases = row.get("cases").and_then(Value::as_array).unwrap_or_default();
        assert!(!cases.is_empty(), "{}", text(&row, "definition"));
        for case in cases {
            let options = ReadOptions { machine_type: MachineType::Standard, strict: true };
            let reading = read(&Source::new("m.asl.json", machine(case)), &options);
            let errors = reading.diagnostics.iter().filter(|one| one.severity == Severity::Error);
            let told: Vec<&str> = errors.map(|one| one.message.as_str()).collect();
            let wanted = case.get("told").and_then(Value::as_array).unwrap_or_default();
            assert_eq!(told, wanted.iter().filter_map(Value::as_str).collect::<Vec<_>>(), "{case}");
            assert_eq!(told.is_empty(), !is_refused, "{case}");
        }
    }
}

#[test]
fn the_table_of_the_docs_is_made_of_these_rows() {
    let mut table = BEGIN.to_owned();
    for row in rows() {
        let [definition, perdura, source] = ["definition", "perdura", "source"].map(|name| text(&row, name));
        writeln!(table, "| {definition} | {perdura} | {source} |").expect("a String takes everything");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/step-functions.md");
    let docs = std::fs::read_to_string(&path).expect("the docs are there");
    let begin = docs.find(BEGIN).expect("the docs have the table");
    let end = begin + docs[begin + BEGIN.len()..].find("\n\n").expect("the table ends") + BEGIN.len() + 1;
    if docs[begin..end] == table {
        return;
    }
    assert!(
        std::env::var_os("PERDURA_BLESS").is_some(),
        "docs/step-functions.md has another table than validators.json; PERDURA_BLESS=1 writes it"
    );
    let blessed = format!("{}{table}{}", &docs[..begin], &docs[end..]);
    std::fs::write(&path, blessed).expect("the docs can be written");
}
