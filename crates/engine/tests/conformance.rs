//! What AWS itself answered, compared with what we decide.
//!
//! The recorded cases are not part of the project: they are read from `../shared/conformance` beside the
//! checkout, or from `PERDURA_CONFORMANCE`, and passed over where there are none. Each case is run below the
//! API, under a virtual clock; its outcome and its whole history are compared. `conformance/unpassable.txt`
//! names the cases that cannot pass, with the reason, and `not-yet.txt` beside it those whose behaviour is not built;
//! a case that fails and is not named, or is named and passes, fails the test.

#![allow(clippy::disallowed_methods, reason = "tests read their data; the room itself does not")]

#[path = "conformance/compare.rs"]
mod compare;
#[path = "conformance/mask.rs"]
mod mask;
#[path = "conformance/world.rs"]
mod world;

use perdura_engine::asl::json::{Map, Value, parse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use world::World;

/// The recorded cases, if they are here.
fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("PERDURA_CONFORMANCE").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    given.into_iter().chain([beside]).find(|folder| folder.join("index.json").is_file())
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What was found wrong with a case, for its outcome and for its history.
#[derive(Default)]
struct Verdict {
    outcome: Vec<String>,
    history: Vec<String>,
}

fn judge(case: &Value) -> Verdict {
    let mut world = World::new(case);
    let mut verdict = Verdict::default();
    let calls = case.get("calls").and_then(Value::as_array).unwrap_or_default();
    let mut refusals = Vec::new();
    let mut answers = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        match (world.call(call), call.get("expects_error").is_some()) {
            (Err(refusal), true) => refusals.push(refusal),
            (Ok(_), true) => verdict.outcome.push("AWS refused this, we took it".into()),
            (Err(refusal), false) => {
                verdict.outcome.push(format!("refused: {refusal}"));
                return verdict;
            }
            (Ok(Some(answer)), false) => {
                answers.insert(at, answer);
            }
            (Ok(None), false) => {}
        }
    }
    let part = |part: &str| case.get("expected").and_then(|all| all.get(part)).cloned().unwrap_or_default();
    let (outcomes, histories) = (part("outcome"), part("history"));
    let mut compared = 0;
    let mut masks = mask::Masks::of(case);
    for key in histories.as_object().into_iter().flat_map(Map::keys) {
        let recorded = histories.get(key).cloned().unwrap_or_default();
        if recorded.get("exception_value").is_some() || recorded.get("message").is_some() {
            compared += 1;
            match refusals.first() {
                Some(refusal) => verdict.history.extend(compare::refusal(&recorded, refusal)),
                None => verdict.history.push("AWS refused this, we took it".into()),
            }
        } else if let (true, Some(cases)) = (&**key == "cases", recorded.as_array()) {
            compared += 1;
            verdict.history.extend(compare::cases(cases, answers.values()));
        } else if let Some(answer) = answered(case, key).and_then(|at| answers.get(&at)) {
            compared += 1;
            if let Some(outcome) = outcomes.get(key) {
                verdict.outcome.extend(compare::outcome(outcome, answer, &mut masks.clone()));
            }
            let found = compare::answer(&recorded, answer, world.has_concurrency(), &mut masks);
            verdict.history.extend(found);
        }
    }
    if compared == 0 {
        verdict.history.push("nothing was compared".into());
    }
    verdict
}

/// Which call's answer stands under this key of the recording.
fn answered(case: &Value, key: &str) -> Option<usize> {
    let matches = case.get("matches").and_then(Value::as_array).unwrap_or_default();
    let named = matches.iter().find(|found| found.get("key").and_then(Value::as_str) == Some(key));
    if let Some(at) = named.and_then(|found| found.get("call")?.as_i64()) {
        return usize::try_from(at).ok();
    }
    let calls = case.get("calls").and_then(Value::as_array).unwrap_or_default();
    let asks = |call: &Value| call.get("op").and_then(Value::as_str) == Some("GetExecutionHistory");
    if key == "get_execution_history" { calls.iter().position(asks) } else { None }
}

#[test]
fn recorded_cases_have_the_outcome_and_history_that_aws_gave() {
    let Some(folder) = folder() else {
        println!("skipped: no recorded cases in ../shared/conformance or PERDURA_CONFORMANCE");
        return;
    };
    let lists = [include_str!("conformance/unpassable.txt"), include_str!("conformance/not-yet.txt")];
    let known: BTreeMap<&str, &str> = lists
        .iter()
        .flat_map(|list| list.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .collect();
    let only = std::env::var("PERDURA_CASE").ok();
    let mut table: BTreeMap<String, (u32, u32, u32)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for entry in read(&folder.join("index.json")).as_array().expect("the index is a list") {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let (tier, file) = (text("tier"), text("file"));
        if only.as_ref().is_some_and(|only| !file.contains(only.as_str())) {
            continue;
        }
        let case = read(&folder.join(file));
        if !(matches!(tier, "pure" | "lambda") && !file.contains("/test_state/")
            || refuses_a_definition(&case))
        {
            continue;
        }
        let verdict = judge(&case);
        let row = table.entry(format!("{tier}/{}", text("category"))).or_default();
        row.0 += 1;
        row.1 += u32::from(verdict.outcome.is_empty());
        row.2 += u32::from(verdict.history.is_empty());
        let passed = verdict.outcome.is_empty() && verdict.history.is_empty();
        let complaints = || [verdict.outcome.clone(), verdict.history.clone()].concat().join("\n    ");
        match (passed, known.get(file)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(_)) => wrong.push(format!("{file}\n    is named as unpassable, but passes")),
            (false, None) => wrong.push(format!("{file}\n    {}", complaints())),
        }
    }
    println!("{:<32} {:>6} {:>9} {:>9}", "category", "cases", "outcome", "history");
    let mut sum = (0, 0, 0);
    for (category, (cases, outcome, history)) in &table {
        println!("{category:<32} {cases:>6} {outcome:>9} {history:>9}");
        sum = (sum.0 + cases, sum.1 + outcome, sum.2 + history);
    }
    println!("{:<32} {:>6} {:>9} {:>9}", "all", sum.0, sum.1, sum.2);
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether AWS refused a definition in this case.
fn refuses_a_definition(case: &Value) -> bool {
    let calls = case.get("calls").and_then(Value::as_array).unwrap_or_default();
    calls.iter().any(|call| {
        let code = call.get("expects_error").and_then(|error| error.get("Code")?.as_str());
        match call.get("op").and_then(Value::as_str) {
            Some("ValidateStateMachineDefinition") => true,
            Some("CreateStateMachine" | "UpdateStateMachine") => code == Some("InvalidDefinition"),
            _ => false,
        }
    })
}
