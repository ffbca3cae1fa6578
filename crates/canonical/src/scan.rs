//! Reading JSON text step by step, without building anything.
//!
//! Strict (RFC 8259), bounded in depth, and silent about the content: a fault says where and what, and quotes nothing. The
//! text of a value can be passed without looking into it, so that whoever needs three members of a large object pays for
//! three. Numbers stay text.

use crate::number;
use std::borrow::Cow;

/// As deep as serde_json reads.
pub(crate) const DEPTH_MAX: usize = 128;

/// Why a text is not JSON, or has no canonical form. It quotes nothing of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("JSON at byte {at}: {what}")]
pub struct Fault {
    /// The byte at which it shows.
    pub at: usize,
    /// The sentence about it.
    pub what: &'static str,
}

/// What a value begins like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    List,
    Text,
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// A place in a JSON text.
pub struct Scanner<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) at: usize,
    depth: usize,
}

/// What to do with a `\uD800` that no other half follows: it has no UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halves {
    Refuse,
    Replace,
}

impl<'a> Scanner<'a> {
    /// At the first value of a text.
    pub fn new(text: &'a [u8]) -> Result<Self, Fault> {
        if let Err(error) = std::str::from_utf8(text) {
            return Err(Fault { at: error.valid_up_to(), what: "this is not UTF-8" });
        }
        let mut scanner = Self { text, at: 0, depth: 0 };
        scanner.skip_space();
        Ok(scanner)
    }

    /// As if this text stood so many levels deep in another, which counts towards the bound.
    pub fn below(mut self, levels: usize) -> Self {
        self.depth += levels;
        self
    }

    /// A fault at this place.
    pub fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether this byte comes next, after white space; passes it, and the white space behind it.
    pub(crate) fn passes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let passes = self.peek() == Some(byte);
        if passes {
            self.at += 1;
            self.skip_space();
        }
        passes
    }

    /// The kind of the next value.
    pub fn kind(&self) -> Result<Kind, Fault> {
        match self.peek() {
            Some(b'"') => Ok(Kind::Text),
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::List),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f' | b'n') => Ok(Kind::Word),
            Some(_) => Err(self.fault("no value begins like this")),
            None => Err(self.fault("it ends where a value should be")),
        }
    }

    /// Nothing but white space is left.
    pub fn finish(mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(self.fault("there is something after the value"))
        }
    }

    /// Passes an opening bracket.
    pub(crate) fn open(&mut self) -> Result<(), Fault> {
        if self.depth >= DEPTH_MAX {
            return Err(self.fault("it is nested too deeply"));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Passes the closing bracket of a list, or of an object.
    pub(crate) fn close(&mut self, bracket: u8) -> Result<(), Fault> {
        if !self.passes(bracket) {
            return Err(self.fault(if bracket == b']' {
                "a list goes on without a comma, or does not end"
            } else {
                "an object goes on without a comma, or does not end"
            }));
        }
        self.depth -= 1;
        Ok(())
    }

    /// Passes a list that begins here. `each` passes one element.
    pub fn elements<E: From<Fault>>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open()?;
        if self.peek() != Some(b']') {
            loop {
                each(self)?;
                if !self.passes(b',') {
                    break;
                }
            }
        }
        Ok(self.close(b']')?)
    }

    /// Passes an object that begins here. `each` passes the value of one member.
    pub fn members<E: From<Fault>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open()?;
        if self.peek() != Some(b'}') {
            loop {
                self.begins_name()?;
                let name = self.string()?;
                self.colon()?;
                each(self, &name)?;
                if !self.passes(b',') {
                    break;
                }
            }
        }
        Ok(self.close(b'}')?)
    }

    pub(crate) fn begins_name(&self) -> Result<(), Fault> {
        if self.peek() == Some(b'"') { Ok(()) } else { Err(self.fault("a member of an object needs a name")) }
    }

    pub(crate) fn colon(&mut self) -> Result<(), Fault> {
        if self.passes(b':') { Ok(()) } else { Err(self.fault("a name in an object needs a colon after it")) }
    }

    /// Passes any value, and gives its text.
    pub fn skip(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.at;
        match self.kind()? {
            Kind::Object => self.skip_members()?,
            Kind::List => self.elements(|scanner| scanner.skip().map(|_| ()))?,
            Kind::Text => self.skip_string()?,
            Kind::Number => match number::length(&self.text[self.at..]) {
                Ok(length) => self.at += length,
                Err(what) => return Err(self.fault(what)),
            },
            Kind::Word => {
                self.word()?;
            }
        }
        Ok(self.text[start..self.at].trim_ascii_end())
    }

    fn skip_members(&mut self) -> Result<(), Fault> {
        self.open()?;
        if self.peek() != Some(b'}') {
            loop {
                self.begins_name()?;
                self.skip_string()?;
                self.colon()?;
                self.skip()?;
                if !self.passes(b',') {
                    break;
                }
            }
        }
        self.close(b'}')
    }

    /// Passes `true`, `false` or `null`, and gives its first letter.
    pub(crate) fn word(&mut self) -> Result<u8, Fault> {
        let word: &[u8] = match self.peek() {
            Some(b't') => b"true",
            Some(b'f') => b"false",
            _ => b"null",
        };
        if !self.text[self.at..].starts_with(word) {
            return Err(self.fault("no value begins like this"));
        }
        self.at += word.len();
        Ok(word[0])
    }

    fn skip_string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at += plain_bytes(&self.text[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match self.text.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') => {
                        self.code_unit(self.at)?;
                        self.at += 6;
                    }
                    Some(_) | None => return Err(self.fault("there is no such escape")),
                },
                Some(_) => return Err(self.fault("a string holds a control character that is not escaped")),
                None => return Err(self.fault("a string does not end")),
            }
        }
    }

    /// Passes a string that begins here. Half of a surrogate pair, which has no UTF-8, becomes U+FFFD.
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        let plain = plain_bytes(&self.text[self.at + 1..]);
        let (start, end) = (self.at + 1, self.at + 1 + plain);
        if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        let mut out = Vec::new();
        self.write_string(&mut out, Halves::Replace)?;
        Ok(Cow::Owned(out))
    }

    /// Passes a string that begins here, and gives its characters. Half of a surrogate pair is a fault.
    pub fn text(&mut self) -> Result<String, Fault> {
        let mut out = Vec::new();
        self.write_string(&mut out, Halves::Refuse)?;
        Ok(String::from_utf8(out).expect("parts of UTF-8, and characters"))
    }

    /// Writes the characters of the string that begins here.
    pub(crate) fn write_string(&mut self, out: &mut Vec<u8>, halves: Halves) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at += copy_plain_bytes(&self.text[self.at..], out);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(out, halves)?,
                Some(_) => return Err(self.fault("a string holds a control character that is not escaped")),
                None => return Err(self.fault("a string does not end")),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>, halves: Halves) -> Result<(), Fault> {
        let byte = match self.text.get(self.at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(out, halves),
            Some(_) | None => return Err(self.fault("there is no such escape")),
        };
        out.push(byte);
        self.at += 2;
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut Vec<u8>, halves: Halves) -> Result<(), Fault> {
        let high = self.code_unit(self.at)?;
        self.at += 6;
        let mut units = [Some(high), None];
        if (0xD800..0xDC00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            let low = self.code_unit(self.at)?;
            // Without the other half, the next escape is a character of its own.
            if halves == Halves::Refuse || (0xDC00..0xE000).contains(&low) {
                units[1] = Some(low);
                self.at += 6;
            }
        }
        for character in char::decode_utf16(units.into_iter().flatten()) {
            let character = match (character, halves) {
                (Ok(character), _) => character,
                (Err(_), Halves::Replace) => char::REPLACEMENT_CHARACTER,
                (Err(_), Halves::Refuse) => {
                    return Err(self.fault("before this there is half of a surrogate pair"));
                }
            };
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }

    /// The code unit of the `\uXXXX` that begins there.
    fn code_unit(&self, at: usize) -> Result<u16, Fault> {
        self.text
            .get(at + 2..at + 6)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.fault("an escape by number needs four hexadecimal digits"))
    }
}

/// How many of eight bytes come before the first that is a quote, a backslash or a control character.
pub(crate) fn plain_bytes_of(word: [u8; 8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let word = u64::from_le_bytes(word);
    let below = |word: u64, bound: u64| word.wrapping_sub(bound * ONES) & !word & HIGH;
    let equal = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
    // The highest bit of a byte marks it. A borrow may mark bytes wrongly, but only behind a right one.
    let marks = below(word, 0x20) | equal(b'"') | equal(b'\\');
    marks.trailing_zeros() as usize / 8
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// How many bytes from here on are not special; eight at a time.
fn plain_bytes(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let plain = plain_bytes_of(*word);
        if plain < 8 {
            return index * 8 + plain;
        }
    }
    words.len() * 8 + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

/// The same, and copies them: most strings are so short that a copy of eight bytes more is cheaper than a call.
fn copy_plain_bytes(text: &[u8], out: &mut Vec<u8>) -> usize {
    let before = out.len();
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        out.extend_from_slice(word);
        let plain = plain_bytes_of(*word);
        if plain < 8 {
            out.truncate(before + index * 8 + plain);
            return index * 8 + plain;
        }
    }
    let plain = rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len());
    out.extend_from_slice(&rest[..plain]);
    words.len() * 8 + plain
}

#[cfg(test)]
mod tests;
