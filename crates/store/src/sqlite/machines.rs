//! Definitions, and which of them counts.

use super::Refused;
use super::fault::Trouble;
use super::rows::unknown;
use crate::group::{MachineId, RevisionId};
use crate::machine::{BLANK, Head, MachineChange, MachineRecord, NewMachine, NewRevision, Revised};
use crate::words;
use perdura_engine::Timestamp;
use perdura_engine::asl::machine::MachineType;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

const RECORD: &str = "SELECT m.id, r.id, m.name, r.kind, r.definition, r.role_arn, r.settings, r.created_at
    FROM revision r JOIN machine m ON m.id = r.machine";

/// Definitions selected by the rest of the query.
fn records(
    connection: &Connection,
    rest: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<MachineRecord>, Trouble> {
    let mut statement = connection.prepare_cached(&format!("{RECORD} {rest}"))?;
    let mut rows = statement.query(values)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(MachineRecord {
            machine: MachineId(row.get::<_, i64>(0)? as u64),
            revision: RevisionId(row.get::<_, i64>(1)? as u64),
            name: row.get(2)?,
            kind: kind(&row.get::<_, String>(3)?)?,
            definition: row.get(4)?,
            role_arn: row.get(5)?,
            settings: row.get(6)?,
            created_at: Timestamp(row.get(7)?),
        });
    }
    Ok(records)
}

fn kind(name: &str) -> Result<MachineType, Trouble> {
    words::kind(name).ok_or_else(|| unknown("kind", name))
}

pub(super) fn revision(
    connection: &Connection,
    revision: RevisionId,
) -> Result<Option<MachineRecord>, Trouble> {
    Ok(records(connection, "WHERE r.id = ?1", [revision.0 as i64])?.pop())
}

/// The definition that counts.
pub(super) fn machine(connection: &Connection, name: &str) -> Result<Option<MachineRecord>, Trouble> {
    Ok(records(connection, "AND r.id = m.revision WHERE m.name = ?1", [name])?.pop())
}

pub(super) fn machines(connection: &Connection) -> Result<Vec<MachineRecord>, Trouble> {
    records(connection, "AND r.id = m.revision WHERE m.revision IS NOT NULL ORDER BY m.name", [])
}

/// Also for a deleted machine.
pub(super) fn name(connection: &Connection, machine: MachineId) -> Result<Option<Arc<str>>, Trouble> {
    let mut statement = connection.prepare_cached("SELECT name FROM machine WHERE id = ?1")?;
    Ok(statement.query_row([machine.0 as i64], |row| row.get(0)).optional()?)
}

pub(super) const HEADS: &str = "SELECT m.id, m.name, r.kind, m.revision, m.created_at, m.changed, m.card
    FROM machine m INDEXED BY machine_there CROSS JOIN revision r ON r.id = m.revision
    WHERE m.revision IS NOT NULL AND";

fn read_heads(
    connection: &Connection,
    rest: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<Head>, Trouble> {
    let mut statement = connection.prepare_cached(&format!("{HEADS} {rest}"))?;
    let mut rows = statement.query(values)?;
    let mut heads = Vec::new();
    while let Some(row) = rows.next()? {
        heads.push(Head {
            machine: MachineId(row.get::<_, i64>(0)? as u64),
            name: row.get(1)?,
            kind: kind(&row.get::<_, String>(2)?)?,
            revision: RevisionId(row.get::<_, i64>(3)? as u64),
            created_at: Timestamp(row.get(4)?),
            changed: row.get::<_, i64>(5)? as u64,
            card: row.get(6)?,
        });
    }
    Ok(heads)
}

pub(super) fn head(connection: &Connection, name: &str) -> Result<Option<Head>, Trouble> {
    Ok(read_heads(connection, "m.name = ?1", [name])?.pop())
}

/// Sorted by name; no machine has an empty name.
pub(super) fn heads(connection: &Connection, after: Option<&str>, most: u32) -> Result<Vec<Head>, Trouble> {
    let page = "m.name > ?1 ORDER BY m.name LIMIT ?2";
    read_heads(connection, page, params![after.unwrap_or(""), most])
}

/// Reads only the index: cards can be large.
pub(super) fn count(connection: &Connection) -> Result<usize, Trouble> {
    let count = "SELECT count(*) FROM machine INDEXED BY machine_there WHERE revision IS NOT NULL";
    let count: i64 = connection.prepare_cached(count)?.query_row([], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

pub(super) fn deploy(connection: &Connection, new: &NewMachine) -> Result<MachineRecord, Refused> {
    let revision = new.revision();
    if let Some(same) = machine(connection, &new.name)?.filter(|counts| counts.says(&revision)) {
        return Ok(same);
    }
    let record = keep(connection, &new.name, &revision)?;
    counts(connection, &record.name, record.revision, record.created_at)?;
    Ok(record)
}

pub(super) fn revise(connection: &Connection, change: &MachineChange<'_>) -> Result<Revised, Refused> {
    let before = head(connection, &change.name)?;
    if before.as_ref().map(|head| head.changed) != change.seen {
        return Ok(Revised::Otherwise(before));
    }
    let (revision, at) = match (&change.revision, &before) {
        (Some(new), _) => (keep(connection, &change.name, new)?.revision, new.at),
        (None, Some(head)) => (head.revision, head.created_at),
        (None, None) => return Ok(Revised::Gone),
    };
    if let Some(card) = (change.card)(revision) {
        counts(connection, &change.name, revision, at)?;
        connection.execute("UPDATE machine SET card = ?2 WHERE name = ?1", params![&*change.name, &*card])?;
    } else {
        connection.execute(
            "UPDATE machine SET revision = NULL, changed = changed + 1, card = ?2 WHERE name = ?1",
            params![&*change.name, BLANK],
        )?;
    }
    Ok(head(connection, &change.name)?.map_or(Revised::Gone, Revised::Stands))
}

/// Stores a definition; it does not count yet.
fn keep(connection: &Connection, name: &Arc<str>, new: &NewRevision) -> Result<MachineRecord, Refused> {
    connection.execute(
        "INSERT INTO machine (name, changed, card) VALUES (?1, 0, ?2) ON CONFLICT DO NOTHING",
        params![&**name, BLANK],
    )?;
    let id: i64 =
        connection.query_row("SELECT id FROM machine WHERE name = ?1", [&**name], |row| row.get(0))?;
    connection.execute(
        "INSERT INTO revision (machine, kind, definition, role_arn, settings, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            id,
            words::kind_name(new.kind),
            &*new.definition,
            new.role_arn.as_deref(),
            new.settings.as_deref(),
            new.at.0
        ],
    )?;
    Ok(MachineRecord {
        machine: MachineId(id as u64),
        revision: RevisionId(connection.last_insert_rowid() as u64),
        name: name.clone(),
        kind: new.kind,
        definition: new.definition.clone(),
        role_arn: new.role_arn.clone(),
        settings: new.settings.clone(),
        created_at: new.at,
    })
}

/// Makes this definition count from now on. Creates the machine if it does not exist.
fn counts(connection: &Connection, name: &str, revision: RevisionId, now: Timestamp) -> Result<(), Refused> {
    connection.execute(
        "UPDATE machine SET revision = ?2, changed = changed + 1,
             created_at = CASE WHEN revision IS NULL THEN ?3 ELSE created_at END
         WHERE name = ?1",
        params![name, revision.0 as i64, now.0],
    )?;
    Ok(())
}
