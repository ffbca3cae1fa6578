//! The events of an execution, page by page.

use super::executions::no_such;
use super::find::find;
use crate::Refusal;
use crate::control::{Answer, Page};
use crate::data::Data;
use crate::fold::{PAGE_BYTES, begun, broken};
use perdura_engine::ExecutionId;
use perdura_engine::asl::json::Payload;
use perdura_store::Reader;
use perdura_store::audit::Subject;
use perdura_store::record::{Begun, Damage, TurnBody};

pub(crate) fn history<D: Data>(data: &mut D, which: &str, from: u64) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    data.gives_out(Subject::execution(id))?;
    events(data, id, from)
}

/// A page for one of whom the audit tells already.
pub(crate) fn events<D: Data>(data: &mut D, id: ExecutionId, from: u64) -> Result<Answer, Refusal> {
    data.read(|reader| Ok(page(reader, id, from)))?
}

/// The same as Turns, which also have Notes.
pub(super) fn turns<D: Data>(data: &mut D, which: &str, from: u64) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    data.gives_out(Subject::execution(id))?;
    let turns = data.read(|reader| reader.turns(id, from, PAGE_BYTES))?;
    let items = turns.iter().map(|turn| Ok(TurnBody::read(&turn.body)?.turn));
    let items = items.collect::<Result<Vec<_>, Damage>>().map_err(|damage| broken(id, &damage))?;
    Ok(Answer::Turns(Page { items, next: turns.last().map(|last| last.number + 1) }))
}

fn page(reader: &mut dyn Reader, id: ExecutionId, from: u64) -> Result<Answer, Refusal> {
    let Begun { identity, .. } = begun(reader, id)?.ok_or_else(|| no_such(id))?;
    let turns = reader.turns(id, from, PAGE_BYTES)?;
    let mut items = Vec::new();
    for turn in &turns {
        let body = TurnBody::read(&turn.body).map_err(|damage| broken(id, &damage))?;
        items.extend(body.turn.events().map(|event| Payload::from(event.to_v1(&identity))));
    }
    Ok(Answer::History(Page { items, next: turns.last().map(|last| last.number + 1) }))
}

/// Whether an event of this type ends its execution, or begins it again.
pub fn ends(kind: &str) -> Option<bool> {
    match kind {
        "ExecutionSucceeded" | "ExecutionFailed" | "ExecutionAborted" | "ExecutionTimedOut" => Some(true),
        "ExecutionStarted" | "ExecutionRedriven" => Some(false),
        _ => None,
    }
}
