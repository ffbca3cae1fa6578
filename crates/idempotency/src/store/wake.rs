//! Wakes tasks of this process that wait for a change of a record.
//!
//! One bell per operation, created by the first waiter and removed by the last. Ringing without waiters is cheap and
//! common. It is only a hint: waiters also poll the store now and then.

use super::Pending;
use crate::record::OperationId;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The bells of one store.
#[derive(Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<HashMap<OperationId, Weak<Notify>>>>);

impl Bells {
    /// Ends when the operation's bell rings after this call.
    pub(crate) fn heard(&self, operation: OperationId) -> Pending<'static, ()> {
        let bell = {
            let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let hanging = bells.get(&operation).and_then(Weak::upgrade);
            hanging.unwrap_or_else(|| {
                let bell = Arc::new(Notify::new());
                bells.insert(operation, Arc::downgrade(&bell));
                bell
            })
        };
        let mut ringing = Box::pin(bell.notified_owned());
        ringing.as_mut().enable();
        Box::pin(Place { ringing: Some(ringing), bells: self.clone(), operation })
    }

    /// Wakes all waiters of this operation.
    pub(crate) fn ring(&self, operation: OperationId) {
        // Under the lock: a bell held here while its last waiter leaves would never be removed.
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(&operation).and_then(Weak::upgrade) {
            bell.notify_waiters();
        }
    }

    /// Wakes all waiters: a change may have been missed.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn ring_all(&self) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in bells.values().filter_map(Weak::upgrade) {
            bell.notify_waiters();
        }
    }
}

/// A waiter. Only waiters hold the bell, so the one after whom nobody holds it was the last.
struct Place {
    /// `None`: it is leaving.
    ringing: Option<Pin<Box<OwnedNotified>>>,
    bells: Bells,
    operation: OperationId,
}

impl Future for Place {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.ringing {
            Some(ringing) => ringing.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ringing = None;
        let mut bells = self.bells.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bells.get(&self.operation).is_some_and(|bell| bell.strong_count() == 0) {
            bells.remove(&self.operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bells;
    use crate::record::OperationId;
    use std::task::{Context, Waker};

    fn operation(n: u8) -> OperationId {
        OperationId::from_hash([n; 16])
    }

    #[test]
    fn who_still_waits_hears_the_bell_after_another_gave_up() {
        let bells = Bells::default();
        let mut context = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (bells.heard(operation(1)), bells.heard(operation(1)));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        bells.ring(operation(1));
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn the_last_to_leave_takes_the_bell_down() {
        let bells = Bells::default();
        let mut context = Context::from_waker(Waker::noop());
        for polled in [false, true] {
            let (mut first, mut second) = (bells.heard(operation(1)), bells.heard(operation(1)));
            if polled {
                assert!(first.as_mut().poll(&mut context).is_pending());
                assert!(second.as_mut().poll(&mut context).is_pending());
            }
            drop(first);
            assert_eq!(bells.0.lock().expect("nobody panics").len(), 1);
            bells.ring(operation(1));
            assert!(second.as_mut().poll(&mut context).is_ready());
            drop(second);
            assert_eq!(bells.0.lock().expect("nobody panics").len(), 0);
        }
    }
}
