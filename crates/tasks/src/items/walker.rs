//! Scans a JSON text byte by byte, and holds none of it.
//!
//! Unwanted parts are skipped by counting brackets, so their depth costs nothing. Wanted parts are kept by the caller,
//! up to the size of an item.

use super::ITEM_BYTES_MAX;
use super::parse::{ParseError, Spot, value};
use perdura_engine::asl::json::Value;
use std::io::BufRead;
use std::sync::Arc;

/// The walker's reaction to a byte.
enum Tread {
    /// Passes it.
    On,
    /// Passes it, and stops.
    Last,
    /// Stops before it.
    Halt,
}

/// Counts brackets, and ignores those inside texts.
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

pub(super) struct Walker<R> {
    text: R,
    at: u64,
}

impl<R: BufRead> Walker<R> {
    /// Stands before the first byte.
    pub(super) fn new(text: R) -> Self {
        Self { text, at: 0 }
    }

    fn malformed<T>(&self, what: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::Malformed { spot: Spot::Byte(self.at), format: "JSON", what: what.into() })
    }

    /// Scans until told to stop; `false` if the text ends before. Keeps the passed bytes, if asked to.
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

    /// The next byte that is not a space.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ParseError> {
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

    /// Passes this byte, which must be next.
    pub(super) fn take(&mut self, wanted: u8) -> Result<(), ParseError> {
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
    pub(super) fn goes_on(&mut self, close: u8) -> Result<bool, ParseError> {
        if self.peek()? == Some(b',') {
            self.take(b',')?;
            return Ok(true);
        }
        self.take(close)?;
        Ok(false)
    }

    /// A member's name, and the colon after it.
    pub(super) fn key(&mut self) -> Result<Arc<str>, ParseError> {
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

    /// Passes one value, and keeps its text if asked to.
    pub(super) fn value(&mut self, keep: Option<&mut Vec<u8>>, spot: Spot) -> Result<(), ParseError> {
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

    /// Scans to the end of the document, which this many brackets must close.
    pub(super) fn finish(&mut self, depth: u64) -> Result<(), ParseError> {
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
