//! A connection that is lent by the pool, and goes back only if nothing is left open on it.
//!
//! A verb may be given up in the middle: it timed out, or nobody waits for it any more. The reply to its statement would then stand
//! before the next one's, and a transaction would stay open. Such a connection is closed.

use crate::store::StoreError;
use deadpool_postgres::{ClientWrapper, Object, Pool};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A connection. Dropped, it is closed, which rolls back what is open on it.
pub(super) struct Lent(Option<Object>);

impl Lent {
    /// From the pool, which opens one where it has none.
    pub(super) async fn from(pool: &Pool) -> Result<Self, StoreError> {
        match pool.get().await {
            Ok(client) => Ok(Self(Some(client))),
            Err(deadpool_postgres::PoolError::Backend(error)) => Err(unavailable(error)),
            Err(error) => Err(StoreError::Unavailable(Box::new(error))),
        }
    }

    /// Back to the pool: all replies were read, and no transaction is open.
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

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.0.as_mut().expect("only giving back and dropping take it")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

/// The work, or that it took too long.
pub(super) async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!("PostgreSQL did not answer within {time:?}").into()))
    })
}

/// What PostgreSQL or the connection to it objects to. The server's own words stand in the source of the client's error,
/// which alone says "db error".
#[derive(Debug, thiserror::Error)]
#[error("{}", match .0.as_db_error() {
    Some(said) => format!("{} ({})", said.message(), said.code().code()),
    None => .0.to_string(),
})]
pub(super) struct Trouble(#[source] pub(super) tokio_postgres::Error);

/// Every trouble with the server is one that may pass.
pub(super) fn unavailable(error: tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable(Box::new(Trouble(error)))
}
