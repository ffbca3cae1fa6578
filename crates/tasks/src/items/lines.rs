//! A JSON document on each line. Blank lines are not items.

use super::ITEM_BYTES_MAX;
use super::parse::{Item, ParseError, Spot, value};
use std::io::{BufRead, Read};

/// The documents of a text as items.
pub(super) struct JsonLines<R> {
    text: R,
    line: Vec<u8>,
    number: u64,
    is_over: bool,
}

impl<R: BufRead> JsonLines<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, line: Vec::new(), number: 0, is_over: false }
    }

    /// The next line with content, without the space around it.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, ParseError> {
        loop {
            self.line.clear();
            self.number += 1;
            // One byte for the line end, and one to detect a line that is too long.
            let most = ITEM_BYTES_MAX as u64 + 2;
            let read = self.text.by_ref().take(most).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            if self.line.trim_ascii().len() > ITEM_BYTES_MAX
                || read as u64 == most && !self.line.ends_with(b"\n")
            {
                return Err(ParseError::TooLarge(Spot::Line(self.number)));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(self.line.trim_ascii()));
            }
        }
    }

    /// The number of the current line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn item(&mut self) -> Result<Option<Item>, ParseError> {
        let Some(bytes) = self.next_line()?.map(<[u8]>::len) else { return Ok(None) };
        let value = value(self.line.trim_ascii(), Spot::Line(self.number))?;
        Ok(Some(Item { value, bytes }))
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = Result<Item, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.item().transpose();
        self.is_over = !matches!(item, Some(Ok(_)));
        item
    }
}
