//! The Turns of an execution, from its segments, its row and the journal, forwards or backwards from a number.

use super::beyond::Beyond;
use crate::gather::{Retreat, Stretch};
use crate::record;
use crate::sqlite::fault::Trouble;
use crate::sqlite::rows::id_of;
use crate::store::StoredTurn;
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension, params};

/// How many Turns a row covers, and the number of the first in its tail.
fn row(connection: &Connection, execution: ExecutionId) -> Result<(u64, Option<u64>), Trouble> {
    let found = connection
        .prepare_cached("SELECT turns, tail_from FROM execution WHERE id = ?1")?
        .query_row([id_of(execution)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    Ok(found.map_or((0, None), |(turns, from)| (turns as u64, from.map(|from| from as u64))))
}

fn tail(connection: &Connection, execution: ExecutionId, first: u64) -> Result<Vec<StoredTurn>, Trouble> {
    let mut statement = connection.prepare_cached("SELECT tail FROM execution WHERE id = ?1")?;
    let mut rows = statement.query([id_of(execution)])?;
    let Some(row) = rows.next()? else { return Ok(Vec::new()) };
    let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(record::read_history(bytes, first)?)
}

pub(super) fn turns(
    connection: &Connection,
    beyond: &mut Beyond,
    execution: ExecutionId,
    from: u64,
    bytes_max: usize,
) -> Result<Vec<StoredTurn>, Trouble> {
    let (covered, tail_from) = row(connection, execution)?;
    let newest = beyond.turns(connection, execution, covered)?;
    let mut stretch = Stretch::new(from, bytes_max);
    let mut segments = connection.prepare_cached(
        "SELECT first, bytes FROM history WHERE execution = ?1 AND first + turns > ?2 ORDER BY first",
    )?;
    let mut rows = segments.query(params![id_of(execution), stretch.next() as i64])?;
    while stretch.wants_more()
        && let Some(row) = rows.next()?
    {
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        stretch.take(record::read_history(bytes, row.get::<_, i64>(0)? as u64)?)?;
    }
    if let Some(first) = tail_from.filter(|_| covered >= stretch.next() && stretch.wants_more()) {
        stretch.take(tail(connection, execution, first)?)?;
    }
    stretch.take(newest.into_iter().map(|(_, turn)| turn))?;
    Ok(stretch.turns())
}

pub(super) fn turns_before(
    connection: &Connection,
    beyond: &mut Beyond,
    execution: ExecutionId,
    before: Option<u64>,
    bytes_max: usize,
) -> Result<Vec<StoredTurn>, Trouble> {
    let (covered, tail_from) = row(connection, execution)?;
    let mut newest = Vec::new();
    if before.is_none_or(|before| before > covered + 1) {
        newest = beyond.turns(connection, execution, covered)?;
    }
    let end = newest.last().map_or(covered, |(_, turn)| turn.number);
    let mut retreat = Retreat::new(before, end, bytes_max);
    retreat.take(newest.into_iter().map(|(_, turn)| turn).collect())?;
    if let Some(first) = tail_from.filter(|first| retreat.wants(*first)) {
        retreat.take(tail(connection, execution, first)?)?;
    }
    let mut segments = connection.prepare_cached(
        "SELECT first, bytes FROM history WHERE execution = ?1 AND first < ?2 ORDER BY first DESC",
    )?;
    let until = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let mut rows = segments.query(params![id_of(execution), until])?;
    while retreat.wants(1)
        && let Some(row) = rows.next()?
    {
        let first = row.get::<_, i64>(0)? as u64;
        if retreat.wants(first) {
            let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
            retreat.take(record::read_history(bytes, first)?)?;
        }
    }
    Ok(retreat.turns()?)
}
