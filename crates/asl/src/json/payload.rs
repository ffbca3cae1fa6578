//! A document on its way from state to state.

use super::parse::{Read, parse_from_outside, parse_recorded};
use super::{DEPTH_MAX, SyntaxError, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// One JSON document, as text, as a value, or as both; the missing side is computed on demand.
///
/// Cloning shares. Its text may always be embedded in a larger document: text enters through [`Payload::from_text`],
/// which parses it, and stored text through `Deserialize`. Text from outside is passed on byte for byte, spaces
/// included, until a state changes it. Two corrections are made at once, so that text and value mean the same to every
/// reader: of two members with one name only the last is kept, and half of a surrogate pair becomes `\ufffd`.
#[derive(Clone)]
pub struct Payload(Arc<Sides>);

struct Sides {
    text: OnceLock<Text>,
    value: OnceLock<Value>,
}

struct Text {
    text: Arc<str>,
    depth: usize,
}

impl Payload {
    /// Takes a document from outside, keeping its text.
    pub fn from_text(text: impl Into<Arc<str>>) -> Result<Self, SyntaxError> {
        let text = text.into();
        let Read { value, depth, is_doubled, halves, .. } = parse_from_outside(&text)?;
        if is_doubled {
            return Ok(value.into());
        }
        let text = if halves.is_empty() { text } else { with_halves_replaced(&text, &halves) };
        Ok(Self::of_both(text, depth, value))
    }

    /// Takes a recorded text unchanged. Only byte order marks, which an earlier version took for the start of an item
    /// or an answer, are removed.
    fn from_record(text: Arc<str>) -> Result<Self, SyntaxError> {
        let Read { value, depth, is_marked, .. } = parse_recorded(&text, DEPTH_MAX)?;
        Ok(if is_marked { value.into() } else { Self::of_both(text, depth, value) })
    }

    fn of_both(text: Arc<str>, depth: usize, value: Value) -> Self {
        Self(Arc::new(Sides { text: Text { text, depth }.into(), value: value.into() }))
    }

    /// Joins documents into an array without parsing them.
    pub fn array_of(items: &[Payload]) -> Self {
        let mut text =
            String::with_capacity(2 + items.iter().map(|item| item.text().len() + 1).sum::<usize>());
        text.push('[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            text.push_str(item.text());
        }
        text.push(']');
        let depth = 1 + items.iter().map(Payload::depth).max().unwrap_or(0);
        Self(Arc::new(Sides { text: Text { text: text.into(), depth }.into(), value: OnceLock::new() }))
    }

    fn printed(&self) -> &Text {
        self.0.text.get_or_init(|| {
            let mut text = String::new();
            let depth = self.0.value.get().expect("a payload has at least one side").write_to(&mut text);
            Text { text: text.into(), depth }
        })
    }

    /// The document as JSON text.
    pub fn text(&self) -> &Arc<str> {
        &self.printed().text
    }

    /// Its depth: 0 for a scalar. A document deeper than [`super::DEPTH_MAX`] cannot be read back.
    pub fn depth(&self) -> usize {
        self.printed().depth
    }

    /// The document as a value.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            let Text { text, depth } = self.0.text.get().expect("a payload has at least one side");
            let read = parse_recorded(text, *depth);
            read.expect("a payload's text was read before, or made of payloads").value
        })
    }

    /// Its size as text.
    pub fn len(&self) -> usize {
        self.text().len()
    }

    /// Never: the shortest document has a byte.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self(Arc::new(Sides { text: OnceLock::new(), value: value.into() }))
    }
}

impl Default for Payload {
    fn default() -> Self {
        Value::empty_object().into()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text() || self.value() == other.value()
    }
}

/// Stored as its text, the way the Step Functions API shows it.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_record(Arc::<str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The text with an escape of U+FFFD, which is as long, in place of each escape at `halves`.
fn with_halves_replaced(text: &str, halves: &[usize]) -> Arc<str> {
    const REPLACEMENT: &str = "\\ufffd";
    let mut replaced = text.to_owned();
    for &at in halves {
        replaced.replace_range(at..at + REPLACEMENT.len(), REPLACEMENT);
    }
    replaced.into()
}
