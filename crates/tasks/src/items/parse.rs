//! Parses text to items, one at a time. Pure except for reading the bytes.
//!
//! Each format holds one record at a time, so a file of any length passes. A record without an end is refused at
//! [`ITEM_BYTES_MAX`].

use super::ITEM_BYTES_MAX;
use super::csv::Csv;
use super::json::Json;
use super::lines::JsonLines;
use super::reading::Format;
use super::unpack::{plain_text, unpack};
use perdura_engine::asl::json::{Value, parse};
use std::fmt;
use std::io::{self, Read};

/// One item, and the length of its text.
#[derive(Debug, PartialEq)]
pub(super) struct Item {
    pub(super) value: Value,
    pub(super) bytes: usize,
}

/// The items of one file.
pub(super) type Items = Box<dyn Iterator<Item = Result<Item, ParseError>>>;

/// Why the rest of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// The bytes cannot be read or unpacked.
    #[error("{0}")]
    Bytes(#[from] io::Error),
    /// The bytes are not UTF-8.
    #[error("{0} is not valid UTF-8")]
    NotUtf8(Spot),
    /// The item is too large.
    #[error("{0} is larger than {ITEM_BYTES_MAX} bytes, the most that an item may have")]
    TooLarge(Spot),
    /// The text does not have the format.
    #[error("{spot} is not valid {format}: {what}")]
    Malformed { spot: Spot, format: &'static str, what: String },
    /// Well formed, but it contains no items.
    #[error("{0}")]
    NoItems(String),
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// From 1.
    Line(u64),
    /// From 0, as a run counts items.
    Item(u64),
    /// From 0, in the unpacked text.
    Byte(u64),
}

impl fmt::Display for Spot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(formatter, "line {number}"),
            Self::Item(index) => write!(formatter, "item {index}"),
            Self::Byte(at) => write!(formatter, "the text at byte {at}"),
        }
    }
}

/// The items of a file, unpacked if it is packed.
pub(super) fn items(
    format: &Format,
    key: &str,
    unpacked_max: u64,
    bytes: impl Read + 'static,
) -> Result<Items, ParseError> {
    let text = plain_text(unpack(bytes, key, unpacked_max)?)?;
    Ok(match format {
        Format::Csv { delimiter, headers } => Box::new(Csv::new(text, *delimiter, headers.clone())),
        Format::Json { pointer } => Box::new(Json::new(text, pointer.clone())),
        Format::JsonLines => Box::new(JsonLines::new(text)),
    })
}

/// Parses one JSON text.
pub(super) fn value(text: &[u8], spot: Spot) -> Result<Value, ParseError> {
    let text = std::str::from_utf8(text).map_err(|_| ParseError::NotUtf8(spot))?;
    parse(text).map_err(|error| ParseError::Malformed { spot, format: "JSON", what: error.message })
}
