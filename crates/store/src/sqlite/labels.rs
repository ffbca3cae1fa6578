//! The labels of executions, in a table for searches. An execution without labels costs no statement.

use super::fault::Trouble;
use crate::group::Row;
use crate::record::Damage;
use perdura_engine::Labels;
use rusqlite::{Connection, ToSql, params};

/// Writes the labels of a row that lists show. They never change, so a later row of the execution finds them there.
pub(super) fn write(connection: &Connection, row: &Row) -> Result<(), Trouble> {
    if row.labels.is_empty() || row.child.is_some() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR IGNORE INTO label (key, value, began_at, execution) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (key, value) in row.labels.iter() {
        statement.execute(params![&**key, &**value, row.started_at.0, super::rows::id_of(row.execution)])?;
    }
    Ok(())
}

/// Deletes an execution's row with its labels; returns how many rows were deleted. Labels that cannot be parsed stay,
/// and lead to no execution.
pub(super) fn take(connection: &Connection, delete: &str, whose: impl ToSql) -> Result<usize, Trouble> {
    let mut statement = connection.prepare_cached(delete)?;
    let mut rows = statement.query([whose])?;
    let mut gone = 0;
    while let Some(row) = rows.next()? {
        gone += 1;
        let (id, began_at): ([u8; 16], i64) = (row.get(0)?, row.get(1)?);
        let Ok(labels) = read(row.get(2)?) else { continue };
        forget(connection, &labels, id, began_at)?;
    }
    Ok(gone)
}

/// Removes these labels, so that no list finds the execution by them.
pub(super) fn forget(
    connection: &Connection,
    labels: &Labels,
    execution: [u8; 16],
    began_at: i64,
) -> Result<(), Trouble> {
    for (key, value) in labels.iter() {
        connection
            .prepare_cached(
                "DELETE FROM label WHERE key = ?1 AND value = ?2 AND began_at = ?3 AND execution = ?4",
            )?
            .execute(params![&**key, &**value, began_at, execution])?;
    }
    Ok(())
}

/// Whether the table lacks a label of a row that lists show.
pub(super) fn missing(connection: &Connection, row: &Row) -> Result<bool, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT 1 FROM label WHERE key = ?1 AND value = ?2 AND began_at = ?3 AND execution = ?4",
    )?;
    for (key, value) in row.labels.iter().filter(|_| row.child.is_none()) {
        if !statement.exists(params![
            &**key,
            &**value,
            row.started_at.0,
            super::rows::id_of(row.execution)
        ])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The text of labels in a row.
pub(super) fn text(labels: &Labels) -> Option<String> {
    let is_there = !labels.is_empty();
    is_there.then(|| serde_json::to_string(labels).expect("texts can be written"))
}

pub(super) fn read(text: Option<String>) -> Result<Labels, Trouble> {
    let Some(text) = text else { return Ok(Labels::default()) };
    serde_json::from_str(&text)
        .map_err(|error| Trouble::Damage(Damage(format!("labels cannot be read: {error}"))))
}
