//! Durable memory in one SQLite file.
//!
//! The data directory holds `perdura.db` with its log, and `lock`, which the one process that writes holds. Readers
//! need no lock. A commit is one transaction that is synced before it is acknowledged. After an error with unknown
//! effect on the disk, the handle refuses all further work: the caller must open the file again and read what is there.

mod aside;
mod audit;
mod backup;
mod check;
mod checkpoint;
mod commit;
mod erase;
mod fault;
mod labels;
mod lock;
mod machines;
mod map_runs;
mod mode;
mod names;
mod read;
mod recover;
mod registry;
mod restore;
mod room;
mod rows;
mod schema;
mod sweep;

pub use backup::backup;
pub use check::{Checked, Finding, News, check};
pub use mode::Tightened;
pub use read::SqliteReader;
pub use restore::{Restored, restore};

use crate::audit::{Chain, Entries, Entry, Origin, Subject, Verb, erasing};
use crate::group::Group;
use crate::lease::{Claim, Lease, Position, Renewal, Shard};
use crate::machine::{MachineChange, MachineRecord, NewMachine, Registered, Registry, Revised};
use crate::store::{
    Aside, Catalog, CommitError, Erased, Failure, FailureKind, Reader, Recovery, Room, Store, Swept,
};
use checkpoint::Checkpointer;
use fault::{Files, Trouble, io};
use lock::Lock;
use names::Names;
use perdura_engine::{ExecutionId, Timestamp};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Writers wait this long for each other before they return busy.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// The number of cached statements.
const STATEMENTS: usize = 64;
/// Earlier versions can damage a file when two connections copy the log at once.
const SQLITE_OLDEST: i32 = 3_051_003;
const PAGE_BYTES: u32 = 4_096;

/// Options for opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The number of Shards of a new installation; an existing one keeps its number.
    pub shards: u16,
    /// The file never has more pages of 4096 bytes than this; a write beyond it fails as on a full disk.
    pub pages_max: Option<u32>,
    /// The size of the page cache.
    pub cache_bytes: u32,
    /// The size at which the log is copied into the file.
    pub log_bytes: u32,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { shards: 1, pages_max: None, cache_bytes: 64 << 20, log_bytes: 16 << 20 }
    }
}

/// A handle that writes. Only one process can have one: a second process is refused.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    files: Files,
    options: SqliteOptions,
    shards: u16,
    restored_at: Option<Timestamp>,
    /// Why this handle refuses all work.
    lost: Option<Failure>,
    /// Shared with the other handles of this process; the lock goes last.
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    checkpointer: Checkpointer,
    names: Arc<Names>,
    tightened: Vec<Tightened>,
    /// This process has begun no incarnation yet: all existing ones belong to processes that are gone.
    is_first: Mutex<bool>,
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the data in a folder, or creates it. Opening changes no existing data, so that it works on a full disk
    /// too.
    pub fn open(folder: &Path, options: SqliteOptions) -> Result<Self, Failure> {
        let files = Files::of(folder);
        let tightened = mode::close(&files)?;
        let lock = Lock::take(&files)?;
        let connection = connect(&files, &options)?;
        schema::migrate(&connection, &files, options.shards)?;
        sync_folder(folder)?;
        let pages = (options.log_bytes / PAGE_BYTES) as i32;
        let checkpointer = Checkpointer::start(connect(&files, &options)?, files.clone(), pages)?;
        let names = Arc::default();
        let is_first = Mutex::new(true);
        let shared = Arc::new(Shared { checkpointer, names, tightened, is_first, _lock: lock });
        Self::with(connection, files, options, shared)
    }

    /// Files and folders that others could access when the data was opened, for a line in the log.
    pub fn tightened(&self) -> &[Tightened] {
        &self.shared.tightened
    }

    /// Another handle in this process, for a second node on the same data.
    pub fn beside(&self) -> Result<Self, Failure> {
        let connection = connect(&self.files, &self.options)?;
        Self::with(connection, self.files.clone(), self.options, self.shared.clone())
    }

    fn with(
        connection: Connection,
        files: Files,
        options: SqliteOptions,
        shared: Arc<Shared>,
    ) -> Result<Self, Failure> {
        let meta = |key: &str| read::meta(&connection, key);
        let shards = meta("shards").map_err(|trouble| files.failure("reading", trouble))?;
        let restored_at = meta("restored_at").map_err(|trouble| files.failure("reading", trouble))?;
        let shards = shards_of(shards, &files)?;
        let restored_at = restored_at.map(Timestamp);
        Ok(Self { connection, files, options, shards, restored_at, lost: None, shared })
    }

    /// Runs a change in one transaction: all of it or nothing.
    fn transact<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Connection) -> Result<T, Refused>,
    ) -> Result<T, CommitError> {
        self.ready()?;
        let done = run(&self.connection, "BEGIN IMMEDIATE").map_err(Refused::from);
        match done.and_then(|()| work(&self.connection)) {
            Ok(done) => match run(&self.connection, "COMMIT") {
                Ok(()) => {
                    self.shared.checkpointer.desk.grown(&self.connection);
                    Ok(done)
                }
                // Whatever the error says, even "busy": from here on the content of the disk is unknown.
                Err(trouble) => Err(self.lose(doing, trouble)),
            },
            Err(refused) => Err(self.refused(doing, refused)),
        }
    }

    /// Reads in one transaction without changing anything. SQLite would not commit after reading a damaged page.
    fn look<T>(
        &mut self,
        doing: &str,
        work: impl FnOnce(&Connection) -> Result<T, Refused>,
    ) -> Result<T, CommitError> {
        self.ready()?;
        let seen = run(&self.connection, "BEGIN").map_err(Refused::from);
        match seen.and_then(|()| work(&self.connection)) {
            Ok(seen) => match run(&self.connection, "ROLLBACK") {
                Ok(()) => Ok(seen),
                Err(trouble) => Err(self.lose(doing, trouble)),
            },
            Err(refused) => Err(self.refused(doing, refused)),
        }
    }

    /// Checks that the handle is good, and keeps the log short.
    fn ready(&mut self) -> Result<(), CommitError> {
        let desk = &self.shared.checkpointer.desk;
        if let Err(trouble) = desk.finish(&self.connection) {
            desk.fail(self.files.failure("checkpointing", trouble));
        }
        match self.lost.clone().or_else(|| desk.failure()) {
            Some(lost) => Err(CommitError::Lost(lost)),
            None => Ok(()),
        }
    }

    fn refused(&mut self, doing: &str, refused: Refused) -> CommitError {
        match refused {
            Refused::Fenced(error) => self.back(doing, error),
            Refused::Wrong(why) => {
                let what = self.files.what(doing);
                self.back(doing, Failure { what, why, kind: FailureKind::Corrupt }.into())
            }
            Refused::Trouble(trouble) if trouble.is_busy() => self.back(doing, CommitError::Busy),
            Refused::Trouble(trouble) if trouble.is_conflict() => {
                let failure = self.files.failure(doing, trouble);
                self.back(doing, failure.into())
            }
            Refused::Trouble(trouble) => {
                let error = self.lose(doing, trouble);
                // Leaves nothing half done for the other handles; if the rollback fails, closing the file does it.
                let _ = run(&self.connection, "ROLLBACK");
                error
            }
        }
    }

    /// Nothing was written, and the handle is as good as before.
    fn back(&mut self, doing: &str, error: CommitError) -> CommitError {
        if self.connection.is_autocommit() {
            return error;
        }
        match run(&self.connection, "ROLLBACK") {
            Ok(()) => error,
            Err(trouble) => self.lose(doing, trouble),
        }
    }

    fn lose(&mut self, doing: &str, trouble: Trouble) -> CommitError {
        let lost = self.files.failure(doing, trouble);
        self.lost = Some(lost.clone());
        CommitError::Lost(lost)
    }
}

/// The number of Shards stored in a file.
fn shards_of(said: Option<i64>, files: &Files) -> Result<u16, Failure> {
    said.and_then(|shards| u16::try_from(shards).ok())
        .ok_or_else(|| files.refusal("it does not say into how many Shards it is divided"))
}

/// Why a transaction must not be committed.
enum Refused {
    Fenced(CommitError),
    /// The caller asks for something invalid.
    Wrong(String),
    Trouble(Trouble),
}

impl<T: Into<Trouble>> From<T> for Refused {
    fn from(trouble: T) -> Self {
        Self::Trouble(trouble.into())
    }
}

/// Adds the change to the audit, if there is a requester.
fn note(
    connection: &Connection,
    by: Option<&Arc<Origin>>,
    entry: impl FnOnce(&Arc<Origin>) -> Entry,
) -> Result<(), Refused> {
    by.map_or(Ok(()), |by| audit::note(connection, &entry(by)))
}

fn run(connection: &Connection, sql: &str) -> Result<(), Trouble> {
    Ok(connection.prepare_cached(sql)?.execute([]).map(|_| ())?)
}

/// Checks SQLite's version: a program that does not bundle SQLite uses the installed one.
fn fit(version: i32, files: &Files) -> Result<(), Failure> {
    if version >= SQLITE_OLDEST {
        return Ok(());
    }
    Err(files
        .refusal("the program is linked to an SQLite older than 3.51.3: build it with the feature `bundled`"))
}

fn connect(files: &Files, options: &SqliteOptions) -> Result<Connection, Failure> {
    fit(rusqlite::version_number(), files)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let open = || -> Result<Connection, rusqlite::Error> {
        let connection = Connection::open_with_flags(&files.db, flags)?;
        connection.busy_timeout(BUSY_FOR)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        // The pragma applies to an empty file, and to one that is rewritten. Setting it again would write.
        let vacuum: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
        if vacuum != room::INCREMENTAL {
            connection.pragma_update(None, "auto_vacuum", room::INCREMENTAL)?;
        }
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        // Deleted data is overwritten on every delete: none of it stays on free pages until an erasure.
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -i64::from(options.cache_bytes / 1024))?;
        if let Some(pages) = options.pages_max {
            connection.pragma_update(None, "max_page_count", pages)?;
        }
        Ok(connection)
    };
    open().map_err(|error| files.failure("opening", error.into()))
}

/// A new file survives a power cut only once its folder is synced.
fn sync_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(|error| io("syncing", folder, &error))
}

impl Catalog for SqliteStore {
    fn deploy(
        &mut self,
        machine: &NewMachine,
        by: Option<&Arc<Origin>>,
    ) -> Result<MachineRecord, CommitError> {
        self.transact("writing to", |connection| {
            let before = machines::machine(connection, &machine.name)?;
            let record = machines::deploy(connection, machine)?;
            note(connection, by, |by| Entry::deployed(by, before.as_ref(), &record))?;
            Ok(record)
        })
    }

    fn revise(
        &mut self,
        change: &MachineChange<'_>,
        by: Option<&Arc<Origin>>,
    ) -> Result<Revised, CommitError> {
        self.transact("writing to", |connection| {
            let before = machines::head(connection, &change.name)?;
            let revised = machines::revise(connection, change)?;
            note(connection, by, |by| Entry::revised(by, &change.name, before.as_ref(), &revised))?;
            Ok(revised)
        })
    }

    fn register(&mut self, entry: &Registered, by: Option<&Arc<Origin>>) -> Result<(), CommitError> {
        self.transact("writing to", |connection| {
            let was_there = registry::one(connection, entry.kind, &entry.name)?.is_some();
            registry::register(connection, entry)?;
            note(connection, by, |by| Entry::registered(by, entry, was_there))
        })
    }

    fn unregister(
        &mut self,
        kind: Registry,
        name: &str,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        self.transact("writing to", |connection| {
            let was_there = registry::unregister(connection, kind, name)?;
            note(connection, by, |by| Entry::unregistered(by, kind, name, was_there))?;
            Ok(was_there)
        })
    }

    fn sweep(
        &mut self,
        going: &[(ExecutionId, Timestamp)],
        ledger_before: Timestamp,
        ledger_most: u32,
        by: Option<&Arc<Origin>>,
    ) -> Result<Swept, CommitError> {
        self.transact("sweeping", |connection| {
            let (swept, gone) = sweep::sweep(connection, going, ledger_before, ledger_most)?;
            if swept.executions + swept.ledger > 0 {
                note(connection, by, |by| Entry::swept(by, gone, swept.ledger))?;
            }
            Ok(swept)
        })
    }

    fn cut_audit(&mut self, before: Timestamp, most: u32, by: &Arc<Origin>) -> Result<u64, CommitError> {
        self.transact("cutting the audit in", |connection| audit::cut(connection, before, most, by))
    }

    fn give_back(&mut self, pages: u32, reserves: bool) -> Result<Room, CommitError> {
        let (room, given) = self.transact("giving room back in", |connection| {
            Ok(room::give_back(connection, pages, reserves)?)
        })?;
        if given && !room.more {
            // SQLite truncates the file when the log has been copied.
            self.shared.checkpointer.desk.copy();
        }
        Ok(room)
    }

    fn scrub(&mut self) -> Result<bool, CommitError> {
        self.ready()?;
        let truncate = "PRAGMA main.wal_checkpoint(TRUNCATE)";
        match self.connection.query_row(truncate, [], |row| row.get::<_, bool>(0)).map_err(Trouble::from) {
            Ok(is_blocked) => Ok(!is_blocked),
            Err(trouble) if trouble.is_busy() => Ok(false),
            Err(trouble) => Err(self.lose("scrubbing", trouble)),
        }
    }

    fn rewrite_small(&mut self, bytes_max: u64) -> Result<bool, CommitError> {
        self.ready()?;
        let small = room::used(&self.connection).map(|bytes| bytes <= bytes_max);
        let rewritten = small.and_then(|is_small| {
            if is_small {
                self.connection.execute_batch("VACUUM")?;
            }
            Ok(is_small)
        });
        match rewritten {
            Ok(is_small) => Ok(is_small),
            Err(trouble) if trouble.is_busy() => Err(CommitError::Busy),
            // Nothing of it was committed, and what is there is as it was.
            Err(trouble) if trouble.is_full() => Ok(false),
            Err(trouble) => Err(self.lose("writing anew", trouble)),
        }
    }

    fn rewrite(&mut self) -> Result<Room, CommitError> {
        self.ready()?;
        // It may be larger than memory: what does not fit into the cache goes through a file that has no name.
        let rewrite =
            "PRAGMA temp_store = file; VACUUM; PRAGMA temp_store = memory; PRAGMA wal_checkpoint(TRUNCATE)";
        let room = self.connection.execute_batch(rewrite).map_err(Trouble::from);
        match room.and_then(|()| room::free(&self.connection)) {
            Ok(room) => Ok(room),
            Err(trouble) if trouble.is_busy() => Err(CommitError::Busy),
            Err(trouble) => Err(self.lose("writing anew", trouble)),
        }
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Failure> {
        let names = self.shared.names.clone();
        Ok(Box::new(SqliteReader::open(&self.files.folder)?.with_names(names)))
    }
}

impl Store for SqliteStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Lease, CommitError> {
        let shared = self.shared.clone();
        let mut is_first = shared.is_first.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = self.transact("taking a lease in", |connection| {
            if *is_first {
                // The lock proves that they are gone: there is no need to wait for the clock.
                connection.execute("UPDATE incarnation SET holder = NULL WHERE holder IS NOT NULL", [])?;
            }
            commit::acquire(connection, claim)
        })?;
        *is_first = false;
        Ok(lease)
    }

    fn renew(&mut self, lease: &mut Lease, renewal: Renewal) -> Result<(), CommitError> {
        self.transact("renewing a lease in", |connection| commit::renew(connection, lease, renewal))?;
        lease.expires_at = renewal.expires_at;
        Ok(())
    }

    fn release(&mut self, lease: &Lease) -> Result<(), CommitError> {
        self.transact("releasing a lease in", |connection| commit::release(connection, lease))
    }

    fn recover(&mut self, lease: &Lease) -> Result<Recovery, CommitError> {
        let shards = self.shards;
        let recovery = self.look("recovering from", |connection| {
            commit::fence(connection, lease)?;
            Ok(recover::recover(connection, lease, shards)?)
        })?;
        self.shared.names.recovered(lease.shards.len() == usize::from(shards));
        Ok(recovery)
    }

    fn newest(&mut self, lease: &Lease) -> Result<Position, CommitError> {
        self.transact("reading", |connection| {
            commit::fence(connection, lease)?;
            Ok(commit::newest(connection, lease.incarnation)?)
        })
    }

    fn commit(&mut self, group: &Group) -> Result<(), CommitError> {
        let shards = self.shards;
        self.transact("writing to", |connection| commit::commit(connection, group, shards))?;
        self.shared.names.written(&group.rows);
        Ok(())
    }

    fn set_aside(&mut self, lease: &Lease, aside: &[Aside]) -> Result<(), CommitError> {
        self.transact("setting aside in", |connection| {
            commit::fence(connection, lease)?;
            aside::set(connection, aside)
        })
    }

    fn erase(
        &mut self,
        lease: &Lease,
        ended: &[(ExecutionId, Timestamp)],
        at: Timestamp,
        by: Option<&Arc<Origin>>,
    ) -> Result<Erased, CommitError> {
        let shards = self.shards;
        self.transact("erasing in", |connection| {
            commit::fence(connection, lease)?;
            let erased = erase::erase(connection, ended, at)?;
            for (chain, entries) in erasing(&erased, ended, shards, by) {
                audit::append(connection, chain, &entries)?;
            }
            Ok(erased)
        })
    }

    fn give_up(
        &mut self,
        lease: &Lease,
        execution: ExecutionId,
        by: Option<&Arc<Origin>>,
    ) -> Result<bool, CommitError> {
        let chain = Chain::Shard(Shard::of(execution, self.shards));
        let is_gone = self.transact("giving up in", |connection| {
            commit::fence(connection, lease)?;
            let is_gone = aside::give_up(connection, lease.incarnation, execution)?;
            if let Some(by) = by.filter(|_| is_gone) {
                let entry = Entry::done(by, Verb::GiveUp, Subject::execution(execution));
                audit::append(connection, chain, &Entries::from(&entry))?;
            }
            Ok(is_gone)
        })?;
        self.shared.names.given_up(execution);
        Ok(is_gone)
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.restored_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_that_can_spoil_a_file_is_refused() {
        let files = Files::of(Path::new("data"));
        for (version, is_fit) in
            [(3_040_001, false), (3_051_002, false), (3_051_003, true), (3_054_001, true)]
        {
            assert_eq!(fit(version, &files).is_ok(), is_fit, "{version}");
        }
    }

    #[test]
    fn after_a_copy_that_failed_nothing_more_is_written() {
        let folder = std::env::temp_dir().join(format!("perdura-store-unit-{}", std::process::id()));
        let mut store = SqliteStore::open(&folder, SqliteOptions::default()).unwrap();
        let claim = Claim { holder: "a".into(), most: 1, now: Timestamp(0), expires_at: Timestamp(i64::MAX) };
        let lease = store.acquire(&claim).unwrap();
        store.commit(&Group::under(lease.clone())).unwrap();
        let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        let trouble = Trouble::from(rusqlite::Error::SqliteFailure(error, None));
        store.shared.checkpointer.desk.fail(store.files.failure("checkpointing", trouble));
        let mut beside = store.beside().unwrap();
        for handle in [&mut store, &mut beside] {
            let result = handle.commit(&Group::under(lease.clone()));
            assert!(
                matches!(&result, Err(CommitError::Lost(lost)) if lost.kind == FailureKind::Io),
                "{result:?}"
            );
        }
        drop((store, beside));
        let mut store = SqliteStore::open(&folder, SqliteOptions::default()).unwrap();
        let lease = store.acquire(&claim).unwrap();
        store.commit(&Group::under(lease)).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
