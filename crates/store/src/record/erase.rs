//! Erased records: [`perdura_engine::erase`] applied to sealed Turns and states.

use super::{Damage, JournalWriter, TurnBody, open, push_turn, read_history, read_journal, seal};
use crate::group::{Content, LedgerRow, Row, Snapshot};
use perdura_engine::{ExecutionId, Labels, Timestamp, erase};
use std::collections::BTreeSet;

/// Erases a sealed history.
pub(crate) fn history(sealed: &[u8], first: u64) -> Result<Vec<u8>, Damage> {
    Ok(seal(&turns(sealed, first)?))
}

fn turns(sealed: &[u8], first: u64) -> Result<Vec<u8>, Damage> {
    let mut history = Vec::new();
    for turn in read_history(sealed, first)? {
        let mut body = TurnBody::read(&turn.body)?;
        if let Some(begun) = &mut body.begun {
            erase::identity(&mut begun.identity);
        }
        erase::turn(&mut body.turn);
        push_turn(&mut history, &body.write());
    }
    Ok(history)
}

/// Erases the row of an ended execution, and adds one more Turn with the time of the erasure. Its name stays.
pub(crate) fn row(row: &Row, at: Timestamp) -> Result<Row, Damage> {
    let content = row.content.as_ref().map(|content| self::content(content, at)).transpose()?;
    let error = row.error.as_deref().map(|error| erase::error(error).into());
    Ok(Row { labels: Labels::default(), error, content, ..row.clone() })
}

fn content(content: &Content, at: Timestamp) -> Result<Content, Damage> {
    let mut tail = turns(&content.tail, content.tail_from)?;
    push_turn(&mut tail, &TurnBody { begun: None, turn: erase::mark(at) }.write());
    let state = content.state.as_ref().map(state).transpose()?;
    Ok(Content { turns: content.turns + 1, tail: seal(&tail), state, ..content.clone() })
}

fn state(stored: &Snapshot) -> Result<Snapshot, Damage> {
    let mut bytes = Vec::new();
    let content = open(&stored.bytes)?;
    let mut reader = serde_json::Deserializer::from_slice(&content);
    erase::state(&mut reader, &mut serde_json::Serializer::new(&mut bytes))
        .map_err(|error| Damage(format!("a state cannot be read: {error}")))?;
    Ok(Snapshot { turn: stored.turn, bytes: seal(&bytes) })
}

/// A row of the journal without the Turns of these executions, whose rows cover all of them; `None`: it has none of
/// them.
pub(crate) fn journal(sealed: &[u8], whose: &BTreeSet<ExecutionId>) -> Result<Option<Vec<u8>>, Damage> {
    let (totals, turns) = read_journal(sealed)?;
    if !turns.iter().any(|(execution, _)| whose.contains(execution)) {
        return Ok(None);
    }
    let mut writer = JournalWriter::new(&totals);
    for (execution, turn) in turns.iter().filter(|(execution, _)| !whose.contains(execution)) {
        writer.push(*execution, turn.number, &turn.body);
    }
    Ok(Some(writer.seal()))
}

/// Erases a row of the ledger: it keeps only that there was a result, or an error.
pub(crate) fn ledger(row: &mut LedgerRow) {
    for said in [&mut row.result, &mut row.error].into_iter().flatten() {
        *said = erase::TEXT.into();
    }
}
