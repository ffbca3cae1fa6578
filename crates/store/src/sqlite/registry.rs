//! The registry: named things that are not machines.

use super::Refused;
use super::fault::Trouble;
use crate::machine::{Registered, Registry};
use crate::words;
use perdura_engine::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) fn register(connection: &Connection, entry: &Registered) -> Result<(), Refused> {
    connection.execute(
        "INSERT INTO registry (kind, name, created_at, body) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (kind, name) DO UPDATE SET created_at = ?3, body = ?4",
        params![words::registry_name(entry.kind), &*entry.name, entry.created_at.0, entry.body],
    )?;
    Ok(())
}

pub(super) fn unregister(connection: &Connection, kind: Registry, name: &str) -> Result<bool, Refused> {
    let gone = connection.execute(
        "DELETE FROM registry WHERE kind = ?1 AND name = ?2",
        params![words::registry_name(kind), name],
    )?;
    Ok(gone > 0)
}

fn read(kind: Registry, row: &rusqlite::Row<'_>) -> Result<Registered, rusqlite::Error> {
    let (name, created_at, body) = (row.get(0)?, Timestamp(row.get(1)?), row.get(2)?);
    Ok(Registered { kind, name, created_at, body })
}

/// Sorted by name; no entry has an empty name.
pub(super) fn registered(
    connection: &Connection,
    kind: Registry,
    after: Option<&str>,
    most: u32,
) -> Result<Vec<Registered>, Trouble> {
    let mut statement = connection.prepare_cached(
        "SELECT name, created_at, body FROM registry WHERE kind = ?1 AND name > ?2 ORDER BY name LIMIT ?3",
    )?;
    let values = params![words::registry_name(kind), after.unwrap_or(""), most];
    let rows = statement.query_map(values, |row| read(kind, row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn one(
    connection: &Connection,
    kind: Registry,
    name: &str,
) -> Result<Option<Registered>, Trouble> {
    let mut statement = connection
        .prepare_cached("SELECT name, created_at, body FROM registry WHERE kind = ?1 AND name = ?2")?;
    let values = params![words::registry_name(kind), name];
    Ok(statement.query_row(values, |row| read(kind, row)).optional()?)
}
