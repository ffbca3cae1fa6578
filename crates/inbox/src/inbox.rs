//! One inbox of a store: its settings, its verbs, and their log lines.

use crate::log;
use crate::row::{
    Address, BadName, Claim, Counts, DEFAULT_TENANT, Ending, Epoch, Held, Holding, Keep, List, Message, Name,
    Named, Put, ROWS_MAX, Receipt, Redriven, Row, Status,
};
use crate::rule::Retry;
use crate::store::{Store, StoreError};
use crate::work::Handler;
use crate::worker::Worker;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// How an inbox is worked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a row is held without a heartbeat. A worker that is gone gives its rows back after so long.
    pub lease_for: Duration,
    pub retry: Retry,
    pub keep: Keep,
    /// How many rows one worker has DOING at most.
    pub rows_max: u32,
    /// How often a worker looks for rows that other processes put. Those of its own process wake it.
    pub poll_for: Duration,
    /// Rows that are DOING for so long are logged, once a minute.
    pub stuck_for: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_for: Duration::from_secs(30),
            retry: Retry::default(),
            keep: Keep::default(),
            rows_max: 16,
            poll_for: Duration::from_millis(100),
            stuck_for: Duration::from_mins(5),
        }
    }
}

/// One inbox. A clone is the same.
pub struct Inbox<S: ?Sized> {
    store: Arc<S>,
    name: Name,
    settings: Arc<Settings>,
}

impl<S: ?Sized> Clone for Inbox<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), name: self.name.clone(), settings: self.settings.clone() }
    }
}

impl<S: Store> Inbox<S> {
    /// The inbox of this name; it needs not be made.
    pub fn new(store: S, name: &str, settings: Settings) -> Result<Self, BadName> {
        Self::shared(Arc::new(store), name, settings)
    }
}

impl<S: Store + ?Sized> Inbox<S> {
    /// The same of a store that is used elsewhere too.
    pub fn shared(store: Arc<S>, name: &str, settings: Settings) -> Result<Self, BadName> {
        Ok(Self { store, name: Name::new(name)?, settings: Arc::new(settings) })
    }

    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The address of a message of the default tenant.
    pub fn address(&self, id: &str) -> Result<Address, BadName> {
        self.address_of(DEFAULT_TENANT, id)
    }

    pub fn address_of(&self, tenant: &str, id: &str) -> Result<Address, BadName> {
        Ok(Address { inbox: self.name.clone(), tenant: Name::new(tenant)?, id: Name::new(id)? })
    }

    /// Takes a message of the default tenant in, once for its id.
    pub async fn put(&self, id: &str, payload: impl Into<Bytes>) -> Result<Receipt, StoreError> {
        let address = self.address(id).map_err(|bad| StoreError::Unfit(bad.to_string()))?;
        self.put_message(&Put::new(address, payload)).await
    }

    /// Takes a message in, once for its address.
    pub async fn put_message(&self, put: &Put) -> Result<Receipt, StoreError> {
        let receipt = self.store.put(put).await?;
        match &receipt {
            Receipt::Accepted(_) => {}
            Receipt::Duplicate(row) => log::duplicate(row),
            Receipt::Conflict(row) => log::conflict(row),
        }
        Ok(receipt)
    }

    /// What this worker wants of the inbox, to be claimed.
    pub fn wish(&self, owner: &Name, limit: u32) -> Claim {
        let lease_for = self.settings.lease_for;
        Claim { inbox: self.name.clone(), owner: owner.clone(), limit, lease_for, after: None }
    }

    /// Claims the next rows.
    pub async fn claim(&self, claim: &Claim) -> Result<Vec<Message>, StoreError> {
        let claimed = self.store.claim(claim).await?;
        claimed.iter().for_each(log::taken);
        Ok(claimed)
    }

    /// Claims the row with this name, where it is ready: the way of a scheduler that has found it by itself.
    pub async fn claim_named(&self, address: &Address, owner: &Name) -> Result<Named, StoreError> {
        let named = self.store.claim_named(address, &self.wish(owner, 1)).await?;
        match &named {
            Named::Claimed(message) => log::taken(message),
            Named::Taken(status) => log::skipped(address, status.as_str()),
            Named::NotYet => log::skipped(address, "it waits"),
            Named::Missing => log::skipped(address, "it is not there"),
        }
        Ok(named)
    }

    /// Makes the leases of these rows last anew; tells which are still held.
    pub async fn beat(&self, held: &[Held]) -> Result<Vec<Epoch>, StoreError> {
        self.store.beat(held, self.settings.lease_for).await
    }

    /// The row was worked.
    pub async fn done(&self, held: &Held) -> Result<Holding, StoreError> {
        self.end(held, &Ending::Done).await
    }

    /// The attempt failed: the row is PENDING again after a delay, or DEAD where no attempts are left.
    pub async fn fail(&self, held: &Held, error: &str) -> Result<Holding, StoreError> {
        let Some(message) = self.store.look(&held.address).await? else { return Ok(Holding::Lost) };
        // As long as the epoch is this one, so are the attempts.
        self.end(held, &self.after(message.row.attempts, error)).await
    }

    /// What becomes of a row whose attempt failed.
    pub(crate) fn after(&self, attempts: u32, error: &str) -> Ending {
        // Without chance, delays are only less spread.
        self.settings.retry.after(attempts, error.to_owned(), getrandom::u64().unwrap_or_default())
    }

    /// Ends a claim.
    pub async fn end(&self, held: &Held, ending: &Ending) -> Result<Holding, StoreError> {
        let holding = self.store.end(held, ending).await?;
        match (holding, ending) {
            (Holding::Lost, _) => log::lost(held),
            (Holding::Held, Ending::Done) => log::done(held),
            (Holding::Held, Ending::Again { error, .. }) => log::returned(held, error),
            (Holding::Held, Ending::Dead { error }) => log::dead(held, error),
        }
        Ok(holding)
    }

    /// Takes rows away from workers that are gone. Workers do that by themselves, twice a second.
    pub async fn lapse(&self) -> Result<Vec<Row>, StoreError> {
        let lapsed = self.store.lapse(&self.name, self.settings.retry.attempts_max, ROWS_MAX).await?;
        lapsed.iter().for_each(log::lapsed);
        Ok(lapsed)
    }

    pub async fn look(&self, address: &Address) -> Result<Option<Message>, StoreError> {
        self.store.look(address).await
    }

    /// A page of rows of this status, which arrived after the row with this number.
    pub async fn list(&self, status: Status, after: u64, limit: u32) -> Result<Vec<Row>, StoreError> {
        self.store.list(&List { inbox: self.name.clone(), status, after, limit }).await
    }

    /// The rows that are DOING for longer than the settings say is usual.
    pub async fn stuck(&self) -> Result<Vec<Row>, StoreError> {
        self.store.stuck(&self.name, self.settings.stuck_for).await
    }

    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.store.counts(&self.name).await
    }

    /// Has a DEAD row worked after all.
    pub async fn redrive(&self, address: &Address) -> Result<Redriven, StoreError> {
        self.store.redrive(address).await
    }

    /// Removes one slice of the rows that were kept for long enough. Workers do that by themselves, once a minute.
    pub async fn sweep(&self, rows_max: u32) -> Result<u64, StoreError> {
        self.store.sweep(&self.name, self.settings.keep, rows_max).await
    }

    /// Works the inbox until the worker is stopped. How the handler was made says what it promises.
    pub fn work(&self, handler: impl Handler<S>) -> Worker {
        Worker::start(self.clone(), handler)
    }
}
