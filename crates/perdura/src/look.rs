//! Reads executions from their stored Turns: identity, history, ledger, and the call under a key.

use crate::errors::AskError;
use crate::json;
use crate::views::{Entry, History};
use perdura_engine::{By, EffectKey, ExecutionId, Identity, Note, StrandId, Timestamp, Turn};
use perdura_runtime::Unreadable;
use perdura_store::record::TurnBody;
use perdura_store::{LedgerRow, Reader};
use std::collections::BTreeMap;

/// How many bytes of Turns to read at once.
const PAGE_BYTES: usize = 1 << 20;

/// The identity of an execution, from its first Turn.
pub(crate) fn identity(reader: &mut dyn Reader, id: ExecutionId) -> Result<Identity, AskError> {
    let first = reader.turns(id, 1, 1)?.into_iter().next().ok_or(AskError::Unknown)?;
    let broken = |what: String| AskError::Broken(format!("{id} cannot be read: {what}"));
    let body = TurnBody::read(&first.body).map_err(|damage| broken(damage.to_string()))?;
    let begun = body.begun.ok_or_else(|| broken("its first Turn does not say who it is".into()))?;
    Ok(begun.identity)
}

/// The events from this Turn on.
pub(crate) fn history(reader: &mut dyn Reader, id: ExecutionId, from: u64) -> Result<History, AskError> {
    let identity = identity(reader, id)?;
    let mut events = Vec::new();
    let next = page(reader, id, from, |turn| {
        events.extend(turn.events().map(|event| event.to_api(&identity)));
    })?;
    let read = |event: perdura_engine::asl::json::Value| {
        let text = perdura_engine::asl::json::Payload::from(event);
        json::read(text.text()).map_err(|error| AskError::Broken(error.to_string()))
    };
    let events = events.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(History { events, next })
}

/// Reads one page of Turns; returns the number of the next Turn.
fn page(
    reader: &mut dyn Reader,
    id: ExecutionId,
    from: u64,
    mut see: impl FnMut(&Turn),
) -> Result<Option<u64>, AskError> {
    let turns = reader.turns(id, from.max(1), PAGE_BYTES)?;
    for turn in &turns {
        let body = TurnBody::read(&turn.body)
            .map_err(|damage| AskError::Broken(format!("{id} cannot be read: {damage}")))?;
        see(&body.turn);
    }
    Ok(turns.last().map(|last| last.number + 1))
}

/// Reads all Turns.
fn all(reader: &mut dyn Reader, id: ExecutionId, mut see: impl FnMut(&Turn)) -> Result<(), AskError> {
    let mut next = page(reader, id, 1, &mut see)?;
    if next.is_none() {
        return Err(AskError::Unknown);
    }
    while let Some(from) = next {
        next = page(reader, id, from, &mut see)?;
    }
    Ok(())
}

/// All calls of an execution, in the order in which they were first made.
pub(crate) fn ledger(reader: &mut dyn Reader, id: ExecutionId) -> Result<Vec<Entry>, AskError> {
    let mut calls = Calls::default();
    all(reader, id, |turn| calls.turn(id, turn))?;
    Ok(calls.entries)
}

#[derive(Default)]
struct Calls {
    entries: Vec<Entry>,
    places: BTreeMap<EffectKey, usize>,
    at: Timestamp,
}

impl Calls {
    fn turn(&mut self, id: ExecutionId, turn: &Turn) {
        self.at = turn.events().next().map_or(self.at, |event| event.at);
        for (_, key, status) in marks(turn) {
            let place = *self.places.entry(key.clone()).or_insert_with(|| {
                self.entries.push(LedgerRow::of(key, id, status, self.at).into());
                self.entries.len() - 1
            });
            self.entries[place].status = status;
        }
    }
}

fn marks(turn: &Turn) -> impl Iterator<Item = (StrandId, &EffectKey, perdura_engine::LedgerStatus)> {
    turn.notes().filter_map(|note| match note {
        Note::Ledger { strand, key, status } => Some((*strand, key, *status)),
        _ => None,
    })
}

/// The step and attempt of the call under this key. If the call is held, this is the held attempt: a second copy of the
/// verdict must not count for the next one.
pub(crate) fn caller(reader: &mut dyn Reader, id: ExecutionId, readable: &str) -> Result<By, AskError> {
    let folded = perdura_runtime::fold(reader, id).map_err(|why| match why {
        Unreadable::Damaged(damage) => AskError::Broken(format!("{id} cannot be read: {damage}")),
        Unreadable::Unavailable(failure) => failure.into(),
    })?;
    let held = folded.iter().flat_map(|folded| folded.execution.held());
    if let Some((strand, key, attempt)) = held.into_iter().find(|(_, key, _)| key.readable() == readable) {
        return Ok(By::Key { strand, key, attempt: Some(attempt) });
    }
    let mut found = None;
    all(reader, id, |turn| {
        let marked = marks(turn).find(|(_, key, _)| key.readable() == readable);
        found = marked
            .map(|(strand, key, _)| By::Key { strand, key: key.clone(), attempt: None })
            .or(found.take());
    })?;
    found.ok_or_else(|| AskError::Ignored(format!("{id} never made a call under {readable:?}")))
}
