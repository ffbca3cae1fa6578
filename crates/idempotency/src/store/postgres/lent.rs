//! A pooled connection that is returned only if nothing is left open on it.
//!
//! A verb may be given up in the middle: it timed out, or its caller went away. The reply to its statement would then
//! come before the next one's, and a transaction would stay open. Such a connection is closed.

use crate::store::StoreError;
use deadpool_postgres::{ClientWrapper, Object, Pool};
use std::ops::Deref;
use std::time::Duration;

/// A connection. If it is dropped, it is closed, which rolls back its transaction.
pub(super) struct Lent(Option<Object>);

impl Lent {
    /// Takes a connection from the pool, which opens one if needed.
    pub(super) async fn from(pool: &Pool) -> Result<Self, StoreError> {
        match pool.get().await {
            Ok(client) => Ok(Self(Some(client))),
            Err(deadpool_postgres::PoolError::Backend(error)) => Err(unavailable(error)),
            Err(error) => Err(StoreError::Unavailable(Box::new(error))),
        }
    }

    /// Returns it to the pool: all replies were read, and no transaction is open.
    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Deref for Lent {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.0.as_ref().expect("only giving back and dropping take it")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

/// Runs the work within a time limit.
pub(super) async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!("PostgreSQL did not answer within {time:?}").into()))
    })
}

/// An error of PostgreSQL or of the connection to it. The server's message is in the source of the client's error,
/// which itself only says "db error".
#[derive(Debug, thiserror::Error)]
#[error("{}", match .0.as_db_error() {
    Some(said) => format!("{} ({})", said.message(), said.code().code()),
    None => .0.to_string(),
})]
pub(super) struct Trouble(#[source] pub(super) tokio_postgres::Error);

/// Whether a function met an invalid value, such as an infinite instant: class 22 of the SQL standard.
pub(super) fn is_about_data(error: &StoreError) -> bool {
    let StoreError::Unavailable(error) = error else { return false };
    let said = error.downcast_ref::<Trouble>().and_then(|trouble| trouble.0.code());
    said.is_some_and(|state| state.code().starts_with("22"))
}

/// Every other error of the server is temporary.
pub(super) fn unavailable(error: tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable(Box::new(Trouble(error)))
}
