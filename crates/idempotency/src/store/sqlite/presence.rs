//! Who else has the file open, and whose leases nobody can hold any more.
//!
//! A process that was killed leaves leases behind, and whoever asks next would wait until they run out although nobody is
//! left who could end them. So whoever is alone with the file while opening it notes the newest epoch: what runs under this
//! one or an older one has no lease any more. That two processes never both run a handler follows from the order:
//!
//! 1. Every open store holds a lock beside the file, shared with all others. It is the kernel's, and ends with the process
//!    however that ends; a process that is stopped keeps it. It is taken before the first claim, and let go of when the
//!    last of handle, thread and connections is gone.
//! 2. The epoch is noted only under the same lock taken alone, so while nobody holds it. Whoever was granted an epoch up
//!    to that one is gone.
//! 3. Whoever lives was granted a larger one, and it stays larger: while it holds the lock, nobody notes anything.
//! 4. The note is read after the lock is held, so that it is the same for all who live.
//!
//! A second witness has to agree: SQLite, which says whether any other connection to the database is open. That finds
//! programs that take no such lock, as earlier versions of this one, and a lock whose file somebody removed. The lock in
//! turn finds a process that lost SQLite's locks because it opened and closed the file by itself. Where locks do not work,
//! nothing is noted, and leases run out by the clock. Epochs fence all of it as ever.

use super::Options;
use super::rows;
use super::schema;
use super::trouble::Trouble;
use crate::store::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whoever has this is known to have the file open. `None`: there is no lock to be had.
pub(super) struct Presence(
    #[expect(dead_code, reason = "it is held, and let go of when this is dropped")] Option<File>,
);

impl Presence {
    /// Comes in. Who is alone ends the leases of those before.
    pub(super) fn enter(path: &Path, options: &Options) -> Result<Self, StoreError> {
        // Names that SQLite takes for databases of one connection.
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Ok(Self::nowhere());
        }
        let lock =
            match File::options().read(true).write(true).create(true).truncate(false).open(beside(path)) {
                Ok(lock) => lock,
                // The database itself will tell what is the matter.
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
        // Nothing is claimed yet, so that whoever comes in between takes nothing from here.
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

    /// Of a database that nobody else can open.
    pub(super) fn nowhere() -> Self {
        Self(None)
    }

    fn without(error: &std::io::Error) -> Self {
        tracing::warn!(%error, "there is no lock beside the file: leases of a process that is killed run out by the clock");
        Self(None)
    }
}

/// The file that the lock is on. It is the same for all names of the database.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push("-open");
    name.into()
}

/// Notes the newest epoch, as the only one who has the database open. An error: it is not known that nobody else has.
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
    // A connection in this mode is the only one, or none.
    connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
    connection.execute_batch("BEGIN EXCLUSIVE")?;
    if schema::is_ours(&connection)? {
        connection.execute(NOTE, [rows::EPOCHS_END])?;
    }
    connection.execute_batch("COMMIT")
}

/// Up to this epoch, nobody holds a lease.
pub(super) fn void(connection: &Connection) -> Result<u64, StoreError> {
    let read = "SELECT ifnull(max(value), 0) FROM main.idempotency_meta WHERE key = 'void'";
    let void: i64 = connection.query_row(read, [], |row| row.get(0)).map_err(Trouble::told)?;
    Ok(void.cast_unsigned())
}
