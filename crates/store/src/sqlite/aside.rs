//! The remains of executions that cannot be read.
//!
//! The journal drops rows that no running execution needs, and an unreadable one does not run. So its Turns are copied
//! here before the journal goes on, and stay until a newer perdura can read them, or a person gives it up.

use super::Refused;
use super::commit;
use super::fault::Trouble;
use super::labels;
use super::map_runs;
use super::rows::{execution_of, id_of, journal_id, position_of, row_of};
use crate::gather::{Journal, Standing};
use crate::lease::{Incarnation, Position};
use crate::record;
use crate::store::{Aside, Left, StoredTurn};
use perdura_engine::ExecutionId;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

pub(super) fn set(connection: &Connection, aside: &[Aside]) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO aside (position, execution, turns) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?;
    for Aside { execution, position, turns } in aside {
        statement.execute(params![journal_id(*position), execution.map(id_of), turns])?;
    }
    Ok(())
}

/// Everything that was set aside, and the executions that were given up.
pub(super) fn read<'j>(
    connection: &Connection,
    journal: &'j mut Journal,
    mut standing: impl FnMut(ExecutionId) -> Result<Standing, Trouble>,
) -> Result<&'j mut Journal, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT position, execution, turns FROM aside WHERE execution IS NOT NULL ORDER BY position",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (position, execution) = (position_of(row.get(0)?), execution_of(row.get(1)?));
        match row.get::<_, Option<Vec<u8>>>(2)? {
            Some(turns) => journal.take_back(execution, position, &turns, &mut standing)?,
            None => journal.given_up(execution),
        }
    }
    Ok(journal)
}

/// The Turns that were set aside of an execution, in order.
pub(super) fn of(
    connection: &Connection,
    execution: ExecutionId,
) -> Result<Vec<(Position, Vec<u8>)>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT position, turns FROM aside WHERE execution = ?1 AND turns IS NOT NULL ORDER BY position",
    )?;
    let rows = statement.query_map([id_of(execution)], |row| Ok((position_of(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The remains of an execution, even if they do not fit together. Skips unreadable parts.
pub(super) fn left(connection: &Connection, execution: ExecutionId) -> Result<Left, Trouble> {
    let id = id_of(execution);
    let mut found: BTreeMap<u64, StoredTurn> = BTreeMap::new();
    let mut take = |turns: Vec<StoredTurn>| found.extend(turns.into_iter().map(|turn| (turn.number, turn)));
    let mut statement =
        connection.prepare_cached("SELECT first, bytes FROM history WHERE execution = ?1 ORDER BY first")?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(1)?;
        take(record::read_history(&bytes, row.get::<_, i64>(0)? as u64).unwrap_or_default());
    }
    let row = match row_of(connection, execution) {
        Err(trouble) if trouble.is_damage() => None,
        row => row?,
    };
    if let Some(content) = row.as_ref().and_then(|row| row.content.as_ref()) {
        take(record::read_history(&content.tail, content.tail_from).unwrap_or_default());
    }
    let mut journal = connection.prepare_cached("SELECT turns FROM journal")?;
    let mut sealed: Vec<Vec<u8>> = of(connection, execution)?.into_iter().map(|(_, turns)| turns).collect();
    for turns in journal.query_map([], |row| row.get(0))? {
        match turns.map_err(Trouble::from) {
            Err(trouble) if trouble.is_damage() => {}
            turns => sealed.push(turns?),
        }
    }
    for sealed in sealed {
        let turns = record::read_journal(&sealed).map(|(_, turns)| turns).unwrap_or_default();
        take(turns.into_iter().filter(|(whose, _)| *whose == execution).map(|(_, turn)| turn).collect());
    }
    Ok(Left { status: row.map(|row| row.status), turns: found.into_values().collect() })
}

/// Whether anything was set aside, which is rare.
pub(super) fn is_any(connection: &Connection) -> Result<bool, Refused> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM aside)")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The execution can be read again, and its row covers all of it.
pub(super) fn take_back(connection: &Connection, execution: ExecutionId) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached("DELETE FROM aside WHERE execution = ?1")?;
    statement.execute([id_of(execution)])?;
    Ok(())
}

pub(super) fn give_up(
    connection: &Connection,
    by: Incarnation,
    execution: ExecutionId,
) -> Result<bool, Refused> {
    let id = id_of(execution);
    let mut gone = 0;
    for sql in ["DELETE FROM history WHERE execution = ?1", "DELETE FROM aside WHERE execution = ?1"] {
        gone += connection.prepare_cached(sql)?.execute([id])?;
    }
    gone +=
        labels::take(connection, "DELETE FROM execution WHERE id = ?1 RETURNING id, started_at, labels", id)?;
    connection.prepare_cached("DELETE FROM ledger WHERE execution = ?1")?.execute([execution.to_string()])?;
    map_runs::orphan(connection, execution)?;
    connection
        .prepare_cached("INSERT INTO aside (position, execution) VALUES (?1, ?2)")?
        .execute(params![journal_id(commit::newest(connection, by)?), id])?;
    Ok(gone > 0)
}

/// Forgets given-up executions once the journal has nothing of them.
pub(super) fn forget(connection: &Connection, oldest: Position) -> Result<(), Trouble> {
    connection
        .prepare_cached("DELETE FROM aside WHERE turns IS NULL AND position < ?1")?
        .execute([journal_id(oldest)])?;
    Ok(())
}
