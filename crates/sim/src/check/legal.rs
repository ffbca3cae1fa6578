//! Histories, rows, the ledger and the totals agree.

use super::Evidence;
use crate::history::History;
use perdura_engine::{Execution, LedgerStatus, Note, Seq, Status, Turn};
use perdura_store::{LedgerRow, Row, record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events without gaps, links that lead back, Turns that fold to the row's state, a ledger that agrees with the notes,
/// and totals that are the sum.
pub fn histories_legal(evidence: &Evidence<'_>) -> Vec<String> {
    let mut complaints = {
        let disk = evidence.sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        disk.observed.complaints.clone()
    };
    let mut ledger: BTreeMap<&str, &LedgerRow> = evidence.ledger.iter().map(|row| (&*row.key, row)).collect();
    for history in &evidence.histories {
        let mut found = history.problems.clone();
        found.extend(numbers(history));
        found.extend(row_agrees(history));
        if !history.is_swept {
            found.extend(ledger_agrees(history, &mut ledger));
        }
        complaints
            .extend(found.into_iter().map(|what| format!("{} ({}): {what}", history.id, history.name())));
    }
    for key in ledger.into_keys() {
        complaints.push(format!("the ledger has {key}, and no history does"));
    }
    complaints.extend(totals_agree(evidence));
    complaints
}

fn numbers(history: &History) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut last = Seq(0);
    let mut at = perdura_engine::Timestamp(i64::MIN);
    for event in history.turns.iter().flat_map(Turn::events) {
        if event.id != last.next() {
            complaints.push(format!("event {} follows event {last}", event.id));
        }
        if event.previous >= event.id {
            complaints.push(format!("event {} follows from {}", event.id, event.previous));
        }
        if event.at < at {
            complaints.push(format!("event {} happened before the one before it", event.id));
        }
        (last, at) = (event.id, event.at);
    }
    complaints
}

fn row_agrees(history: &History) -> Vec<String> {
    let (Some(row), Some(execution)) = (&history.row, &history.execution) else { return Vec::new() };
    let mut complaints = Vec::new();
    let mut expect = |what: &str, agrees: bool| {
        if !agrees {
            complaints.push(format!("its row disagrees on {what}: {row:?}"));
        }
    };
    let status = if execution.status() == Status::Created { Status::Running } else { execution.status() };
    expect("the status", row.status == status);
    expect("its end", row.ended_at == execution.ended_at());
    expect("its beginning", row.started_at == execution.started_at());
    expect("redrives", row.redrives == execution.redrives());
    expect("its name", row.name.as_deref().is_none_or(|name| *name == *execution.identity().name));
    if execution.is_ended() {
        expect("being awake", !row.awake);
        let content = row.content.as_ref();
        expect("its Turns", content.is_some_and(|content| content.turns == history.turns.len() as u64));
        expect("its events", content.is_some_and(|content| content.events == execution.last_event().0));
    }
    complaints.extend(state_agrees(row, history, execution));
    complaints
}

/// A snapshot is the fold of the Turns before it. Heartbeat clocks are not durable and are left out.
fn state_agrees(row: &Row, history: &History, execution: &Execution) -> Option<String> {
    let state = row.content.as_ref()?.state.as_ref()?;
    let bytes = match record::open(&state.bytes) {
        Ok(bytes) => bytes,
        Err(damage) => return Some(format!("its snapshot cannot be opened: {damage}")),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
    let stored = match Execution::deserialize(execution.machine().clone(), &mut deserializer) {
        Ok(stored) => stored,
        Err(error) => return Some(format!("its snapshot cannot be read: {error}")),
    };
    let mut folded = Execution::new(execution.machine().clone(), execution.identity().clone());
    for turn in history.turns.iter().take(state.turn as usize) {
        folded.apply(turn);
    }
    let beats = format!("{stored:?}").contains("heartbeat: Some");
    (!beats && stored != folded).then(|| "its snapshot is not what follows from its Turns".to_owned())
}

fn ledger_agrees<'a>(history: &'a History, ledger: &mut BTreeMap<&'a str, &'a LedgerRow>) -> Vec<String> {
    let mut marks: BTreeMap<&str, LedgerStatus> = BTreeMap::new();
    for note in history.turns.iter().flat_map(Turn::notes) {
        if let Note::Ledger { key, status, .. } = note {
            marks.insert(key.readable(), *status);
        }
    }
    let is_ended = history.execution.as_ref().is_some_and(Execution::is_ended);
    let mut complaints = Vec::new();
    for (key, status) in marks {
        let row = ledger.remove(key).map(|row| row.status);
        let agrees = match status {
            LedgerStatus::Completed => row.is_none(),
            LedgerStatus::Failed | LedgerStatus::Uncertain => row == Some(status),
            LedgerStatus::Pending => !is_ended && row.is_none_or(|row| row == LedgerStatus::Pending),
        };
        if !agrees {
            complaints.push(format!("the notes say that {key} is {status:?}, the ledger {row:?}"));
        }
    }
    complaints
}

fn totals_agree(evidence: &Evidence<'_>) -> Option<String> {
    let totals = evidence.stats.totals;
    let ended = |history: &&History| history.execution.as_ref().is_some_and(Execution::is_ended);
    let running = evidence.histories.len() - evidence.histories.iter().filter(ended).count();
    if totals.started + totals.redriven != totals.succeeded + totals.failed + running as u64 {
        return Some(format!("{running} run, and the totals say {totals:?}"));
    }
    let mut turns = 0;
    let mut sent = 0;
    let mut completed = 0;
    let mut repeated = 0;
    for turn in evidence.histories.iter().flat_map(|history| &history.turns) {
        turns += 1;
        for note in turn.notes() {
            match note {
                Note::Ledger { status: LedgerStatus::Pending, .. } => sent += 1,
                Note::Ledger { status: LedgerStatus::Completed, .. } => completed += 1,
                Note::Repeated { .. } => repeated += 1,
                _ => {}
            }
        }
    }
    let counted = (turns, sent, completed, repeated);
    let said = (totals.turns, totals.steps_sent, totals.steps_completed, totals.steps_repeated);
    (counted != said).then(|| {
        let what: Arc<str> = "turns, sent, completed, repeated".into();
        format!("the totals say {said:?} and the histories {counted:?} ({what})")
    })
}
