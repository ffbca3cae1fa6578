//! The items of a Distributed Map as its children would receive them.

use super::Refused;
use crate::effect::MapRunOrder;
use crate::event::Fault;
use crate::execution::{Limits, Status};
use crate::map_run::{MapRun, Next};
use perdura_asl::json::{Payload, Value, parse};
use perdura_asl::machine::{Machine, MachineType};
use std::sync::Arc;

/// What became of the items, as far as the state came with them.
#[derive(Default)]
pub(super) struct Seen {
    /// How many there are, if that is known.
    pub(super) total: Option<u64>,
    /// After `ItemsPointer`.
    pub(super) pointed: Option<Payload>,
    /// Each as `ItemSelector` makes it.
    pub(super) selected: Option<Payload>,
    /// The batches.
    pub(super) batched: Option<Payload>,
    /// An item could not be made.
    pub(super) fault: Option<Fault>,
}

/// Makes the items of an order into what its children receive; `data` is what its `ItemReader` reads.
pub(super) fn see(machine: &Arc<Machine>, order: &MapRunOrder, data: Option<&str>) -> Result<Seen, Refused> {
    let mut seen = Seen::default();
    let mut read = None;
    if let Some(reader) = &order.reader {
        let text = |name: &str| reader.config.get(name).and_then(Value::as_str);
        let Some(document) = data.map(|data| document(data, text("InputType"))).transpose()?.flatten() else {
            return Ok(seen);
        };
        let items = match text("ItemsPointer") {
            Some(pointer) => {
                let found = point(&document, pointer).cloned().unwrap_or_default();
                seen.pointed = Some(found.clone().into());
                found
            }
            None => document,
        };
        let most = reader.max_items.filter(|most| *most > 0).map_or(usize::MAX, |most| most as usize);
        read = Some(items_of(&items).into_iter().take(most).collect::<Vec<_>>());
    }
    let run = |order: MapRunOrder| {
        let mut run =
            MapRun::new(machine.clone(), order, Limits::strict(MachineType::Standard).payload_bytes_max);
        if let Some(items) = &read {
            run.offer(items.clone());
            run.no_more_items();
        }
        run
    };
    let single = run(MapRunOrder { batcher: None, ..order.clone() });
    seen.total = Some(single.counts().items.total);
    match children(single) {
        Ok(selected) => seen.selected = Some(selected),
        Err(fault) => seen.fault = Some(fault),
    }
    if order.batcher.is_some() && seen.fault.is_none() {
        match children(run(order.clone())) {
            Ok(batched) => seen.batched = Some(batched),
            Err(fault) => seen.fault = Some(fault),
        }
    }
    Ok(seen)
}

/// What the children of a run receive.
fn children(mut run: MapRun) -> Result<Payload, Fault> {
    let mut inputs = Vec::new();
    loop {
        match run.advance() {
            Next::Start(child) => {
                inputs.push(child.input);
                run.child_ended(child.index, Status::Succeeded);
            }
            Next::Looking => {}
            // All items are here from the beginning.
            Next::NotNow | Next::Over(Ok(())) => return Ok(Payload::array_of(&inputs)),
            Next::Over(Err(fault)) => return Err(fault),
        }
    }
}

/// The data of a reader as one document. `None`: a form that is not read here, so that its items are not known.
fn document(data: &str, input_type: Option<&str>) -> Result<Option<Value>, Refused> {
    let refuse = |line: &str| {
        let reason = perdura_asl::diagnostic::Jackson::of(line).map_or_else(String::new, |said| said.message);
        Refused::ValidationException(format!(
            "mapItemReaderData must be valid {}: {reason}",
            input_type.unwrap_or("JSON")
        ))
    };
    match input_type {
        None | Some("JSON") => parse(data).map(Some).map_err(|_| refuse(data)),
        Some("JSONL") => data
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| parse(line).map_err(|_| refuse(line)))
            .collect::<Result<Vec<_>, _>>()
            .map(|items| Some(items.into())),
        Some(_) => Ok(None),
    }
}

/// A list's items; an object's, each with its key.
fn items_of(document: &Value) -> Vec<Value> {
    match document {
        Value::Array(items) => items.to_vec(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| perdura_asl::object! {"Key" => key.clone(), "Value" => value.clone()})
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// What a JSON pointer (RFC 6901) leads to.
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
