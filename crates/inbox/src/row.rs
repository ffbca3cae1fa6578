//! Rows: their names, their columns, and the arguments and results of the verbs.

use bytes::Bytes;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a name may be.
pub const NAME_BYTES_MAX: usize = 255;
/// How large a payload may be.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// How much of an error is kept.
pub const ERROR_BYTES_MAX: usize = 4096;
/// How many rows a verb takes or gives at most.
pub const ROWS_MAX: u32 = 100;
/// The tenant of messages that name none.
pub const DEFAULT_TENANT: &str = "default";

/// The name of an inbox, a tenant, a message, an ordering key or a worker: 1 to 255 bytes without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// It cannot be a name.
#[derive(Debug, thiserror::Error)]
#[error("a name has 1 to {NAME_BYTES_MAX} bytes and no control characters")]
pub struct BadName;

impl Name {
    /// Reads one.
    pub fn new(name: &str) -> Result<Self, BadName> {
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if fits && !name.chars().any(char::is_control) { Ok(Self(name.into())) } else { Err(BadName) }
    }

    /// Before every name, and none itself.
    pub(crate) fn least() -> Self {
        Self("".into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which row: an id belongs to an inbox and a tenant, so that the ids of two tenants cannot collide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub inbox: Name,
    pub tenant: Name,
    pub id: Name,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.inbox, self.tenant, self.id)
    }
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It waits to be worked.
    Pending,
    /// One worker holds it, under a lease.
    Doing,
    /// It was worked.
    Done,
    /// It was given up; a person can redrive it.
    Dead,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Doing, Self::Done, Self::Dead];

    /// As the column has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Doing => "DOING",
            Self::Done => "DONE",
            Self::Dead => "DEAD",
        }
    }

    /// Reads the column.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of a claim. Each claim has a greater one than all before, also of other rows; zero: never claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a message says, as 32 bytes: the same id with another fingerprint is a conflict and no duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// SHA-256 of the bytes as they are.
    pub fn of(payload: &[u8]) -> Self {
        Self(Sha256::digest(payload).into())
    }
}

/// A row without its payload: the columns, as the tables have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub address: Address,
    /// The order of arrival; a redriven row arrives again.
    pub number: u64,
    pub status: Status,
    pub received_at: Timestamp,
    /// When it was claimed last.
    pub claimed_at: Option<Timestamp>,
    /// When it became DONE or DEAD.
    pub processed_at: Option<Timestamp>,
    /// How often it was claimed since it arrived.
    pub attempts: u32,
    /// It is not claimed before; rows are claimed in this order.
    pub not_before: Timestamp,
    pub ordering_key: Option<Name>,
    /// It is the one row of its ordering key that may be worked. Without a key, each is that is not ended.
    pub head: bool,
    /// While it is DOING.
    pub lease_until: Option<Timestamp>,
    /// The worker that claimed it last.
    pub owner: Option<Name>,
    pub epoch: Epoch,
    pub fingerprint: Fingerprint,
    /// Why it was returned or given up last.
    pub last_error: Option<String>,
}

/// A row with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub row: Row,
    pub payload: Bytes,
}

impl Message {
    /// A key that is the same in every attempt, and no other message's: to be handed to a service that honours keys.
    /// Names have no control characters, so the parts cannot run into each other.
    pub fn key(&self) -> String {
        let Address { inbox, tenant, id } = &self.row.address;
        let parts = format!("{inbox}\n{tenant}\n{id}\n{}", self.row.received_at.as_microsecond());
        let digest: [u8; 32] = Sha256::digest(parts).into();
        let (half, _) = digest.split_at(16);
        let half: [u8; 16] = half.try_into().expect("it was split there");
        format!("{:032x}", u128::from_be_bytes(half))
    }

    /// The proof of the claim, which later verbs present.
    pub fn held(&self) -> Option<Held> {
        let owner = self.row.owner.clone()?;
        Some(Held { address: self.row.address.clone(), owner, epoch: self.row.epoch })
    }
}

/// The claim of a row: heartbeat, done and fail show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub address: Address,
    pub owner: Name,
    pub epoch: Epoch,
}

/// A message to be put.
#[derive(Clone, Debug)]
pub struct Put {
    pub address: Address,
    pub ordering_key: Option<Name>,
    pub fingerprint: Fingerprint,
    pub payload: Bytes,
    /// It is not claimed earlier than so long from now.
    pub delay_for: Duration,
}

impl Put {
    /// To be claimed at once, with the payload's own fingerprint.
    pub fn new(address: Address, payload: impl Into<Bytes>) -> Self {
        let payload = payload.into();
        let fingerprint = Fingerprint::of(&payload);
        Self { address, ordering_key: None, fingerprint, payload, delay_for: Duration::ZERO }
    }
}

/// The result of a put, with the row as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is new, and on disk.
    Accepted(Row),
    /// It arrived before; nothing was changed.
    Duplicate(Row),
    /// Another message arrived under this id; nothing was changed.
    Conflict(Row),
}

/// A worker wants rows.
#[derive(Clone, Debug)]
pub struct Claim {
    pub inbox: Name,
    pub owner: Name,
    /// At most so many, and never more than [`ROWS_MAX`].
    pub limit: u32,
    pub lease_for: Duration,
    /// The tenant that this worker served last: those after it in the order of names come first, each with its share.
    pub after: Option<Name>,
}

/// The result of a claim by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and there is one")]
pub enum Named {
    Claimed(Message),
    /// It is not PENDING: somebody works it, or did.
    Taken(Status),
    /// It waits for its time, or for another row of its ordering key.
    NotYet,
    /// There is no such row.
    Missing,
}

/// How a claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The work was done.
    Done,
    /// It failed: PENDING again, so much later.
    Again { error: String, delay_for: Duration },
    /// It failed for good.
    Dead { error: String },
}

/// Whether the claim that was shown still holds the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It did, and what was asked for is done.
    Held,
    /// The row was returned, or claimed by somebody else, or is not there. Nothing was changed.
    Lost,
}

/// The result of a redrive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and there is one")]
pub enum Redriven {
    /// It is PENDING again, with no attempts, as the last of its ordering key.
    Pending(Row),
    /// It is not DEAD; nothing was changed.
    NotDead(Status),
    Missing,
}

/// How long ended rows are kept. As long as a row is there, its id is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub done_for: Duration,
    pub dead_for: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { done_for: Duration::from_hours(7 * 24), dead_for: Duration::from_hours(30 * 24) }
    }
}

/// How many rows stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: u64,
    pub doing: u64,
    pub done: u64,
    pub dead: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, status: Status, rows: u64) {
        let count = match status {
            Status::Pending => &mut self.pending,
            Status::Doing => &mut self.doing,
            Status::Done => &mut self.done,
            Status::Dead => &mut self.dead,
        };
        *count += rows;
    }
}

/// A page of rows of one status, oldest first by arrival.
#[derive(Clone, Debug)]
pub struct List {
    pub inbox: Name,
    pub status: Status,
    /// Those that arrived after this number; zero: from the first.
    pub after: u64,
    /// At most so many, and never more than [`ROWS_MAX`].
    pub limit: u32,
}

/// As much of an error as is kept.
pub fn shortened(error: &str) -> &str {
    let mut end = error.len().min(ERROR_BYTES_MAX);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_printable() {
        for (name, good) in [
            ("order-1", true),
            ("ü/ß", true),
            ("", false),
            ("a\nb", false),
            ("a\0", false),
            (&"x".repeat(255), true),
            (&"x".repeat(256), false),
        ] {
            assert_eq!(Name::new(name).is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn an_error_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "é".repeat(ERROR_BYTES_MAX);
        assert_eq!(shortened(&long).len(), ERROR_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(shortened(&odd).len(), ERROR_BYTES_MAX - 1);
    }
}
