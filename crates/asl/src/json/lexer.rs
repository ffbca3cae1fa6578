//! The tokens of a JSON text, with their places.

use std::borrow::Cow;
use std::ops::Range;

/// A token of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'t> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// A string, unescaped.
    String(Cow<'t, str>),
    /// A well-formed number, as written.
    Number(&'t str),
    /// `true` or `false`
    Bool(bool),
    /// `null`
    Null,
    /// The end of the text.
    End,
}

/// A syntax error: the mistake, and its byte.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The byte at which it was noticed.
    pub at: usize,
    /// A sentence for a person.
    pub message: String,
}

/// A UTF-8 file may begin with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text without the byte order mark at its start.
///
/// The mark says how bytes are encoded and is not part of the text. A reader of bytes (a file, the body of an answer,
/// the output of a command) removes it; in data that is already text it is a mistake.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads tokens of a text. Strict: RFC 8259 and nothing more.
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Byte order marks between tokens are skipped; otherwise they are a mistake.
    passes_marks: bool,
    is_marked: bool,
    /// The places of escapes that are half of a surrogate pair.
    halves: Vec<usize>,
}

impl<'t> Lexer<'t> {
    /// At the start of `text`.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, passes_marks: false, is_marked: false, halves: Vec::new() }
    }

    /// At the start of a file's text, after its byte order mark.
    pub(crate) fn of_file(text: &'t str) -> Self {
        Self { at: text.len() - without_mark(text).len(), ..Self::new(text) }
    }

    /// The same, of a text that may have byte order marks between its tokens.
    pub(super) fn passing_marks(text: &'t str) -> Self {
        Self { passes_marks: true, ..Self::new(text) }
    }

    /// Whether a byte order mark was passed over.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// The places so far of escapes that are half of a surrogate pair; each was read as U+FFFD.
    pub(super) fn halves(&self) -> &[usize] {
        &self.halves
    }

    fn error<T>(at: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { at, message: message.into() })
    }

    /// The next token and the bytes it takes.
    pub fn token(&mut self) -> Result<(Token<'t>, Range<usize>), SyntaxError> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(byte) = bytes.get(start) else { return Ok((Token::End, start..start)) };
        self.at += 1;
        let token = match byte {
            b'{' => Token::ObjectStart,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayStart,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => Token::String(self.string(start)?),
            b'-' | b'0'..=b'9' => Token::Number(self.number(start)?),
            _ if self.passes_marks(start) => return self.token(),
            _ => self.word(start)?,
        };
        Ok((token, start..self.at))
    }

    /// Skips all byte order marks at `start`, and the space between them, if that is allowed.
    fn passes_marks(&mut self, start: usize) -> bool {
        if !self.passes_marks || !self.text[start..].starts_with(BYTE_ORDER_MARK) {
            return false;
        }
        let after = self.text[start..].trim_start_matches([BYTE_ORDER_MARK, ' ', '\t', '\n', '\r']);
        self.at = self.text.len() - after.len();
        self.is_marked = true;
        true
    }

    fn word(&mut self, start: usize) -> Result<Token<'t>, SyntaxError> {
        let rest = &self.text[start..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$' | '-' | '.'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at = start + word.len().max(1);
        match word {
            "true" => Ok(Token::Bool(true)),
            "false" => Ok(Token::Bool(false)),
            "null" => Ok(Token::Null),
            "" if rest.starts_with(BYTE_ORDER_MARK) => {
                Self::error(start, "a byte order mark is no part of a JSON text; send the text without it")
            }
            "" => {
                let found = rest.chars().next().unwrap_or_default();
                Self::error(
                    start,
                    format!("unexpected character {found:?}; a JSON value, `,` or a bracket belongs here"),
                )
            }
            _ => Self::error(
                start,
                format!(
                    "unrecognized word `{word}`; text must be quoted, and the only bare words are null, true and false"
                ),
            ),
        }
    }

    fn number(&mut self, start: usize) -> Result<&'t str, SyntaxError> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while matches!(bytes.get(at), Some(b'0'..=b'9')) {
                at += 1;
            }
            at
        };
        let first = if bytes[start] == b'-' { start + 1 } else { start };
        let mut end = digits(first);
        if end == first {
            return Self::error(start, "a minus sign must be followed by digits");
        }
        if bytes[first] == b'0' && end > first + 1 {
            return Self::error(start, "a number may not have leading zeros");
        }
        if bytes.get(end) == Some(&b'.') {
            let fraction = end + 1;
            end = digits(fraction);
            if end == fraction {
                return Self::error(start, "a decimal point must be followed by digits");
            }
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = end + 1 + sign;
            end = digits(exponent);
            if end == exponent {
                return Self::error(start, "an exponent needs digits");
            }
        }
        self.at = end;
        Ok(&self.text[start..end])
    }

    fn string(&mut self, start: usize) -> Result<Cow<'t, str>, SyntaxError> {
        let bytes = self.text.as_bytes();
        let mut piece = self.at;
        let mut owned = String::new();
        loop {
            match bytes.get(self.at) {
                None => return Self::error(start, "this string is never closed"),
                Some(b'"') => {
                    let last = &self.text[piece..self.at];
                    self.at += 1;
                    return Ok(if owned.is_empty() {
                        Cow::Borrowed(last)
                    } else {
                        owned.push_str(last);
                        Cow::Owned(owned)
                    });
                }
                Some(b'\\') => {
                    owned.push_str(&self.text[piece..self.at]);
                    owned.push(self.escape()?);
                    piece = self.at;
                }
                Some(0..=0x1f) => {
                    return Self::error(
                        self.at,
                        "a line break or control character inside a string must be escaped",
                    );
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// One escape, from its backslash on.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let start = self.at;
        let kind = self.text.as_bytes().get(start + 1).copied();
        self.at += 2;
        Ok(match kind {
            Some(plain @ (b'"' | b'\\' | b'/')) => plain as char,
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let first = self.hex4(start)?;
                if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
                    let before = self.at;
                    self.at += 2;
                    let second = self.hex4(start)?;
                    if (0xdc00..0xe000).contains(&second) {
                        let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        return Ok(char::from_u32(joined).expect("a surrogate pair is a character"));
                    }
                    self.at = before;
                }
                // Half of a pair is not a character; Rust cannot represent it.
                char::from_u32(first).unwrap_or_else(|| {
                    self.halves.push(start);
                    char::REPLACEMENT_CHARACTER
                })
            }
            _ => return Self::error(start, "unknown escape; a backslash itself is written `\\\\`"),
        })
    }

    fn hex4(&mut self, start: usize) -> Result<u32, SyntaxError> {
        let digits =
            self.text.get(self.at..self.at + 4).filter(|four| four.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(digits) = digits else { return Self::error(start, "`\\u` needs four hexadecimal digits") };
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).expect("four hexadecimal digits"))
    }
}
