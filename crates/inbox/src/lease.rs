//! The leases of one worker: renewed together, and each a fence for the handler under it.
//!
//! A worker knows its leases by its own clock, counted from before it asked for them, so they end here before they end in the store.
//! A handler whose lease was not renewed in time is stopped, also where the whole process was paused: the fence stands before every step
//! that the handler makes.

use crate::row::{Epoch, Held};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The part of a lease that is left when a handler is stopped.
const MARGIN: u32 = 10;

type Entries = BTreeMap<Epoch, (Held, watch::Sender<Instant>)>;

/// The leases of one worker.
#[derive(Clone)]
pub(crate) struct Leases {
    entries: Arc<Mutex<Entries>>,
    lease_for: Duration,
}

impl Leases {
    pub(crate) fn new(lease_for: Duration) -> Self {
        Self { entries: Arc::default(), lease_for }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a lease that was asked for at this instant ends here.
    fn end_of(&self, asked_at: Instant) -> Instant {
        asked_at + self.lease_for.saturating_sub(self.lease_for / MARGIN)
    }

    /// A row that was claimed; asked for at this instant.
    pub(crate) fn enter(&self, held: Held, asked_at: Instant) -> Fence {
        let (sender, until) = watch::channel(self.end_of(asked_at));
        let epoch = held.epoch;
        self.entries().insert(epoch, (held, sender));
        Fence { leases: self.clone(), epoch, until }
    }

    /// All rows that are to be renewed.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.entries().values().map(|(held, _)| held.clone()).collect()
    }

    /// Of the rows that were asked to be renewed at this instant, these are still held; the others were taken away.
    pub(crate) fn renewed(&self, asked: &[Held], still: &[Epoch], asked_at: Instant) {
        let entries = self.entries();
        for held in asked {
            let Some((_, until)) = entries.get(&held.epoch) else { continue };
            let end = if still.contains(&held.epoch) { self.end_of(asked_at) } else { asked_at };
            until.send_replace(end);
        }
    }
}

/// The result of work behind a fence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fenced<T> {
    ToItsEnd(T),
    Panicked,
    /// The lease ended first.
    Stopped,
}

/// The lease of one row. Dropped, the row is no longer renewed.
pub(crate) struct Fence {
    leases: Leases,
    epoch: Epoch,
    until: watch::Receiver<Instant>,
}

impl Fence {
    /// The work, for as long as the lease lasts.
    pub(crate) async fn around<T>(&self, work: impl Future<Output = T> + Send) -> Fenced<T> {
        let mut work = std::pin::pin!(work);
        let mut ended = std::pin::pin!(Self::ended(self.until.clone()));
        std::future::poll_fn(move |context| {
            if ended.as_mut().poll(context).is_ready() || Instant::now() >= *self.until.borrow() {
                return Poll::Ready(Fenced::Stopped);
            }
            let work: Pin<&mut _> = work.as_mut();
            match catch_unwind(AssertUnwindSafe(|| work.poll(context))) {
                Ok(polled) => polled.map(Fenced::ToItsEnd),
                Err(_) => Poll::Ready(Fenced::Panicked),
            }
        })
        .await
    }

    async fn ended(mut until: watch::Receiver<Instant>) {
        loop {
            let end = *until.borrow_and_update();
            if Instant::now() >= end {
                return;
            }
            tokio::select! {
                biased;
                changed = until.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(end.into()) => {}
            }
        }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.leases.entries().remove(&self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Address, Name};

    fn held(epoch: u64) -> Held {
        let name = |text| Name::new(text).expect("a name");
        let address = Address { inbox: name("i"), tenant: name("t"), id: name("1") };
        Held { address, owner: name("o"), epoch: Epoch(epoch) }
    }

    #[tokio::test]
    async fn work_is_stopped_when_its_row_was_taken_away() {
        let leases = Leases::new(Duration::from_hours(1));
        let fence = leases.enter(held(1), Instant::now());
        let taken_away = async {
            leases.renewed(&leases.held(), &[], Instant::now());
        };
        let (fenced, ()) = tokio::join!(fence.around(std::future::pending::<()>()), taken_away);
        assert_eq!(fenced, Fenced::Stopped);
    }

    #[tokio::test]
    async fn work_does_not_begin_behind_a_lease_that_is_over() {
        let leases = Leases::new(Duration::from_secs(1));
        let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(2)) else { return };
        let fence = leases.enter(held(1), long_ago);
        assert_eq!(fence.around(async { panic!("it begins") }).await, Fenced::<()>::Stopped);
    }

    #[tokio::test]
    async fn a_renewed_lease_lets_work_go_on_and_a_panic_is_caught() {
        let leases = Leases::new(Duration::from_hours(1));
        let fence = leases.enter(held(1), Instant::now());
        leases.renewed(&leases.held(), &[Epoch(1)], Instant::now());
        assert_eq!(fence.around(async { 7 }).await, Fenced::ToItsEnd(7));
        assert_eq!(fence.around(async { panic!("on purpose") }).await, Fenced::<()>::Panicked);
        drop(fence);
        assert_eq!(leases.held(), []);
    }
}
