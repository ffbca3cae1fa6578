//! The [`Store`] trait: durable memory of operations, and its implementations.
//!
//! Every verb is atomic and durable when it returns, and reads no clock but the store's own. One table has the results:
//! [`rule`](crate::rule). Memory and SQLite call the rule; PostgreSQL and Redis implement it in their own language, and
//! the suite in [`conformance`](crate::conformance) checks all of them against the table.

mod clock;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod wake;

pub use clock::Clock;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use crate::record::{Claim, Claimed, Completion, Epoch, Grant, Holding, Keep, OperationId, Record};
use crate::rule::{Row, State, Write};
use http::Extensions;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future that a store returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is unreachable or busy. Retry after a pause.
    #[error("the idempotency store cannot be reached: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A record is damaged or foreign. Refuse this operation, tell a person.
    #[error("the idempotency record of {operation} is damaged: {what}")]
    Corrupt { operation: OperationId, what: Cow<'static, str> },
    /// The handler ended the transaction that it shares with its record by itself: its changes may exist or not,
    /// separately from its end. Record an unknown outcome.
    #[error("what the handler did is not tied to its record: {0}")]
    Detached(&'static str),
    /// The database refused to commit the handler's changes, as a deferred constraint does: none of them exist, and a
    /// retry would be refused again. Record that.
    #[error("the database refused to commit what the handler did: {0}")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The handler's changes were rolled back before its end, by its own fault: it ignored a failed statement, it took
    /// too long, or it panicked. Tell the caller that it failed.
    #[error("what the handler did was rolled back: {0}")]
    Undone(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store is not usable in this setup.
    #[error("the idempotency store does not fit: {0}")]
    Unfit(String),
}

/// Whether what was erased is out of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scrubbed {
    /// Nothing is left of it, or the store has no files of its own.
    #[default]
    Clean,
    /// The file is larger than what may be written anew: parts may lie where pages have no use for them.
    TooLarge,
    /// A reader still looks at what was there before: ask again.
    Read,
}

/// The result of one sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub answers: u64,
    pub records: u64,
    /// Operations whose lease had run out; their outcome is unknown since this sweep.
    pub lapsed: Vec<OperationId>,
}

impl Swept {
    /// The number of records in it.
    pub fn count(&self) -> u64 {
        self.answers + self.records + self.lapsed.len() as u64
    }

    /// Adds the result of another part of the same sweep.
    #[cfg(any(feature = "redis", feature = "sqlite"))]
    pub(crate) fn add(&mut self, other: Self) {
        self.answers += other.answers;
        self.records += other.records;
        self.lapsed.extend(other.lapsed);
    }

    /// Counts the change of [`rule::sweep`](crate::rule::sweep) to a record.
    pub(crate) fn note(&mut self, operation: OperationId, write: &Write) {
        match write {
            Write::Nothing => {}
            Write::Remove => self.records += 1,
            Write::Put(Row { state: State::Unknown(_), .. }) => self.lapsed.push(operation),
            Write::Put(Row { state: State::Running { .. } | State::Completed(..), .. }) => self.answers += 1,
        }
    }
}

/// Remembers operations.
pub trait Store: Send + Sync + 'static {
    /// Its name in metrics and logs.
    fn name(&self) -> &'static str;

    /// Records the secret's check value the first time; later returns whether it is the same. Two instances with
    /// different secrets would not see each other's records.
    fn agree(&self, check: [u8; 16]) -> Pending<'_, Result<bool, StoreError>>;

    /// Grants the operation, or returns its record.
    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Claimed, StoreError>>;

    /// Renews the lease to last `lease_for` from now.
    fn renew(
        &self,
        operation: OperationId,
        epoch: Epoch,
        lease_for: Duration,
    ) -> Pending<'_, Result<Holding, StoreError>>;

    /// Records the end. Offered twice under one epoch, the first counts and both are `Held`.
    fn complete<'a>(&'a self, completion: &'a Completion) -> Pending<'a, Result<Holding, StoreError>>;

    /// Forgets the operation: nothing was done.
    fn release(&self, operation: OperationId, epoch: Epoch) -> Pending<'_, Result<Holding, StoreError>>;

    /// The operation's record, without claiming it. An expired record does not exist.
    fn look(&self, operation: OperationId) -> Pending<'_, Result<Option<Record>, StoreError>>;

    /// The operation's record, if the store can read it at once, without waiting. `None`: it does not exist, or the
    /// store must be asked. The result was true during the call.
    fn glance(&self, _operation: OperationId) -> Option<Record> {
        None
    }

    /// Removes a stored answer and keeps the rest, as if the answer had expired. `false`: there was none.
    fn erase(&self, operation: OperationId) -> Pending<'_, Result<bool, StoreError>>;

    /// Takes what was erased out of files where it may have left parts behind, by writing a file of so many bytes at most
    /// anew. Everybody else who writes waits meanwhile.
    fn scrub(&self, _bytes_max: u64) -> Pending<'_, Result<Scrubbed, StoreError>> {
        Box::pin(std::future::ready(Ok(Scrubbed::Clean)))
    }

    /// Removes expired data, and marks operations with an expired lease: their outcome is unknown from now on, for as
    /// long as `keep` says, as if a claim had found it. Wakes their waiters. Takes at most `records_max` records in
    /// all; returns what was done, even if the rest failed.
    fn sweep(&self, records_max: u32, keep: Keep) -> Pending<'_, Result<Swept, StoreError>>;

    /// The operations with an unknown outcome, at most `limit`, the oldest first. Expired records are left out; damaged
    /// ones are logged and left out.
    fn unknown(&self, limit: u32) -> Pending<'_, Result<Vec<(OperationId, Record)>, StoreError>>;

    /// Ends when the record may have changed. A hint: it may come for nothing, and it may not come at all.
    fn changed(&self, operation: OperationId) -> Pending<'static, ()>;

    /// Begins the transaction that the handler shares with its record, and puts the handler's part into `extensions`.
    /// `None`: this store has no transaction to share.
    fn begin<'a>(
        &'a self,
        operation: OperationId,
        grant: Grant,
        extensions: &'a mut Extensions,
    ) -> Pending<'a, Result<Option<Box<dyn Transaction>>, StoreError>>;

    /// Whether [`begin`](Self::begin) returns a transaction.
    fn shares_transactions(&self) -> bool;
}

/// A transaction that a handler shares with its record. Dropped, it is rolled back.
pub trait Transaction: Send {
    /// Commits the handler's changes together with the end of its record, or neither: `Lost` rolls back.
    fn complete(self: Box<Self>, completion: Completion) -> Pending<'static, Result<Holding, StoreError>>;

    /// Rolls back the handler's changes, or reports that they may exist all the same.
    fn roll_back(self: Box<Self>) -> Pending<'static, Result<(), StoreError>>;
}
