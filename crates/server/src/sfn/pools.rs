//! Threads by purpose. What reads the disk cannot keep a definition from being checked, and what evaluates for long keeps
//! nobody from reading. Whoever waits for an execution or a task needs no thread at all.

use super::Api;
use super::error::ApiError;
use crate::places::{NotDone, Pool};
use perdura_engine::asl::json::Value;
use perdura_store::{Failure, Reader};

/// What is read or printed in less than a millisecond needs no thread of its own.
const LARGE_BYTES: usize = 64 << 10;

pub(super) struct Pools {
    /// Large requests and answers, payloads and definitions are read and printed.
    parsing: Pool,
    /// States are tried out, and definitions judged.
    evaluating: Pool,
    /// The store is read.
    reading: Pool,
    /// Machines and activities are kept, which waits for the store's one writer.
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

/// Whether to read or print so many bytes takes long.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LARGE_BYTES
}

impl Api {
    /// Reads or prints so many bytes: here where they are few.
    pub(crate) async fn computing<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if is_large(bytes) { self.parsing(work).await } else { work() }
    }

    /// Reads something that takes long.
    pub(super) async fn parsing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.0.pools.parsing.run(work).await?
    }

    /// Prints an answer of about so many bytes: here where they are few. Whoever has done something is told of it.
    pub(crate) async fn printing(&self, bytes: usize, answer: Value) -> Result<String, ApiError> {
        if is_large(bytes) {
            return Ok(self.0.pools.parsing.finish(move || answer.to_string()).await?);
        }
        Ok(answer.to_string())
    }

    /// Evaluates what is left after a call that was made, and must not be made again.
    pub(super) async fn finishing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.0.pools.evaluating.finish(work).await?)
    }

    /// Evaluates expressions, whose meter allows for seconds.
    pub(super) async fn evaluating<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.0.pools.evaluating.run(work).await?
    }

    /// Reads from the store, and makes something of it.
    pub(super) async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let api = self.clone();
        self.0.pools.reading.run(move || work(&api)).await?
    }

    /// Reads from the store.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.reading(move |api| Ok(api.0.door.read(ask)?)).await
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
