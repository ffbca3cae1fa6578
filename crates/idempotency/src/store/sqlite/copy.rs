//! Copies and checks a file while it is in use.

use super::trouble::Trouble;
use crate::store::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long to wait for another process that writes.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of operations.
    pub records: u64,
    pub faults: Vec<String>,
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_FOR)?;
    Ok(connection)
}

/// Writes a snapshot of the file to another one, which must be empty or not exist. It is not synced.
pub fn copy(path: &Path, to: &Path) -> Result<(), StoreError> {
    let name =
        to.to_str().ok_or_else(|| StoreError::Unfit("the name of a copy is to be UTF-8".to_owned()))?;
    let copied = connect(path).and_then(|connection| Ok(connection.execute("VACUUM INTO ?1", [name])?));
    copied.map(drop).map_err(StoreError::from)
}

/// Checks all of the file.
pub fn check(path: &Path) -> Result<Checked, StoreError> {
    let read = || -> Result<Checked, Trouble> {
        let connection = connect(path)?;
        let mut found = connection.prepare("PRAGMA integrity_check")?;
        let found = found.query_map((), |row| row.get::<_, String>(0))?;
        let mut faults: Vec<String> = found.collect::<Result<_, _>>()?;
        faults.retain(|fault| fault != "ok");
        let count = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, i64>(0));
        let damaged = count(
            "SELECT count(*) FROM idempotency_record WHERE state NOT BETWEEN 0 AND 2 OR length(operation) <> 16",
        )?;
        if damaged > 0 {
            faults.push(format!("{damaged} records cannot be read"));
        }
        let records = count("SELECT count(*) FROM idempotency_record")?;
        Ok(Checked { records: u64::try_from(records).unwrap_or_default(), faults })
    };
    read().map_err(StoreError::from)
}
