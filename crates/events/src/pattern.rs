//! Patterns: which messages somebody is interested in, in the language of EventBridge.
//!
//! A [`Pattern`] names fields and what each may be; all of them must match, and of the tests of one field any. A message
//! offers its attributes and, under `data`, its JSON; `detail-type` and `detail` are other names of `type` and `data`, so
//! that a pattern written for EventBridge needs no change. Lists in a message are looked into, and two fields match in one
//! element or not at all.
//!
//! [`Patterns`] holds thousands and looks at a message once. Values are looked up in indexes, which say which tests hold;
//! a tree of fields leads from those to the patterns. What does not match is not visited.

mod automaton;
mod find;
mod network;
mod number;
mod read;
mod set;
mod value;
mod values;
mod walk;

pub use set::{Patterns, TooComplex};

use automaton::Piece;
use network::Network;
use number::Range;

/// How long the text of a pattern may be.
const PATTERN_BYTES_MAX: usize = 16 << 10;
/// How many ways to match one pattern may have, when each `$or` is multiplied out.
const ALTERNATIVES_MAX: usize = 1_000;
/// How many fields those may have together.
const FIELDS_MAX: usize = 20_000;
/// How many `*` one wildcard may have.
const STARS_MAX: usize = 16;

/// A pattern that was read and found valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    alternatives: Vec<Alternative>,
}

/// Fields that must all match.
type Alternative = Vec<Field>;

/// Where a field is, and the tests of which one must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Field {
    path: Vec<Box<str>>,
    tests: Vec<Test>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    Is(Atom),
    AnythingBut(Vec<Atom>),
    Exists(bool),
}

/// One test of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    /// The value in its canonical form, in which a string is its characters after a quote.
    Exact(Box<[u8]>),
    Text {
        case: Case,
        shape: Shape,
    },
    Number(Range),
    Network(Network),
}

/// How a string is compared; under `Ignored` the text is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    Counts,
    Ignored,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Whole(Box<str>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Wildcard(Vec<Piece>),
}

/// Why a pattern is refused, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern is wrong at `{place}`: {what}")]
pub struct PatternError {
    /// A JSON Pointer into the pattern; empty for the whole of it.
    pub place: String,
    /// The sentence about it.
    pub what: String,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// ```
    /// use perdura_events::Pattern;
    ///
    /// assert!(Pattern::parse(r#"{"source": ["shop"], "detail": {"total": [{"numeric": [">", 100]}]}}"#).is_ok());
    /// let error = Pattern::parse(r#"{"detail": {"total": [{"numeric": [">", "100"]}]}}"#).unwrap_err();
    /// assert_eq!(error.place, "/detail/total/0/numeric");
    /// ```
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let pattern = read::pattern(text)?;
        Patterns::new([((), pattern.clone())])
            .map_err(|TooComplex { place, what }| PatternError { place, what })?;
        Ok(pattern)
    }
}

/// One level further down a JSON Pointer.
fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A string when letters compare by their lower case.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
