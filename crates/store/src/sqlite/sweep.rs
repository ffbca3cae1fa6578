//! Deleting old or excess executions, a bounded slice at a time.
//!
//! A reader searches for them beside the writer. It also knows which executions are in the journal: recovery would take
//! the Turns there for a running execution. The writer deletes a slice of them in one short transaction, and checks
//! each row again, because it may have been redriven meanwhile.
//!
//! Children of a Map Run stay as long as their parent, because a redrive needs them. When the parent is gone, they are
//! the first to go, slice by slice, and their run's row after the last of them.

use super::aside;
use super::fault::Trouble;
use super::map_runs;
use super::read::Beyond;
use super::rows::{NUMBER_BITS, execution_of, id_of, position_of};
use crate::lease::Position;
use crate::store::{Retention, SweepPlace, Sweepable, Swept};
use perdura_engine::{ExecutionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

/// The most rows to look at for each one found: executions that are still in the journal are skipped.
const LOOKS_PER_ONE: u32 = 8;

/// A slice of the executions that may be deleted.
pub(super) fn sweepable(
    connection: &Connection,
    beyond: &mut Beyond,
    retention: &Retention,
    after: Option<SweepPlace>,
    most: u32,
) -> Result<Sweepable, Trouble> {
    beyond.learn(connection)?;
    if after.is_none() {
        let going = orphans(connection, beyond, most)?;
        if !going.is_empty() {
            let ledger = ledger_of(connection, &going, retention)?;
            // While children are being deleted, the free space is not known yet.
            return Ok(Sweepable { going, ledger, ..Sweepable::default() });
        }
    }
    let mut place = after.unwrap_or_default();
    let mut bytes = match (retention.bytes_max, place.bytes) {
        (None, _) => 0,
        (Some(_), Some(bytes)) => bytes,
        (Some(_), None) => used_bytes(connection)?,
    };
    let mut found = Sweepable::default();
    let mut statement = connection.prepare_cached(
        "SELECT row, id, ended_at FROM execution
         WHERE ended_at IS NOT NULL AND map_run IS NULL AND NOT awake AND tail IS NOT NULL
             AND (ended_at, id) > (?1, ?2)
         ORDER BY ended_at, id LIMIT ?3",
    )?;
    let looks = most.saturating_mul(LOOKS_PER_ONE);
    let mut looked = 0;
    let mut rows = statement.query(params![place.ended_at.0, id_of(place.execution), looks])?;
    while let Some(row) = rows.next()? {
        let ended_at = Timestamp(row.get(2)?);
        let too_large = retention.bytes_max.is_some_and(|max| bytes > max);
        if ended_at >= retention.ended_before && !too_large {
            return Ok(found);
        }
        looked += 1;
        let number: i64 = row.get(0)?;
        let execution = execution_of(row.get(1)?);
        (place.ended_at, place.execution) = (ended_at, execution);
        if !beyond.stands(execution) {
            let (below, below_bytes) = map_runs::descendants(connection, execution)?;
            found.children += below;
            if retention.bytes_max.is_some() {
                bytes = bytes.saturating_sub(bytes_of(connection, number)? + below_bytes);
            }
            found.going.push((execution, ended_at));
        }
        if found.going.len() == most as usize || looked == looks {
            place.bytes = retention.bytes_max.map(|_| bytes);
            found.next = Some(place);
            break;
        }
    }
    drop(rows);
    found.ledger = ledger_of(connection, &found.going, retention)?;
    Ok(found)
}

/// Children whose parents are gone, at most so many.
fn orphans(
    connection: &Connection,
    beyond: &Beyond,
    most: u32,
) -> Result<Vec<(ExecutionId, Timestamp)>, Trouble> {
    let mut going = Vec::new();
    let mut statement = connection.prepare_cached(
        "SELECT id, ended_at FROM execution
         WHERE map_run = ?1 AND ended_at IS NOT NULL AND NOT awake AND tail IS NOT NULL LIMIT ?2",
    )?;
    for run in map_runs::orphaned(connection)? {
        let mut rows = statement.query(params![run, most.saturating_mul(LOOKS_PER_ONE)])?;
        while let Some(row) = rows.next()? {
            if going.len() == most as usize {
                return Ok(going);
            }
            let execution = execution_of(row.get(0)?);
            if !beyond.stands(execution) {
                going.push((execution, Timestamp(row.get(1)?)));
            }
        }
    }
    Ok(going)
}

/// Deletes them in one transaction; returns which were deleted.
pub(super) fn sweep(
    connection: &Connection,
    going: &[(ExecutionId, Timestamp)],
    ledger_before: Timestamp,
    ledger_most: u32,
) -> Result<(Swept, Vec<ExecutionId>), Trouble> {
    let (mut swept, mut gone) = (Swept::default(), Vec::new());
    aside::forget(connection, oldest_of(connection)?)?;
    for (execution, ended_at) in going {
        if let Some(row) = may_go(connection, *execution, *ended_at)? {
            swept.executions += 1;
            gone.push(*execution);
            swept.ledger += take(connection, row, *execution)?;
            swept.more |= map_runs::orphan(connection, *execution)?;
        }
    }
    for run in map_runs::orphaned(connection)? {
        swept.more |= !map_runs::take_if_empty(connection, run)? && swept.executions > 0;
    }
    let old = connection
        .prepare_cached(
            "DELETE FROM ledger WHERE row IN
                 (SELECT row FROM ledger WHERE ended_at IS NOT NULL AND ended_at < ?1 ORDER BY ended_at LIMIT ?2)",
        )?
        .execute(params![ledger_before.0, ledger_most])?;
    swept.ledger += old as u64;
    swept.more |= old == ledger_most as usize;
    Ok((swept, gone))
}

/// The row of an execution that is unchanged since it was seen, and that the journal has nothing of.
fn may_go(
    connection: &Connection,
    execution: ExecutionId,
    ended_at: Timestamp,
) -> Result<Option<i64>, Trouble> {
    let seen: Option<(i64, i64)> = connection
        .prepare_cached(
            "SELECT row, covered_at FROM execution e
             WHERE id = ?1 AND ended_at = ?2 AND NOT awake AND tail IS NOT NULL
                 AND (map_run IS NULL OR EXISTS (SELECT 1 FROM map_run m WHERE m.id = e.map_run AND m.orphaned))",
        )?
        .query_row(params![id_of(execution), ended_at.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((row, covered_at)) = seen else { return Ok(None) };
    // The Turns that it covers are in the journal of the incarnation that wrote it, or of one that has ended.
    let stands = connection
        .prepare_cached(
            "SELECT 1 FROM journal WHERE id <= ?1
                 AND (id >> ?2 = ?1 >> ?2 OR id >> ?2 NOT IN (SELECT number FROM incarnation)) LIMIT 1",
        )?
        .exists([covered_at, i64::from(NUMBER_BITS)])?;
    Ok(Some(row).filter(|_| !stands))
}

/// The oldest journal row: earlier ones are gone.
fn oldest_of(connection: &Connection) -> Result<Position, Trouble> {
    let id: Option<i64> = connection
        .prepare_cached("SELECT id FROM journal ORDER BY id LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(id.map_or(Position::default(), position_of))
}

/// The used bytes of the file.
fn used_bytes(connection: &Connection) -> Result<u64, Trouble> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok(((number("page_count")? - number("freelist_count")?) * number("page_size")?) as u64)
}

fn bytes_of(connection: &Connection, row: i64) -> Result<u64, Trouble> {
    let bytes: i64 = connection
        .prepare_cached(
            "SELECT length(tail) + coalesce(length(state), 0)
                 + (SELECT coalesce(sum(length(bytes)), 0) FROM history h WHERE h.execution = e.id)
             FROM execution e WHERE row = ?1",
        )?
        .query_row([row], |row| row.get(0))?;
    // An estimate for the rest of the row, and its place in the indices.
    Ok(bytes as u64 + 256)
}

/// How many rows of the ledger go with these; rows that would go by their own age are counted elsewhere.
fn ledger_of(
    connection: &Connection,
    going: &[(ExecutionId, Timestamp)],
    retention: &Retention,
) -> Result<u64, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FROM ledger WHERE execution = ?1 AND NOT coalesce(ended_at < ?2, FALSE)",
    )?;
    let mut sum = 0;
    for (execution, _) in going {
        let count: i64 = statement
            .query_row(params![execution.to_string(), retention.ledger_before.0], |row| row.get(0))?;
        sum += count as u64;
    }
    Ok(sum)
}

pub(super) fn old_ledger(connection: &Connection, before: Timestamp) -> Result<u64, Trouble> {
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM ledger WHERE ended_at IS NOT NULL AND ended_at < ?1")?
        .query_row([before.0], |row| row.get(0))?;
    Ok(count as u64)
}

/// Deletes one; returns how many rows of the ledger went with it.
fn take(connection: &Connection, row: i64, execution: ExecutionId) -> Result<u64, Trouble> {
    connection.prepare_cached("DELETE FROM history WHERE execution = ?1")?.execute([id_of(execution)])?;
    let ledger = connection
        .prepare_cached("DELETE FROM ledger WHERE execution = ?1")?
        .execute([execution.to_string()])?;
    super::labels::take(
        connection,
        "DELETE FROM execution WHERE row = ?1 RETURNING id, started_at, labels",
        row,
    )?;
    Ok(ledger as u64)
}
