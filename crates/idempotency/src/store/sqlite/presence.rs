//! Detects whether another process has the file open, and ends the leases of dead processes.
//!
//! A killed process leaves leases behind, and the next claim would wait until they run out although no process can
//! complete them. So a process that is alone with the file while opening it stores the newest epoch: operations under
//! this or an older epoch have no lease any more. Two processes never both run a handler, because of this order:
//!
//! 1. Every open store holds a lock beside the file, shared with all others. It is the kernel's, and ends with the
//!    process in any case; a stopped process keeps it. It is taken before the first claim, and released when the last
//!    of handle, thread and connections is gone.
//! 2. The epoch is stored only under the same lock taken exclusively, so while no process holds it. A process with a
//!    grant up to that epoch is gone.
//! 3. Every living process has larger epochs, and they stay larger: while it holds the lock, nobody stores a new limit.
//! 4. The limit is read after the lock is held, so that it is the same for all living processes.
//!
//! A second witness must agree: SQLite, which knows whether any other connection to the database is open. That detects
//! programs without this lock, such as earlier versions of this one, and a lock whose file was removed. The lock in
//! turn detects a process that lost SQLite's locks because it opened and closed the file by itself. If locks do not
//! work, no limit is stored, and leases run out by the clock. Epochs fence everything as always.

use super::Options;
use super::rows;
use super::schema;
use super::trouble::Trouble;
use crate::store::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Proof that this process is known to have the file open. `None`: locks do not work here.
pub(super) struct Presence(
    #[expect(dead_code, reason = "it is held, and let go of when this is dropped")] Option<File>,
);

impl Presence {
    /// Takes the lock. A process that is alone ends the leases of earlier ones.
    pub(super) fn enter(path: &Path, options: &Options) -> Result<Self, StoreError> {
        // Names that SQLite takes for databases of one connection.
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Ok(Self::nowhere());
        }
        let lock =
            match File::options().read(true).write(true).create(true).truncate(false).open(beside(path)) {
                Ok(lock) => lock,
                // The database itself will report the problem.
                Err(error) => return Ok(Self::without(&error)),
            };
        match lock.try_lock() {
            Ok(()) => {
                match end_leases(path) {
                    Ok(()) => {}
                    Err(error) => {
                        tracing::debug!(%error, "the leases of earlier processes are left to run out");
                    }
                }
                if let Err(error) = lock.unlock() {
                    return Ok(Self::without(&error));
                }
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Ok(Self::without(&error)),
        }
        // Nothing is claimed yet, so a process that opens the file in between loses nothing.
        let until = Instant::now() + options.busy_for;
        loop {
            match lock.try_lock_shared() {
                Ok(()) => return Ok(Self(Some(lock))),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(schema::PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Unavailable(
                        "another process does not come to the end of opening it".into(),
                    ));
                }
                Err(TryLockError::Error(error)) => return Ok(Self::without(&error)),
            }
        }
    }

    /// For a database that no other process can open.
    pub(super) fn nowhere() -> Self {
        Self(None)
    }

    fn without(error: &std::io::Error) -> Self {
        tracing::warn!(%error, "there is no lock beside the file: leases of a process that is killed run out by the clock");
        Self(None)
    }
}

/// The lock file. It is the same for all names of the database.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push("-open");
    name.into()
}

/// Stores the newest epoch, if this is the only open connection. On an error it is unknown whether there are others.
fn end_leases(path: &Path) -> rusqlite::Result<()> {
    const NOTE: &str = "
        INSERT INTO main.idempotency_meta
        SELECT 'void', max(value, ifnull((SELECT max(epoch) FROM main.idempotency_record WHERE epoch < ?1), 0))
        FROM main.idempotency_meta WHERE key = 'epoch'
        ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE value < excluded.value";
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A connection in this mode is the only one, or fails.
    connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    if schema::is_ours(&connection)? {
        connection.execute(NOTE, [rows::EPOCHS_END])?;
    }
    connection.execute_batch("COMMIT")
}

/// Leases up to this epoch have ended.
pub(super) fn void(connection: &Connection) -> Result<u64, StoreError> {
    let read = "SELECT ifnull(max(value), 0) FROM main.idempotency_meta WHERE key = 'void'";
    let void: i64 = connection.query_row(read, [], |row| row.get(0)).map_err(Trouble::told)?;
    Ok(void.cast_unsigned())
}
