//! The state of operations, for callers and for operators.
//!
//! A caller sees the operations of its own scope, over HTTP: their state, and never the answer itself, for which it
//! repeats the request. Another caller's operation is not found, with the same answer as for one that never existed.
//!
//! An unknown outcome stays unknown until an operator finds out what it was: [`Operations::unknown`] lists them,
//! [`Operations::resolve`] records the result. That first takes the operation over under a new epoch, so that a late
//! holder cannot contradict it afterwards.

mod resource;

use crate::answer::{Answer, Kept, retained_headers};
use crate::asked::random;
use crate::door::Door;
use crate::layer::IdempotencyLayer;
use crate::record::{
    Claim, Claimed, Completion, Ending, Epoch, Grant, Holding, OperationId, Record, RequestTag, ScopeTag,
    Standing, Takeover,
};
use crate::scope::Scope;
use crate::store::{Scrubbed, StoreError};
use crate::vault::{SealError, Sealing};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The lease of an operator's own grant: longer than it takes to record a decision.
const RESOLVE_FOR: Duration = Duration::from_secs(30);
/// The lease of a probe of the store.
const PROBE_FOR: Duration = Duration::from_secs(1);

/// The operations behind a layer. Created by [`IdempotencyLayer::operations`].
#[derive(Clone)]
pub struct Operations {
    layer: IdempotencyLayer,
}

/// The state of an operation, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A process works on it.
    Running,
    /// A process worked on it, and the lease ran out; no request and no sweep has noticed it yet.
    Interrupted,
    /// It began, and its outcome is unknown.
    Unknown,
    /// It has an answer.
    Completed,
    /// It had an answer, which is no longer kept.
    Expired,
}

impl State {
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Interrupted, Self::Unknown, Self::Completed, Self::Expired];

    /// The name for callers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
            Self::Completed => "completed",
            Self::Expired => "expired",
        }
    }
}

/// The visible data of an operation: everything except the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    pub state: State,
    /// The newest grant.
    pub epoch: Epoch,
    /// When it began first.
    pub first_at: Timestamp,
    /// When it ended, or was found to have an unknown outcome.
    pub ended_at: Option<Timestamp>,
    /// When the record expires.
    pub expires_at: Option<Timestamp>,
}

impl From<&Record> for Looked {
    fn from(record: &Record) -> Self {
        let (state, ended_at, expires_at) = match &record.standing {
            Standing::Running { lease_left } if lease_left.is_zero() => (State::Interrupted, None, None),
            Standing::Running { lease_left: _ } => (State::Running, None, None),
            Standing::Unknown { at, expires_at } => (State::Unknown, Some(*at), Some(*expires_at)),
            Standing::Completed { at, expires_at, answer: _ } => {
                (State::Completed, Some(*at), Some(*expires_at))
            }
            Standing::Expired { at } => (State::Expired, Some(*at), None),
        };
        Self { state, epoch: record.epoch, first_at: record.first_at, ended_at, expires_at }
    }
}

/// The true outcome of an operation with an unknown one.
#[derive(Debug)]
pub enum Resolution {
    /// Nothing was done. The operation is forgotten, and a retry runs it.
    NotApplied,
    /// It was done, and this is the answer to give. The scope is the one that made the request: its tenant's key
    /// encrypts the answer.
    Applied(Scope, Response<Bytes>),
}

/// Why an operation was not resolved. In all of these cases its state is unchanged, or its outcome unknown as before.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such operation, or its record expired.
    #[error("there is no operation {0}, or it is no longer kept")]
    NotThere(OperationId),
    /// Its outcome is not unknown.
    #[error("the operation {operation} is {}: only an outcome that is unknown can be resolved", state.name())]
    NotUnknown {
        operation: OperationId,
        /// Its state.
        state: State,
    },
    /// It belongs to another caller.
    #[error("the operation {0} was not made by the tenant and principal that were named")]
    OtherScope(OperationId),
    /// Another process has taken it over meanwhile. Look again.
    #[error("the operation {0} was taken over by somebody else meanwhile: look again")]
    Superseded(OperationId),
    /// The answer could not be encrypted.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The store did not answer. Try again when the grant for this, of 30 s, has run out.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl IdempotencyLayer {
    /// The operations behind this layer: for operators, and as a [`Router`](axum::Router) for callers.
    pub fn operations(&self) -> Operations {
        Operations { layer: self.clone() }
    }
}

impl Operations {
    fn door(&self) -> &Arc<Door> {
        &self.layer.door
    }

    /// The operation of a caller's key, on a route as it was declared to the layer.
    pub fn named(&self, scope: &Scope, method: &Method, route: &str, key: Uuid) -> OperationId {
        self.door().vault.operation(scope, method, route, key)
    }

    /// The state of an operation. `None`: there is none, or its record expired.
    pub async fn look(&self, operation: OperationId) -> Result<Option<Looked>, StoreError> {
        Ok(self.door().store.look(operation).await?.as_ref().map(Looked::from))
    }

    /// The operations with an unknown outcome, of all callers, at most `limit`, the oldest first: those that an
    /// operator must resolve. An operation whose process died is among them once its lease ran out and a sweep noticed
    /// it; and so is one that goes on elsewhere, as [`Attached::StillRunning`](crate::Attached::StillRunning) said.
    ///
    /// Each stays until it is resolved, its holder completes it after all, a request takes it over if the route allows
    /// that, or its retention is over. So a listed operation may have changed since: [`resolve`](Self::resolve) takes
    /// it over first, and refuses if its outcome is no longer unknown; [`look`](Self::look) shows its current state. An
    /// operation that is not resolved before its retention is over is forgotten, and then a retry runs it.
    ///
    /// ```
    /// # use perdura_idempotency::{IdempotencyLayer, operations::Resolution, record::OperationId};
    /// # async fn was_done(_: OperationId) -> bool { false }
    /// # async fn reconcile(layer: IdempotencyLayer) -> Result<(), Box<dyn std::error::Error>> {
    /// let operations = layer.operations();
    /// for (operation, looked) in operations.unknown(100).await? {
    ///     println!("{operation}: since {:?}", looked.ended_at);
    ///     if !was_done(operation).await {
    ///         operations.resolve(operation, Resolution::NotApplied).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn unknown(&self, limit: u32) -> Result<Vec<(OperationId, Looked)>, StoreError> {
        let unknown = self.door().store.unknown(limit).await?;
        Ok(unknown.iter().map(|(operation, record)| (*operation, Looked::from(record))).collect())
    }

    /// Whether the store can write: an instance that cannot should get no requests. Claims and releases an operation
    /// that no request uses.
    pub async fn check_writes(&self) -> Result<(), StoreError> {
        let probe = Claim {
            operation: OperationId::from_hash([0; 16]),
            scope: ScopeTag([0; 16]),
            request: RequestTag([0; 32]),
            claimant: Uuid::from_bytes(random()),
            lease_for: PROBE_FOR,
            takeover: Takeover::Allowed,
            keep: self.door().longest_keep(),
        };
        match self.door().store.claim(&probe).await? {
            Claimed::Granted(grant) => {
                self.door().store.release(probe.operation, grant.epoch).await.map(|_| ())
            }
            // Another check runs at this moment.
            Claimed::Found(_) | Claimed::Lapsed(_) => Ok(()),
        }
    }

    /// Removes the stored answer and keeps the record: the operation does not run again, and its answer is not given
    /// again. `false`: there was none.
    pub async fn erase(&self, operation: OperationId) -> Result<bool, StoreError> {
        let erased = self.door().store.erase(operation).await?;
        tracing::info!(%operation, erased, "the answer of an operation was erased");
        Ok(erased)
    }

    /// Takes what was erased out of the store's files, where one has so many bytes at most; see
    /// [`Store::scrub`](crate::store::Store::scrub).
    pub async fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, StoreError> {
        self.door().store.scrub(bytes_max).await
    }

    /// Records the true outcome of an operation; returns the epoch of the record.
    ///
    /// Make sure first that nothing works on it any more: a handler that was only slow loses its grant, and its later
    /// work does not count here.
    pub async fn resolve(
        &self,
        operation: OperationId,
        resolution: Resolution,
    ) -> Result<Epoch, ResolveError> {
        let door = self.door();
        let record = door.store.look(operation).await?.ok_or(ResolveError::NotThere(operation))?;
        if let Resolution::Applied(scope, _) = &resolution
            && door.vault.scope(scope) != record.scope
        {
            return Err(ResolveError::OtherScope(operation));
        }
        let grant = self.take_over(operation, &record).await?;
        let holding = match resolution {
            Resolution::NotApplied => door.store.release(operation, grant.epoch).await?,
            Resolution::Applied(scope, answer) => {
                self.answer(operation, &record, grant, &scope, answer).await?
            }
        };
        match holding {
            Holding::Held => {
                tracing::info!(%operation, epoch = %grant.epoch, "an unknown outcome was resolved");
                Ok(grant.epoch)
            }
            Holding::Lost => Err(ResolveError::Superseded(operation)),
        }
    }

    /// The claim itself decides whether there is something to resolve: an operation that has an end, or that a process
    /// holds, is not granted.
    async fn take_over(&self, operation: OperationId, record: &Record) -> Result<Grant, ResolveError> {
        let store = &self.door().store;
        let claim = Claim {
            operation,
            scope: record.scope,
            request: record.request,
            claimant: Uuid::from_bytes(random()),
            lease_for: RESOLVE_FOR,
            takeover: Takeover::Allowed,
            keep: self.door().longest_keep(),
        };
        match store.claim(&claim).await? {
            Claimed::Granted(grant) if grant.taken_over => Ok(grant),
            Claimed::Granted(grant) => {
                // The record expired since it was looked at, and a claim for it began a new operation.
                store.release(operation, grant.epoch).await?;
                Err(ResolveError::NotThere(operation))
            }
            Claimed::Found(found) | Claimed::Lapsed(found) => {
                Err(ResolveError::NotUnknown { operation, state: Looked::from(&found).state })
            }
        }
    }

    /// Records the answer, or an unknown outcome again if the answer cannot be encrypted.
    async fn answer(
        &self,
        operation: OperationId,
        record: &Record,
        grant: Grant,
        scope: &Scope,
        answer: Response<Bytes>,
    ) -> Result<Holding, ResolveError> {
        let door = self.door();
        let (parts, body) = answer.into_parts();
        let headers = retained_headers(parts.status, &parts.headers, &door.retained_headers);
        let trailers = HeaderMap::new();
        let mut stored = Answer { status: parts.status, headers, body: Kept::Body(body), trailers };
        if let Some(redact) = &door.redact {
            redact(&mut stored);
        }
        let sealing = Sealing {
            tenant: &scope.tenant,
            scope: record.scope,
            operation,
            request: record.request,
            epoch: grant.epoch,
        };
        let (ending, fault) = match door.vault.seal(&sealing, &stored.encode()) {
            Ok(sealed) => (Ending::Answered(sealed), None),
            Err(fault) => (Ending::Unknown, Some(fault)),
        };
        let completion = Completion { operation, epoch: grant.epoch, ending, keep: door.longest_keep() };
        let holding = door.store.complete(&completion).await?;
        fault.map_or(Ok(holding), |fault| Err(fault.into()))
    }
}
