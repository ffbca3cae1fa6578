//! Who waits for a record to change, within this process.
//!
//! A bell per operation, hung up by the first who waits and taken down by the last. Ringing one that nobody hears is
//! cheap and common. It is only a hint: whoever waits also asks the store now and then.

use super::Pending;
use crate::record::OperationId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Notify;

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
        let place = Place { bells: self.clone(), operation };
        let mut heard = Box::pin(bell.notified_owned());
        heard.as_mut().enable();
        Box::pin(async move {
            heard.await;
            drop(place);
        })
    }

    /// Wakes all who wait for this operation. The bell is let go before the lock is: the last to leave counts hands.
    pub(crate) fn ring(&self, operation: OperationId) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(&operation).and_then(Weak::upgrade) {
            bell.notify_waiters();
        }
    }

    /// Wakes all who wait: something may have been missed.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn ring_all(&self) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in bells.values().filter_map(Weak::upgrade) {
            bell.notify_waiters();
        }
    }
}

/// Somebody who waits. The bell is held by the `heard` future; the last to leave takes the entry away.
struct Place {
    bells: Bells,
    operation: OperationId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut bells = self.bells.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bells.get(&self.operation).is_some_and(|bell| bell.strong_count() <= 1) {
            bells.remove(&self.operation);
        }
    }
}
