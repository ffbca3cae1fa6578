//! Work that waits for the disk, off the threads that must not wait.

use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

/// Runs it where waiting is allowed.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The program's runtime shuts down, and whoever waits here is about to be dropped with it.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}
