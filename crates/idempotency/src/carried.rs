//! Work that is carried to its end, whoever stops waiting for it.
//!
//! hyper drops a request's future when its client goes away. What must not stop half way would need a task of its own,
//! and pay for it each time; here it moves to one only when it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that goes on after it was dropped.
pub(crate) struct Carried<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

/// Carries this work to its end.
pub(crate) fn carried<F: Future<Output: Send> + Send + 'static>(work: F) -> Carried<F> {
    Carried(Some(Box::pin(work)))
}

impl<F: Future<Output: Send> + Send + 'static> Future for Carried<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.0.as_mut().expect("it is not polled after its end");
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Carried<F> {
    fn drop(&mut self) {
        // Unwinding, it may be the work itself that panicked; and without a runtime nothing can go on.
        if let (Some(work), false, Ok(runtime)) =
            (self.0.take(), std::thread::panicking(), Handle::try_current())
        {
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
    async fn work_that_was_never_begun_is_begun() {
        let (done, end) = oneshot::channel();
        drop(carried(async move { done.send("done").unwrap() }));
        assert_eq!(end.await, Ok("done"));
    }
}
