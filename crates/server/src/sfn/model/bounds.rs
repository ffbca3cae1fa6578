//! The table of actions, held against AWS's own service model: for every member of every request a value just inside and
//! one just outside of each bound. `bounds.json` has the model's facts; `scripts/api-bounds` writes it.

use super::check;
use crate::sfn::actions::ACTIONS;
use crate::sfn::error::Code;
use perdura_engine::asl::json::{Map, Value, parse};
use std::collections::BTreeSet;

/// A step into a request.
#[derive(Clone, Copy, Debug)]
enum Step<'f> {
    Member(&'f str),
    /// The only item of a list.
    Item,
}

/// A value at a place of a request, and whether it may stand there.
struct Probe<'f> {
    path: Vec<Step<'f>>,
    value: Value,
    fits: bool,
}

fn number(facts: &Value, name: &str) -> Option<i64> {
    facts.get(name).and_then(|bound| bound.as_i64().or_else(|| bound.as_f64().map(|bound| bound as i64)))
}

fn kind(facts: &Value) -> &str {
    facts.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_required(facts: &Value, name: &str) -> bool {
    let required = facts.get("required").and_then(Value::as_array).unwrap_or_default();
    required.iter().any(|required| required.as_str() == Some(name))
}

fn members(facts: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = facts.get("members").and_then(Value::as_object);
    members.into_iter().flat_map(|members| members.iter().map(|(name, member)| (&**name, member)))
}

fn text(length: i64) -> Value {
    "a".repeat(usize::try_from(length).unwrap_or(0)).into()
}

/// A value that fits, with nothing in it that is not needed.
fn valid(facts: &Value) -> Value {
    let values = facts.get("enum").and_then(Value::as_array).and_then(<[Value]>::first);
    match (kind(facts), values) {
        (_, Some(value)) => value.clone(),
        ("string", None) => text(number(facts, "min").unwrap_or(0)),
        ("integer" | "long" | "float", None) => number(facts, "min").unwrap_or(0).into(),
        ("boolean", None) => true.into(),
        ("list", None) => {
            let count = usize::try_from(number(facts, "min").unwrap_or(0)).unwrap_or(0);
            vec![valid(facts.get("member").expect("a list has items")); count].into()
        }
        _ => {
            let needed = members(facts).filter(|(name, _)| is_required(facts, name));
            needed.map(|(name, member)| (name, valid(member))).collect::<Map>().into()
        }
    }
}

/// `request` with `value` at the end of `path`.
fn put(facts: &Value, request: &Value, path: &[Step<'_>], value: &Value) -> Value {
    let Some((step, rest)) = path.split_first() else { return value.clone() };
    match step {
        Step::Item => {
            let item = facts.get("member").expect("a list has items");
            vec![put(item, &valid(item), rest, value)].into()
        }
        Step::Member(name) => {
            let member = facts.get("members").and_then(|members| members.get(name)).expect("a member");
            let mut changed: Map = request.as_object().cloned().unwrap_or_default();
            let before = changed.get(name).cloned().unwrap_or_else(|| valid(member));
            changed.insert(*name, put(member, &before, rest, value));
            changed.into()
        }
    }
}

/// The values just inside and just outside of the bounds of what stands here, and of all that is in it.
fn probe<'f>(facts: &'f Value, path: &[Step<'f>], into: &mut Vec<Probe<'f>>) {
    let (min, max) = (number(facts, "min"), number(facts, "max"));
    let (least, most) = (min.filter(|min| *min > 0).map(|min| min - 1), max.map(|max| max + 1));
    let mut add = |values: Vec<Value>, fits: bool| {
        into.extend(values.into_iter().map(|value| Probe { path: path.to_vec(), value, fits }));
    };
    match kind(facts) {
        "string" if facts.get("enum").is_some() => {
            add(facts.get("enum").and_then(Value::as_array).unwrap_or_default().to_vec(), true);
            add(vec!["SOMETHING_ELSE".into()], false);
        }
        "string" => {
            add(min.into_iter().chain(max).map(text).collect(), true);
            add(least.into_iter().chain(most).map(text).collect(), false);
            if facts.get("pattern").is_some() {
                add(vec!["é".into()], false);
            }
        }
        "integer" | "long" | "float" => {
            let least = min.map(|min| min - 1);
            add(min.into_iter().chain(max).map(Value::from).collect(), true);
            add(least.into_iter().chain(most).map(Value::from).collect(), false);
        }
        "list" => {
            let item = facts.get("member").expect("a list has items");
            let of = |count: i64| Value::from(vec![valid(item); usize::try_from(count).unwrap_or(0)]);
            add(min.into_iter().chain(max).map(of).collect(), true);
            add(least.into_iter().chain(most).map(of).collect(), false);
            probe(item, &[path, &[Step::Item]].concat(), into);
        }
        _ => {
            for (name, member) in members(facts) {
                let inside = [path, &[Step::Member(name)]].concat();
                if is_required(facts, name) {
                    into.push(Probe { path: inside.clone(), value: Value::Null, fits: false });
                }
                probe(member, &inside, into);
            }
        }
    }
}

#[test]
fn every_bound_of_the_service_model_holds_and_none_is_narrower() {
    let model = parse(include_str!("bounds.json")).expect("JSON");
    let model = model.as_object().expect("actions by name");
    let named: BTreeSet<&str> = model.keys().map(|name| &**name).collect();
    assert_eq!(named, ACTIONS.iter().map(|known| known.name).collect(), "the table has AWS's actions");
    assert_eq!(named.len(), 37);
    let (mut count, mut wrong) = (0, Vec::new());
    for (action, facts) in model.iter() {
        let Some(known) = ACTIONS.iter().find(|known| *known.name == **action) else {
            panic!("{action} is not in the table");
        };
        let mut probes = Vec::new();
        probe(facts, &[], &mut probes);
        for Probe { path, value, fits } in probes {
            count += 1;
            let Value::Object(request) = put(facts, &valid(facts), &path, &value) else {
                panic!("a request is an object")
            };
            let checked = check(known.members, &request, true);
            let agrees = match &checked {
                Ok(()) => fits,
                Err(error) => !fits && matches!(error.code, Code::ValidationException),
            };
            if !agrees {
                let shown: String = value.to_string().chars().take(40).collect();
                wrong
                    .push(format!("{action} {path:?} {shown}: {:?}", checked.map_err(|error| error.message)));
            }
        }
    }
    assert!(count > 400, "{count} values were tried");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
