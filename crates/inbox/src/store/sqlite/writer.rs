//! The one thread that writes: whatever gathered while the last commit was synced is the next commit.
//!
//! There is no timer: alone, a verb is committed at once; among many, they share a sync. Each verb has a savepoint of its
//! own, so one that fails takes back its own writes and no other's. Where the commit fails, the verbs are done again one by one and
//! each is told its own end.

use super::rows::{Rows, rounded};
use crate::store::{Clock, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// How many verbs share a commit at most.
const GROUP_MAX: usize = 256;
/// How many may wait; who comes then waits for a place.
const QUEUE_MAX: usize = 1_024;

/// Why a verb did not come to an end.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// SQLite says so. Several callers of one group are told the same.
    Sqlite(Arc<rusqlite::Error>),
    /// A row was not written by us.
    Corrupt(u64, &'static str),
    /// The work of the verb rolled everything back, or panicked.
    Broken(&'static str),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Arc::new(error))
    }
}

impl Trouble {
    /// SQLite's error, as the store's user is told.
    pub(super) fn told(error: rusqlite::Error) -> StoreError {
        Self::from(error).into()
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Corrupt(number, what) => Self::Corrupt { number, what },
            Trouble::Broken(why) => Self::Undone(why.to_owned()),
            Trouble::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Unfit(format!(
                    "the file is damaged or no SQLite database, restore it from a backup: {error}"
                )),
                // Of our own, nothing is refused: a constraint of the handler's that is checked at the commit.
                Some(ErrorCode::ConstraintViolation) => Self::Undone(error.to_string()),
                Some(_) | None => Self::Unavailable(Box::new(error)),
            },
        }
    }
}

/// A verb that waits for its commit.
trait Errand: Send {
    /// Does it in the open transaction. Done again after a rollback, only the last counts.
    fn work(&mut self, rows: &Rows<'_>) -> Result<(), Trouble>;

    /// Tells the caller what came of it.
    fn tell(self: Box<Self>, committed: Result<(), Trouble>);
}

struct Asked<T, F> {
    work: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Rows<'_>) -> Result<T, Trouble> + Send> Errand for Asked<T, F> {
    fn work(&mut self, rows: &Rows<'_>) -> Result<(), Trouble> {
        let worked = catch_unwind(AssertUnwindSafe(|| (self.work)(rows)));
        self.done = Some(worked.unwrap_or(Err(Trouble::Broken("a verb panicked")))?);
        Ok(())
    }

    fn tell(self: Box<Self>, committed: Result<(), Trouble>) {
        let done = self.done;
        let told = committed.map(|()| done.expect("what is committed was done"));
        // Whoever no longer waits offers the same again, if it still matters.
        drop(self.reply.send(told.map_err(StoreError::from)));
    }
}

/// The way to the thread, which ends with the last of its askers.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Box<dyn Errand>>);

fn gone<E>(_: E) -> StoreError {
    StoreError::Unavailable("the thread that writes to the file did not answer".into())
}

impl Writer {
    /// Starts the thread. `begin` is the statement by which a group begins.
    pub(super) fn start(
        connection: Connection,
        clock: Clock,
        begin: &'static str,
    ) -> Result<Self, StoreError> {
        let (sender, errands) = mpsc::channel(QUEUE_MAX);
        let desk = Desk { connection, clock, begin };
        std::thread::Builder::new()
            .name("inbox".to_owned())
            .spawn(move || desk.serve(errands))
            .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        Ok(Self(sender))
    }

    /// Has something done in the next commit.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&Rows<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, told) = oneshot::channel();
        let errand = Box::new(Asked { work, done: None, reply });
        self.0.send(errand).await.map_err(gone)?;
        told.await.map_err(gone)?
    }
}

/// The resources of the writer's thread.
struct Desk {
    connection: Connection,
    clock: Clock,
    begin: &'static str,
}

impl Desk {
    fn serve(self, mut errands: mpsc::Receiver<Box<dyn Errand>>) {
        while let Some(first) = errands.blocking_recv() {
            let mut group = vec![first];
            while group.len() < GROUP_MAX {
                match errands.try_recv() {
                    Ok(errand) => group.push(errand),
                    Err(_) => break,
                }
            }
            self.commit(group);
        }
    }

    fn commit(&self, mut group: Vec<Box<dyn Errand>>) {
        // What could not begin is not tried again one by one: it was waited for already.
        if let Err(trouble) = self.begin() {
            for errand in group {
                errand.tell(Err(trouble.clone()));
            }
            return;
        }
        match self.attempt(&mut group) {
            Ok(worked) => {
                for (errand, worked) in group.into_iter().zip(worked) {
                    errand.tell(worked);
                }
            }
            Err(_) if group.len() > 1 => {
                for errand in group {
                    self.commit(vec![errand]);
                }
            }
            Err(trouble) => {
                for errand in group {
                    errand.tell(Err(trouble.clone()));
                }
            }
        }
    }

    /// The write lock is taken at once: a transaction that reads first and then finds it taken could not go on.
    fn begin(&self) -> Result<(), Trouble> {
        self.execute(self.begin)
    }

    /// All of them in the open transaction. What is told of each holds if the whole is committed.
    fn attempt(&self, group: &mut [Box<dyn Errand>]) -> Result<Vec<Result<(), Trouble>>, Trouble> {
        let attempted: Result<Vec<_>, _> = group.iter_mut().map(|errand| self.one(errand.as_mut())).collect();
        let ended = attempted.and_then(|worked| {
            self.execute("COMMIT")?;
            Ok(worked)
        });
        if ended.is_err() && !self.connection.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        ended
    }

    /// One verb in its savepoint. The outer error: the whole transaction is gone.
    fn one(&self, errand: &mut dyn Errand) -> Result<Result<(), Trouble>, Trouble> {
        self.execute("SAVEPOINT inbox_verb")?;
        let rows = Rows { connection: &self.connection, now: rounded((self.clock)()) };
        let worked = errand.work(&rows);
        if self.connection.is_autocommit() {
            return Err(worked
                .err()
                .unwrap_or(Trouble::Broken("the transaction was rolled back by what was run in it")));
        }
        if worked.is_err() {
            self.execute("ROLLBACK TO inbox_verb")?;
        }
        self.execute("RELEASE inbox_verb")?;
        Ok(worked)
    }

    fn execute(&self, statement: &str) -> Result<(), Trouble> {
        Ok(self.connection.prepare_cached(statement)?.execute([]).map(drop)?)
    }
}
