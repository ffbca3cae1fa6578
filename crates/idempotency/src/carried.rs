//! Work that runs to its end even if its caller stops waiting.
//!
//! hyper drops a request's future when its client goes away. Work that must not stop half way would need a task of its
//! own for every request; here it moves to a task only when it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that continues after it was dropped.
pub(crate) struct Carried<F: Future<Output: Send> + Send + 'static> {
    /// `None` if there is nothing to continue: it has ended, or panicked.
    work: Option<Pin<Box<F>>>,
    /// The runtime to continue on. The future may be dropped by a thread outside of any runtime.
    runtime: Option<Handle>,
}

/// Wraps work so that it runs to its end.
pub(crate) fn carried<F: Future<Output: Send> + Send + 'static>(work: F) -> Carried<F> {
    Carried { work: Some(Box::pin(work)), runtime: Handle::try_current().ok() }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Carried<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out meanwhile: if the work panics it is not continued, and another panic does not stop it.
        let mut work = self.work.take().expect("it is not polled after its end");
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Carried<F> {
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), &self.runtime) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_that_is_awaited_is_done_in_place() {
        let here = tokio::spawn(async { (tokio::task::id(), carried(async { tokio::task::id() }).await) });
        let (outside, inside) = here.await.unwrap();
        assert_eq!(outside, inside);
    }

    #[tokio::test]
    async fn work_that_is_dropped_goes_on() {
        let (go, going) = oneshot::channel::<()>();
        let (done, end) = oneshot::channel();
        let mut work = Box::pin(carried(async move {
            going.await.unwrap();
            done.send("done").unwrap();
        }));
        tokio::select! {
            biased;
            () = &mut work => panic!("it waits"),
            () = std::future::ready(()) => {}
        }
        drop(work);
        go.send(()).unwrap();
        assert_eq!(end.await, Ok("done"));
    }

    #[tokio::test]
    async fn work_that_panics_is_not_carried_on() {
        let (done, end) = oneshot::channel::<()>();
        let panics = tokio::spawn(carried(async move {
            let _done = done;
            panic!("on purpose");
        }));
        assert!(panics.await.is_err());
        assert!(end.await.is_err(), "nothing is left of it");
    }

    #[tokio::test]
    async fn work_that_was_never_begun_is_begun() {
        let (done, end) = oneshot::channel();
        drop(carried(async move { done.send("done").unwrap() }));
        assert_eq!(end.await, Ok("done"));
    }
}
