//! What the layer tells whoever wants to know: each thing that happens to an operation, as it happens.
//!
//! Metrics, logs, alarms and audits hang here. An observer is called on the way, so it is quick and does not block; it
//! sees ids and counts, never keys, bodies or credentials.

use crate::record::{Epoch, OperationId};
use crate::store::Swept;
use std::sync::Arc;
use std::time::Duration;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The route's template, with its method: `POST /payments/{id}`. Empty where no request is concerned, or it is not
    /// known which.
    pub route: Arc<str>,
    /// The operation. `None`: the request had no usable key.
    pub operation: Option<OperationId>,
    /// What happened.
    pub what: What,
}

/// What happened to an operation, in the order in which it can happen. `epoch` is the number of the grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The request is whole and sound, and is about to be claimed.
    Arrived,
    /// It was granted to this instance; `taken_over`: somebody began before and did not end.
    Claimed { epoch: Epoch, taken_over: bool },
    /// The lease is about to be renewed.
    Renewing { epoch: Epoch },
    /// The handler has answered, or ended otherwise; its end is about to be recorded.
    Saving { epoch: Epoch, ran_for: Duration },
    /// The store could not be told the end; this is tried again.
    SaveFailed { epoch: Epoch },
    /// The end is recorded.
    Saved {
        epoch: Epoch,
        status: u16,
        /// Whether the answer was kept with it: not one that is too large, or a stream.
        retained: bool,
    },
    /// Nothing was done, and the operation is forgotten.
    Released { epoch: Epoch },
    /// What came of it is not known, and recorded so.
    Unknown { epoch: Epoch, panicked: bool },
    /// It was taken over, and the work that was begun before goes on elsewhere: it has no end yet, and a later request
    /// asks again.
    GoesOn { epoch: Epoch },
    /// Its lease had run out, and nobody took it over: whoever held it died, or was stopped for too long. What came of it
    /// is unknown from now on, unless its holder tells after all.
    Lapsed { by: FoundBy },
    /// Somebody else holds it by now, or it is gone: what this instance did under its grant does not count.
    LeaseLost { epoch: Epoch },
    /// A second request waits for the first.
    Waiting,
    /// It waited this long.
    Waited { waited_for: Duration },
    /// The stored answer was given.
    Replayed { epoch: Epoch },
    /// The same key with another request was refused.
    Conflicted,
    /// Many different requests came under one key: somebody guesses, or a client draws keys badly.
    ReplayAnomaly {
        /// How many different ones within the window.
        requests: u32,
    },
    /// What expired is about to be removed.
    Sweeping,
    /// What expired was removed. Each operation that was found to have lapsed has been told before, as
    /// [`Lapsed`](Self::Lapsed).
    Swept(Swept),
    /// The request was refused; `reason` is what its caller was given.
    Refused { reason: &'static str },
}

/// Who finds out that a lease ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// A sweep. It does not know the route.
    Sweep,
    /// A request for the same operation.
    Claim,
}

/// Who wants to know.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn happened(&self, happening: &Happening);
}

impl<F: Fn(&Happening) + Send + Sync + 'static> Observer for F {
    fn happened(&self, happening: &Happening) {
        self(happening);
    }
}
