//! Chains: rows that hold entries and the hash of the row before.

use super::Entry;
use crate::lease::Shard;
use perdura_engine::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// The id of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    /// Shared data: machines, registered things, sweeps.
    Catalog,
    Shard(Shard),
}

impl Chain {
    /// Its number in the table.
    pub fn number(self) -> i64 {
        match self {
            Self::Catalog => -1,
            Self::Shard(shard) => i64::from(shard.0),
        }
    }

    pub fn of_number(number: i64) -> Option<Self> {
        match number {
            -1 => Some(Self::Catalog),
            number => u16::try_from(number).ok().map(|shard| Self::Shard(Shard(shard))),
        }
    }

    /// The chain with that name.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "catalog" => Some(Self::Catalog),
            name => name.strip_prefix("shard-")?.parse().ok().map(|shard| Self::Shard(Shard(shard))),
        }
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalog => formatter.write_str("catalog"),
            Self::Shard(shard) => write!(formatter, "shard-{}", shard.0),
        }
    }
}

impl Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::read(&name).ok_or_else(|| serde::de::Error::custom("no chain has this name"))
    }
}

/// The entries of one commit for one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Each on a line, without an end after the last.
    pub(crate) text: String,
    pub(crate) count: u64,
    /// The first and the last instant of them.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

impl Entries {
    pub fn push(&mut self, entry: &Entry) {
        if self.count > 0 {
            self.text.push('\n');
        }
        self.text.push_str(&serde_json::to_string(entry).expect("an entry is JSON"));
        self.count += 1;
        let at = entry.origin.at;
        self.span = Some(self.span.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
    }

    /// Their size.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }
}

impl From<&Entry> for Entries {
    fn from(entry: &Entry) -> Self {
        let mut entries = Self::default();
        entries.push(entry);
        entries
    }
}

/// A SHA-256.
pub type Hash = [u8; 32];

/// The row that one commit added to a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Grows with every row, over all chains.
    pub id: i64,
    pub chain: Chain,
    /// The number of its first entry in its chain, from 1.
    pub first: u64,
    pub count: u64,
    /// The first instant of its entries.
    pub from_at: Timestamp,
    /// The last instant.
    pub to_at: Timestamp,
    /// The entries, one on each line.
    pub entries: String,
    /// The hash of the row before in its chain; zeros before the first.
    pub previous: Hash,
    pub hash: Hash,
}

impl AuditRow {
    /// The next row of its chain.
    pub(crate) fn after(state: &ChainState, id: i64, entries: &Entries) -> Option<Self> {
        let (from_at, to_at) = entries.span?;
        let mut row = Self {
            id,
            chain: state.chain,
            first: state.next,
            count: entries.count,
            from_at,
            to_at,
            entries: entries.text.clone(),
            previous: state.head,
            hash: [0; 32],
        };
        row.hash = row.digest();
        Some(row)
    }

    /// The SHA-256 of a line with the other columns, and the entries, each with the end of its line.
    pub fn digest(&self) -> Hash {
        let Self { id, chain, first, count, from_at, to_at, entries, previous, hash: _ } = self;
        let (chain, from_at, to_at) = (chain.number(), from_at.0, to_at.0);
        let mut head = hex(previous);
        writeln!(head, " {id} {chain} {first} {count} {from_at} {to_at}").expect("a text takes all");
        let mut digest = Sha256::new();
        digest.update(head);
        digest.update(entries);
        digest.update("\n");
        digest.finalize().into()
    }

    /// The entries, each with its number in its chain.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = (u64, &str)> {
        let lines: Vec<&str> = self.entries.split('\n').collect();
        lines.into_iter().enumerate().map(|(at, line)| (self.first + at as u64, line))
    }
}

/// The state of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainState {
    pub chain: Chain,
    /// The number of the first entry that is kept.
    pub first: u64,
    /// The hash of the row before that.
    pub before: Hash,
    /// The number of the next entry.
    pub next: u64,
    /// The hash of the newest row.
    pub head: Hash,
}

impl ChainState {
    /// A chain without rows.
    pub fn empty(chain: Chain) -> Self {
        Self { chain, first: 1, before: [0; 32], next: 1, head: [0; 32] }
    }

    /// The state with this row as its newest.
    pub(crate) fn with(&self, row: &AuditRow) -> Self {
        Self { next: row.first + row.count, head: row.hash, ..self.clone() }
    }

    /// The state without its rows up to this one, which is its oldest.
    pub(crate) fn without(&self, row: &AuditRow) -> Self {
        Self { first: row.first + row.count, before: row.hash, ..self.clone() }
    }
}

/// The requested rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// After this row, in the requested order.
    pub after: Option<i64>,
    /// The newest row first.
    pub newest_first: bool,
    /// Only rows with an entry at or after this.
    pub since: Option<Timestamp>,
    /// Only rows with an entry at or before this.
    pub until: Option<Timestamp>,
    /// About how many bytes at most; at least one row is returned.
    pub bytes_max: usize,
}

/// Lower-case hexadecimal.
pub fn hex(hash: &Hash) -> String {
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes all");
        text
    })
}

/// Parses a hash in the form of [`hex`].
pub fn read_hex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}
