//! Where rows are kept: one trait, and what each implementation of it promises.
//!
//! Every verb is atomic, durable when it returns, and reads no clock but the store's own. Memory and SQLite call the
//! [`rule`](crate::rule); PostgreSQL says the same in SQL, and the suite in `conformance` holds all of them to it.

mod clock;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use clock::Clock;
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use crate::row::{
    Address, Claim, Counts, Ending, Epoch, Held, Holding, Keep, List, Message, Name, Named,
    PAYLOAD_BYTES_MAX, Put, Receipt, Redriven, Row,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A future that a store returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or it is busy. Offer the same again after a pause.
    #[error("the inbox cannot be reached: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What a handler did was rolled back, by itself or because the database refused to commit it. Nothing of it is there.
    #[error("what was done was rolled back: {0}")]
    Undone(String),
    /// A row was not written by us, or was damaged. Tell a person.
    #[error("row {number} of the inbox is damaged: {what}")]
    Corrupt { number: u64, what: &'static str },
    /// The payload is larger than any may be. Put it elsewhere and send its address.
    #[error("a payload has at most {PAYLOAD_BYTES_MAX} bytes, this one has {0}")]
    TooLarge(usize),
    /// It was set up for something else.
    #[error("the inbox does not fit: {0}")]
    Unfit(String),
}

/// Rows under their verbs.
pub trait Store: Send + Sync + 'static {
    /// Its name in logs.
    fn name(&self) -> &'static str;

    /// Takes the message in, once for its address.
    fn put<'a>(&'a self, put: &'a Put) -> Pending<'a, Result<Receipt, StoreError>>;

    /// Claims the next rows, those first that may be claimed for longest, fair between tenants. Fewer than the limit does not mean
    /// that there are no more; none does.
    fn claim<'a>(&'a self, claim: &'a Claim) -> Pending<'a, Result<Vec<Message>, StoreError>>;

    /// Claims the row with this name, where it is ready. Limit, inbox and tenant of the claim do not matter.
    fn claim_named<'a>(
        &'a self,
        address: &'a Address,
        claim: &'a Claim,
    ) -> Pending<'a, Result<Named, StoreError>>;

    /// Makes the leases of these rows last so long from now, all in one statement. Tells which are still held.
    fn beat<'a>(
        &'a self,
        held: &'a [Held],
        lease_for: Duration,
    ) -> Pending<'a, Result<Vec<Epoch>, StoreError>>;

    /// Ends a claim. Told twice that it is done, both are `Held`.
    fn end<'a>(&'a self, held: &'a Held, ending: &'a Ending) -> Pending<'a, Result<Holding, StoreError>>;

    /// Takes rows away from workers whose lease ran out: PENDING again, or DEAD where no attempts are left. At most so many,
    /// never more than [`ROWS_MAX`](crate::row::ROWS_MAX); gives them as they are now.
    fn lapse<'a>(
        &'a self,
        inbox: &'a Name,
        attempts_max: u32,
        rows_max: u32,
    ) -> Pending<'a, Result<Vec<Row>, StoreError>>;

    /// The row with its payload.
    fn look<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Option<Message>, StoreError>>;

    /// A page of rows.
    fn list<'a>(&'a self, list: &'a List) -> Pending<'a, Result<Vec<Row>, StoreError>>;

    /// The rows that are DOING since so long, at most [`ROWS_MAX`](crate::row::ROWS_MAX), those first that have been for longest.
    fn stuck<'a>(&'a self, inbox: &'a Name, doing_for: Duration)
    -> Pending<'a, Result<Vec<Row>, StoreError>>;

    /// How many rows stand where.
    fn counts<'a>(&'a self, inbox: &'a Name) -> Pending<'a, Result<Counts, StoreError>>;

    /// Has a DEAD row worked after all.
    fn redrive<'a>(&'a self, address: &'a Address) -> Pending<'a, Result<Redriven, StoreError>>;

    /// Removes ended rows that were kept for long enough, at most so many, and says how many.
    fn sweep<'a>(
        &'a self,
        inbox: &'a Name,
        keep: Keep,
        rows_max: u32,
    ) -> Pending<'a, Result<u64, StoreError>>;

    /// Rings when something may have become claimable, as far as this process knows.
    fn bell(&self) -> Arc<Notify>;
}

/// Refuses what is larger than any payload may be.
fn check_size(put: &Put) -> Result<(), StoreError> {
    let bytes = put.payload.len();
    if bytes > PAYLOAD_BYTES_MAX { Err(StoreError::TooLarge(bytes)) } else { Ok(()) }
}
