//! Executions folded from their stored Turns, for readers.

use crate::{Refusal, RefusalKind};
use perdura_engine::ExecutionId;
pub use perdura_runtime::Folded;
use perdura_runtime::Unreadable;
use perdura_store::record::{Begun, Damage, TurnBody};
use perdura_store::{Reader, Recovered};

pub const PAGE_BYTES: usize = 1 << 20;

/// The stored Turns cannot be read, or do not fit together.
pub(crate) fn broken(execution: ExecutionId, damage: &Damage) -> Refusal {
    Refusal::new(RefusalKind::Broken, format!("{execution} cannot be read: {damage}"))
        .but("see what `perdura check` says, and restore a backup with `perdura restore`")
}

/// How an execution began, as its first Turn says; `None`: there is none. No other Turn is read.
pub fn begun(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<Begun>, Refusal> {
    let Some(first) = reader.turns(id, 1, 1)?.into_iter().next() else { return Ok(None) };
    let body = TurnBody::read(&first.body).map_err(|damage| broken(id, &damage))?;
    let nameless = || broken(id, &Damage("the first Turn does not say who it is".into()));
    body.begun.ok_or_else(nameless).map(Some)
}

/// Gives `look` each Turn of an execution and its size, until it returns something.
pub(crate) fn each_turn<T>(
    reader: &mut dyn Reader,
    id: ExecutionId,
    look: &mut dyn FnMut(&TurnBody, usize) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let mut from = 1;
    loop {
        let page = reader.turns(id, from, PAGE_BYTES)?;
        let Some(last) = page.last() else { return Ok(None) };
        from = last.number + 1;
        for stored in &page {
            let body = TurnBody::read(&stored.body).map_err(|damage| broken(id, &damage))?;
            if let Some(found) = look(&body, stored.body.len()) {
                return Ok(Some(found));
            }
        }
    }
}

/// Folds one execution; `None`: there is none.
pub fn fold(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<Folded>, Refusal> {
    perdura_runtime::fold(reader, id).map_err(|why| unreadable(id, why))
}

/// The same, of an execution that is not in memory: its row is complete, so the journal, which grows with
/// everything that runs, is not searched.
pub fn fold_at_rest(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<Folded>, Refusal> {
    match reader.row(id)? {
        Some((row, unsegmented_from)) if !row.awake && row.content.is_some() => {
            let stored = Recovered { execution: id, row: Some(row), unsegmented_from, turns: Vec::new() };
            fold_stored(reader, &stored).map(Some)
        }
        Some(_) | None => fold(reader, id),
    }
}

/// The same, from rows that were read already.
fn fold_stored(reader: &mut dyn Reader, stored: &Recovered) -> Result<Folded, Refusal> {
    perdura_runtime::fold_stored(reader, stored).map_err(|why| unreadable(stored.execution, why))
}

fn unreadable(id: ExecutionId, why: Unreadable) -> Refusal {
    match why {
        Unreadable::Damaged(damage) => broken(id, &damage),
        Unreadable::Unavailable(failure) => failure.into(),
    }
}
