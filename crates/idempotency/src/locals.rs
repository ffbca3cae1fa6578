//! Task-locals of what stands outside of the layer, taken along to the handler.
//!
//! A handler has a task of its own, and goes on when its client is gone: what was set around the request's own task is not
//! there. To run it in that task would only seem to help: as soon as a client hangs up, the handler would go on without
//! them, and one that counts on them would panic in the middle of its work. So those that the program names are copied when
//! the request arrives, and are there to the end. What is in the request's extensions needs nothing of this.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::LocalKey;

/// Work that something is put around.
type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A value that was found, with its key.
trait Local: Send {
    /// The work, with the value there.
    fn around(self: Box<Self>, work: Work<'_>) -> Work<'_>;
}

struct Found<T: 'static>(&'static LocalKey<T>, T);

impl<T: Send + 'static> Local for Found<T> {
    fn around(self: Box<Self>, work: Work<'_>) -> Work<'_> {
        let Self(key, value) = *self;
        Box::pin(key.scope(value, work))
    }
}

/// Finds the value of one task-local, where it is set.
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

/// The values that one request came with.
pub(crate) struct Locals(Vec<Box<dyn Local>>);

impl Locals {
    /// Those that are set here and now.
    pub(crate) fn here(carried: &[Carry]) -> Self {
        Self(carried.iter().filter_map(|carry| (carry.0)()).collect())
    }

    /// Does the work with them there.
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
