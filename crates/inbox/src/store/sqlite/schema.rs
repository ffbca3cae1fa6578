//! The tables, and how a connection to them is opened.
//!
//! The names are prefixed, because the file may hold the user's own tables too; handlers write to those in the row's own
//! transaction. A claim reads `inbox_ready`, which has only rows that may be claimed now or later: neither ended rows nor rows behind
//! another of their ordering key are in it.

use super::Options;
use super::writer::Trouble;
use crate::store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::path::Path;
use std::time::{Duration, Instant};

/// The version of the tables below.
const VERSION: i64 = 1;
/// Statements that are kept ready.
const STATEMENTS: usize = 64;
/// Earlier versions can spoil a file that two connections write to.
const SQLITE_OLDEST: i32 = 3_051_003;
/// The log is copied into the file when it has grown by so many pages.
const LOG_PAGES: u32 = 4_000;
/// Below zero, the unit is a kibibyte and not a page.
const CACHE_KIB: i64 = -16_384;
/// Before looking again whether another process has opened the file by now.
const PAUSE: Duration = Duration::from_millis(2);

const TABLES: &str = "
    CREATE TABLE inbox_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE inbox_row (
        number INTEGER PRIMARY KEY,     -- the order of arrival
        inbox TEXT NOT NULL,
        tenant TEXT NOT NULL,
        id TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('PENDING', 'DOING', 'DONE', 'DEAD')),
        received_at INTEGER NOT NULL,   -- all instants are microseconds since 1970
        claimed_at INTEGER,
        processed_at INTEGER,
        attempts INTEGER NOT NULL,
        not_before INTEGER NOT NULL,
        ordering_key TEXT,
        head INTEGER NOT NULL,          -- the one of its ordering key that may be worked
        lease_until INTEGER,
        owner TEXT,
        epoch INTEGER NOT NULL,
        fingerprint BLOB NOT NULL,
        last_error TEXT,
        payload BLOB NOT NULL,          -- last, so that what is looked at first is never on another page
        UNIQUE (inbox, tenant, id)
    ) STRICT;
    CREATE INDEX inbox_status ON inbox_row (status, received_at);
    CREATE INDEX inbox_ready ON inbox_row (inbox, tenant, not_before, number) WHERE status = 'PENDING' AND head = 1;
    CREATE UNIQUE INDEX inbox_head ON inbox_row (inbox, tenant, ordering_key) WHERE ordering_key IS NOT NULL AND head = 1;
    CREATE INDEX inbox_waiting ON inbox_row (inbox, tenant, ordering_key, number)
        WHERE ordering_key IS NOT NULL AND status = 'PENDING' AND head = 0;
    INSERT INTO inbox_meta VALUES ('version', 1), ('number', 0); -- the newest number and epoch
";

/// A program that does not bundle SQLite has whichever is installed.
fn fit(version: i32) -> Result<(), StoreError> {
    if version >= SQLITE_OLDEST {
        return Ok(());
    }
    let why = "the program is linked to an SQLite older than 3.51.3: build it with the feature `bundled`";
    Err(StoreError::Unfit(why.to_owned()))
}

/// A connection to the file, or to the file that it makes.
pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let until = Instant::now() + options.busy_for;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.busy_for)?;
        let log: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        Ok((connection, log))
    };
    loop {
        match open() {
            // Switching a file to its log finds it locked without waiting, whatever the time-out is.
            Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(PAUSE),
            Err(error) => return Err(Trouble::told(error)),
            Ok((connection, log)) if log == "wal" => return Ok(connection),
            Ok((_, log)) => {
                return Err(StoreError::Unfit(format!(
                    "there is no write-ahead log beside the file, its journal_mode is {log:?}: use a local disk"
                )));
            }
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// Sets a connection up, and makes the tables where they are not there.
pub(super) fn prepare(connection: &Connection, options: &Options) -> Result<(), StoreError> {
    fit(rusqlite::version_number())?;
    let set = || {
        connection.busy_timeout(options.busy_for)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB)
    };
    set().map_err(Trouble::told)?;
    migrate(connection)?;
    (options.prepare)(connection)
        .map_err(|error| StoreError::Unfit(format!("the tables could not be prepared: {error}")))
}

/// Makes the tables, or sees that they are ours and not from a later version.
fn migrate(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(Trouble::told)?;
    let migrated = version(connection).map_err(Trouble::told).and_then(|version| match version {
        None => connection.execute_batch(TABLES).map_err(Trouble::told),
        Some(VERSION) => Ok(()),
        Some(version) => Err(StoreError::Unfit(format!(
            "the file's tables are of version {version} and this program knows {VERSION}: use the newer program, or \
             another file"
        ))),
    });
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end).map_err(Trouble::told);
    migrated.and(ended)
}

/// The version of the file's tables. `None`: there are none yet.
fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let tables = "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'inbox_meta'";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let version = "SELECT value FROM main.inbox_meta WHERE key = 'version'";
    connection.query_row(version, [], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_sqlite_that_can_spoil_a_file_is_refused() {
        for (version, is_fit) in [(3_040_001, false), (3_051_002, false), (3_051_003, true)] {
            assert_eq!(super::fit(version).is_ok(), is_fit, "{version}");
        }
    }
}
