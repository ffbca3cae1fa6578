//! The transaction that a handler shares with its record: its writes to the file and the end of its operation are one
//! commit.
//!
//! It begins with the first [`Transaction::run`], because the file has one writer: a handler that first calls another
//! service should block nobody. From then on all other writes wait until it ends. Keep it short; it is rolled back when
//! it takes longer than [`Options::transaction_for`](super::Options::transaction_for).

use super::session::{Ran, Session, Step};
use super::writer::{Command, Gone, Writer};
use crate::record::{Completion, Holding};
use crate::store::{Pending, StoreError};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The handler's side of the transaction: an extractor on routes that are declared transactional. A clone is the same
/// transaction. The layer ends it when the handler has answered; later use of a clone is an error.
#[derive(Clone)]
pub struct Transaction(Arc<Shared>);

struct Shared {
    writer: Writer,
    stage: Arc<Mutex<Stage>>,
    /// One step at a time, so that no more than one waits in the thread's queue.
    turn: tokio::sync::Mutex<()>,
}

/// The state of the transaction.
pub(super) enum Stage {
    Waiting,
    /// It waits in the thread's queue.
    Queued(Sender<Step>),
    /// The thread serves it.
    Open(Sender<Step>),
    Ended(Why),
}

/// Why the transaction ended.
#[derive(Clone)]
pub(super) enum Why {
    Ended,
    /// It is not wanted any more; if its turn has not come yet, it is skipped.
    GivenUp,
    TimedOut,
    Panicked,
    RolledBack,
    NotBegun(Arc<rusqlite::Error>),
    Gone,
}

/// Why a job did not run in the transaction.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The job's own error. The transaction goes on, without the failed statement.
    #[error(transparent)]
    Failed(rusqlite::Error),
    /// It took too long and was rolled back. Do less in it, or do the slow part before the first run.
    #[error("the transaction took longer than it may, and was rolled back")]
    TimedOut,
    /// The job panicked, and the transaction was rolled back.
    #[error("what was run in the transaction panicked, and it was rolled back")]
    Panicked,
    /// SQLite rolled it back, as it does when the disk is full.
    #[error("the transaction was rolled back by SQLite")]
    RolledBack,
    /// The operation has ended, and the transaction with it.
    #[error("the transaction has ended")]
    Ended,
    /// It could not begin: the file is locked, read-only, or gone.
    #[error("the transaction could not begin")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<Why> for TransactionError {
    fn from(why: Why) -> Self {
        match why {
            Why::Ended | Why::GivenUp => Self::Ended,
            Why::TimedOut => Self::TimedOut,
            Why::Panicked => Self::Panicked,
            Why::RolledBack => Self::RolledBack,
            Why::NotBegun(error) => Self::Unavailable(Box::new(error)),
            Why::Gone => Self::Unavailable(Box::new(Gone)),
        }
    }
}

/// The error when there is no transaction to complete.
impl From<Why> for StoreError {
    fn from(why: Why) -> Self {
        match why {
            Why::TimedOut | Why::Panicked | Why::RolledBack => {
                Self::Undone(Box::new(TransactionError::from(why)))
            }
            Why::Ended | Why::GivenUp | Why::NotBegun(_) | Why::Gone => {
                Self::Unavailable(Box::new(TransactionError::from(why)))
            }
        }
    }
}

impl Shared {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a step was not served.
    fn why(&self) -> Why {
        match &*self.stage() {
            Stage::Ended(why) => why.clone(),
            // The thread sets the reason before it drops a step. It did not, so the thread is gone.
            Stage::Waiting | Stage::Queued(_) | Stage::Open(_) => Why::Gone,
        }
    }

    /// Ends the transaction for all clones.
    fn end(&self, why: Why) -> Stage {
        let mut stage = self.stage();
        match &*stage {
            Stage::Waiting | Stage::Queued(_) | Stage::Open(_) => {
                std::mem::replace(&mut *stage, Stage::Ended(why))
            }
            Stage::Ended(why) => Stage::Ended(why.clone()),
        }
    }

    /// The channel to the thread; the first call begins the transaction.
    async fn open(&self) -> Result<Sender<Step>, Why> {
        if let Some(opened) = self.opened() {
            return opened;
        }
        let place = self.writer.place().await.map_err(|Gone| Why::Gone)?;
        let mut stage = self.stage();
        match &*stage {
            Stage::Queued(steps) | Stage::Open(steps) => Ok(steps.clone()),
            Stage::Ended(why) => Err(why.clone()),
            Stage::Waiting => {
                let (sender, steps) = mpsc::channel();
                *stage = Stage::Queued(sender.clone());
                place.send(Command::Session(Session { steps, stage: self.stage.clone() }));
                Ok(sender)
            }
        }
    }

    fn opened(&self) -> Option<Result<Sender<Step>, Why>> {
        match &*self.stage() {
            Stage::Waiting => None,
            Stage::Queued(steps) | Stage::Open(steps) => Some(Ok(steps.clone())),
            Stage::Ended(why) => Some(Err(why.clone())),
        }
    }
}

impl Transaction {
    pub(super) fn new(writer: Writer) -> Self {
        let stage = Arc::new(Mutex::new(Stage::Waiting));
        Self(Arc::new(Shared { writer, stage, turn: tokio::sync::Mutex::new(()) }))
    }

    /// Runs this in the transaction, on the thread that writes. It may read and write every table except the store's;
    /// it may set savepoints, but must not begin, commit or roll back. It may read any pragma, and set those that end
    /// with the transaction or are part of it: `defer_foreign_keys`, `user_version`, `application_id`; set others in
    /// [`Options::prepare`](super::Options::prepare). Temporary tables, views and triggers are gone before the next
    /// handler comes. It blocks all writers: no network calls, no waiting.
    ///
    /// The job runs to its end, even if the future is dropped.
    pub async fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, TransactionError> {
        let _turn = self.0.turn.lock().await;
        let steps = self.0.open().await?;
        let (reply, told) = oneshot::channel();
        let job = Box::new(move |connection: &Connection| {
            match catch_unwind(AssertUnwindSafe(|| work(connection))) {
                // The receiver may be gone.
                Ok(ran) => Ran::ToItsEnd(Box::new(move || drop(reply.send(ran)))),
                Err(_) => Ran::Panicked(Box::new(move || drop(reply))),
            }
        });
        if steps.send(Step::Run(job)).is_err() {
            return Err(self.0.why().into());
        }
        told.await.map_err(|_| self.0.why())?.map_err(TransactionError::Failed)
    }
}

/// The route has no transaction to share.
#[derive(Debug)]
pub struct NoTransaction;

impl IntoResponse for NoTransaction {
    fn into_response(self) -> Response {
        let remedy = "this route has no SQLite transaction: declare it transactional under the idempotency layer, with \
                      a SQLite store";
        tracing::error!(remedy);
        (StatusCode::INTERNAL_SERVER_ERROR, remedy).into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Transaction {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, NoTransaction> {
        parts.extensions.get::<Self>().cloned().ok_or(NoTransaction)
    }
}

/// The layer's side: it alone ends the transaction. If it is dropped, the transaction is rolled back, whatever clones
/// exist.
pub(super) struct Shares(Transaction);

impl Shares {
    pub(super) fn new(transaction: Transaction) -> Self {
        Self(transaction)
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        // This drops the channel, and the thread rolls back when no sender is left.
        drop(self.0.0.end(Why::GivenUp));
    }
}

impl crate::store::Transaction for Shares {
    fn complete(self: Box<Self>, completion: Completion) -> Pending<'static, Result<Holding, StoreError>> {
        Box::pin(async move {
            let shared = &self.0.0;
            match shared.end(Why::Ended) {
                Stage::Waiting => shared.writer.ask(move |group| group.complete(&completion)).await,
                Stage::Ended(why) => Err(why.into()),
                Stage::Queued(steps) | Stage::Open(steps) => {
                    let (reply, told) = oneshot::channel();
                    if steps.send(Step::Complete(completion, reply)).is_err() {
                        return Err(shared.why().into());
                    }
                    told.await.unwrap_or_else(|_| Err(shared.why().into()))
                }
            }
        })
    }

    fn roll_back(self: Box<Self>) -> Pending<'static, Result<(), StoreError>> {
        Box::pin(async move {
            if let Stage::Open(steps) = self.0.0.end(Why::GivenUp) {
                let (waiting, done) = oneshot::channel();
                if steps.send(Step::RollBack(waiting)).is_ok() {
                    // Nothing is sent: the other end is dropped when it is done.
                    drop(done.await);
                }
            }
            Ok(())
        })
    }
}
