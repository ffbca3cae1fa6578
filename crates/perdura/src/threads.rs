//! Runs blocking work (the disk) away from async threads.

use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

/// Runs the work on a thread that may block.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The program's runtime shuts down; this waiting task is about to be dropped with it.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}
