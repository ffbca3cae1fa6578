//! The tables, and opening connections to them.
//!
//! A record's rowid is its epoch, so claims are appended and completions rewrite recently appended rows, whatever the
//! order of the operations' ids; only the small index over these ids is written at random places. Measured with a
//! million answers of 1 KiB against a record keyed by its id, and against answers in a table of their own, this was the
//! fastest to claim, to complete, to read and to sweep, and the smallest.
//!
//! A claim writes only the row and the index over ids: no counter, because epochs continue from the newest row, and no
//! place in the order of sweeps, because a sweep gives running operations their place. Sweeps find them by reading the
//! rows that are new since the last one.
//!
//! The names have a prefix and the version is a row of ours, because the file may contain the user's own tables too.

use super::Options;
use super::trouble::Trouble;
use crate::store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::path::Path;
use std::time::{Duration, Instant};

/// The version of the tables below.
const VERSION: i64 = 1;
/// The number of cached statements.
const STATEMENTS: usize = 64;
/// The cache of the writing connection, and of each reading one.
const WRITER_CACHE_KIB: i64 = 16_384;
const READER_CACHE_KIB: i64 = 4_096;
/// Earlier versions can damage a file that two connections write to.
const SQLITE_OLDEST: i32 = 3_051_003;
/// The log is copied into the file after it has grown by so many pages.
const LOG_PAGES: u32 = 4_000;
/// The pause before checking again whether another process has finished opening the file.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

const TABLES: &str = "
    CREATE TABLE idempotency_meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE idempotency_record (
        epoch INTEGER PRIMARY KEY,
        operation BLOB NOT NULL UNIQUE,
        scope BLOB NOT NULL,
        request BLOB NOT NULL,
        claimant BLOB NOT NULL,
        taken_over INTEGER NOT NULL,
        first_at INTEGER NOT NULL,
        state INTEGER NOT NULL, -- 0 running, 1 unknown, 2 completed
        until_at INTEGER,       -- while it runs; all instants are microseconds since 1970
        ended_at INTEGER,
        expires_at INTEGER,
        gone_at INTEGER,
        sweep_at INTEGER,       -- when a sweep has something to do here; null before it was noted, and where it is damaged
        answer BLOB             -- last, so that what is looked at first is never on another page
    ) STRICT;
    CREATE INDEX idempotency_sweep ON idempotency_record (sweep_at) WHERE sweep_at IS NOT NULL;
    CREATE INDEX idempotency_unknown ON idempotency_record (ended_at) WHERE state = 1;
    INSERT INTO idempotency_meta VALUES ('version', 1),
        ('epoch', 0),           -- the newest of a row that was removed
        ('noted', 0);           -- up to this epoch, whatever still runs has its sweep_at
        -- 'void': up to this epoch, nobody is left who holds a lease; there once somebody was alone with the file
";

/// A program that does not bundle SQLite uses the installed one.
fn fit(version: i32) -> Result<(), StoreError> {
    if version >= SQLITE_OLDEST {
        return Ok(());
    }
    let why = "the program is linked to an SQLite older than 3.51.3: build it with the feature `bundled`";
    Err(StoreError::Unfit(why.to_owned()))
}

/// A connection for the writer.
pub(super) fn connect(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    fit(rusqlite::version_number())?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.busy_for)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // If the mode cannot be set, this is no error: the answer is the actual mode.
        let log: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        // Deleted bytes are overwritten at once, not only on erasure: each rewrite of a row would leave its old bytes.
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        // Below zero, the unit is a kibibyte and not a page.
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        if let Some(pages) = options.pages_max {
            // The answer is the new value.
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        }
        Ok((connection, log))
    };
    match patiently(options.busy_for, open).map_err(Trouble::told)? {
        (connection, log) if log == "wal" => Ok(connection),
        (_, log) => Err(StoreError::Unfit(format!(
            "there is no write-ahead log beside the file, its journal_mode is {log:?}: use a file on a local disk, or the \
             memory store"
        ))),
    }
}

/// A read-only connection.
pub(super) fn connect_reader(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.busy_for)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
        Ok(connection)
    };
    patiently(options.busy_for, open).map_err(Trouble::told)
}

/// Opens it, with retries while another process opens it too: switching a file to WAL finds it locked and fails at
/// once, whatever the timeout is.
fn patiently<T>(busy_for: Duration, open: impl Fn() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let until = Instant::now() + busy_for;
    loop {
        match open() {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < until =>
            {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Creates the tables, or checks that they are ours and not from a later version.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
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

/// Whether the tables exist, with this version.
pub(super) fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version(connection)? == Some(VERSION))
}

/// The version of the file's tables. `None`: there are none yet.
fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    // By a query: a schema cached before another process created the table would be wrong.
    let tables = "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'idempotency_meta'";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    let version = "SELECT value FROM idempotency_meta WHERE key = 'version'";
    connection.query_row(version, [], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_sqlite_that_can_spoil_a_file_is_refused() {
        for (version, is_fit) in
            [(3_040_001, false), (3_051_002, false), (3_051_003, true), (3_054_001, true)]
        {
            assert_eq!(super::fit(version).is_ok(), is_fit, "{version}");
        }
    }
}
