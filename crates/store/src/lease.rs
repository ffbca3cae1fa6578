//! Leases: the right of one node to take Turns on some Shards.
//!
//! Two nodes may believe that they hold the same Shard: one was paused and woke up late. So each node lives under an
//! [`Incarnation`], a number that only grows, and to take Shards over is to end the incarnation that had them: what comes
//! under it after that is refused. The clock decides when that may be done; whether a commit counts is decided by the
//! number alone. Safety never rests on clocks.

pub use perdura_engine::Shard;
use perdura_engine::Timestamp;
use std::fmt;
use std::sync::Arc;

/// One life of one node: each is higher than all before. Whoever gets Shards gets a new one with them, so what an execution
/// did under a lower number was before what it did under a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Where a journal row stands: in the journal of an incarnation, whose rows are numbered from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub incarnation: Incarnation,
    pub number: u64,
}

impl Position {
    /// Before the first row of an incarnation.
    pub fn before(incarnation: Incarnation) -> Self {
        Self { incarnation, number: 0 }
    }

    /// The one after.
    #[must_use]
    pub fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.incarnation, self.number)
    }
}

/// Who wants Shards, and for how long.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The node's name. Whoever comes under the same name takes over at once.
    pub holder: Arc<str>,
    /// How many Shards at most.
    pub most: u16,
    pub now: Timestamp,
    /// After this somebody else may take them.
    pub expires_at: Timestamp,
}

/// Holding one is the proof: only this crate's stores can grant it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) incarnation: Incarnation,
    pub(crate) shards: Arc<[Shard]>,
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
    /// On which Shards, in order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Under which number.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whose.
    pub fn holder(&self) -> &Arc<str> {
        &self.holder
    }

    /// The newest steady time of all who held Shards before. `None`: nobody did.
    pub fn steady_at(&self) -> Option<Timestamp> {
        self.steady_at
    }

    /// After this somebody else may take its Shards.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}
