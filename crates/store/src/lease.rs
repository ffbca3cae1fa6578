//! Leases: the right to take Turns on one Shard.
//!
//! Two nodes may believe that they hold the same Shard: one was paused and woke up late. So each grant carries
//! an [`Epoch`] that only grows, and a commit under an older Epoch is refused. The clock decides when a Lease
//! may be taken over; the Epoch decides whether a commit counts. Safety never rests on clocks.

pub use perdura_engine::Shard;
use perdura_engine::Timestamp;
use std::fmt;
use std::sync::Arc;

/// Which grant of a Shard: each is higher than all before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The number of a journal row in its Shard: from 1, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The one after.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Holding one is the proof: only this crate's stores can grant it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) shard: Shard,
    pub(crate) epoch: Epoch,
    pub(crate) holder: Arc<str>,
    pub(crate) expires_at: Timestamp,
    pub(crate) steady_at: Option<Timestamp>,
}

/// How a Lease is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Until when it is good, by the wall.
    pub expires_at: Timestamp,
    /// The holder's steady time now.
    pub steady_at: Timestamp,
}

impl Lease {
    /// Of what.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Which grant.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whose.
    pub fn holder(&self) -> &Arc<str> {
        &self.holder
    }

    /// The newest steady time of whoever held the Shard before. `None`: nobody did.
    pub fn steady_at(&self) -> Option<Timestamp> {
        self.steady_at
    }

    /// After this somebody else may take it.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}
