//! The record of an operation, and the verbs on it.
//!
//! A grant carries an [`Epoch`] that no other grant of the same store ever carries, so the newest epoch of a record is
//! the whole proof of being its holder. The clock decides when a lease may be taken over; the epoch decides whether a
//! completion counts. Safety never rests on clocks.

use bytes::Bytes;
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// The id of an operation: a key in its scope on its route. It is a keyed hash of these, so it may be shown and logged,
/// and nobody without the secret can find the key in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub(crate) Uuid);

impl OperationId {
    /// Parses the id from a status resource or an operator.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().filter(|id| id.get_version_num() == 8).map(Self)
    }

    /// The 16 bytes that a store uses as the key.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// From the bytes of a keyed hash: 122 of their bits.
    pub(crate) fn from_hash(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The owner of a record: a keyed hash of tenant and principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeTag(pub [u8; 16]);

/// A keyed hash of the request's fingerprint. Stored in place of the fingerprint, because the plain hash of a guessable
/// body reveals the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestTag(pub [u8; 32]);

/// The number of a grant. It grows with every grant of a store and is never given twice, even after a record was
/// released, expired or swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a claim may take over an operation that another began and did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Takeover {
    /// No: a lease that ran out leaves the outcome unknown. Nothing is run twice; perhaps it was not run at all.
    Never,
    /// Yes, from an expired lease and from an unknown outcome: a second run is safe, or a hook can find out.
    Allowed,
}

/// A request to run an operation.
#[derive(Clone, Debug)]
pub struct Claim {
    pub operation: OperationId,
    pub scope: ScopeTag,
    pub request: RequestTag,
    /// Random for each claim. The same claim offered twice, because the first answer was lost, is granted once.
    pub claimant: Uuid,
    /// The duration of the lease without a renewal, on the store's clock.
    pub lease_for: Duration,
    /// The rule for an expired lease.
    pub takeover: Takeover,
    /// How long an unknown outcome is kept, if this claim finds one.
    pub keep: Keep,
}

/// The store's answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Run it. No other process holds it, and none will while the lease holds.
    Granted(Grant),
    /// The operation is known already; this is its record.
    Found(Record),
    /// The operation is known, and its lease had run out: it must not be taken over, so its outcome is unknown from now
    /// on. The next claim finds it so.
    Lapsed(Record),
}

/// The right to run an operation and to record its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number that renewing, completing and releasing must present.
    pub epoch: Epoch,
    /// An earlier run began and did not end.
    pub taken_over: bool,
    /// When the operation began first, on the store's clock.
    pub first_at: Timestamp,
}

/// A record, at a moment of the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub scope: ScopeTag,
    pub request: RequestTag,
    /// The newest grant.
    pub epoch: Epoch,
    /// When it began first.
    pub first_at: Timestamp,
    pub standing: Standing,
}

/// The state of a record. Each variant has only the data that is valid in it. `Debug` does not show answers: they may
/// be readable.
#[derive(Clone, PartialEq, Eq)]
pub enum Standing {
    /// A process holds it, for `lease_left` unless renewed. Zero: the lease ran out, and no claim and no sweep has
    /// noticed it since.
    Running {
        /// The rest of the lease.
        lease_left: Duration,
    },
    /// It began, and its outcome is unknown. Kept like a result.
    Unknown {
        /// When this was found out.
        at: Timestamp,
        /// When the record expires.
        expires_at: Timestamp,
    },
    /// It has an end, stored as encrypted bytes that the store does not parse.
    Completed {
        /// When it ended.
        at: Timestamp,
        /// When the record expires.
        expires_at: Timestamp,
        /// The answer, sealed.
        answer: Bytes,
    },
    /// It had an end; the answer is no longer kept, only that there was one.
    Expired {
        /// When it ended.
        at: Timestamp,
    },
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { lease_left } => write!(f, "Running({lease_left:?} left)"),
            Self::Unknown { at, expires_at } => write!(f, "Unknown(at {at}, until {expires_at})"),
            Self::Completed { at, expires_at, answer } => {
                write!(f, "Completed(at {at}, until {expires_at}, {} bytes)", answer.len())
            }
            Self::Expired { at } => write!(f, "Expired(ended at {at})"),
        }
    }
}

impl Standing {
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { lease_left } if !lease_left.is_zero())
    }

    /// Whether a claim would leave the record unchanged. Otherwise an earlier run began and did not end, and the next
    /// claim decides.
    pub fn is_settled(&self, takeover: Takeover) -> bool {
        match self {
            Self::Running { .. } => self.is_running(),
            Self::Unknown { .. } => takeover == Takeover::Never,
            Self::Completed { .. } | Self::Expired { .. } => true,
        }
    }
}

/// The end of an operation, from its holder.
#[derive(Clone, Debug)]
pub struct Completion {
    pub operation: OperationId,
    /// The holder's grant.
    pub epoch: Epoch,
    pub ending: Ending,
    /// How long it is kept, counted from now.
    pub keep: Keep,
}

/// The end of an operation. `Debug` does not show an answer: it may be readable.
#[derive(Clone, PartialEq, Eq)]
pub enum Ending {
    /// An answer, sealed.
    Answered(Bytes),
    /// The outcome is unknown.
    Unknown,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(answer) => write!(f, "Answered({} bytes)", answer.len()),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

/// How long an end is kept, counted from completion on the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The record with its answer.
    pub answer_for: Duration,
    /// After that, only the fact that there was one. Zero: nothing.
    pub tombstone_for: Duration,
}

impl Keep {
    /// The longer of both, field by field.
    pub(crate) fn longest(self, other: Self) -> Self {
        Self {
            answer_for: self.answer_for.max(other.answer_for),
            tombstone_for: self.tombstone_for.max(other.tombstone_for),
        }
    }
}

/// Whether the caller still holds its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It does, and the verb was applied.
    Held,
    /// A newer grant exists, or the record is no longer there. Nothing was changed.
    Lost,
}
