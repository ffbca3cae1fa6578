//! The items of a Distributed Map as inputs of its children.

use super::Refused;
use crate::effect::MapRunOrder;
use crate::event::Fault;
use crate::execution::Status;
use crate::identity::Limits;
use crate::map_run::{MapRun, Next};
use crate::trial::ITEMS_MAX;
use perdura_asl::diagnostic::Jackson;
use perdura_asl::error::RUNTIME;
use perdura_asl::json::{Map, Payload, SyntaxError, Value, parse};
use perdura_asl::machine::{Machine, MachineType};
use perdura_asl::scope::EXHAUSTED;
use std::sync::Arc;

/// The items at each stage, as far as the state came.
#[derive(Default)]
pub(super) struct Seen {
    /// Their number, if it is known.
    pub(super) total: Option<u64>,
    /// After `ItemsPointer`.
    pub(super) pointed: Option<Payload>,
    /// Each after `ItemSelector`.
    pub(super) selected: Option<Payload>,
    /// The batches.
    pub(super) batched: Option<Payload>,
    /// The fault of an item.
    pub(super) fault: Option<Fault>,
}

/// Makes the inputs of children from the items of an order; `data` replaces the source of its `ItemReader`.
pub(super) fn see(machine: &Arc<Machine>, order: &MapRunOrder, data: Option<&str>) -> Result<Seen, Refused> {
    let mut seen = Seen::default();
    let items = match &order.reader {
        None => order.items.clone(),
        Some(reader) => {
            let text = |name: &str| reader.config.get(name).and_then(Value::as_str);
            let document = data.map(|data| document(data, text("InputType"))).transpose()?.flatten();
            let items = match (document, text("ItemsPointer")) {
                (Some(document), Some(pointer)) => {
                    let found = Payload::from(point(&document, pointer).cloned().unwrap_or_default());
                    seen.pointed = Some(found.clone());
                    Some(found)
                }
                (document, _) => document.map(Payload::from),
            };
            let most = reader.max_items.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
            items.map(|items| most.map_or(items.clone(), |most| first(items.value(), most).into()))
        }
    };
    let Some(items) = items else { return Ok(seen) };
    seen.total = Some(count(items.value()) as u64);
    let order = MapRunOrder { items: Some(first(items.value(), ITEMS_MAX).into()), ..order.clone() };
    match children(machine, MapRunOrder { batcher: None, ..order.clone() }) {
        Ok(selected) => seen.selected = Some(selected),
        Err(fault) => seen.fault = Some(fault),
    }
    if order.batcher.is_some() && seen.fault.is_none() {
        match children(machine, order) {
            Ok(batched) => seen.batched = Some(batched),
            Err(fault) => seen.fault = Some(fault),
        }
    }
    Ok(seen)
}

/// The inputs of the children of a run.
fn children(machine: &Arc<Machine>, order: MapRunOrder) -> Result<Payload, Fault> {
    let bytes_max = Limits::strict(MachineType::Standard).payload_bytes_max;
    let mut run = MapRun::new(machine.clone(), order, bytes_max);
    let mut inputs = Vec::new();
    loop {
        // All items together have the limit of one, as the iterations of a Map under test: a test must be short.
        if run.spent() > run.order().item_work_max {
            return Err(Fault::new(RUNTIME, EXHAUSTED));
        }
        match run.advance() {
            Next::Start(child) => {
                inputs.push(child.input);
                run.child_ended(child.index, Status::Succeeded);
            }
            Next::Looking => {}
            // All items are present from the beginning.
            Next::NotNow | Next::Over(Ok(())) => return Ok(Payload::array_of(&inputs)),
            Next::Over(Err(fault)) => return Err(fault),
        }
    }
}

/// The data of a reader as one document. `None`: the format is not supported here, so the items are unknown.
fn document(data: &str, input_type: Option<&str>) -> Result<Option<Value>, Refused> {
    let refuse = |line: &str, error: &SyntaxError| {
        let reason = Jackson::refusal(line, error);
        Refused::ValidationException(format!(
            "mapItemReaderData must be valid {}: {reason}",
            input_type.unwrap_or("JSON")
        ))
    };
    match input_type {
        None | Some("JSON") => parse(data).map(Some).map_err(|error| refuse(data, &error)),
        Some("JSONL") => data
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| parse(line).map_err(|error| refuse(line, &error)))
            .collect::<Result<Vec<_>, _>>()
            .map(|items| Some(items.into())),
        Some(_) => Ok(None),
    }
}

/// The number of items in a list or an object.
fn count(items: &Value) -> usize {
    match items {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The first items.
fn first(items: &Value, most: usize) -> Value {
    match items {
        Value::Array(items) if items.len() > most => items[..most].iter().cloned().collect(),
        Value::Object(members) if members.len() > most => {
            let some = members.iter().take(most).map(|(name, value)| (name.clone(), value.clone()));
            some.collect::<Map>().into()
        }
        all => all.clone(),
    }
}

/// The value at a JSON pointer (RFC 6901).
fn point<'v>(document: &'v Value, pointer: &str) -> Option<&'v Value> {
    let rest = pointer.strip_prefix('/');
    let Some(rest) = rest else { return pointer.is_empty().then_some(document) };
    rest.split('/').try_fold(document, |here, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match here {
            Value::Object(members) => members.get(&step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_through_objects_and_lists() {
        let document = parse(r#"{"a": [{"b/c": 1}, 2], "": 3, "~": 4}"#).unwrap();
        for (pointer, found) in [
            ("/a/0/b~1c", Some("1")),
            ("/a/1", Some("2")),
            ("/", Some("3")),
            ("/~0", Some("4")),
            ("/a/2", None),
            ("/a/x", None),
            ("a", None),
            ("/a/1/b", None),
        ] {
            assert_eq!(point(&document, pointer).map(Value::to_string).as_deref(), found, "{pointer}");
        }
        assert_eq!(point(&document, ""), Some(&document));
    }

    #[test]
    fn only_so_many_items_are_looked_at() {
        let list: Value = (0..5).collect();
        assert_eq!(first(&list, 2).to_string(), "[0,1]");
        assert_eq!(first(&parse(r#"{"a": 1, "b": 2}"#).unwrap(), 1).to_string(), r#"{"a":1}"#);
        assert_eq!((count(&list), first(&list, 9)), (5, list.clone()));
    }
}
