//! Task-locals from outside of the layer, copied into the handler.
//!
//! A handler has a task of its own, and goes on when its client is gone, so task-locals around the request's own task
//! are not there. Running the handler in that task would only seem to help: as soon as a client hangs up, the handler
//! would go on without them, and a handler that needs them would panic in the middle of its work. So the task-locals
//! that the program names are copied when the request arrives, and stay to the end. Request extensions do not need
//! this.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::LocalKey;

/// Work to run with a value set.
type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A copied value, with its key.
trait Local: Send {
    /// Runs the work with the value set.
    fn around(self: Box<Self>, work: Work<'_>) -> Work<'_>;
}

struct Found<T: 'static>(&'static LocalKey<T>, T);

impl<T: Send + 'static> Local for Found<T> {
    fn around(self: Box<Self>, work: Work<'_>) -> Work<'_> {
        let Self(key, value) = *self;
        Box::pin(key.scope(value, work))
    }
}

/// Copies the value of one task-local, if it is set.
#[derive(Clone)]
pub(crate) struct Carry(Arc<dyn Fn() -> Option<Box<dyn Local>> + Send + Sync>);

impl Carry {
    pub(crate) fn of<T: Clone + Send + 'static>(key: &'static LocalKey<T>) -> Self {
        Self(Arc::new(move || {
            let value = key.try_with(Clone::clone).ok()?;
            Some(Box::new(Found(key, value)) as Box<dyn Local>)
        }))
    }
}

/// The copied values of one request.
pub(crate) struct Locals(Vec<Box<dyn Local>>);

impl Locals {
    /// Copies the values that are set now.
    pub(crate) fn here(carried: &[Carry]) -> Self {
        Self(carried.iter().filter_map(|carry| (carry.0)()).collect())
    }

    /// Runs the work with all values set.
    pub(crate) async fn around<T: Send>(self, work: impl Future<Output = T> + Send) -> T {
        if self.0.is_empty() {
            return work.await;
        }
        let mut done = None;
        let noting: Work<'_> = Box::pin(async { done = Some(work.await) });
        self.0.into_iter().fold(noting, |work, local| local.around(work)).await;
        done.expect("the work has ended")
    }
}
