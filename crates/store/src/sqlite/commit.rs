//! What is written, and the right to write it. Each function is called within a transaction.

use super::Refused;
use super::rows::{id_of, journal_id, journal_range, position_of};
use crate::group::{Group, LedgerChange, LedgerRow, Part, Row, Segment, Totals};
use crate::lease::{Epoch, Lease, Position, Renewal, Shard};
use crate::store::CommitError;
use crate::words;
use perdura_engine::{ExecutionId, LedgerStatus, Timestamp};
use rusqlite::{Connection, OptionalExtension, Statement, params};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The Epoch of a lease is the newest, or it counts for nothing.
pub(super) fn fence(connection: &Connection, lease: &Lease) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached("SELECT epoch FROM lease WHERE shard = ?1")?;
    let newest: Option<i64> = statement.query_row([lease.shard.0], |row| row.get(0)).optional()?;
    let newest = Epoch(newest.unwrap_or(0) as u64);
    if newest == lease.epoch {
        return Ok(());
    }
    Err(Refused::Fenced(CommitError::Fenced { shard: lease.shard, held: lease.epoch, newest }))
}

/// Takes a Shard if it may be taken.
pub(super) fn acquire(
    connection: &Connection,
    shard: Shard,
    holder: &Arc<str>,
    (now, expires_at): (Timestamp, Timestamp),
) -> Result<Option<Lease>, Refused> {
    let steady_at = connection
        .prepare_cached("SELECT steady_at FROM lease WHERE shard = ?1 AND steady_at IS NOT NULL")?
        .query_row([shard.0], |row| Ok(Timestamp(row.get(0)?)))
        .optional()?;
    let mut statement = connection.prepare_cached(
        "UPDATE lease SET epoch = epoch + 1, holder = ?2, expires_at = ?4
         WHERE shard = ?1 AND (holder IS NULL OR holder = ?2 OR expires_at < ?3)
         RETURNING epoch",
    )?;
    let epoch: Option<i64> =
        statement.query_row(params![shard.0, &**holder, now.0, expires_at.0], |row| row.get(0)).optional()?;
    let (holder, epoch) = (holder.clone(), epoch.map(|epoch| Epoch(epoch as u64)));
    Ok(epoch.map(|epoch| Lease { shard, epoch, holder, expires_at, steady_at }))
}

pub(super) fn renew(connection: &Connection, lease: &Lease, renewal: Renewal) -> Result<(), Refused> {
    fence(connection, lease)?;
    let mut statement =
        connection.prepare_cached("UPDATE lease SET expires_at = ?2, steady_at = ?3 WHERE shard = ?1")?;
    statement.execute(params![lease.shard.0, renewal.expires_at.0, renewal.steady_at.0])?;
    Ok(())
}

/// A lease that was given back is old: nothing more can be written under it.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Refused> {
    fence(connection, lease)?;
    let mut statement =
        connection.prepare_cached("UPDATE lease SET epoch = epoch + 1, holder = NULL WHERE shard = ?1")?;
    statement.execute([lease.shard.0])?;
    Ok(())
}

pub(super) fn commit(connection: &Connection, group: &Group) -> Result<(), Refused> {
    let mut shards = BTreeSet::new();
    for part in &group.parts {
        if !shards.insert(part.lease.shard) {
            return Err(Refused::Wrong(format!("{} comes twice in one commit", part.lease.shard)));
        }
        fence(connection, &part.lease)?;
        write(connection, part)?;
    }
    Ok(())
}

fn write(connection: &Connection, part: &Part) -> Result<(), Refused> {
    let shard = part.lease.shard;
    let mut newest = newest(connection, shard)?;
    if let Some(position) = part.position {
        let next = newest.next();
        if position != next {
            return Err(Refused::Wrong(format!(
                "journal row {} of {shard}, where row {} belongs",
                position.0, next.0
            )));
        }
        let mut statement =
            connection.prepare_cached("INSERT INTO journal (id, epoch, turns) VALUES (?1, ?2, ?3)")?;
        statement.execute(params![journal_id(shard, position), part.lease.epoch.0 as i64, part.journal])?;
        newest = position;
    }
    let (first, _) = journal_range(shard);
    let keep_from = journal_id(shard, part.keep_from.min(newest));
    connection
        .prepare_cached("DELETE FROM journal WHERE id >= ?1 AND id < ?2")?
        .execute([first, keep_from])?;
    for segment in &part.segments {
        write_segment(connection, segment)?;
    }
    write_rows(connection, shard, newest, &part.rows)?;
    for change in &part.ledger {
        write_ledger(connection, change)?;
    }
    for map_run in &part.map_runs {
        super::map_runs::write(connection, map_run)?;
    }
    if let Some(totals) = &part.totals {
        write_totals(connection, shard, totals)?;
    }
    Ok(())
}

/// The last journal row of a Shard; 0 without any.
fn newest(connection: &Connection, shard: Shard) -> Result<Position, Refused> {
    let (first, last) = journal_range(shard);
    let mut statement = connection
        .prepare_cached("SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1")?;
    let id: Option<i64> = statement.query_row([first, last], |row| row.get(0)).optional()?;
    Ok(id.map_or(Position(0), position_of))
}

fn write_segment(connection: &Connection, segment: &Segment) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO history (execution, first, turns, bytes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (execution, first) DO UPDATE SET turns = excluded.turns, bytes = excluded.bytes",
    )?;
    let id = id_of(segment.execution);
    statement.execute(params![id, segment.first as i64, segment.turns as i64, segment.bytes])?;
    Ok(())
}

const LIST_ROW: &str = "
    INSERT INTO execution (id, shard, machine, revision, name, status, awake, started_at, ended_at, wake_at,
        wake_wall_at, redrives, redriven_at, version, alias, map_run, child, items)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
    ON CONFLICT (id) DO UPDATE SET shard = ?2, machine = ?3, revision = ?4, name = ?5, status = ?6, awake = ?7,
        started_at = ?8, ended_at = ?9, wake_at = ?10, wake_wall_at = ?11, redrives = ?12, redriven_at = ?13,
        version = ?14, alias = ?15, map_run = ?16, child = ?17, items = ?18";

const WRITE_ROW: &str = "
    INSERT INTO execution (id, shard, machine, revision, name, status, awake, started_at, ended_at, wake_at,
        wake_wall_at, redrives, redriven_at, version, alias, map_run, child, items, covered_at, turns, events,
        tail_from, state_turn, tail, state, waits)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
        ?24, ?25, ?26)
    ON CONFLICT (id) DO UPDATE SET shard = ?2, machine = ?3, revision = ?4, name = ?5, status = ?6, awake = ?7,
        started_at = ?8, ended_at = ?9, wake_at = ?10, wake_wall_at = ?11, redrives = ?12, redriven_at = ?13,
        version = ?14, alias = ?15, map_run = ?16, child = ?17, items = ?18, covered_at = ?19, turns = ?20,
        events = ?21, tail_from = ?22, state_turn = ?23, tail = ?24, state = ?25, waits = ?26";

fn write_rows(connection: &Connection, shard: Shard, newest: Position, rows: &[Row]) -> Result<(), Refused> {
    if rows.is_empty() {
        return Ok(());
    }
    // Looked up once for all: finding a text so long takes a while.
    let mut whole = connection.prepare_cached(WRITE_ROW)?;
    let mut listed = connection.prepare_cached(LIST_ROW)?;
    let is_aside = super::aside::is_any(connection)?;
    for row in rows {
        let statement = if row.content.is_some() { &mut whole } else { &mut listed };
        write_row(statement, shard, newest, row)?;
        if is_aside && row.content.is_some() {
            super::aside::take_back(connection, row.execution)?;
        }
    }
    Ok(())
}

fn write_row(
    statement: &mut Statement<'_>,
    shard: Shard,
    newest: Position,
    row: &Row,
) -> Result<(), Refused> {
    let mut index = 0;
    let mut bind = |value: &dyn rusqlite::ToSql| {
        index += 1;
        statement.raw_bind_parameter(index, value)
    };
    bind(&id_of(row.execution))?;
    bind(&shard.0)?;
    bind(&(row.machine.0 as i64))?;
    bind(&(row.revision.0 as i64))?;
    bind(&row.name.as_deref())?;
    bind(&row.status.name())?;
    bind(&row.awake)?;
    bind(&row.started_at.0)?;
    bind(&row.ended_at.map(|at| at.0))?;
    bind(&row.wake.steady.map(|at| at.0))?;
    bind(&row.wake.wall.map(|at| at.0))?;
    bind(&row.redrives)?;
    bind(&row.redriven_at.map(|at| at.0))?;
    bind(&row.version)?;
    bind(&row.alias.as_deref())?;
    bind(&row.child.map(|child| child.run.into_bytes()))?;
    bind(&row.child.map(|child| child.index))?;
    bind(&row.child.map(|child| child.items))?;
    if let Some(content) = &row.content {
        bind(&(newest.0 as i64))?;
        bind(&(content.turns as i64))?;
        bind(&(content.events as i64))?;
        bind(&(content.tail_from as i64))?;
        bind(&content.state.as_ref().map(|state| state.turn as i64))?;
        bind(&content.tail)?;
        bind(&content.state.as_ref().map(|state| &state.bytes))?;
        bind(&row.waits)?;
    }
    statement.raw_execute()?;
    Ok(())
}

fn write_ledger(connection: &Connection, change: &LedgerChange) -> Result<(), Refused> {
    match change {
        LedgerChange::Put(row) => put(connection, row),
        LedgerChange::Drop { key } => {
            connection.prepare_cached("DELETE FROM ledger WHERE key = ?1")?.execute([&**key])?;
            Ok(())
        }
        LedgerChange::Ended { execution, at } => ended(connection, *execution, *at),
    }
}

/// An attempt that is pending belongs to an execution that runs, whatever it did before.
fn put(connection: &Connection, row: &LedgerRow) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO ledger (key, wire_key, execution, step, round, status, started_at, completed_at, result, error)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (key) DO UPDATE SET wire_key = ?2, execution = ?3, step = ?4, round = ?5, status = ?6,
             started_at = ?7, completed_at = ?8, result = ?9, error = ?10,
             ended_at = CASE WHEN ?11 THEN NULL ELSE ended_at END",
    )?;
    statement.execute(params![
        &*row.key,
        row.wire_key.to_string(),
        row.execution.to_string(),
        &*row.step,
        row.round,
        words::ledger_name(row.status),
        row.started_at.0,
        row.completed_at.map(|at| at.0),
        row.result.as_deref(),
        row.error.as_deref(),
        row.status == LedgerStatus::Pending,
    ])?;
    Ok(())
}

fn ended(connection: &Connection, execution: ExecutionId, at: Timestamp) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached("UPDATE ledger SET ended_at = ?2 WHERE execution = ?1")?;
    statement.execute(params![execution.to_string(), at.0])?;
    Ok(())
}

fn write_totals(connection: &Connection, shard: Shard, totals: &Totals) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO counter (shard, name, value) VALUES (?1, ?2, ?3)
         ON CONFLICT (shard, name) DO UPDATE SET value = ?3",
    )?;
    for (name, value) in Totals::NAMES.into_iter().zip(totals.values()) {
        statement.execute(params![shard.0, name, value as i64])?;
    }
    Ok(())
}
