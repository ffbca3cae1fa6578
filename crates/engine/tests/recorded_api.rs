//! What AWS itself answered to `TestState`, to `ValidateStateMachineDefinition`, and as `variableReferences`.
//!
//! The recorded cases are read as in `conformance.rs`, and passed over where there are none. `UNPASSABLE` names those
//! that cannot pass, with the reason; a case that fails and is not named, or is named and passes, fails the test.

#![allow(clippy::disallowed_methods, reason = "tests read their data; the room itself does not")]

#[path = "conformance/compare.rs"]
#[allow(dead_code, reason = "shared with the other recorded cases, which compare more")]
mod compare;
#[path = "conformance/mask.rs"]
#[allow(dead_code, reason = "shared with the other recorded cases, which compare more")]
mod mask;

use perdura_engine::asl::diagnostic::Severity;
use perdura_engine::asl::json::{Map, Value, parse};
use perdura_engine::asl::machine::MachineType;
use perdura_engine::asl::read::{self, ReadOptions};
use perdura_engine::asl::source::Source;
use perdura_engine::{Arns, Moment, Prepared, TestState, Timestamp, Validating, validate};
use std::path::{Path, PathBuf};

/// Cases whose behaviour is not built yet.
const NOT_YET: &str = include_str!("conformance/not-yet.txt");

/// Cases that cannot pass below the wire.
const UNPASSABLE: [(&str, &str); 1] = [(
    "api/test_state/TestStateMachineScenarios.test_base_state_name_validation_failures_empty.json",
    "the SDK itself refused the request, in its own words",
)];

fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("PERDURA_CONFORMANCE").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    given.into_iter().chain([beside]).find(|folder| folder.join("index.json").is_file())
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What an action answers, or how it refuses.
fn answer(op: &str, params: &Value) -> Option<Result<Value, String>> {
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    match op {
        "TestState" => {
            let moment = Moment::at(Timestamp(1_764_720_000_000), 7);
            let prepared = TestState::read(params).and_then(|test| test.prepare(&Arns::default(), &moment));
            Some(match prepared {
                Ok(Prepared::Answered { verdict, .. }) => Ok(verdict.to_api()),
                Ok(Prepared::Call(calling)) => Err(format!("calls {}", calling.call().resource.arn)),
                Err(refused) => Err(format!(
                    "An error occurred ({}) when calling the TestState operation: {refused}",
                    refused.name()
                )),
            })
        }
        "ValidateStateMachineDefinition" => {
            let validation = {
                let options = ReadOptions { machine_type: MachineType::Standard, strict: true };
                let validating = Validating { options, severity: Severity::Error, max_results: 0 };
                validate(text("definition"), validating, |_| Vec::new())
            };
            Some(Ok(validation.to_api()))
        }
        "CreateStateMachine" => {
            let source = Source::new("definition", text("definition"));
            let options = read::ReadOptions { machine_type: MachineType::Standard, strict: true };
            let machine = read::read(&source, &options).machine.expect("AWS took this definition");
            let references: Map = machine
                .variable_references()
                .into_iter()
                .map(|(state, names)| (state.clone(), names.iter().cloned().collect::<Value>()))
                .collect();
            Some(Ok(references.into()))
        }
        _ => None,
    }
}

/// What differs between a case and our answers.
fn judge(case: &Value) -> Vec<String> {
    let calls = case.get("calls").and_then(Value::as_array).unwrap_or_default();
    let mut answers = calls.iter().filter_map(|call| answer(call.get("op")?.as_str()?, call.get("params")?));
    let recorded =
        case.get("expected").and_then(|expected| expected.get("history")).cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    let references = answers.next();
    let is_description = recorded.get("describe_response").is_some();
    let mut answers = references.into_iter().chain(answers);
    for (key, recorded) in recorded.as_object().into_iter().flat_map(Map::iter) {
        if is_description {
            if &**key == "describe_response" {
                let ours = answers.next().and_then(Result::ok).unwrap_or_default();
                let theirs = recorded.get("variableReferences").cloned().unwrap_or_else(Value::empty_object);
                wrong.extend(compare::answer(&theirs, &ours, false, &mut mask::Masks::default()));
            }
            continue;
        }
        let is_refusal = recorded.get("exception_value").is_some() || recorded.get("message").is_some();
        match (answers.next(), is_refusal) {
            (Some(Err(refusal)), true) => {
                let words =
                    ["exception_value", "message"].iter().find_map(|name| recorded.get(name)?.as_str());
                let words = words.unwrap_or_default();
                let code =
                    recorded.get("Error").and_then(|error| error.get("Code")?.as_str()).unwrap_or_default();
                if !refusal.ends_with(words) || !refusal.contains(code) {
                    wrong.push(format!("refused as: {refusal}\n     AWS says: {words}"));
                }
            }
            (Some(Ok(ours)), false) => {
                wrong.extend(compare::answer(recorded, &ours, false, &mut mask::Masks::default()));
            }
            (ours, _) => wrong.push(format!("{key}: {ours:?}, recorded {recorded}")),
        }
    }
    wrong
}

#[test]
fn recorded_answers_are_ours() {
    let Some(folder) = folder() else {
        println!("skipped: no recorded cases in ../shared/conformance or PERDURA_CONFORMANCE");
        return;
    };
    let only = std::env::var("PERDURA_CASE").ok();
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in read_json(&folder.join("index.json")).as_array().expect("the index is a list") {
        let file = entry.get("file").and_then(Value::as_str).unwrap_or_default();
        let families = ["/test_state/", "/sfn_api_variable_references/", "/sfn_api_validation/"];
        if !families.iter().any(|family| file.contains(family))
            || only.as_ref().is_some_and(|only| !file.contains(only.as_str()))
        {
            continue;
        }
        count += 1;
        let found = judge(&read_json(&folder.join(file)));
        let is_to_come =
            NOT_YET.lines().any(|line| line.split_once(": ").is_some_and(|(name, _)| name == file));
        let is_named = is_to_come || UNPASSABLE.iter().any(|(name, _)| *name == file);
        match (found.is_empty(), is_named) {
            (true, false) | (false, true) => {}
            (true, true) => wrong.push(format!("{file}\n    is named as unpassable, but passes")),
            (false, false) => wrong.push(format!("{file}\n    {}", found.join("\n    "))),
        }
    }
    println!("{} of {count} recorded answers are ours", count - wrong.len());
    assert!(count > 0, "the index names such cases");
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
