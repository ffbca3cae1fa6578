//! Items from one JSON document, without holding the document.
//!
//! The wanted parts are cut out as text and given to the shared JSON parser, so an item means here what it means
//! everywhere. After the last item the rest is still scanned: a truncated document must not pass for a complete one.

use super::parse::{Item, ParseError, Spot, value};
use super::walker::Walker;
use perdura_engine::asl::json::Map;
use std::io::BufRead;
use std::sync::Arc;

/// A JSON pointer (RFC 6901): the names and indices on the way to the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    text: Arc<str>,
    steps: Vec<String>,
}

impl Pointer {
    /// Parses `/a/0/b`; `~1` means a slash and `~0` a tilde.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("ItemsPointer \"{text}\" must begin with a slash."));
        };
        let steps = rest.split('/').map(|step| {
            let is_escape = |part: &str| part.starts_with(['0', '1']);
            if !step.split('~').skip(1).all(is_escape) {
                return Err(format!("ItemsPointer \"{text}\" has a ~ that neither 0 nor 1 follows."));
            }
            Ok(step.replace("~1", "/").replace("~0", "~"))
        });
        Ok(Self { text: text.into(), steps: steps.collect::<Result<_, _>>()? })
    }
}

/// The items of a document: the elements of an array, or the members of an object as `{"Key": …, "Value": …}`.
pub(super) struct Json<R> {
    text: Walker<R>,
    pointer: Option<Pointer>,
    stand: Stand,
    index: u64,
}

/// The position of the reader.
#[derive(Clone, Copy)]
enum Stand {
    /// Before the items, at the start of the document.
    Before,
    /// In the list of items, this many brackets deep.
    Array { depth: u64 },
    /// In the object of items.
    Object { depth: u64 },
    /// Done, or stopped by an error.
    Over,
}

impl<R: BufRead> Json<R> {
    pub(super) fn new(text: R, pointer: Option<Pointer>) -> Self {
        Self { text: Walker::new(text), pointer, stand: Stand::Before, index: 0 }
    }

    /// Advances to the first item.
    fn begin(&mut self) -> Result<Stand, ParseError> {
        let mut depth = 1;
        if let Some(pointer) = self.pointer.clone() {
            for step in &pointer.steps {
                if !self.descend(step)? {
                    let what = format!("there is nothing at the ItemsPointer \"{}\"", pointer.text);
                    return Err(ParseError::NoItems(what));
                }
                depth += 1;
            }
        }
        match self.text.peek()? {
            Some(b'[') => {
                self.text.take(b'[')?;
                Ok(Stand::Array { depth })
            }
            Some(b'{') => {
                self.text.take(b'{')?;
                Ok(Stand::Object { depth })
            }
            None => Err(ParseError::NoItems("it is empty, and should be a JSON document".into())),
            Some(_) => {
                let place = match &self.pointer {
                    Some(pointer) => format!("what stands at the ItemsPointer \"{}\"", pointer.text),
                    None => "the JSON document".to_owned(),
                };
                Err(ParseError::NoItems(format!("{place} is neither an array nor an object")))
            }
        }
    }

    /// Enters one member or element; `false` if there is none.
    fn descend(&mut self, step: &str) -> Result<bool, ParseError> {
        match self.text.peek()? {
            Some(b'{') => {
                self.text.take(b'{')?;
                if self.text.peek()? == Some(b'}') {
                    return Ok(false);
                }
                loop {
                    if &*self.text.key()? == step {
                        return Ok(true);
                    }
                    self.text.value(None, Spot::Byte(0))?;
                    if !self.text.goes_on(b'}')? {
                        return Ok(false);
                    }
                }
            }
            Some(b'[') => {
                self.text.take(b'[')?;
                let Ok(mut index) = step.parse::<u64>() else { return Ok(false) };
                if self.text.peek()? == Some(b']') {
                    return Ok(false);
                }
                while index > 0 {
                    self.text.value(None, Spot::Byte(0))?;
                    if !self.text.goes_on(b']')? {
                        return Ok(false);
                    }
                    index -= 1;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn item(&mut self) -> Result<Option<Item>, ParseError> {
        if matches!(self.stand, Stand::Before) {
            self.stand = self.begin()?;
        }
        let (depth, close) = match self.stand {
            Stand::Array { depth } => (depth, b']'),
            Stand::Object { depth } => (depth, b'}'),
            Stand::Before | Stand::Over => return Ok(None),
        };
        let has_more = if self.index == 0 {
            let is_empty = self.text.peek()? == Some(close);
            if is_empty {
                self.text.take(close)?;
            }
            !is_empty
        } else {
            self.text.goes_on(close)?
        };
        if !has_more {
            self.text.finish(depth - 1)?;
            return Ok(None);
        }
        let spot = Spot::Item(self.index);
        self.index += 1;
        let key = match self.stand {
            Stand::Object { .. } => Some(self.text.key()?),
            Stand::Array { .. } | Stand::Before | Stand::Over => None,
        };
        let mut text = Vec::new();
        self.text.value(Some(&mut text), spot)?;
        let inner = value(&text, spot)?;
        let bytes = text.len() + key.as_ref().map_or(0, |key| key.len());
        let value = match key {
            None => inner,
            Some(key) => {
                let mut pair = Map::with_capacity(2);
                pair.insert("Key", key);
                pair.insert("Value", inner);
                pair.into()
            }
        };
        Ok(Some(Item { value, bytes }))
    }
}

impl<R: BufRead> Iterator for Json<R> {
    type Item = Result<Item, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.item().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.stand = Stand::Over;
        }
        item
    }
}
