//! Rows of fields, by the rules that Step Functions documents.
//!
//! All fields are texts. A field in double quotes may contain delimiters and line ends, and a quote when it is doubled.
//! A backslash escapes a quote, a delimiter or another backslash, and is dropped before anything else. A row that is
//! too short gets empty texts, extra fields are left out, and an empty line is no row. Rows end with a line feed, or a
//! carriage return and a line feed.

use super::ITEM_BYTES_MAX;
use super::parse::{Item, ParseError, Spot};
use perdura_engine::asl::json::{Map, Value};
use std::io::BufRead;
use std::sync::Arc;

/// The rows of a text as items.
pub(super) struct Csv<R> {
    rows: Rows<R>,
    headers: Option<Arc<[Arc<str>]>>,
    is_over: bool,
}

impl<R: BufRead> Csv<R> {
    /// With these column names, or those in the first row.
    pub(super) fn new(text: R, delimiter: u8, headers: Option<Arc<[Arc<str>]>>) -> Self {
        Self { rows: Rows::new(text, delimiter), headers, is_over: false }
    }

    fn item(&mut self) -> Result<Option<Item>, ParseError> {
        if !self.rows.advance()? {
            return Ok(None);
        }
        let Some(headers) = self.headers.clone() else {
            let names = self.rows.fields().map(|field| field.map(Arc::from)).collect::<Result<_, _>>()?;
            self.headers = Some(names);
            return self.item();
        };
        let mut object = Map::with_capacity(headers.len());
        let mut fields = self.rows.fields();
        for name in &*headers {
            let field = fields.next().transpose()?.unwrap_or_default();
            object.insert(name.clone(), field);
        }
        Ok(Some(Item { value: Value::from(object), bytes: self.rows.bytes() }))
    }
}

impl<R: BufRead> Iterator for Csv<R> {
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

/// The position of the parser within a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Before its first byte.
    Start,
    /// In a field without quotes, or after its closing quote.
    Plain,
    /// Between quotes.
    Quoted,
    /// After a quote that closes the field, unless another one follows.
    Quote,
}

/// Splits text into rows; holds one row.
struct Rows<R> {
    text: R,
    delimiter: u8,
    row: Vec<u8>,
    /// The end of each field in `row`.
    ends: Vec<usize>,
    line: u64,
    /// The first line of the row.
    began: u64,
}

impl<R: BufRead> Rows<R> {
    fn new(text: R, delimiter: u8) -> Self {
        Self { text, delimiter, row: Vec::new(), ends: Vec::new(), line: 1, began: 1 }
    }

    fn bytes(&self) -> usize {
        self.row.len() + self.ends.len()
    }

    fn fields(&self) -> impl Iterator<Item = Result<&str, ParseError>> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let field = &self.row[start..end];
            start = end;
            std::str::from_utf8(field).map_err(|_| ParseError::NotUtf8(Spot::Line(self.began)))
        })
    }

    /// Advances to the next row with content; `false` if there is none.
    fn advance(&mut self) -> Result<bool, ParseError> {
        loop {
            self.row.clear();
            self.ends.clear();
            self.began = self.line;
            let is_row = self.read_row()?;
            let is_blank = self.row.is_empty() && self.ends == [0];
            match (is_row, is_blank) {
                (false, _) => return Ok(false),
                (true, true) => {}
                (true, false) => return Ok(true),
            }
        }
    }

    /// Reads to the end of a row; `false` if the text ends before its first byte.
    fn read_row(&mut self) -> Result<bool, ParseError> {
        let mut within = Within::Start;
        let (mut is_escaped, mut has_return, mut has_begun) = (false, false, false);
        loop {
            let chunk = self.text.fill_buf()?;
            if chunk.is_empty() {
                if within == Within::Quoted {
                    let spot = Spot::Line(self.began);
                    let what = "a quote is opened and never closed".to_owned();
                    return Err(ParseError::Malformed { spot, format: "CSV", what });
                }
                if has_begun {
                    self.ends.push(self.row.len());
                }
                return Ok(has_begun);
            }
            has_begun = true;
            let mut used = 0;
            let mut is_done = false;
            for &byte in chunk {
                used += 1;
                self.line += u64::from(byte == b'\n');
                if has_return && byte != b'\n' {
                    self.row.push(b'\r');
                    within = if within == Within::Quote { Within::Plain } else { within };
                }
                let was_escaped = std::mem::take(&mut is_escaped);
                has_return = false;
                if was_escaped && (within == Within::Quoted || byte != b'\n') {
                    self.row.push(byte);
                    continue;
                }
                match (within, byte) {
                    (Within::Quoted, b'"') => within = Within::Quote,
                    (Within::Quote, b'"') => {
                        self.row.push(b'"');
                        within = Within::Quoted;
                    }
                    (Within::Start, b'"') => within = Within::Quoted,
                    (Within::Start | Within::Plain | Within::Quoted, b'\\') => {
                        is_escaped = true;
                        within = if within == Within::Start { Within::Plain } else { within };
                    }
                    (Within::Quoted, _) => self.row.push(byte),
                    (Within::Start | Within::Plain | Within::Quote, b'\n') => {
                        is_done = true;
                        break;
                    }
                    (Within::Start | Within::Plain | Within::Quote, b'\r') => has_return = true,
                    (Within::Start | Within::Plain | Within::Quote, _) if byte == self.delimiter => {
                        self.ends.push(self.row.len());
                        within = Within::Start;
                    }
                    (Within::Start | Within::Plain | Within::Quote, _) => {
                        self.row.push(byte);
                        within = Within::Plain;
                    }
                }
            }
            self.text.consume(used);
            if self.row.len() + self.ends.len() > ITEM_BYTES_MAX {
                return Err(ParseError::TooLarge(Spot::Line(self.began)));
            }
            if is_done {
                self.ends.push(self.row.len());
                return Ok(true);
            }
        }
    }
}
