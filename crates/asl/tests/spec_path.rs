//! The path and intrinsic function cases of `tests/spec/`, which are data: what is read, on which input,
//! and what comes of it.

#![allow(clippy::disallowed_methods, reason = "a test reads its cases from files")]

use perdura_asl::intrinsic::Intrinsic;
use perdura_asl::json::{Payload, SyntaxError, Value, parse};
use perdura_asl::path::{Path, ReferencePath};
use perdura_asl::scope::{Context, Dice, Scope, States, Variables};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The context object of a case, and what it hides.
struct CaseContext {
    whole: Value,
    hidden: Value,
}

impl Context for CaseContext {
    fn whole(&self) -> Value {
        self.whole.clone()
    }

    fn hidden(&self, names: &[&str]) -> Option<Value> {
        self.hidden.get(&names.join(".")).cloned()
    }
}

/// What a case came to.
enum Outcome {
    Gives(Value),
    Missing,
    Fails { error: &'static str, cause: String },
    Refused(SyntaxError),
}

fn cases(folder: &str) -> Vec<(String, Value)> {
    let folder = format!("{}/tests/spec/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let list = parse(&text).unwrap_or_else(|error| panic!("{name} at byte {}: {error}", error.at));
        cases.extend(list.as_array().unwrap().iter().map(|case| {
            let title = case.get("name").and_then(Value::as_str).unwrap();
            (format!("{name}: {title}"), case.clone())
        }));
    }
    cases
}

fn member(case: &Value, name: &str) -> Value {
    case.get(name).cloned().unwrap_or_default()
}

/// The one place that knows how a case is run.
fn run(case: &Value) -> Outcome {
    let text = |name: &str| case.get(name).and_then(Value::as_str);
    let input = member(case, "input");
    if let Some(reference) = text("reference") {
        return match ReferencePath::parse(reference) {
            Err(error) => Outcome::Refused(error),
            Ok(path) => match path.put(input, member(case, "put")) {
                Ok(value) => Outcome::Gives(value),
                Err(failure) => Outcome::Fails { error: failure.error, cause: failure.cause },
            },
        };
    }
    let context = CaseContext { whole: member(case, "context"), hidden: member(case, "hidden") };
    let variables: BTreeMap<Arc<str>, Payload> = match case.get("variables").and_then(Value::as_object) {
        Some(map) => map.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
        None => BTreeMap::new(),
    };
    let variables = Variables { own: Some(&variables), outer: None };
    let dice = Dice::new(0, 7);
    let scope = Scope {
        input: &input,
        context: &context,
        variables: &variables,
        states: States::default(),
        dice: &dice,
    };
    if let Some(path) = text("path") {
        return match Path::parse(path) {
            Err(error) => Outcome::Refused(error),
            Ok(path) => {
                if let Some(definite) = case.get("definite").and_then(Value::as_bool) {
                    assert_eq!(path.is_definite(), definite, "{} is definite", path.text());
                }
                path.select(&scope).map_or(Outcome::Missing, Outcome::Gives)
            }
        };
    }
    match Intrinsic::parse(text("call").expect("a case has a path, a reference or a call")) {
        Err(error) => Outcome::Refused(error),
        Ok(call) => match call.evaluate(&scope) {
            Ok(value) => Outcome::Gives(value),
            Err(failure) => Outcome::Fails { error: failure.error, cause: failure.cause },
        },
    }
}

/// What differs from what the case says; `None` when nothing does.
fn difference(case: &Value) -> Option<String> {
    let outcome = run(case);
    let expected = |name: &str| case.get(name);
    match &outcome {
        Outcome::Gives(value) => {
            if expected("gives") == Some(value) {
                return None;
            }
            if let Some([from, to]) = expected("gives_between").and_then(Value::as_array)
                && (from.as_i64()..to.as_i64()).contains(&value.as_i64())
            {
                return None;
            }
            Some(format!("gives {value}"))
        }
        Outcome::Missing if expected("missing").is_some() => None,
        Outcome::Missing => Some("leads nowhere".into()),
        Outcome::Fails { error, cause } => {
            let call = expected("call").and_then(Value::as_str);
            let wanted = match (call, expected("lacks"), expected("fails")) {
                (Some(call), Some(path), _) => (
                    "States.Runtime",
                    format!(
                        "The function '{call}' had the following error: The JsonPath argument for the field \
                         '{}' could not be found in the input '{}'",
                        path.as_str()?,
                        expected("input")?
                    ),
                ),
                (Some(call), None, Some(reason)) => (
                    "States.Runtime",
                    format!(
                        "There was an error while evaluating the intrinsic function: {call}. {}",
                        reason.as_str()?
                    ),
                ),
                (None, _, Some(reason)) => ("States.ReferencePathConflict", reason.as_str()?.to_owned()),
                _ => return Some(format!("fails with {error}: {cause}")),
            };
            (wanted != (error, cause.clone())).then(|| format!("fails with {error}: {cause}"))
        }
        Outcome::Refused(found) => {
            let wanted = expected("refused");
            let at = wanted.and_then(|wanted| wanted.get("at")).and_then(Value::as_i64);
            let says = wanted.and_then(|wanted| wanted.get("says")).and_then(Value::as_str);
            if at == Some(found.at as i64) && says.is_some_and(|says| found.message.contains(says)) {
                return None;
            }
            Some(format!("is refused at {}: {}", found.at, found.message))
        }
    }
}

fn check(folder: &str, at_least: usize) {
    let cases = cases(folder);
    assert!(cases.len() >= at_least, "{} cases in {folder}", cases.len());
    let differing: Vec<_> = cases
        .iter()
        .filter_map(|(name, case)| difference(case).map(|what| format!("{name}\n    {case}\n    {what}")))
        .collect();
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), cases.len(), differing.join("\n"));
}

#[test]
fn paths_select_as_their_cases_say() {
    check("path", 270);
}

#[test]
fn intrinsic_functions_give_what_their_cases_say() {
    check("intrinsic", 180);
}
