//! Places for what may happen so often at once: bytes in hand, threads at work.
//!
//! Whoever finds none waits in a line, and the line is bounded too: beyond its end one is told to come again. A place
//! belongs to a value, so a client that hangs up leaves the line, or gives back what it held, by being dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many places, and so many who may wait for one.
#[derive(Debug)]
pub struct Places {
    what: &'static str,
    free: Arc<Semaphore>,
    all: u32,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// One place, or several; they are free again when this goes.
#[derive(Debug)]
pub struct Place {
    _places: OwnedSemaphorePermit,
}

/// A place that goes along with a request, until the last copy of this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    _place: Arc<Place>,
}

impl Room {
    pub(crate) fn of(place: Place) -> Self {
        Self { _place: Arc::new(place) }
    }
}

/// There is no place, and the line is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many {what} at once: try again in a moment")]
pub struct Crowded {
    pub what: &'static str,
}

impl Places {
    pub fn new(what: &'static str, all: u32, waiting_max: usize) -> Self {
        let free = Arc::new(Semaphore::new(all as usize));
        Self { what, free, all, waiting: AtomicUsize::new(0), waiting_max }
    }

    /// Takes so many at once; more than there are is all of them. Those who came first get theirs first.
    pub async fn take(&self, many: u32) -> Result<Place, Crowded> {
        let many = many.clamp(1, self.all);
        if let Ok(places) = self.free.clone().try_acquire_many_owned(many) {
            return Ok(Place { _places: places });
        }
        let _waits = Waits::begin(self)?;
        Ok(self.wait(many).await)
    }

    /// The same for whoever cannot be sent away, because what is to be told has been done. There are no more of them than
    /// connections.
    pub(crate) async fn wait(&self, many: u32) -> Place {
        let places = self.free.clone().acquire_many_owned(many.clamp(1, self.all)).await;
        Place { _places: places.expect("places are never closed") }
    }

    pub fn crowded(&self) -> Crowded {
        Crowded { what: self.what }
    }
}

/// Somebody in the line.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(places: &'a Places) -> Result<Self, Crowded> {
        let waits = Self(&places.waiting);
        // Counted first: whoever is one too many leaves with this value.
        if places.waiting.fetch_add(1, Ordering::Relaxed) >= places.waiting_max {
            return Err(places.crowded());
        }
        Ok(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads for one purpose, so that nothing else can use them up.
#[derive(Debug)]
pub(crate) struct Pool(Places);

/// Why work was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDone {
    #[error(transparent)]
    Crowded(#[from] Crowded),
    /// A mistake in perdura.
    #[error("{0}")]
    Panicked(tokio::task::JoinError),
}

impl Pool {
    /// `threads` at work, `waiting_max` in the line.
    pub(crate) fn new(what: &'static str, threads: u32, waiting_max: usize) -> Self {
        Self(Places::new(what, threads, waiting_max))
    }

    /// Does what takes long, or waits for the disk, where that holds up nobody. Once begun it is done to its end, also
    /// where nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let place = self.0.take(1).await?;
        work_at(place, work).await
    }

    /// The same for whoever cannot be sent away.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let place = self.0.wait(1).await;
        work_at(place, work).await
    }
}

async fn work_at<T: Send + 'static>(
    place: Place,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotDone> {
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.map_err(NotDone::Panicked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::Poll;

    /// Polls once.
    async fn polled<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn whoever_finds_no_place_waits_and_the_line_has_an_end() {
        let places = Places::new("things", 2, 1);
        let held = places.take(2).await.expect("there are two");
        let mut second = pin!(places.take(1));
        assert!(polled(second.as_mut()).await.is_none(), "it waits");
        assert_eq!(places.take(1).await.expect_err("the line is full"), Crowded { what: "things" });
        let mut third = pin!(places.wait(1));
        assert!(polled(third.as_mut()).await.is_none(), "whoever cannot be sent away waits all the same");
        drop(held);
        let _second = second.await.expect("there is a place");
        drop(third.await);
        places.take(1).await.expect("there is another");
    }

    #[tokio::test]
    async fn whoever_leaves_the_line_makes_room_in_it() {
        let places = Places::new("things", 1, 1);
        let _held = places.take(1).await.expect("there is one");
        for _ in 0..3 {
            let mut waits = Box::pin(places.take(1));
            assert!(polled(waits.as_mut()).await.is_none(), "it waits");
            drop(waits);
        }
    }

    #[tokio::test]
    async fn more_than_all_is_all() {
        let places = Places::new("things", 2, 1);
        let _held = places.take(5).await.expect("nobody has any");
        assert!(polled(pin!(places.take(1))).await.is_none(), "all are taken");
    }

    #[tokio::test]
    async fn a_pool_has_its_threads_and_no_more_also_for_work_that_nobody_waits_for() {
        let pool = Pool::new("things", 1, 1);
        let (release, released) = mpsc::channel::<()>();
        let mut first = Box::pin(pool.run(move || released.recv()));
        assert!(polled(first.as_mut()).await.is_none(), "it works");
        drop(first);
        let mut second = pin!(pool.run(|| 2));
        assert!(polled(second.as_mut()).await.is_none(), "the first still has the thread");
        release.send(()).expect("it listens");
        assert_eq!(second.await.expect("it is done"), 2);
    }
}
