//! Items out of one JSON document, without ever holding the document.
//!
//! The document is walked byte by byte. What is not wanted is passed over by counting brackets, so its depth costs
//! nothing; what is wanted is cut out as text and given to the one JSON reader of this house, so an item means here
//! what it means everywhere. After the last item the rest is still walked: a document that was cut off shall not
//! pass for a whole one.

use super::ITEM_BYTES_MAX;
use super::parse::{Item, ParseError, Spot, value};
use perdura_engine::asl::json::{Map, Value};
use std::io::BufRead;
use std::sync::Arc;

/// A JSON pointer (RFC 6901): the names and indices on the way to the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    text: Arc<str>,
    steps: Vec<String>,
}

impl Pointer {
    /// Reads `/a/0/b`; `~1` stands for a slash and `~0` for a tilde.
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

/// Where the reading stands.
#[derive(Clone, Copy)]
enum Stand {
    /// Before the items, at the start of the document.
    Before,
    /// In the list of items, so many brackets deep.
    Array { depth: u64 },
    /// In the object of items.
    Object { depth: u64 },
    /// Done, or stopped by an error.
    Over,
}

impl<R: BufRead> Json<R> {
    pub(super) fn new(text: R, pointer: Option<Pointer>) -> Self {
        Self { text: Walker { text, at: 0 }, pointer, stand: Stand::Before, index: 0 }
    }

    /// Goes to the first item.
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

    /// Goes into one member or element; `false` if there is no such.
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

/// What a walker does with a byte.
enum Tread {
    /// Goes past it.
    On,
    /// Goes past it, and stops.
    Last,
    /// Stops before it.
    Halt,
}

/// Counts brackets, and knows which of them stand in texts.
#[derive(Default)]
struct Nesting {
    depth: u64,
    is_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn pass(&mut self, byte: u8) {
        match (self.is_text, byte) {
            (true, _) if self.is_escaped => self.is_escaped = false,
            (true, b'\\') => self.is_escaped = true,
            (_, b'"') => self.is_text = !self.is_text,
            (false, b'[' | b'{') => self.depth += 1,
            (false, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            (true | false, _) => {}
        }
    }

    fn is_closed(&self) -> bool {
        self.depth == 0 && !self.is_text
    }
}

/// Goes along a JSON text.
struct Walker<R> {
    text: R,
    at: u64,
}

impl<R: BufRead> Walker<R> {
    fn malformed<T>(&self, what: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::Malformed { spot: Spot::Byte(self.at), format: "JSON", what: what.into() })
    }

    /// Goes on until told to stop; `false` if the text is over before. Keeps what it passes, if asked to.
    fn walk(
        &mut self,
        mut keep: Option<&mut Vec<u8>>,
        spot: Spot,
        mut tread: impl FnMut(u8) -> Tread,
    ) -> Result<bool, ParseError> {
        loop {
            let chunk = self.text.fill_buf()?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let mut used = chunk.len();
            let mut is_done = false;
            for (index, &byte) in chunk.iter().enumerate() {
                match tread(byte) {
                    Tread::On => continue,
                    Tread::Last => used = index + 1,
                    Tread::Halt => used = index,
                }
                is_done = true;
                break;
            }
            if let Some(kept) = &mut keep {
                if kept.len() + used > ITEM_BYTES_MAX {
                    return Err(ParseError::TooLarge(spot));
                }
                kept.extend_from_slice(&chunk[..used]);
            }
            self.text.consume(used);
            self.at += used as u64;
            if is_done {
                return Ok(true);
            }
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Result<Option<u8>, ParseError> {
        let mut found = None;
        self.walk(None, Spot::Byte(0), |byte| match byte {
            b' ' | b'\t' | b'\r' | b'\n' => Tread::On,
            other => {
                found = Some(other);
                Tread::Halt
            }
        })?;
        Ok(found)
    }

    /// Goes past this byte, which must be next.
    fn take(&mut self, wanted: u8) -> Result<(), ParseError> {
        match self.peek()? {
            Some(byte) if byte == wanted => {
                self.text.consume(1);
                self.at += 1;
                Ok(())
            }
            Some(_) => self.malformed(format!("`{}` belongs here", char::from(wanted))),
            None => self.malformed("the document ends in the middle"),
        }
    }

    /// After a value: whether another one follows, or the end.
    fn goes_on(&mut self, close: u8) -> Result<bool, ParseError> {
        if self.peek()? == Some(b',') {
            self.take(b',')?;
            return Ok(true);
        }
        self.take(close)?;
        Ok(false)
    }

    /// A member's name, and the colon behind it.
    fn key(&mut self) -> Result<Arc<str>, ParseError> {
        let spot = Spot::Byte(self.at);
        if self.peek()? != Some(b'"') {
            return self.malformed("the name of a member belongs here");
        }
        let mut text = Vec::new();
        self.value(Some(&mut text), spot)?;
        let name = value(&text, spot)?;
        self.take(b':')?;
        match name {
            Value::String(name) => Ok(name),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                self.malformed("the name of a member belongs here")
            }
        }
    }

    /// Goes past one value, and keeps its text if asked to.
    fn value(&mut self, keep: Option<&mut Vec<u8>>, spot: Spot) -> Result<(), ParseError> {
        let is_whole = match self.peek()? {
            Some(b'[' | b'{' | b'"') => {
                let mut nesting = Nesting::default();
                self.walk(keep, spot, |byte| {
                    nesting.pass(byte);
                    if nesting.is_closed() { Tread::Last } else { Tread::On }
                })?
            }
            Some(b',' | b']' | b'}' | b':') => return self.malformed("a value belongs here"),
            Some(_) => self.walk(keep, spot, |byte| match byte {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' => Tread::Halt,
                _ => Tread::On,
            })?,
            None => false,
        };
        if is_whole { Ok(()) } else { self.malformed("the document ends in the middle") }
    }

    /// Goes to the end of the document, which so many brackets must close.
    fn finish(&mut self, depth: u64) -> Result<(), ParseError> {
        let mut nesting = Nesting { depth, ..Nesting::default() };
        if depth > 0 {
            let is_whole = self.walk(None, Spot::Byte(0), |byte| {
                nesting.pass(byte);
                if nesting.is_closed() { Tread::Last } else { Tread::On }
            })?;
            if !is_whole {
                return self.malformed("the document ends in the middle");
            }
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => self.malformed("text after the end of the document"),
        }
    }
}
