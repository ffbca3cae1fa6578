//! Events for observers: each step of an operation, as it happens.
//!
//! Metrics, logs, alarms and audits use it. An observer runs within the request, so it must be quick and not block.
//! Events contain ids and counts, never keys, bodies or credentials.

use crate::record::{Epoch, OperationId};
use crate::store::Swept;
use std::sync::Arc;
use std::time::Duration;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The route's template, with its method: `POST /payments/{id}`. Empty if no request is concerned, or the route is
    /// unknown.
    pub route: Arc<str>,
    /// The operation. `None`: the request had no usable key.
    pub operation: Option<OperationId>,
    pub what: What,
}

/// The events of an operation, in the order in which they can happen. `epoch` is the number of the grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The request was checked, and is about to be claimed.
    Arrived,
    /// The operation was granted to this instance; `taken_over`: an earlier run began and did not end.
    Claimed { epoch: Epoch, taken_over: bool },
    /// The lease is about to be renewed.
    Renewing { epoch: Epoch },
    /// The handler has ended; its end is about to be recorded.
    Saving { epoch: Epoch, ran_for: Duration },
    /// The store could not record the end; this is retried.
    SaveFailed { epoch: Epoch },
    /// The end is recorded.
    Saved {
        epoch: Epoch,
        status: u16,
        /// Whether the answer was stored: not if it is too large, or a stream.
        retained: bool,
    },
    /// Nothing was done, and the operation is forgotten.
    Released { epoch: Epoch },
    /// The outcome is unknown, and recorded so.
    Unknown { epoch: Epoch, panicked: bool },
    /// It was taken over, and the earlier work goes on elsewhere: it has no end yet, and a later request asks again.
    GoesOn { epoch: Epoch },
    /// Its lease ran out, and it was not taken over: its holder died, or was stopped for too long. The outcome is
    /// unknown from now on, unless its holder still completes it.
    Lapsed { by: FoundBy },
    /// Another process holds it, or its record is gone: the work of this instance under its grant does not count.
    LeaseLost { epoch: Epoch },
    /// A second request waits for the first.
    Waiting,
    /// It waited this long.
    Waited { waited_for: Duration },
    /// The stored answer was sent.
    Replayed { epoch: Epoch },
    /// The same key with another request was refused.
    Conflicted,
    /// Many different requests came under one key: an attacker guesses keys, or a client generates them badly.
    ReplayAnomaly {
        /// The number of different requests within the window.
        requests: u32,
    },
    /// A sweep is about to begin.
    Sweeping,
    /// A sweep ended. Each operation that it found to have lapsed was reported before, as [`Lapsed`](Self::Lapsed).
    Swept(Swept),
    /// The request was refused with this reason.
    Refused { reason: &'static str },
}

/// How an expired lease was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// A sweep. It does not know the route.
    Sweep,
    /// A request for the same operation.
    Claim,
}

/// A receiver of events.
pub trait Observer: Send + Sync + 'static {
    fn happened(&self, happening: &Happening);
}

impl<F: Fn(&Happening) + Send + Sync + 'static> Observer for F {
    fn happened(&self, happening: &Happening) {
        self(happening);
    }
}
