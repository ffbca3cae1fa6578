//! Writing, and checking the right to write. Each function runs within a transaction.

use super::Refused;
use super::fault::Trouble;
use super::rows::{NUMBER_BITS, id_of, journal_id, journal_range, position_of};
use super::{audit, labels};
use crate::audit::Chain;
use crate::gather;
use crate::group::{Group, LedgerChange, LedgerRow, Row, Segment, Totals};
use crate::lease::{Claim, Incarnation, Lease, Position, Renewal, Shard};
use crate::record;
use crate::store::CommitError;
use crate::words;
use perdura_engine::{ExecutionId, LedgerStatus, Timestamp};
use rusqlite::{Connection, OptionalExtension, Statement, params};
use std::collections::BTreeSet;

/// Refuses a lease whose incarnation was ended.
pub(super) fn fence(connection: &Connection, lease: &Lease) -> Result<(), Refused> {
    let number = lease.incarnation.0 as i64;
    let lives = connection
        .prepare_cached("SELECT 1 FROM incarnation WHERE number = ?1 AND holder IS NOT NULL")?
        .exists([number])?;
    if lives {
        return Ok(());
    }
    Err(Refused::Fenced(CommitError::Fenced { held: lease.incarnation, newest: latest(connection)? }))
}

fn latest(connection: &Connection) -> Result<Incarnation, Trouble> {
    let number: i64 =
        connection.query_row("SELECT coalesce(max(number), 0) FROM incarnation", [], |row| row.get(0))?;
    Ok(Incarnation(number as u64))
}

/// Begins an incarnation, which follows all expired ones.
pub(super) fn acquire(connection: &Connection, claim: &Claim) -> Result<Lease, Refused> {
    let incarnation = Incarnation(latest(connection)?.0 + 1);
    let steady_at: Option<i64> =
        connection.query_row("SELECT max(steady_at) FROM incarnation", [], |row| row.get(0))?;
    let mut over = connection.prepare_cached(
        "SELECT number FROM incarnation WHERE holder IS NULL OR holder = ?1 OR expires_at < ?2",
    )?;
    let over: Vec<i64> =
        over.query_map(params![&*claim.holder, claim.now.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut counted = Vec::new();
    for number in over {
        counted.push(totals(connection, Incarnation(number as u64))?);
        for sql in [
            "DELETE FROM incarnation WHERE number = ?1",
            "DELETE FROM counter WHERE incarnation = ?1",
            "UPDATE shard SET incarnation = NULL WHERE incarnation = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([number])?;
        }
    }
    connection
        .prepare_cached(
            "INSERT INTO incarnation (number, holder, expires_at, steady_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![incarnation.0 as i64, &*claim.holder, claim.expires_at.0, steady_at])?;
    write_totals(connection, incarnation, &gather::sum(counted))?;
    let shards = connection
        .prepare_cached(
            "UPDATE shard SET incarnation = ?1 WHERE number IN
                 (SELECT number FROM shard WHERE incarnation IS NULL ORDER BY number LIMIT ?2)
             RETURNING number",
        )?
        .query_map(params![incarnation.0 as i64, claim.most], |row| row.get(0).map(Shard))?
        .collect::<Result<BTreeSet<_>, _>>()?;
    Ok(Lease {
        incarnation,
        shards: shards.into_iter().collect(),
        holder: claim.holder.clone(),
        expires_at: claim.expires_at,
        steady_at: steady_at.map(Timestamp),
    })
}

pub(super) fn renew(connection: &Connection, lease: &Lease, renewal: Renewal) -> Result<(), Refused> {
    fence(connection, lease)?;
    connection
        .prepare_cached("UPDATE incarnation SET expires_at = ?2, steady_at = ?3 WHERE number = ?1")?
        .execute(params![lease.incarnation.0 as i64, renewal.expires_at.0, renewal.steady_at.0])?;
    Ok(())
}

/// Ends the incarnation: nothing more can be written under it.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Refused> {
    fence(connection, lease)?;
    connection
        .prepare_cached("UPDATE incarnation SET holder = NULL WHERE number = ?1")?
        .execute([lease.incarnation.0 as i64])?;
    Ok(())
}

pub(super) fn commit(connection: &Connection, group: &Group, shards: u16) -> Result<(), Refused> {
    fence(connection, &group.lease)?;
    let incarnation = group.lease.incarnation;
    let mut newest = newest(connection, incarnation)?;
    if let Some(position) = group.position {
        let next = newest.next();
        if position != next {
            return Err(Refused::Wrong(format!("journal row {position}, where row {next} belongs")));
        }
        // First: the new row reuses the pages of the deleted ones, which are then written once.
        forget_journal(connection, group, position)?;
        connection
            .prepare_cached("INSERT INTO journal (id, turns) VALUES (?1, ?2)")?
            .execute(params![journal_id(position), group.journal])?;
        newest = position;
    } else {
        forget_journal(connection, group, newest)?;
    }
    for segment in &group.segments {
        write_segment(connection, segment)?;
    }
    write_rows(connection, shards, newest, &group.rows)?;
    for change in &group.ledger {
        write_ledger(connection, change)?;
    }
    for map_run in &group.map_runs {
        super::map_runs::write(connection, map_run)?;
    }
    if let Some(totals) = &group.totals {
        write_totals(connection, incarnation, totals)?;
    }
    for (shard, entries) in &group.audit {
        audit::append(connection, Chain::Shard(*shard), entries)?;
    }
    Ok(())
}

/// Deletes rows that are no longer needed: of this incarnation, and of earlier ones once all their Shards have moved
/// on.
fn forget_journal(connection: &Connection, group: &Group, newest: Position) -> Result<(), Refused> {
    let (first, keep_from) =
        (journal_range(group.lease.incarnation).0, journal_id(group.keep_from.min(newest)));
    connection
        .prepare_cached("DELETE FROM journal WHERE id >= ?1 AND id < ?2")?
        .execute([first, keep_from])?;
    let mut oldest = connection.prepare_cached("SELECT id FROM journal ORDER BY id LIMIT 1")?;
    let oldest: Option<i64> = oldest.query_row([], |row| row.get(0)).optional()?;
    let keep_from = journal_id(group.keep_from);
    if oldest.is_some_and(|oldest| oldest < first && oldest < keep_from) {
        connection
            .prepare_cached("UPDATE shard SET keep_from = max(keep_from, ?2) WHERE incarnation = ?1")?
            .execute([group.lease.incarnation.0 as i64, keep_from])?;
        connection
            .prepare_cached(
                "DELETE FROM journal WHERE id < (SELECT min(keep_from) FROM shard)
                     AND (id >> ?1) NOT IN (SELECT number FROM incarnation)",
            )?
            .execute([NUMBER_BITS])?;
    }
    Ok(())
}

/// The last journal row of an incarnation, or the position before its first.
pub(super) fn newest(connection: &Connection, incarnation: Incarnation) -> Result<Position, Trouble> {
    let (first, last) = journal_range(incarnation);
    let mut statement = connection
        .prepare_cached("SELECT id FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1")?;
    let id: Option<i64> = statement.query_row([first, last], |row| row.get(0)).optional()?;
    Ok(id.map_or(Position::before(incarnation), position_of))
}

/// The counters of an incarnation and its predecessors: from the newest row that can be read, or from the beginning of
/// the incarnation.
pub(super) fn totals(connection: &Connection, incarnation: Incarnation) -> Result<Totals, Trouble> {
    let (first, last) = journal_range(incarnation);
    let mut statement = connection
        .prepare_cached("SELECT turns FROM journal WHERE id >= ?1 AND id <= ?2 ORDER BY id DESC")?;
    let mut rows = statement.query([first, last])?;
    loop {
        let turns = rows.next().and_then(|row| row.map(|row| row.get::<_, Vec<u8>>(0)).transpose());
        match turns.map_err(Trouble::from) {
            Ok(Some(turns)) => {
                if let Ok((totals, _)) = record::read_journal(&turns) {
                    return Ok(totals);
                }
            }
            Ok(None) => break,
            // A damaged page hides the rows behind it; recovery reports it.
            Err(trouble) if trouble.is_damage() => break,
            Err(trouble) => return Err(trouble),
        }
    }
    let mut counter =
        connection.prepare_cached("SELECT value FROM counter WHERE incarnation = ?1 AND name = ?2")?;
    let mut values = [0; Totals::NAMES.len()];
    for (value, name) in values.iter_mut().zip(Totals::NAMES) {
        let said: Option<i64> =
            counter.query_row(params![incarnation.0 as i64, name], |row| row.get(0)).optional()?;
        *value = said.unwrap_or(0) as u64;
    }
    Ok(Totals::from_values(&values))
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
        wake_wall_at, redrives, redriven_at, version, alias, map_run, child, items, labels, root_key, error)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
    ON CONFLICT (id) DO UPDATE SET shard = ?2, machine = ?3, revision = ?4, name = ?5, status = ?6, awake = ?7,
        started_at = ?8, ended_at = ?9, wake_at = ?10, wake_wall_at = ?11, redrives = ?12, redriven_at = ?13,
        version = ?14, alias = ?15, map_run = ?16, child = ?17, items = ?18, labels = ?19, root_key = ?20, error = ?21";

const WRITE_ROW: &str = "
    INSERT INTO execution (id, shard, machine, revision, name, status, awake, started_at, ended_at, wake_at,
        wake_wall_at, redrives, redriven_at, version, alias, map_run, child, items, labels, root_key, error,
        covered_at, turns, events, tail_from, state_turn, tail, state, waits)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
        ?24, ?25, ?26, ?27, ?28, ?29)
    ON CONFLICT (id) DO UPDATE SET shard = ?2, machine = ?3, revision = ?4, name = ?5, status = ?6, awake = ?7,
        started_at = ?8, ended_at = ?9, wake_at = ?10, wake_wall_at = ?11, redrives = ?12, redriven_at = ?13,
        version = ?14, alias = ?15, map_run = ?16, child = ?17, items = ?18, labels = ?19, root_key = ?20, error = ?21,
        covered_at = ?22, turns = ?23, events = ?24, tail_from = ?25, state_turn = ?26, tail = ?27, state = ?28,
        waits = ?29";

fn write_rows(connection: &Connection, shards: u16, newest: Position, rows: &[Row]) -> Result<(), Refused> {
    if rows.is_empty() {
        return Ok(());
    }
    // Prepared once for all rows: looking up such a long text takes a while.
    let mut whole = connection.prepare_cached(WRITE_ROW)?;
    let mut listed = connection.prepare_cached(LIST_ROW)?;
    let is_aside = super::aside::is_any(connection)?;
    for row in rows {
        let statement = if row.content.is_some() { &mut whole } else { &mut listed };
        write_row(statement, Shard::of(row.execution, shards), newest, row)?;
        labels::write(connection, row)?;
        if is_aside && row.content.is_some() {
            super::aside::take_back(connection, row.execution)?;
        }
    }
    Ok(())
}

/// The value of `waits`: a held execution waits too, because a new process may find that nothing holds it any more.
fn waits(row: &Row) -> i64 {
    if row.held { super::rows::HELD } else { i64::from(row.waits) }
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
    bind(&labels::text(&row.labels))?;
    bind(&row.root_key.as_deref())?;
    bind(&row.error.as_deref())?;
    if let Some(content) = &row.content {
        bind(&journal_id(newest))?;
        bind(&(content.turns as i64))?;
        bind(&(content.events as i64))?;
        bind(&(content.tail_from as i64))?;
        bind(&content.state.as_ref().map(|state| state.turn as i64))?;
        bind(&content.tail)?;
        bind(&content.state.as_ref().map(|state| &state.bytes))?;
        bind(&waits(row))?;
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

/// A pending attempt belongs to a running execution, whatever its row said before.
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

fn write_totals(connection: &Connection, incarnation: Incarnation, totals: &Totals) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO counter (incarnation, name, value) VALUES (?1, ?2, ?3)
         ON CONFLICT (incarnation, name) DO UPDATE SET value = ?3",
    )?;
    for (name, value) in Totals::NAMES.into_iter().zip(totals.values()) {
        statement.execute(params![incarnation.0 as i64, name, value as i64])?;
    }
    Ok(())
}
