//! Erases the inputs, outputs and results of executions.
//!
//! Only ended executions are erased, and their rows cover all of their Turns. So their Turns are removed from the
//! journal at once, instead of waiting until the journal drops its rows. An idle server would wait for ever.

use super::Refused;
use super::fault::Trouble;
use super::labels;
use super::rows::{id_of, row_of};
use crate::record::erase;
use crate::store::Erased;
use perdura_engine::{ExecutionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

pub(super) fn erase(
    connection: &Connection,
    ended: &[(ExecutionId, Timestamp)],
    at: Timestamp,
) -> Result<Erased, Refused> {
    erase_all(connection, ended, at).map_err(|trouble| {
        // An unreadable row must not make the whole store refuse work.
        if trouble.is_damage() { Refused::Wrong(trouble.to_string()) } else { Refused::Trouble(trouble) }
    })
}

fn erase_all(
    connection: &Connection,
    ended: &[(ExecutionId, Timestamp)],
    at: Timestamp,
) -> Result<Erased, Trouble> {
    let mut whose = BTreeSet::new();
    for (execution, ended_at) in ended {
        match is_erased(connection, *execution, *ended_at)? {
            None => return Ok(Erased::Moved(*execution)),
            Some(true) => {}
            Some(false) => drop(whose.insert(*execution)),
        }
    }
    let mut ledger = 0;
    for execution in &whose {
        row(connection, *execution, at)?;
        segments(connection, *execution)?;
        connection.prepare_cached("DELETE FROM aside WHERE execution = ?1")?.execute([id_of(*execution)])?;
        ledger += connection
            .prepare_cached(
                "UPDATE ledger SET result = CASE WHEN result IS NULL THEN NULL ELSE ?2 END,
                     error = CASE WHEN error IS NULL THEN NULL ELSE ?2 END
                 WHERE execution = ?1 AND (result IS NOT NULL OR error IS NOT NULL)",
            )?
            .execute(params![execution.to_string(), perdura_engine::erase::TEXT])?;
    }
    if !whose.is_empty() {
        journal(connection, &whose)?;
    }
    Ok(Erased::Done { executions: whose.len() as u64, ledger: ledger as u64 })
}

/// Whether it was erased before; `None`: it has not ended, or not as it was seen.
fn is_erased(
    connection: &Connection,
    execution: ExecutionId,
    ended_at: Timestamp,
) -> Result<Option<bool>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT erased_at IS NOT NULL FROM execution
         WHERE id = ?1 AND ended_at = ?2 AND NOT awake AND tail IS NOT NULL",
    )?;
    Ok(statement.query_row(params![id_of(execution), ended_at.0], |row| row.get(0)).optional()?)
}

fn row(connection: &Connection, execution: ExecutionId, at: Timestamp) -> Result<(), Trouble> {
    let Some(before) = row_of(connection, execution)? else { return Ok(()) };
    labels::forget(connection, &before.labels, id_of(execution), before.started_at.0)?;
    let row = erase::row(&before, at)?;
    let Some(content) = row.content else { return Ok(()) };
    connection
        .prepare_cached(
            "UPDATE execution SET turns = ?2, tail = ?3, state = ?4, error = ?5, labels = NULL, erased_at = ?6
             WHERE id = ?1",
        )?
        .execute(params![
            id_of(row.execution),
            content.turns as i64,
            content.tail,
            content.state.map(|state| state.bytes),
            row.error.as_deref(),
            at.0,
        ])?;
    Ok(())
}

fn segments(connection: &Connection, execution: ExecutionId) -> Result<(), Trouble> {
    let mut statement = connection.prepare_cached("SELECT row, first FROM history WHERE execution = ?1")?;
    let rows: Vec<(i64, i64)> = statement
        .query_map([id_of(execution)], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (row, first) in rows {
        let bytes: Vec<u8> = connection
            .prepare_cached("SELECT bytes FROM history WHERE row = ?1")?
            .query_row([row], |row| row.get(0))?;
        connection
            .prepare_cached("UPDATE history SET bytes = ?2 WHERE row = ?1")?
            .execute(params![row, erase::history(&bytes, first as u64)?])?;
    }
    Ok(())
}

/// A row of the journal that cannot be read stays unchanged: recovery reports it.
fn journal(connection: &Connection, whose: &BTreeSet<ExecutionId>) -> Result<(), Trouble> {
    let ids: Vec<i64> = connection
        .prepare_cached("SELECT id FROM journal ORDER BY id")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in ids {
        let sealed: Vec<u8> = connection
            .prepare_cached("SELECT turns FROM journal WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?;
        if let Ok(Some(without)) = erase::journal(&sealed, whose) {
            connection
                .prepare_cached("UPDATE journal SET turns = ?2 WHERE id = ?1")?
                .execute(params![id, without])?;
        }
    }
    Ok(())
}
