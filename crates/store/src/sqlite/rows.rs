//! Conversions between rows of tables and the store's types.

use super::fault::Trouble;
use super::labels;
use crate::group::{ChildOf, Content, LedgerRow, MachineId, RevisionId, Row, Snapshot};
use crate::lease::{Incarnation, Position};
use crate::record::Damage;
use crate::store::Summary;
use crate::words;
use perdura_engine::{ExecutionId, Timestamp, Wake};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;
use uuid::Uuid;

/// The low bits of a journal row's id are its number in its incarnation; the others are the incarnation. There are
/// enough of both: a commit each tenth of a millisecond for 300 days, and a restart each second for a year.
pub(super) const NUMBER_BITS: u32 = 38;

pub(super) fn journal_id(position: Position) -> i64 {
    ((position.incarnation.0 as i64) << NUMBER_BITS) + position.number as i64
}

/// The least and the greatest id of an incarnation's journal rows.
pub(super) fn journal_range(incarnation: Incarnation) -> (i64, i64) {
    let first = journal_id(Position::before(incarnation));
    (first, first + ((1 << NUMBER_BITS) - 1))
}

pub(super) fn position_of(id: i64) -> Position {
    Position {
        incarnation: Incarnation((id >> NUMBER_BITS) as u64),
        number: (id & ((1 << NUMBER_BITS) - 1)) as u64,
    }
}

pub(super) fn id_of(execution: ExecutionId) -> [u8; 16] {
    execution.uuid().into_bytes()
}

pub(super) fn execution_of(bytes: [u8; 16]) -> ExecutionId {
    ExecutionId::from_uuid(Uuid::from_bytes(bytes))
}

pub(super) fn unknown(word: &str, value: &str) -> Trouble {
    Trouble::Damage(Damage(format!("the {word} {value} is unknown")))
}

/// In the column `waits`: the machine is paused.
pub(super) const HELD: i64 = 2;

/// The columns for lists, in the order of [`summary`].
pub(super) const SUMMARY: &str =
    "id, machine, revision, name, status, started_at, ended_at, redrives, redriven_at, version, alias, child,
    labels, root_key, error, erased_at";

pub(super) fn summary(row: &rusqlite::Row<'_>) -> Result<Summary, Trouble> {
    let status: String = row.get(4)?;
    Ok(Summary {
        execution: execution_of(row.get(0)?),
        machine: MachineId(row.get::<_, i64>(1)? as u64),
        revision: RevisionId(row.get::<_, i64>(2)? as u64),
        name: row.get(3)?,
        status: words::status(&status).ok_or_else(|| unknown("status", &status))?,
        started_at: Timestamp(row.get(5)?),
        ended_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        redrives: row.get(7)?,
        redriven_at: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        version: row.get(9)?,
        alias: row.get(10)?,
        child: row.get(11)?,
        labels: labels::read(row.get(12)?)?,
        root_key: row.get(13)?,
        error: row.get(14)?,
        // By name, because this column is at the end of one list of columns and in the middle of another.
        erased_at: row.get::<_, Option<i64>>("erased_at")?.map(Timestamp),
    })
}

/// The columns of a row, in the order of [`full_row`].
pub(super) const ROW: &str =
    "id, machine, revision, name, status, started_at, ended_at, redrives, redriven_at, version, alias, child,
    labels, root_key, error, awake, wake_at, wake_wall_at, turns, events, tail_from, state_turn, tail, state, waits, map_run, items,
    erased_at";

pub(super) fn full_row(row: &rusqlite::Row<'_>) -> Result<Row, Trouble> {
    let summary = summary(row)?;
    let state: Option<i64> = row.get(21)?;
    let state = match state {
        Some(turn) => Some(Snapshot { turn: turn as u64, bytes: row.get(23)? }),
        None => None,
    };
    let content = match row.get::<_, Option<Vec<u8>>>(22)? {
        Some(tail) => Some(Content {
            turns: row.get::<_, i64>(18)? as u64,
            events: row.get::<_, i64>(19)? as u64,
            state,
            tail_from: row.get::<_, i64>(20)? as u64,
            tail,
        }),
        None => None,
    };
    let child = match row.get::<_, Option<[u8; 16]>>(25)? {
        Some(run) => {
            let items = row.get::<_, Option<u32>>(26)?.unwrap_or(1);
            Some(ChildOf { run: Uuid::from_bytes(run), index: row.get(11)?, items })
        }
        None => None,
    };
    let time = |index| Ok::<_, Trouble>(row.get::<_, Option<i64>>(index)?.map(Timestamp));
    Ok(Row {
        execution: summary.execution,
        machine: summary.machine,
        revision: summary.revision,
        name: summary.name,
        status: summary.status,
        awake: row.get(15)?,
        waits: row.get::<_, i64>(24)? != 0,
        held: row.get::<_, i64>(24)? == HELD,
        started_at: summary.started_at,
        ended_at: summary.ended_at,
        wake: Wake { steady: time(16)?, wall: time(17)? },
        redrives: summary.redrives,
        redriven_at: summary.redriven_at,
        version: summary.version,
        alias: summary.alias,
        labels: summary.labels,
        root_key: summary.root_key,
        error: summary.error,
        child,
        content,
    })
}

/// A row with its content.
pub(super) fn row_of(connection: &Connection, execution: ExecutionId) -> Result<Option<Row>, Trouble> {
    let mut statement = connection.prepare_cached(&format!("SELECT {ROW} FROM execution WHERE id = ?1"))?;
    let mut rows = statement.query([id_of(execution)])?;
    rows.next()?.map(full_row).transpose()
}

/// The first Turn of an execution that no segment has.
pub(super) fn unsegmented_from(connection: &Connection, execution: ExecutionId) -> Result<u64, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT first + turns FROM history WHERE execution = ?1 ORDER BY first DESC LIMIT 1",
    )?;
    let next: Option<i64> = statement.query_row([id_of(execution)], |row| row.get(0)).optional()?;
    Ok(next.map_or(1, |next| next as u64))
}

/// The columns of the ledger, in the order of [`ledger_row`].
pub(super) const LEDGER: &str =
    "key, wire_key, execution, step, round, status, started_at, completed_at, result, error";

pub(super) fn ledger_row(row: &rusqlite::Row<'_>) -> Result<LedgerRow, Trouble> {
    let uuid = |index, word| {
        let text: String = row.get(index)?;
        Uuid::parse_str(&text).map_err(|_| unknown(word, &text))
    };
    let status: String = row.get(5)?;
    Ok(LedgerRow {
        key: row.get::<_, Arc<str>>(0)?,
        wire_key: uuid(1, "wire key")?,
        execution: ExecutionId::from_uuid(uuid(2, "execution")?),
        step: row.get(3)?,
        round: row.get(4)?,
        status: words::ledger_status(&status).ok_or_else(|| unknown("status", &status))?,
        started_at: Timestamp(row.get(6)?),
        completed_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        result: row.get(8)?,
        error: row.get(9)?,
    })
}
