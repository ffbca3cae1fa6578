//! Taking away what is too old or too much, a bounded slice at a time.
//!
//! An ended execution stays while the journal still has Turns of it: recovery would take them for one that runs.
//! The room that is freed is used again by what comes; the file does not shrink.
//!
//! Children of a Map Run stay as long as their parent, because a redrive asks for them. When the parent has gone, they
//! are the first to go, slice by slice, and their run's row after the last of them.

use super::fault::Trouble;
use super::map_runs;
use super::rows::{execution_of, journal_range, position_of};
use crate::lease::{Position, Shard};
use crate::store::{Retention, Swept};
use perdura_engine::ExecutionId;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

/// An ended execution that may go.
struct Candidate {
    row: i64,
    execution: ExecutionId,
    ended_at: i64,
}

pub(super) fn sweep(
    connection: &Connection,
    retention: &Retention,
    most: u32,
    dry_run: bool,
) -> Result<Swept, Trouble> {
    let mut oldest = BTreeMap::new();
    let mut swept = if dry_run { Swept::default() } else { sweep_orphans(connection, most, &mut oldest)? };
    let most = most - swept.executions as u32;
    // While children go, nobody knows yet how much room there will be.
    let bytes_max = retention.bytes_max.filter(|_| swept.executions == 0);
    let mut bytes = used_bytes(connection)?;
    let mut statement = connection.prepare_cached(
        "SELECT row, id, ended_at, shard, covered_at FROM execution
         WHERE ended_at IS NOT NULL AND map_run IS NULL AND NOT awake AND tail IS NOT NULL ORDER BY ended_at, row",
    )?;
    let mut going = Vec::new();
    let (mut ledger, mut children) = (0, 0);
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ended_at: i64 = row.get(2)?;
        let too_large = bytes_max.is_some_and(|max| bytes > max);
        if ended_at >= retention.ended_before.0 && !too_large {
            break;
        }
        let shard = Shard(row.get(3)?);
        if row.get::<_, i64>(4)? as u64 >= oldest_of(connection, shard, &mut oldest)?.0 {
            continue;
        }
        if !dry_run && going.len() == most as usize {
            swept.more = true;
            break;
        }
        let candidate = Candidate { row: row.get(0)?, execution: execution_of(row.get(1)?), ended_at };
        if bytes_max.is_some() {
            bytes = bytes.saturating_sub(bytes_of(connection, &candidate)?);
        }
        if dry_run || bytes_max.is_some() {
            let (below, below_bytes) = map_runs::descendants(connection, candidate.execution)?;
            bytes = bytes.saturating_sub(below_bytes);
            children += below;
        }
        ledger += ledger_count(connection, &candidate, dry_run.then_some(retention.ledger_before.0))?;
        going.push(candidate);
    }
    drop(rows);
    swept.executions += going.len() as u64;
    if dry_run {
        swept.executions += children;
        swept.ledger = ledger + old_ledger(connection, retention)?;
        return Ok(swept);
    }
    swept.ledger += ledger;
    for candidate in &going {
        swept.more |= take(connection, candidate)?;
    }
    let old = connection
        .prepare_cached(
            "DELETE FROM ledger WHERE row IN
                 (SELECT row FROM ledger WHERE ended_at IS NOT NULL AND ended_at < ?1 ORDER BY ended_at LIMIT ?2)",
        )?
        .execute(params![retention.ledger_before.0, most])?;
    swept.ledger += old as u64;
    swept.more |= old_ledger(connection, retention)? > 0;
    Ok(swept)
}

/// Children whose parent has gone, at most so many, and runs without children.
fn sweep_orphans(
    connection: &Connection,
    most: u32,
    oldest: &mut BTreeMap<Shard, Position>,
) -> Result<Swept, Trouble> {
    let mut swept = Swept::default();
    let mut statement = connection.prepare_cached(
        "SELECT row, id, ended_at, shard, covered_at FROM execution
         WHERE map_run = ?1 AND ended_at IS NOT NULL AND NOT awake AND tail IS NOT NULL",
    )?;
    for run in map_runs::orphaned(connection)? {
        let mut going = Vec::new();
        let mut rows = statement.query([run])?;
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(4)? as u64 >= oldest_of(connection, Shard(row.get(3)?), oldest)?.0 {
                continue;
            }
            if swept.executions + going.len() as u64 == u64::from(most) {
                swept.more = true;
                break;
            }
            going.push(Candidate {
                row: row.get(0)?,
                execution: execution_of(row.get(1)?),
                ended_at: row.get(2)?,
            });
        }
        drop(rows);
        for candidate in &going {
            swept.ledger += ledger_count(connection, candidate, None)?;
            swept.more |= take(connection, candidate)?;
        }
        swept.executions += going.len() as u64;
        map_runs::take_if_empty(connection, run)?;
    }
    Ok(swept)
}

/// The oldest journal row of a Shard: what an earlier one held is gone.
fn oldest_of(
    connection: &Connection,
    shard: Shard,
    known: &mut BTreeMap<Shard, Position>,
) -> Result<Position, Trouble> {
    if let Some(position) = known.get(&shard) {
        return Ok(*position);
    }
    let (first, last) = journal_range(shard);
    let id: Option<i64> = connection
        .prepare_cached("SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT 1")?
        .query_row([first, last], |row| row.get(0))
        .optional()?;
    let position = id.map_or(Position(0), position_of);
    known.insert(shard, position);
    Ok(position)
}

/// How much of the file is in use.
fn used_bytes(connection: &Connection) -> Result<u64, Trouble> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok(((number("page_count")? - number("freelist_count")?) * number("page_size")?) as u64)
}

fn bytes_of(connection: &Connection, candidate: &Candidate) -> Result<u64, Trouble> {
    let bytes: i64 = connection
        .prepare_cached(
            "SELECT length(tail) + coalesce(length(state), 0)
                 + (SELECT coalesce(sum(length(bytes)), 0) FROM history h WHERE h.execution = e.id)
             FROM execution e WHERE row = ?1",
        )?
        .query_row([candidate.row], |row| row.get(0))?;
    // The rest of the row, and its place in the indices.
    Ok(bytes as u64 + 256)
}

/// How many rows of the ledger go with an execution; in a dry run those that would go by their own age are
/// counted elsewhere.
fn ledger_count(connection: &Connection, candidate: &Candidate, but: Option<i64>) -> Result<u64, Trouble> {
    let count: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM ledger WHERE execution = ?1 AND NOT coalesce(ended_at < ?2, FALSE)",
        )?
        .query_row(params![candidate.execution.to_string(), but], |row| row.get(0))?;
    Ok(count as u64)
}

fn old_ledger(connection: &Connection, retention: &Retention) -> Result<u64, Trouble> {
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM ledger WHERE ended_at IS NOT NULL AND ended_at < ?1")?
        .query_row([retention.ledger_before.0], |row| row.get(0))?;
    Ok(count as u64)
}

/// Takes one; whether it has Map Runs, whose children go next.
fn take(connection: &Connection, candidate: &Candidate) -> Result<bool, Trouble> {
    let id = super::rows::id_of(candidate.execution);
    connection.prepare_cached("DELETE FROM history WHERE execution = ?1")?.execute([id])?;
    connection
        .prepare_cached("DELETE FROM ledger WHERE execution = ?1")?
        .execute([candidate.execution.to_string()])?;
    let gone = connection
        .prepare_cached("DELETE FROM execution WHERE row = ?1 AND ended_at = ?2")?
        .execute([candidate.row, candidate.ended_at])?;
    debug_assert_eq!(gone, 1, "it was there a moment ago, in this transaction");
    map_runs::orphan(connection, candidate.execution)
}
