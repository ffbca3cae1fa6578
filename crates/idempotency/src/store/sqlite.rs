//! A store in one SQLite file, which several processes of one machine may share.
//!
//! Known records are read on the caller's own thread, one row by its id: replays never wait for a writer. Changes go to
//! one thread that commits for all callers, with one sync. The clock is this machine's, but never begins before the
//! newest time on record. A process that opens the file while no other has it open ends the leases of earlier
//! processes.

mod copy;
mod group;
mod guard;
mod presence;
mod rows;
mod schema;
mod session;
mod transaction;
mod trouble;
mod writer;

pub use copy::{Checked, check, copy};
pub use transaction::{NoTransaction, Transaction, TransactionError};

use super::clock::{self, Clock};
use super::wake::Bells;
use super::{Pending, Scrubbed, Store, StoreError, Swept};
use crate::record::{Claim, Claimed, Completion, Epoch, Grant, Holding, Keep, OperationId, Record, Standing};
use http::Extensions;
use presence::Presence;
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use transaction::Shares;
use writer::{Desk, Writer};

/// A sweep takes so many records per commit, so that other writes come in between.
const SWEEP_BATCH: u32 = 100;
/// So many new rows are read at once on the caller's thread, to find running operations: some milliseconds.
const NOTE_BATCH: u64 = 5_000;

/// Options for the file.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many connections can read at the same time.
    pub readers: usize,
    /// How long to wait for another process that writes.
    pub busy_for: Duration,
    /// The time limit of a handler's transaction, from its first run to its end. All other writes wait meanwhile.
    pub transaction_for: Duration,
    /// The file never has more pages of 4096 bytes than this; a write beyond it fails as on a full disk.
    pub pages_max: Option<u32>,
    /// Runs once at opening, on the connection that writes: creates the tables that handlers use in their transactions,
    /// and sets the pragmas that they rely on.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            readers: 4,
            busy_for: Duration::from_secs(5),
            transaction_for: Duration::from_secs(5),
            pages_max: None,
            prepare: |_| Ok(()),
        }
    }
}

/// A store in one SQLite file. A clone is the same handle.
#[derive(Clone)]
pub struct Sqlite(Arc<Inner>);

struct Inner {
    readers: Readers,
    writer: Writer,
    bells: Bells,
    clock: Clock,
    /// Leases up to this epoch have ended.
    void: u64,
    /// Released after the connections.
    _presence: Arc<Presence>,
}

impl Sqlite {
    /// Opens the file, or creates it. Its folder must exist.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        Self::open_on(path.as_ref(), options, |connection| Ok(clock::not_before(rows::newest(connection)?)))
    }

    /// The same, on this clock.
    pub fn open_with_clock(
        path: impl AsRef<Path>,
        options: &Options,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        Self::open_on(path.as_ref(), options, |_| Ok(clock))
    }

    fn open_on(
        path: &Path,
        options: &Options,
        clock: impl FnOnce(&Connection) -> Result<Clock, StoreError>,
    ) -> Result<Self, StoreError> {
        // Before any other use of the file, and before any claim.
        let presence = Arc::new(Presence::enter(path, options)?);
        let connection = schema::connect(path, options)?;
        schema::migrate(&connection)?;
        let void = presence::void(&connection)?;
        let clock = clock(&connection)?;
        (options.prepare)(&connection)
            .map_err(|error| StoreError::Unfit(format!("the tables could not be prepared: {error}")))?;
        let readers = Readers::open(path, options)?;
        let bells = Bells::default();
        let desk = Desk {
            connection,
            clock: clock.clone(),
            bells: bells.clone(),
            transaction_for: options.transaction_for,
            busy_for: options.busy_for,
            soiled: Arc::default(),
            void,
            _presence: presence.clone(),
        };
        let writer = Writer::start(desk)?;
        Ok(Self(Arc::new(Inner { readers, writer, bells, clock, void, _presence: presence })))
    }

    /// The current record. The clock is read first: a row that was changed since has the same state at that moment as
    /// at the time of the change. In the other order, a lease that was renewed in between would seem to have run out.
    fn record(&self, operation: OperationId) -> Result<Option<Record>, StoreError> {
        let now = group::now(&self.0.clock);
        let row = self.0.readers.with(|connection| rows::read(connection, operation, self.0.void))?;
        Ok(row.filter(|row| row.is_there(now)).map(|row| row.record(now)))
    }

    /// Reads all new rows, so that a sweep knows which operations still run. Later rows are read the next time.
    async fn note_running(&self) -> Result<(), StoreError> {
        let (mut looked_at, newest) = self.0.readers.with(rows::looked_at)?;
        while looked_at < newest {
            let up_to = newest.min(looked_at + NOTE_BATCH);
            let running = self.0.readers.with(|connection| rows::unnoted(connection, looked_at, up_to))?;
            if !running.is_empty() || up_to == newest {
                self.0.writer.ask(move |group| group.note(&running, up_to)).await?;
            } else {
                tokio::task::yield_now().await;
            }
            looked_at = up_to;
        }
        Ok(())
    }
}

/// The connections for reading.
struct Readers {
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

impl Readers {
    fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        let connections = (0..options.readers.max(1))
            .map(|_| schema::connect_reader(path, options).map(Mutex::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { connections, next: AtomicUsize::new(0) })
    }

    /// Runs work on the first free connection, or waits for one. A read leaves nothing behind that a panic could leave
    /// half done.
    fn with<T>(&self, work: impl FnOnce(&Connection) -> T) -> T {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let (before, after) = self.connections.split_at(first);
        let free = after.iter().chain(before).find_map(|connection| match connection.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        let guard =
            free.unwrap_or_else(|| self.connections[first].lock().unwrap_or_else(PoisonError::into_inner));
        work(&guard)
    }
}

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(self.0.writer.ask(move |group| group.agree(check)))
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>> {
        let claim = claim.clone();
        Box::pin(self.0.writer.ask(move |group| group.claim(&claim)))
    }

    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(self.0.writer.ask(move |group| group.renew(operation, epoch, lease_for)))
    }

    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>> {
        let completion = completion.clone();
        Box::pin(self.0.writer.ask(move |group| group.complete(&completion)))
    }

    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>> {
        Box::pin(self.0.writer.ask(move |group| group.release(operation, epoch)))
    }

    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>> {
        Box::pin(async move { self.record(operation) })
    }

    fn glance(&self, operation: OperationId) -> Option<Record> {
        // A record that cannot be read now goes to a claim, which reports why.
        self.record(operation).ok().flatten()
    }

    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(self.0.writer.ask(move |group| group.erase(operation)))
    }

    fn scrub(&self, bytes_max: u64) -> Pending<'_, Result<Scrubbed, StoreError>> {
        Box::pin(self.0.writer.scrub(bytes_max))
    }

    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            self.note_running().await?;
            let mut swept = Swept::default();
            let mut left = records_max;
            while left > 0 {
                let batch = left.min(SWEEP_BATCH);
                match self.0.writer.ask(move |group| group.sweep(batch, keep)).await {
                    Ok(more) => {
                        let is_all = more.count() < u64::from(batch);
                        swept.add(more);
                        if is_all {
                            break;
                        }
                    }
                    Err(error) if swept == Swept::default() => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "a sweep broke off");
                        break;
                    }
                }
                left -= batch;
            }
            Ok(swept)
        })
    }

    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>> {
        Box::pin(async move {
            let now = group::now(&self.0.clock);
            let found = self.0.readers.with(|connection| rows::unknown(connection, limit, now))?;
            let mut unknown = Vec::new();
            for operation in found {
                match self.record(operation) {
                    Ok(Some(record)) if matches!(record.standing, Standing::Unknown { .. }) => {
                        unknown.push((operation, record));
                    }
                    // It has changed since it was found.
                    Ok(Some(_) | None) => {}
                    Err(error @ StoreError::Corrupt { .. }) => tracing::error!(%error, "left out of a list"),
                    Err(error) => return Err(error),
                }
            }
            Ok(unknown)
        })
    }

    fn changed(&self, operation: OperationId) -> Pending<'static, ()> {
        self.0.bells.heard(operation)
    }

    fn begin<'a>(
        &'a self,
        _operation: OperationId,
        _grant: Grant,
        extensions: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn super::Transaction>>, StoreError>> {
        Box::pin(async move {
            let transaction = Transaction::new(self.0.writer.clone());
            extensions.insert(transaction.clone());
            let shares: Box<dyn super::Transaction> = Box::new(Shares::new(transaction));
            Ok(Some(shares))
        })
    }

    fn shares_transactions(&self) -> bool {
        true
    }
}
