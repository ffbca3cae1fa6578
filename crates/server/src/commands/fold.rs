//! Executions folded from their stored Turns, for readers.

use crate::{Refusal, RefusalKind};
use perdura_engine::asl::machine::Machine;
use perdura_engine::{Execution, ExecutionId};
use perdura_runtime::read_definition;
use perdura_store::record::{self, Begun, Damage, TurnBody};
use perdura_store::{Reader, Recovered, RevisionId, StoredTurn};
use std::sync::Arc;

pub const PAGE_BYTES: usize = 1 << 20;

/// An execution as it stands on disk.
#[derive(Debug)]
pub struct Folded {
    pub execution: Execution,
    pub turns: u64,
}

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
    match reader.execution(id)? {
        Some(stored) => fold_stored(reader, &stored).map(Some),
        None => Ok(None),
    }
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
pub fn fold_stored(reader: &mut dyn Reader, stored: &Recovered) -> Result<Folded, Refusal> {
    let id = stored.execution;
    let mut fold = Fold { id, so_far: None };
    if let Some((row, content)) = stored.row.as_ref().and_then(|row| Some((row, row.content.as_ref()?))) {
        if let Some(state) = &content.state {
            let machine = definition(reader, row.revision)?;
            let bytes = record::open(&state.bytes).map_err(|damage| broken(id, &damage))?;
            let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
            let execution = Execution::deserialize(machine, &mut deserializer)
                .map_err(|error| broken(id, &Damage(format!("its state: {error}"))))?;
            fold.so_far = Some(Folded { execution, turns: state.turn });
        } else if content.tail_from > 1 {
            fold.pages(reader)?;
        }
        let tail =
            record::read_history(&content.tail, content.tail_from).map_err(|damage| broken(id, &damage))?;
        for turn in &tail {
            fold.turn(reader, turn)?;
        }
    }
    for (_, turn) in &stored.turns {
        fold.turn(reader, turn)?;
    }
    fold.so_far.ok_or_else(|| broken(id, &Damage("nothing is stored of it".into())))
}

/// An execution in the making.
struct Fold {
    id: ExecutionId,
    so_far: Option<Folded>,
}

impl Fold {
    /// All its Turns, page by page.
    fn pages(&mut self, reader: &mut dyn Reader) -> Result<(), Refusal> {
        let mut from = 1;
        loop {
            let page = reader.turns(self.id, from, PAGE_BYTES)?;
            let Some(last) = page.last() else { return Ok(()) };
            from = last.number + 1;
            for turn in &page {
                self.turn(reader, turn)?;
            }
        }
    }

    fn turn(&mut self, reader: &mut dyn Reader, turn: &StoredTurn) -> Result<(), Refusal> {
        let done = self.so_far.as_ref().map_or(0, |folded| folded.turns);
        if turn.number <= done {
            return Ok(());
        }
        let damaged = |what: String| Err(broken(self.id, &Damage(what)));
        if turn.number != done + 1 {
            return damaged(format!("Turn {} is missing: {} comes next", done + 1, turn.number));
        }
        let body = TurnBody::read(&turn.body).map_err(|damage| broken(self.id, &damage))?;
        let folded = match (&mut self.so_far, body.begun) {
            (Some(folded), None) => folded,
            (none @ None, Some(begun)) => {
                let machine = definition(reader, begun.revision)?;
                none.insert(Folded { execution: Execution::new(machine, begun.identity), turns: 0 })
            }
            (Some(_), Some(_)) => return damaged(format!("Turn {} begins again", turn.number)),
            (None, None) => return damaged("the first Turn does not say who it is".into()),
        };
        folded.execution.apply(&body.turn);
        folded.turns = turn.number;
        Ok(())
    }
}

fn definition(reader: &mut dyn Reader, revision: RevisionId) -> Result<Arc<Machine>, Refusal> {
    let record = reader.revision(revision)?;
    let machine = record.as_ref().and_then(read_definition);
    let what = || format!("the definition {} is not stored, or cannot be read", revision.0);
    machine.map(Arc::new).ok_or_else(|| Refusal::new(RefusalKind::Broken, what()))
}
