//! Threads by purpose: reads of the disk do not delay the checking of definitions, and long evaluations do not delay
//! reads. A wait for an execution or a task needs no thread.

use super::Api;
use super::error::ApiError;
use crate::places::{NotDone, Pool};
use perdura_engine::asl::json::Value;
use perdura_store::{Failure, Reader};

/// Fewer bytes are parsed or printed within a millisecond, without another thread.
const LARGE_BYTES: usize = 64 << 10;

/// A pool for each purpose.
pub(super) struct Pools {
    /// For parsing and printing large requests, answers, payloads and definitions.
    parsing: Pool,
    /// For `TestState` and `ValidateStateMachineDefinition`.
    evaluating: Pool,
    /// For reads of the store.
    reading: Pool,
    /// For changes of machines and activities, which wait for the store's one writer.
    changing: Pool,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            parsing: Pool::new("large requests", 4, 1_024),
            evaluating: Pool::new("states under test", 2, 16),
            reading: Pool::new("reads", 16, 16_384),
            changing: Pool::new("changes", 8, 1_024),
        }
    }
}

/// Whether parsing or printing so many bytes takes long.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LARGE_BYTES
}

impl Api {
    /// Parses or prints so many bytes: on this thread if they are few.
    pub(crate) async fn computing<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if is_large(bytes) { self.parsing(work).await } else { work() }
    }

    /// Parses something large.
    pub(super) async fn parsing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.0.pools.parsing.run(work).await?
    }

    /// Prints an answer of about so many bytes: on this thread if they are few. It is never refused: the deed is done.
    pub(crate) async fn printing(&self, bytes: usize, answer: Value) -> Result<String, ApiError> {
        if is_large(bytes) {
            return Ok(self.0.pools.parsing.finish(move || answer.to_string()).await?);
        }
        Ok(answer.to_string())
    }

    /// Evaluates what follows a call of `TestState`. It is never refused: the call must not be made again.
    pub(super) async fn finishing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.0.pools.evaluating.finish(work).await?)
    }

    /// Evaluates expressions, which may take seconds.
    pub(super) async fn evaluating<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.0.pools.evaluating.run(work).await?
    }

    /// Reads from the store, and computes something from it.
    pub(super) async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let api = self.clone();
        self.0.pools.reading.run(move || work(&api)).await?
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.reading(move |api| Ok(api.door().read(ask)?)).await
    }

    /// Writes to the store beside executions.
    pub(super) async fn changing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let api = self.clone();
        self.0.pools.changing.run(move || work(&api)).await?
    }
}

impl From<NotDone> for ApiError {
    fn from(not_done: NotDone) -> Self {
        match not_done {
            NotDone::Crowded(crowded) => crowded.into(),
            NotDone::Panicked(panic) => Self::unavailable(panic),
        }
    }
}
