//! JSON by its value: one form for all spellings of a value, and another for every other value.
//!
//! RFC 8785 is not used because it is defined on IEEE doubles, where 9007199254740993 and 9007199254740992 are one
//! number: two amounts of money would be one request. Here a number is its exact decimal. Names are in the order of
//! their UTF-16 code units; two equal names in one object are refused, because readers do not agree on which counts.
//! Unicode is compared as it is, not normalised.
//!
//! The form is only hashed, so it need not be JSON. Every value begins with a byte that says what it is and ends
//! where it can be seen to end: a string with 0xFF, which no UTF-8 holds, a list and an object with their bracket, a
//! number before the next byte that no number holds. It is written in one pass; an object whose members come in
//! another order is put in order when it closes.

use super::{ContentFault, number};
use std::cmp::Ordering;
use std::ops::Range;

/// As deep as serde_json reads.
const DEPTH_MAX: usize = 128;

/// Ends a string; never part of UTF-8.
const STRING_END: u8 = 0xFF;

/// The canonical form of a JSON text.
pub(super) fn form(text: &[u8]) -> Result<Vec<u8>, ContentFault> {
    if let Err(error) = std::str::from_utf8(text) {
        let at = error.valid_up_to();
        return Err(ContentFault::malformed(format!("JSON at byte {at}: this is not UTF-8")));
    }
    let mut reader = Reader {
        text,
        at: 0,
        out: Vec::with_capacity(text.len() + text.len() / 4),
        members: Vec::new(),
        scratch: Vec::new(),
    };
    reader.skip_space();
    reader.value(0)?;
    reader.skip_space();
    if reader.at == text.len() {
        Ok(reader.out)
    } else {
        Err(reader.fault("there is something after the value"))
    }
}

/// Where a member of an open object was written.
#[derive(Clone, Copy)]
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Member {
    fn name(self) -> Range<usize> {
        self.start + 1..self.name_end
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// The members of all objects that are open, the innermost last.
    members: Vec<Member>,
    scratch: Vec<u8>,
}

impl Reader<'_> {
    fn fault(&self, what: &str) -> ContentFault {
        ContentFault::malformed(format!("JSON at byte {}: {what}", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether this byte comes next, after white space; passes it, and the white space behind it.
    fn passes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let passes = self.peek() == Some(byte);
        if passes {
            self.at += 1;
            self.skip_space();
        }
        passes
    }

    fn value(&mut self, depth: usize) -> Result<(), ContentFault> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'-' | b'0'..=b'9') => match number::write(&self.text[self.at..], &mut self.out) {
                Ok(length) => {
                    self.at += length;
                    Ok(())
                }
                Err(what) => Err(self.fault(what)),
            },
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) => Err(self.fault("no value begins like this")),
            None => Err(self.fault("it ends where a value should be")),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), ContentFault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.fault("no value begins like this"));
        }
        self.at += word.len();
        self.out.push(word[0]);
        Ok(())
    }

    /// Passes an opening bracket.
    fn open(&mut self, bracket: u8, depth: usize) -> Result<(), ContentFault> {
        if depth == DEPTH_MAX {
            return Err(self.fault("it is nested too deeply"));
        }
        self.out.push(bracket);
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<(), ContentFault> {
        self.open(b'[', depth)?;
        if !self.passes(b']') {
            loop {
                self.value(depth + 1)?;
                if !self.passes(b',') {
                    break;
                }
            }
            if !self.passes(b']') {
                return Err(self.fault("a list goes on without a comma, or does not end"));
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), ContentFault> {
        self.open(b'{', depth)?;
        if !self.passes(b'}') {
            let first = self.members.len();
            let mut is_in_order = true;
            loop {
                is_in_order &= self.member(first, depth)?;
                if !self.passes(b',') {
                    break;
                }
            }
            if !self.passes(b'}') {
                return Err(self.fault("an object goes on without a comma, or does not end"));
            }
            if !is_in_order {
                self.put_in_order(first)?;
            }
            self.members.truncate(first);
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Reads a member; says whether its name comes after the one before it.
    fn member(&mut self, first: usize, depth: usize) -> Result<bool, ContentFault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("a member of an object needs a name"));
        }
        let start = self.out.len();
        self.string()?;
        let mut member = Member { start, name_end: self.out.len() - 1, end: 0 };
        let is_in_order = match self.members[first..].last() {
            Some(last) => utf16_order(&self.out[last.name()], &self.out[member.name()]) == Ordering::Less,
            None => true,
        };
        if !self.passes(b':') {
            return Err(self.fault("a name in an object needs a colon after it"));
        }
        self.value(depth + 1)?;
        member.end = self.out.len();
        self.members.push(member);
        Ok(is_in_order)
    }

    /// Sorts what was written for an object, from its `first` member on.
    fn put_in_order(&mut self, first: usize) -> Result<(), ContentFault> {
        let start = self.members[first].start;
        let name = |member: &Member| &self.out[member.name()];
        self.members[first..].sort_unstable_by(|a, b| utf16_order(name(a), name(b)));
        if self.members[first..].windows(2).any(|pair| name(&pair[0]) == name(&pair[1])) {
            return Err(self.fault("the object that ends here has a name twice"));
        }
        self.scratch.clear();
        for member in &self.members[first..] {
            self.scratch.extend_from_slice(&self.out[member.start..member.end]);
        }
        self.out[start..].copy_from_slice(&self.scratch);
        Ok(())
    }

    fn string(&mut self) -> Result<(), ContentFault> {
        self.out.push(b'"');
        self.at += 1;
        loop {
            let plain = plain_bytes(&self.text[self.at..]);
            self.out.extend_from_slice(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    self.out.push(STRING_END);
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.fault("a string holds a control character that is not escaped")),
                None => return Err(self.fault("a string does not end")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ContentFault> {
        let byte = match self.text.get(self.at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) | None => return Err(self.fault("there is no such escape")),
        };
        self.out.push(byte);
        self.at += 2;
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<(), ContentFault> {
        let high = self.code_unit(self.at)?;
        let mut units = [Some(high), None];
        self.at += 6;
        if (0xD800..0xDC00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            units[1] = Some(self.code_unit(self.at)?);
            self.at += 6;
        }
        for character in char::decode_utf16(units.into_iter().flatten()) {
            let Ok(character) = character else {
                return Err(self.fault("before this there is half of a surrogate pair"));
            };
            self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Ok(())
    }

    /// The code unit of the `\uXXXX` that begins there.
    fn code_unit(&self, at: usize) -> Result<u16, ContentFault> {
        self.text
            .get(at + 2..at + 6)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u16::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.fault("an escape by number needs four hexadecimal digits"))
    }
}

/// How many bytes from here on are neither quote, nor backslash, nor control character; eight at a time.
fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // A byte's high bit in these marks the byte. A borrow may mark bytes wrongly, but only behind a right one.
    let below = |word: u64, bound: u64| word.wrapping_sub(bound * ONES) & !word & HIGH;
    let equal = |word: u64, byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let marks = below(word, 0x20) | equal(word, b'"') | equal(word, b'\\');
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The order of two UTF-8 strings by their UTF-16 code units. It is the order of the bytes, but that the characters
/// from U+E000 to U+FFFF, which begin with 0xEE and 0xEF, come after those that take two code units.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    let weight = |byte: u8| if byte == 0xEE || byte == 0xEF { byte + 0x10 } else { byte };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => weight(*a).cmp(&weight(*b)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests;
