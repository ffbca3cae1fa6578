//! Identity of messages: when two arrivals are the same message.
//!
//! A sender that knows says so: by `idempotencykey`, or by `id`, which is unique within a source. Else the fingerprint of
//! what was sent names it. The hash of the payload is kept beside the name, so that one name with two payloads is told as
//! a conflict and not taken for a duplicate. The same rules give the hash in each case.
//!
//! Only type, source and data are hashed. Times, trace headers and all other attributes differ between two copies of a
//! message, and whether it came in headers or as JSON says nothing either. Two tenants may use one name; whoever looks
//! one up does so within a tenant.

use crate::event::Event;
use perdura_canonical::{Parts, Without, form_without};
use std::fmt;

/// Changes whenever the same message would have another fingerprint than before.
const FINGERPRINT_VERSION: &str = "perdura-event-1";
/// Changes whenever the same message would have another name than before.
const NAME_VERSION: &[u8] = b"perdura-message-1";

/// The part of the data that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Fields of the data that differ between two copies of a message.
    pub without: Without,
    /// Data larger than this is hashed as the bytes it is, without looking for a canonical form.
    pub canonical_bytes_max: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { without: Without::default(), canonical_bytes_max: 1 << 20 }
    }
}

/// A SHA-256. That of a guessable message tells the message, so [`fmt::Debug`] does not show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// One that was stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

/// The name of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The attribute `idempotencykey`, whatever the source.
    Key,
    /// `id` within `source`.
    Id,
    /// The fingerprint of type, source and data.
    Fingerprint,
}

/// The name of a message, and what came under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What the name was made of.
    pub basis: Basis,
    /// The same for each copy of a message, and for no other message of the tenant.
    pub name: Hash,
    /// The hash of type, source and data.
    pub payload: Hash,
}

/// The relation of one arrival to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Another message.
    Other,
    /// The same message once more.
    Duplicate,
    /// Another message under the same name: a mistake of the sender, for a person to look at.
    Conflict,
}

/// A message without an id, whose data is left out to the last field: all such messages would be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the message has no id, and all fields of its data are left out of its fingerprint: name fewer of them"
)]
pub struct NothingLeft;

impl Identity {
    /// The identity of a message.
    pub fn of(event: &Event, rule: &Rule) -> Result<Self, NothingLeft> {
        let (payload, is_nothing_left) = fingerprint(event, rule);
        let (basis, name) = if let Some(key) = event.attribute("idempotencykey") {
            (Basis::Key, name(&[b"idempotencykey", one_spelling(key).as_bytes()]))
        } else if let Some(id) = event.id() {
            (Basis::Id, name(&[b"id", event.source().as_bytes(), id.as_bytes()]))
        } else if is_nothing_left {
            return Err(NothingLeft);
        } else {
            (Basis::Fingerprint, payload)
        };
        Ok(Self { basis, name, payload })
    }

    /// What an arrival with this identity is to an earlier one.
    pub fn compare(&self, earlier: &Self) -> Comparison {
        if self.name != earlier.name {
            Comparison::Other
        } else if self.payload == earlier.payload {
            Comparison::Duplicate
        } else {
            Comparison::Conflict
        }
    }
}

fn name(of: &[&[u8]]) -> Hash {
    let mut parts = Parts::new(NAME_VERSION);
    for part in of {
        parts.add(part);
    }
    Hash(parts.finish())
}

/// A key that is a UUID may be written in capitals (RFC 9562).
fn one_spelling(key: &str) -> String {
    let is_uuid = key.len() == 36
        && key.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid { key.to_ascii_lowercase() } else { key.to_owned() }
}

/// The fingerprint of a message, and whether it tells nothing of its data because all of it is left out.
fn fingerprint(event: &Event, rule: &Rule) -> (Hash, bool) {
    let mut parts = Parts::new(rule.without.version(FINGERPRINT_VERSION).as_bytes());
    parts.add(event.kind().as_bytes());
    parts.add(event.source().as_bytes());
    let mut add = |form: &str, media: &str, content: &[u8]| {
        parts.add(form.as_bytes());
        parts.add(media.as_bytes());
        parts.add(content);
    };
    let mut is_nothing_left = false;
    match (event.data(), event.json()) {
        (None, _) => add("none", "", b""),
        (Some(_), Some(json)) if json.len() <= rule.canonical_bytes_max => {
            match form_without(json, &rule.without) {
                Ok(form) => {
                    is_nothing_left = form.is_nothing_left;
                    add("canonical-json", "", &form.bytes);
                }
                // Two equal names, half a surrogate pair, or no JSON at all: readers do not agree on its value.
                Err(_) => add("raw-json", "", json),
            }
        }
        (Some(_), Some(json)) => add("raw-json", "", json),
        (Some(data), None) => {
            let media = event.media();
            add("raw", media.as_ref().map_or("", |media| &media.essence), data);
        }
    }
    (Hash(parts.finish()), is_nothing_left)
}

#[cfg(test)]
mod tests;
