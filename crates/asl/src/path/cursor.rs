//! A cursor for hand-written parsers.

use crate::json::{Lexer, Number, SyntaxError, Token};

/// Reads a text character by character and knows its position.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The byte it stands at.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The text after the cursor.
    pub(crate) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The text from `start` to the cursor.
    pub(crate) fn since(&self, start: usize) -> &'t str {
        &self.text[start..self.at]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips `wanted`, if it is next.
    pub(crate) fn eat(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    /// Skips `wanted`, or fails.
    pub(crate) fn expect(&mut self, wanted: &str, remedy: &str) -> Result<(), SyntaxError> {
        if self.eat(wanted) { Ok(()) } else { self.fail(format!("`{wanted}` belongs here; {remedy}")) }
    }

    /// Skips all characters up to the first one that is not `part`.
    pub(crate) fn take_while(&mut self, part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    pub(crate) fn spaces(&mut self) {
        self.take_while(char::is_whitespace);
    }

    /// A number as JSON writes it.
    pub(crate) fn number(&mut self) -> Result<Number, SyntaxError> {
        let start = self.at;
        match Lexer::new(self.rest()).token() {
            Ok((Token::Number(digits), _)) => {
                self.at += digits.len();
                match Number::from_literal(digits).map(Number::computed) {
                    Some(number) => Ok(number),
                    None => Self::error(start, format!("the number {digits} is out of range")),
                }
            }
            Ok(_) => Self::error(start, "a number belongs here"),
            Err(error) => Self::error(start + error.at, error.message),
        }
    }

    /// A string in single or double quotes. A backslash escapes the quote or another backslash; before anything else it
    /// stands for itself, as recorded on AWS.
    pub(crate) fn quoted(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let quote = self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Self::error(start, "this quote is never closed"),
                next if next == quote => return Ok(text),
                Some('\\') if self.peek() == quote || self.peek() == Some('\\') => text.extend(self.bump()),
                Some(plain) => text.push(plain),
            }
        }
    }

    /// The character of `\u`: four hexadecimal digits, two such units for one character, or just a `u`.
    pub(crate) fn unit(&mut self) -> char {
        let Some(first) = self.hex4() else { return 'u' };
        let before = self.at;
        if (0xd800..0xdc00).contains(&first)
            && self.eat("\\u")
            && let Some(second) = self.hex4().filter(|unit| (0xdc00..0xe000).contains(unit))
        {
            let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        self.at = before;
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4).filter(|four| four.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// An error at this place.
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Self::error(self.at, message)
    }

    /// An error at `at`.
    pub(crate) fn error<T>(at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { at, message: message.into() })
    }
}
