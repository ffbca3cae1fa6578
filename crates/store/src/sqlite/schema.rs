//! The tables, and the migration of older files.
//!
//! Migrations only move forward. Each is a piece of SQL that is applied once, in order; `user_version` counts them.
//! docs/storage.md describes the tables for users of `sqlite3`.

use super::fault::{Files, Trouble};
use crate::store::{Failure, FailureKind};
use rusqlite::Connection;

/// Marks a file as ours: "perd".
pub(super) const APPLICATION_ID: i32 = 0x7065_7264;

/// All migrations; a change of the tables adds one at the end.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("0001_tables.sql"),
    include_str!("0002_reach.sql"),
    include_str!("0003_map_runs.sql"),
    include_str!("0004_heads.sql"),
    include_str!("0005_aside.sql"),
    include_str!("0006_steady.sql"),
    include_str!("0007_map_runs.sql"),
    include_str!("0008_incarnations.sql"),
    include_str!("0009_labels.sql"),
    include_str!("0010_audit.sql"),
    include_str!("0011_erase.sql"),
    include_str!("0012_held.sql"),
];

/// Creates the tables, or migrates them.
pub(super) fn migrate(connection: &Connection, files: &Files, shards: u16) -> Result<(), Failure> {
    let fail = |error: Trouble| files.failure("preparing", error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| fail(error.into()))?;
    let done = apply(connection, files, shards);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end).map_err(|error| fail(error.into()));
    done.and(ended)
}

fn apply(connection: &Connection, files: &Files, shards: u16) -> Result<(), Failure> {
    let fail = |error: rusqlite::Error| files.failure("preparing", error.into());
    let version = version(connection, files)?;
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(version) {
        connection.execute_batch(sql).map_err(fail)?;
        connection.pragma_update(None, "user_version", index as i64 + 1).map_err(fail)?;
    }
    if version == 0 {
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
        connection
            .execute_batch(
                "INSERT INTO meta (key, value) VALUES ('installation', lower(hex(randomblob(16))))",
            )
            .map_err(fail)?;
        let shards = i64::from(shards.max(1));
        connection.execute("INSERT INTO meta (key, value) VALUES ('shards', ?1)", [shards]).map_err(fail)?;
        for shard in 0..shards {
            connection.execute("INSERT INTO shard (number) VALUES (?1)", [shard]).map_err(fail)?;
        }
    }
    Ok(())
}

/// How many migrations the file has seen. A foreign file, or one from a newer version, is refused.
pub(super) fn version(connection: &Connection, files: &Files) -> Result<usize, Failure> {
    let number = |pragma: &str| -> Result<i64, Failure> {
        connection
            .pragma_query_value(None, pragma, |row| row.get(0))
            .map_err(|error| files.failure("opening", error.into()))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application != i64::from(APPLICATION_ID) {
        let empty = application == 0 && version == 0 && number("schema_version")? == 0;
        return if empty {
            Ok(0)
        } else {
            Err(files.refusal("this is a SQLite file of another program; name another data directory"))
        };
    }
    match usize::try_from(version) {
        Ok(version) if version <= MIGRATIONS.len() => Ok(version),
        _ => Err(Failure {
            what: files.what("opening"),
            why: format!(
                "a newer perdura made it (schema {version}, this one knows {}); use that version, or restore a \
                 backup that this one made",
                MIGRATIONS.len()
            ),
            kind: FailureKind::Newer,
        }),
    }
}
