//! The inbox in one SQLite file, which several processes of one machine may share.
//!
//! What changes goes to one thread that commits for all who wait, with one sync; what is only looked at goes to another. The clock
//! is this machine's, but never begins before the newest time on record.

mod guard;
mod rows;
mod schema;
mod writer;

use super::clock::{self, Clock};
use super::{Pending, Store, StoreError, check_size};
use crate::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named, Put, Receipt,
    Redriven, Row,
};
use crate::work::{Failed, Handler, Worked};
use guard::Guard;
use rows::{Rows, rounded};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use writer::{Trouble, Writer};

/// How the file is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long another process that writes is waited for.
    pub busy_for: Duration,
    /// How long a transactional handler may take. Nobody else writes meanwhile.
    pub transaction_for: Duration,
    /// Runs once at opening, on the connection that writes: makes the tables that handlers use.
    pub prepare: fn(&Connection) -> rusqlite::Result<()>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_for: Duration::from_secs(5),
            transaction_for: Duration::from_secs(5),
            prepare: |_| Ok(()),
        }
    }
}

/// Rows in one SQLite file. A clone is the same handle.
#[derive(Clone)]
pub struct Sqlite(Arc<Inner>);

struct Inner {
    writer: Writer,
    reader: Writer,
    bell: Arc<Notify>,
    guard: Guard,
    transaction_for: Duration,
}

impl Sqlite {
    /// Opens the file, or makes it. Its folder has to be there.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        Self::open_on(path.as_ref(), options, None)
    }

    /// The same, on this clock.
    pub fn open_with_clock(
        path: impl AsRef<Path>,
        options: &Options,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        Self::open_on(path.as_ref(), options, Some(clock))
    }

    fn open_on(path: &Path, options: &Options, clock: Option<Clock>) -> Result<Self, StoreError> {
        let connection = schema::connect(path, options)?;
        schema::prepare(&connection, options)?;
        let reader = schema::connect(path, options)?;
        reader.pragma_update(None, "query_only", true).map_err(Trouble::told)?;
        Self::with(connection, Some(reader), options, clock)
    }

    /// Uses a connection of the program's own, and makes the tables in its main database.
    pub fn over(connection: Connection, options: &Options) -> Result<Self, StoreError> {
        schema::prepare(&connection, options)?;
        Self::with(connection, None, options, None)
    }

    fn with(
        mut connection: Connection,
        reader: Option<Connection>,
        options: &Options,
        clock: Option<Clock>,
    ) -> Result<Self, StoreError> {
        let clock = match clock {
            Some(clock) => clock,
            None => clock::not_before(rows::newest(&connection)?),
        };
        let guard = Guard::default();
        guard.stand_before(&mut connection).map_err(Trouble::told)?;
        let writer = Writer::start(connection, clock.clone(), "BEGIN IMMEDIATE")?;
        let reader = match reader {
            Some(reader) => Writer::start(reader, clock, "BEGIN")?,
            None => writer.clone(),
        };
        let (bell, transaction_for) = (Arc::default(), options.transaction_for);
        Ok(Self(Arc::new(Inner { writer, reader, bell, guard, transaction_for })))
    }

    /// One that may make something claimable.
    async fn ringing<T: Send + 'static>(
        &self,
        work: impl FnMut(&Rows<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.0.writer.ask(work).await?;
        self.0.bell.notify_waiters();
        Ok(done)
    }
}

/// Takes the message in inside a transaction of the caller's own, on any connection to the file: it is there if, and only if, that
/// commits. Workers find it when they look the next time. The tables have to be there.
pub fn put_in(connection: &Connection, put: &Put) -> Result<Receipt, StoreError> {
    check_size(put)?;
    let rows = Rows { connection, now: rounded(jiff::Timestamp::now()) };
    Ok(rows.put(put)?)
}

/// A handler whose writes and DONE are one commit. It runs on the thread that writes, under the write lock: no network, no
/// waiting. It may be run again after a rollback, so that it keeps nothing outside of the database.
pub fn transactional<F>(work: F) -> impl Handler<Sqlite>
where
    F: Fn(&Connection, &Message) -> Result<(), Failed> + Send + Sync + 'static,
{
    Transactional(Arc::new(work))
}

struct Transactional<F>(Arc<F>);

impl<F> Handler<Sqlite> for Transactional<F>
where
    F: Fn(&Connection, &Message) -> Result<(), Failed> + Send + Sync + 'static,
{
    fn work<'a>(
        &'a self,
        store: &'a Sqlite,
        message: Message,
        held: &'a Held,
    ) -> Pending<'a, Result<Worked, StoreError>> {
        let (work, held) = (self.0.clone(), held.clone());
        let (guard, transaction_for) = (store.0.guard.clone(), store.0.transaction_for);
        let errand = move |rows: &Rows<'_>| {
            if !rows.holds(&held)? {
                return Ok(Worked::Ended(Holding::Lost));
            }
            rows.connection.execute_batch("SAVEPOINT inbox_work")?;
            let worked = guard.around(transaction_for, || {
                let worked = catch_unwind(AssertUnwindSafe(|| work(rows.connection, &message)));
                worked.unwrap_or_else(|_| Err(Failed::again("the handler panicked")))
            });
            if rows.connection.is_autocommit() {
                return Err(Trouble::Broken("the handler rolled its transaction back"));
            }
            if let Err(failed) = worked {
                rows.connection.execute_batch("ROLLBACK TO inbox_work; RELEASE inbox_work")?;
                return Ok(Worked::Failed(failed));
            }
            rows.connection.execute_batch("RELEASE inbox_work")?;
            Ok(Worked::Ended(rows.end(&held, &Ending::Done)?))
        };
        Box::pin(async move {
            match store.ringing(errand).await {
                Err(StoreError::Undone(why)) => Ok(Worked::Failed(Failed::again(why))),
                told => told,
            }
        })
    }
}

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>> {
        Box::pin(async move {
            check_size(put)?;
            let put = put.clone();
            self.ringing(move |rows| rows.put(&put)).await
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>> {
        let claim = claim.clone();
        Box::pin(self.0.writer.ask(move |rows| rows.claim(&claim)))
    }

    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>> {
        let (address, claim) = (address.clone(), claim.clone());
        Box::pin(self.0.writer.ask(move |rows| rows.claim_named(&address, &claim)))
    }

    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>> {
        let held = held.to_vec();
        Box::pin(self.0.writer.ask(move |rows| rows.beat(&held, lease_for)))
    }

    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>> {
        let (held, ending) = (held.clone(), ending.clone());
        Box::pin(self.ringing(move |rows| rows.end(&held, &ending)))
    }

    fn lapse<'a>(
        &'a self,
        inbox: &'a Name,
        attempts_max: u32,
        rows_max: u32,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        let inbox = inbox.clone();
        Box::pin(self.ringing(move |rows| rows.lapse(&inbox, attempts_max, rows_max)))
    }

    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>> {
        let address = address.clone();
        Box::pin(self.0.reader.ask(move |rows| rows.look(&address)))
    }

    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        let list = list.clone();
        Box::pin(self.0.reader.ask(move |rows| rows.list(&list)))
    }

    fn stuck<'a>(
        &'a self,
        inbox: &'a Name,
        doing_for: Duration,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>> {
        let inbox = inbox.clone();
        Box::pin(self.0.reader.ask(move |rows| rows.stuck(&inbox, doing_for)))
    }

    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>> {
        let inbox = inbox.clone();
        Box::pin(self.0.reader.ask(move |rows| rows.counts(&inbox)))
    }

    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>> {
        let address = address.clone();
        Box::pin(self.ringing(move |rows| rows.redrive(&address)))
    }

    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>> {
        let inbox = inbox.clone();
        Box::pin(self.0.writer.ask(move |rows| rows.sweep(&inbox, keep, rows_max)))
    }

    fn bell(&self) -> Arc<Notify> {
        self.0.bell.clone()
    }
}
