//! The tables of Map Runs and their children.

use super::Refused;
use super::fault::Trouble;
use super::read::list;
use super::rows::{self, execution_of, full_row, id_of, unknown};
use crate::group::{MapRunRow, Row};
use crate::store::{ChildStatus, Filter, Summary};
use crate::words;
use perdura_engine::{ExecutionId, MapRunBounds, MapRunCounts, Status, Tally, Timestamp};
use rusqlite::{Connection, params};
use std::cmp::Reverse;
use std::sync::Arc;
use uuid::Uuid;

/// The columns in the order of [`map_run`].
const COLUMNS: &str = "id, arn, execution, status, started_at, ended_at, redrives, redriven_at, max_concurrency,
    tolerated_count, tolerated_percentage, source_version, items_total, items_running, items_succeeded, items_failed,
    items_timed_out, items_aborted, children_total, children_running, children_succeeded, children_failed,
    children_timed_out, children_aborted, results_written";

pub(super) fn write(connection: &Connection, row: &MapRunRow) -> Result<(), Refused> {
    let mut statement = connection.prepare_cached(&format!(
        "INSERT INTO map_run ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
             ?23, ?24, ?25)
         ON CONFLICT (id) DO UPDATE SET status = ?4, ended_at = ?6, redrives = ?7, redriven_at = ?8,
             max_concurrency = ?9, tolerated_count = ?10, tolerated_percentage = ?11, source_version = ?12,
             items_total = ?13, items_running = ?14, items_succeeded = ?15, items_failed = ?16,
             items_timed_out = ?17, items_aborted = ?18, children_total = ?19, children_running = ?20,
             children_succeeded = ?21, children_failed = ?22, children_timed_out = ?23, children_aborted = ?24,
             results_written = ?25"
    ))?;
    let (items, children) = (row.counts.items, row.counts.children);
    statement.execute(params![
        row.id.into_bytes(),
        &*row.arn,
        id_of(row.execution),
        row.status.name(),
        row.started_at.0,
        row.ended_at.map(|at| at.0),
        row.redrives,
        row.redriven_at.map(|at| at.0),
        row.bounds.max_concurrency as i64,
        row.bounds.tolerated_count.map(|count| count as i64),
        row.bounds.tolerated_percentage,
        row.source_version.as_deref(),
        items.total as i64,
        items.running as i64,
        items.succeeded as i64,
        items.failed as i64,
        items.timed_out as i64,
        items.aborted as i64,
        children.total as i64,
        children.running as i64,
        children.succeeded as i64,
        children.failed as i64,
        children.timed_out as i64,
        children.aborted as i64,
        row.results_written as i64,
    ])?;
    Ok(())
}

fn status(name: &str) -> Result<Status, Trouble> {
    words::status(name).ok_or_else(|| unknown("status", name))
}

fn map_run(row: &rusqlite::Row<'_>) -> Result<MapRunRow, Trouble> {
    let number = |index: usize| Ok::<_, Trouble>(row.get::<_, i64>(index)? as u64);
    let time = |index: usize| Ok::<_, Trouble>(row.get::<_, Option<i64>>(index)?.map(Timestamp));
    let tally = |first: usize| {
        Ok::<_, Trouble>(Tally {
            total: number(first)?,
            running: number(first + 1)?,
            succeeded: number(first + 2)?,
            failed: number(first + 3)?,
            timed_out: number(first + 4)?,
            aborted: number(first + 5)?,
        })
    };
    Ok(MapRunRow {
        id: Uuid::from_bytes(row.get(0)?),
        arn: row.get::<_, Arc<str>>(1)?,
        execution: execution_of(row.get(2)?),
        status: status(&row.get::<_, String>(3)?)?,
        started_at: Timestamp(row.get(4)?),
        ended_at: time(5)?,
        redrives: row.get(6)?,
        redriven_at: time(7)?,
        bounds: MapRunBounds {
            max_concurrency: number(8)?,
            tolerated_count: row.get::<_, Option<i64>>(9)?.map(|count| count as u64),
            tolerated_percentage: row.get(10)?,
        },
        source_version: row.get(11)?,
        counts: MapRunCounts { items: tally(12)?, children: tally(18)? },
        results_written: number(24)?,
    })
}

/// Runs whose parent exists, selected by the rest of the query.
fn runs(connection: &Connection, rest: &str, id: [u8; 16]) -> Result<Vec<MapRunRow>, Trouble> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM map_run WHERE NOT orphaned AND {rest} = ?1"))?;
    let mut rows = statement.query([id])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(map_run(row)?);
    }
    found.sort_by_key(|run| (run.started_at, run.id));
    Ok(found)
}

pub(super) fn one(connection: &Connection, run: Uuid) -> Result<Option<MapRunRow>, Trouble> {
    Ok(runs(connection, "id", run.into_bytes())?.pop())
}

pub(super) fn of(connection: &Connection, execution: ExecutionId) -> Result<Vec<MapRunRow>, Trouble> {
    runs(connection, "execution", id_of(execution))
}

/// The query for runs with status RUNNING.
pub(super) fn running_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM map_run INDEXED BY map_run_running
         WHERE ended_at IS NULL AND NOT orphaned AND id > ?1 ORDER BY id LIMIT ?2"
    )
}

pub(super) fn running(
    connection: &Connection,
    after: Option<Uuid>,
    most: u32,
) -> Result<Vec<MapRunRow>, Trouble> {
    let mut statement = connection.prepare_cached(&running_sql())?;
    let after = after.map_or_else(Vec::new, |after| after.into_bytes().to_vec());
    let mut rows = statement.query(params![after, most])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(map_run(row)?);
    }
    Ok(found)
}

/// Children with one status, redriven or not, in the order of the index.
const STRETCH: &str = "FROM execution INDEXED BY execution_child
    WHERE map_run = ?1 AND status = ?2 AND (redrives > 0) = ?3 AND child";

/// The parts of the index that a filter needs.
fn stretches(filter: &Filter) -> impl Iterator<Item = (Status, bool)> {
    let redriven = filter.redriven;
    list::statuses(filter)
        .flat_map(|status| [(status, false), (status, true)])
        .filter(move |(_, is)| redriven.is_none_or(|wanted| wanted == *is))
}

/// The query for one part of the index of children.
pub(super) fn first_sql() -> String {
    format!("SELECT child, row, items {STRETCH} >= ?4 ORDER BY child LIMIT ?5")
}

/// The first children from this one on, each with its row and status, from the index alone.
fn first(
    connection: &Connection,
    run: Uuid,
    from: u32,
    most: u32,
) -> Result<Vec<(i64, ChildStatus)>, Trouble> {
    let mut statement = connection.prepare_cached(&first_sql())?;
    let mut found = Vec::new();
    for (status, redriven) in stretches(&Filter::default()) {
        let values = params![run.into_bytes(), status.name(), redriven, from, most];
        let rows = statement.query_map(values, |row| {
            let items = row.get::<_, Option<u32>>(2)?.unwrap_or(1);
            Ok((row.get(1)?, ChildStatus { index: row.get(0)?, status, items }))
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    found.sort_unstable_by_key(|(_, child)| child.index);
    found.truncate(most as usize);
    Ok(found)
}

pub(super) fn child_statuses(
    connection: &Connection,
    run: Uuid,
    from: u32,
    most: u32,
) -> Result<Vec<ChildStatus>, Trouble> {
    Ok(first(connection, run, from, most)?.into_iter().map(|(_, child)| child).collect())
}

pub(super) fn children(
    connection: &Connection,
    run: Uuid,
    from: u32,
    most: u32,
) -> Result<Vec<Row>, Trouble> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {} FROM execution WHERE row = ?1", rows::ROW))?;
    let mut found = Vec::new();
    for (row, _) in first(connection, run, from, most)? {
        let mut rows = statement.query([row])?;
        if let Some(row) = rows.next()? {
            found.push(full_row(row)?);
        }
    }
    Ok(found)
}

/// The query for one part of the list of children.
pub(super) fn list_sql() -> String {
    format!("SELECT {} {STRETCH} < ?4 ORDER BY child DESC LIMIT ?5", rows::SUMMARY)
}

/// Children, the last one first.
pub(super) fn list(
    connection: &Connection,
    run: Uuid,
    filter: &Filter,
    most: u32,
) -> Result<Vec<Summary>, Trouble> {
    let before = filter.before_child.map_or(i64::MAX, i64::from);
    let mut statement = connection.prepare_cached(&list_sql())?;
    let mut found = Vec::new();
    for (status, redriven) in stretches(filter) {
        let mut rows = statement.query(params![run.into_bytes(), status.name(), redriven, before, most])?;
        while let Some(row) = rows.next()? {
            found.push(rows::summary(row)?);
        }
    }
    found.sort_unstable_by_key(|summary| Reverse(summary.child));
    found.truncate(most as usize);
    Ok(found)
}

/// Runs whose parents were deleted.
pub(super) fn orphaned(connection: &Connection) -> Result<Vec<[u8; 16]>, Trouble> {
    let mut statement = connection.prepare_cached("SELECT id FROM map_run WHERE orphaned ORDER BY id")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// An execution is deleted: marks its Map Runs as orphaned. Returns whether it has any.
pub(super) fn orphan(connection: &Connection, execution: ExecutionId) -> Result<bool, Trouble> {
    let mut statement = connection.prepare_cached("UPDATE map_run SET orphaned = 1 WHERE execution = ?1")?;
    Ok(statement.execute([id_of(execution)])? > 0)
}

/// Deletes a run without children; returns whether it was deleted.
pub(super) fn take_if_empty(connection: &Connection, run: [u8; 16]) -> Result<bool, Trouble> {
    let gone = connection
        .prepare_cached(
            "DELETE FROM map_run WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM execution WHERE map_run = ?1)",
        )?
        .execute([run])?;
    Ok(gone > 0)
}

/// Executions below this one: the children of its runs, and theirs.
pub(super) fn descendants(connection: &Connection, execution: ExecutionId) -> Result<(u64, u64), Trouble> {
    let (count, bytes): (i64, i64) = connection
        .prepare_cached(
            "WITH RECURSIVE run (id) AS (
                 SELECT id FROM map_run WHERE execution = ?1
                 UNION ALL
                 SELECT m.id FROM run JOIN execution e ON e.map_run = run.id JOIN map_run m ON m.execution = e.id)
             SELECT count(*), coalesce(sum(256 + coalesce(length(e.tail), 0) + coalesce(length(e.state), 0)), 0)
             FROM run JOIN execution e ON e.map_run = run.id",
        )?
        .query_row([id_of(execution)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((count as u64, bytes as u64))
}
