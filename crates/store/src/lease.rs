//! Leases: the right of one node to take Turns on some Shards.
//!
//! Two nodes may believe that they hold the same Shard: one was paused and woke up late. So each node lives under an
//! [`Incarnation`], a number that only grows. To take Shards over is to end the incarnation that had them: later
//! commits under it are refused. The clock decides when a node may take Shards over; the number alone decides whether a
//! commit counts. Safety never rests on clocks.

pub use perdura_engine::Shard;
use perdura_engine::Timestamp;
use std::fmt;
use std::sync::Arc;

/// One life of one node: each is higher than all before. A node that gets Shards gets a new one with them, so the Turns
/// of an execution under a lower number are before those under a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A position in the journal of an incarnation, whose rows are numbered from 1 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub incarnation: Incarnation,
    pub number: u64,
}

impl Position {
    /// The position before the first row of an incarnation.
    pub fn before(incarnation: Incarnation) -> Self {
        Self { incarnation, number: 0 }
    }

    /// The next position.
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

/// A node's request for Shards.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The node's name. A node with the same name takes over at once.
    pub holder: Arc<str>,
    /// The largest number of Shards.
    pub most: u16,
    pub now: Timestamp,
    /// After this another node may take them.
    pub expires_at: Timestamp,
}

/// The right to write on some Shards. A Lease is the proof: only this crate's stores can grant one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) incarnation: Incarnation,
    pub(crate) shards: Arc<[Shard]>,
    pub(crate) holder: Arc<str>,
    pub(crate) expires_at: Timestamp,
    pub(crate) steady_at: Option<Timestamp>,
}

/// The new times of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// When it expires, by the wall clock.
    pub expires_at: Timestamp,
    /// The holder's steady time now.
    pub steady_at: Timestamp,
}

impl Lease {
    /// Its Shards, in order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub fn holder(&self) -> &Arc<str> {
        &self.holder
    }

    /// The newest steady time of all earlier holders. `None`: there was none.
    pub fn steady_at(&self) -> Option<Timestamp> {
        self.steady_at
    }

    /// After this another node may take its Shards.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }
}
