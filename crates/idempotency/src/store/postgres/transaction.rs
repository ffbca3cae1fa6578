//! The transaction that a handler shares with its record.
//!
//! It begins with the handler's first use of it, so a handler that needs none takes no connection. The record is
//! completed in it under its epoch, as the last statement before the commit, so effect and record exist together or not
//! at all, and the row is locked only for that long. While a handler holds the connection nobody else uses it.

use super::lent::{Lent, Trouble, unavailable, within};
use super::{Inner, completion_of};
use crate::record::{Completion, Epoch, Holding, OperationId};
use crate::store::{self, Pending, StoreError};
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use deadpool_postgres::ClientWrapper;
use http::StatusCode;
use http::request::Parts;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit};
use tokio_postgres::error::SqlState;

/// The handler's side of the transaction, as an extractor. Changes through [`client`](Self::client) are committed
/// together with the answer, once, or not at all.
///
/// A handler must not end the transaction itself. To survive a failing statement it sets a savepoint before it: after
/// an error without one, PostgreSQL refuses everything except a rollback.
///
/// ```
/// use axum::http::StatusCode;
/// use perdura_idempotency::store::postgres::Transaction;
///
/// async fn order(transaction: Transaction) -> Result<StatusCode, StatusCode> {
///     let client = transaction.client().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
///     let insert = "INSERT INTO orders (item) VALUES ($1)";
///     client.execute(insert, &[&"book"]).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
///     Ok(StatusCode::CREATED)
/// }
/// # let app: axum::Router = axum::Router::new().route("/orders", axum::routing::post(order));
/// ```
#[derive(Clone)]
pub struct Transaction(Arc<Shared>);

/// The connection with the open transaction, for as long as it is held.
pub struct TransactionGuard {
    shared: Arc<Shared>,
    /// Taken only on drop.
    state: Option<OwnedMutexGuard<State>>,
}

struct Shared {
    store: Arc<Inner>,
    operation: OperationId,
    epoch: Epoch,
    state: Arc<Mutex<State>>,
    /// It ended while a guard may still hold the connection; the guard then closes it.
    closed: AtomicBool,
}

enum State {
    Unopened,
    Open(Box<Lent>, OwnedSemaphorePermit),
    Ended,
}

impl Transaction {
    /// The connection, in the open transaction. Waits for other users of it in this request, for as long as one of its
    /// statements may take: a caller that holds it and asks again would wait for itself.
    pub async fn client(&self) -> Result<TransactionGuard, StoreError> {
        let turn = Arc::clone(&self.0.state).lock_owned();
        let turn = tokio::time::timeout(self.0.store.options.transaction_for, turn).await;
        let mut state = turn.map_err(|_| {
            StoreError::Unfit(
                "the connection of this request's transaction is held elsewhere in the request: let go of it before \
                 asking for it again"
                    .into(),
            )
        })?;
        if self.0.closed.load(Ordering::SeqCst) {
            *state = State::Ended;
        }
        match &*state {
            State::Open(..) => {}
            State::Unopened => *state = self.0.open().await?,
            State::Ended => {
                return Err(StoreError::Unfit(
                    "the transaction of this request has ended; use it only while the handler runs".into(),
                ));
            }
        }
        Ok(TransactionGuard { shared: Arc::clone(&self.0), state: Some(state) })
    }
}

impl Shared {
    /// The mark is gone as soon as the transaction is, so the layer notices if a handler ended it. The connection data
    /// that the end needs is stored beside it.
    async fn open(&self) -> Result<State, StoreError> {
        let millis = self.store.options.transaction_for.as_millis().clamp(1, 2_147_483_647);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idempotency.epoch = '{}'; \
             SET LOCAL statement_timeout = {millis}; SET LOCAL idle_in_transaction_session_timeout = {millis}; {NOTE}",
            self.epoch
        );
        within(self.store.options.timeout_for, async {
            let place = Arc::clone(&self.store.transactions).acquire_owned().await;
            let place = place.map_err(|closed| StoreError::Unavailable(Box::new(closed)))?;
            let client = Lent::from(&self.store.pool).await?;
            client.batch_execute(&begin).await.map_err(unavailable)?;
            Ok(State::Open(Box::new(client), place))
        })
        .await
    }

    /// Takes the connection away from the handler, after waiting for a running statement.
    async fn end(&self) -> Result<State, StoreError> {
        self.closed.store(true, Ordering::SeqCst);
        within(self.store.options.timeout_for, async {
            Ok(std::mem::replace(&mut *self.state.lock().await, State::Ended))
        })
        .await
    }

    /// Closes the connection if no guard holds it; a guard does so when it is dropped.
    fn close(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            *state = State::Ended;
        }
    }
}

impl Deref for TransactionGuard {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match self.state.as_deref() {
            Some(State::Open(client, _)) => client,
            Some(State::Unopened | State::Ended) | None => {
                unreachable!("a guard is made of an open transaction, and only its drop takes that away")
            }
        }
    }
}

impl Drop for TransactionGuard {
    fn drop(&mut self) {
        drop(self.state.take());
        if self.shared.closed.load(Ordering::SeqCst) {
            self.shared.close();
        }
    }
}

/// This request shares no transaction.
#[derive(Debug, thiserror::Error)]
#[error(
    "this route shares no transaction: declare it transactional, under a layer whose store is PostgreSQL"
)]
pub struct NoTransaction;

impl IntoResponse for NoTransaction {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Transaction {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoTransaction> {
        parts.extensions.get::<Self>().cloned().ok_or(NoTransaction)
    }
}

/// The layer's side of the transaction.
pub(super) struct Lending(Arc<Shared>);

impl Lending {
    pub(super) fn new(store: Arc<Inner>, operation: OperationId, epoch: Epoch) -> (Self, Transaction) {
        let shared = Arc::new(Shared {
            store,
            operation,
            epoch,
            state: Arc::new(Mutex::new(State::Unopened)),
            closed: AtomicBool::new(false),
        });
        (Self(Arc::clone(&shared)), Transaction(shared))
    }

    /// After an error at the commit: whether it took place. Only this transaction completes under this epoch.
    async fn settle(&self, error: StoreError) -> Result<Holding, StoreError> {
        let sql = &self.0.store.statements.settled;
        let settled = self.0.store.ask(sql, &[&self.0.operation.0, &self.0.epoch.0.cast_signed()]).await?;
        if settled.get(0) { Ok(Holding::Held) } else { Err(error) }
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.close();
    }
}

impl store::Transaction for Lending {
    /// An error means that nothing was committed, or that this could not be found out; then the record tells, once its
    /// lease ran out. It is never completed outside of the transaction.
    fn complete(self: Box<Self>, completion: Completion) -> Pending<'static, Result<Holding, StoreError>> {
        Box::pin(async move {
            let store = &self.0.store;
            let (client, _place) = match self.0.end().await? {
                State::Open(client, place) => (client, place),
                State::Unopened => return store.complete(&completion).await,
                State::Ended => return Err(StoreError::Unfit("the transaction has ended before".into())),
            };
            let time = store.options.timeout_for;
            let (answered, answer_for, tombstone_for) = completion_of(&completion);
            let epoch = completion.epoch.0.cast_signed();
            let held = within(time, async {
                // Pipelined: the second statement runs after the first took effect.
                let (restored, complete) = tokio::join!(
                    client.batch_execute(RESTORE),
                    client.prepare_cached(&store.statements.complete_lent)
                );
                restored.map_err(refused)?;
                let complete = complete.map_err(refused)?;
                let row = client
                    .query_one(
                        &complete,
                        &[&completion.operation.0, &epoch, &answered, &answer_for, &tombstone_for],
                    )
                    .await
                    .map_err(refused)?;
                row.get::<_, Option<bool>>(0).ok_or(DETACHED)
            })
            .await?;
            let end = if held { "COMMIT" } else { "ROLLBACK" };
            let ended = async { client.batch_execute(&format!("{end}; {}", store.clean)).await };
            if let Err(error) = within(time, async { ended.await.map_err(at_commit) }).await {
                drop(client);
                return if held { self.settle(error).await } else { Ok(Holding::Lost) };
            }
            client.give_back();
            if held {
                store.bells.ring(completion.operation);
            }
            Ok(if held { Holding::Held } else { Holding::Lost })
        })
    }

    fn roll_back(self: Box<Self>) -> Pending<'static, Result<(), StoreError>> {
        Box::pin(async move {
            let State::Open(client, _place) = self.0.end().await? else { return Ok(()) };
            let time = self.0.store.options.timeout_for;
            let undone = async {
                let marked = client.query_one("SELECT current_setting('idempotency.epoch', true)", &[]).await;
                let undo = format!("ROLLBACK; {}", self.0.store.clean);
                client.batch_execute(&undo).await.map_err(unavailable)?;
                Ok(match marked {
                    Ok(row) => row.get::<_, Option<String>>(0) == Some(self.0.epoch.to_string()),
                    // A transaction with a failed statement cannot show its mark, but exists.
                    Err(error) => error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION),
                })
            };
            match within(time, undone).await {
                Ok(is_ours) => {
                    client.give_back();
                    if is_ours { Ok(()) } else { Err(DETACHED) }
                }
                // The connection is closed, and that rolls back too.
                Err(error) => {
                    tracing::debug!(%error, "rolled back by closing the connection");
                    Ok(())
                }
            }
        })
    }
}

const DETACHED: StoreError =
    StoreError::Detached("the handler ended the transaction that it shares with its record");

/// Stores the role and the durability that the transaction began with, until its end.
const NOTE: &str = "
    SELECT set_config('idempotency.role', current_setting('role'), true),
           set_config('idempotency.synchronous_commit', current_setting('synchronous_commit'), true)";

/// Restores both. A handler may have taken the role of a tenant, which has no rights to record its end, or have chosen
/// not to wait for the disk, which only the layer may choose. If the handler ended the transaction, nothing is stored,
/// and nothing changes.
const RESTORE: &str = "
    SELECT set_config(name, COALESCE(NULLIF(current_setting('idempotency.' || name, true), ''), current_setting(name)), true)
    FROM unnest(ARRAY['role', 'synchronous_commit']) AS name";

/// Classes of errors by which a commit fails for reasons outside of the handler's changes: the connection, a conflict
/// with another transaction, a lack of resources, an operator, the system, the server itself.
const PASSING: [&str; 6] = ["08", "40", "53", "57", "58", "XX"];

/// The error of a commit. Every other error there comes from a constraint, or from a trigger that acts as one, and
/// would occur again.
fn at_commit(error: tokio_postgres::Error) -> StoreError {
    match error.as_db_error().map(|said| said.code().code()) {
        Some(code) if !PASSING.iter().any(|class| code.starts_with(class)) => {
            StoreError::Refused(Box::new(Trouble(error)))
        }
        Some(_) | None => unavailable(error),
    }
}

/// A transaction with a failed statement accepts no further ones; the handler went on nevertheless.
fn refused(error: tokio_postgres::Error) -> StoreError {
    if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) {
        return StoreError::Undone(
            "a statement of the handler failed, and with it the transaction that it shares with its record: answer \
             with an error that is rolled back, or set a savepoint before what may fail"
                .into(),
        );
    }
    unavailable(error)
}
