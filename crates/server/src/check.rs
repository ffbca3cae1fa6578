//! Whether journal, rows and histories agree: everything is read, and nothing is changed.

use crate::Refusal;
use crate::control::{Checked, Place};
use crate::data::Data;
use crate::fold::{Folded, PAGE_BYTES, fold_stored};
use perdura_engine::{LedgerStatus, Seq};
use perdura_store::record::TurnBody;
use perdura_store::{Failure, Filter, LedgerFilter, Reader, Summary};

/// How many executions are read at once.
const SLICE: u32 = 50;
/// How many ledger rows of one execution are compared.
const ROWS_MAX: u32 = 10_000;

/// Reads a slice of the executions, the newest first.
pub fn check<D: Data>(data: &mut D, after: Option<Place>) -> Result<Checked, Refusal> {
    let after = after.map(|place| (place.started_at, place.execution));
    let rows = data.read(|reader| reader.list(&Filter::default(), after, SLICE))?;
    let mut checked = Checked::default();
    for row in &rows {
        let mut read = data.read(|reader| one(reader, row))?;
        if !read.findings.is_empty() {
            // It may have moved between two looks. What is wrong stays wrong.
            let again = data.read(|reader| match fresh(reader, row)? {
                Some(row) => one(reader, &row),
                None => Ok(Checked::default()),
            })?;
            read.findings.retain(|finding| again.findings.contains(finding));
        }
        checked.executions += 1;
        checked.turns += read.turns;
        checked.events += read.events;
        checked.findings.append(&mut read.findings);
    }
    let full = rows.len() == SLICE as usize;
    let place = |row: &Summary| Place { started_at: row.started_at, execution: row.execution };
    checked.next = rows.last().filter(|_| full).map(place);
    Ok(checked)
}

/// The row as it is now; `None`: it is gone.
fn fresh(reader: &mut dyn Reader, before: &Summary) -> Result<Option<Summary>, Failure> {
    let row = reader.row(before.execution)?.map(|(row, _)| row);
    Ok(row.map(|row| Summary { status: row.status, ended_at: row.ended_at, ..before.clone() }))
}

/// One execution: its Turns without a gap, its events without a gap, and its row and ledger as they say.
fn one(reader: &mut dyn Reader, row: &Summary) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    let id = row.execution;
    let mut find = |what: String| checked.findings.push(format!("{id}: {what}"));
    let Some(stored) = reader.execution(id)? else {
        find("it is listed, but nothing is stored of it".into());
        return Ok(checked);
    };
    let covered = stored.row.as_ref().and_then(|row| row.content.as_ref()).map(|it| (it.turns, it.events));
    let is_all_covered = stored.turns.is_empty();
    let Folded { execution, turns } = match fold_stored(reader, &stored) {
        Ok(folded) => folded,
        Err(refusal) => {
            find(refusal.what);
            return Ok(checked);
        }
    };
    if execution.status().name() != row.status.name() {
        find(format!("its row says {}, its Turns {}", row.status.name(), execution.status().name()));
    }
    if execution.ended_at() != row.ended_at {
        find("row and Turns differ in when it ended".into());
    }
    if is_all_covered && covered.is_some_and(|covered| covered != (turns, execution.last_event().0)) {
        find("its row counts other Turns or events than there are".into());
    }
    let (turns, events) = match walk(reader, row)? {
        Ok(counted) => counted,
        Err(what) => {
            find(what);
            return Ok(checked);
        }
    };
    if events < execution.last_event().0 {
        find(format!("its history ends at event {events}, its state at {}", execution.last_event()));
    }
    let filter =
        LedgerFilter { status: Some(LedgerStatus::Pending), execution: Some(id), started_before: None };
    for pending in reader.ledger(&filter, ROWS_MAX)? {
        let is_called = execution.calls().any(|(_, key)| key.readable() == &*pending.key);
        if !is_called && !execution.is_ended() {
            find(format!("the ledger says that {} is pending, the execution does not", pending.key));
        }
    }
    (checked.turns, checked.events) = (turns, events);
    Ok(checked)
}

/// How many Turns and events there are; the inner error says what is missing.
fn walk(reader: &mut dyn Reader, row: &Summary) -> Result<Result<(u64, u64), String>, Failure> {
    let (mut last_turn, mut last_event) = (0, Seq(0));
    loop {
        let page = reader.turns(row.execution, last_turn + 1, PAGE_BYTES)?;
        if page.is_empty() {
            return Ok(Ok((last_turn, last_event.0)));
        }
        for turn in page {
            if turn.number != last_turn + 1 {
                return Ok(Err(format!("Turn {} is missing", last_turn + 1)));
            }
            last_turn = turn.number;
            let body = match TurnBody::read(&turn.body) {
                Ok(body) => body,
                Err(damage) => return Ok(Err(format!("Turn {last_turn}: {damage}"))),
            };
            for event in body.turn.events() {
                if event.id != last_event.next() {
                    return Ok(Err(format!("event {} is missing in Turn {last_turn}", last_event.next())));
                }
                last_event = event.id;
            }
        }
    }
}
