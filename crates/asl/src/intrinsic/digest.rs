//! Base64 and hashes.

use super::text;
use crate::codec::{base64_digit, base64_four, hash_hex};
use crate::json::Value;
use std::borrow::Cow;

/// How many characters, counted as Java counts them, these functions take.
const CHARACTERS_MAX: usize = 10_000;

fn is_short(text: &str) -> bool {
    text.len() <= CHARACTERS_MAX || text.encode_utf16().take(CHARACTERS_MAX + 1).count() <= CHARACTERS_MAX
}

pub(super) fn base64_encode(text: &str) -> Option<Value> {
    if !is_short(text) {
        return None;
    }
    Some(text.as_bytes().chunks(3).flat_map(base64_four).collect::<String>().into())
}

/// Lenient, like the service: other characters are skipped, both alphabets are read, the first `=` ends it, and bytes
/// that are not UTF-8 become U+FFFD.
pub(super) fn base64_decode(text: &str) -> Option<Value> {
    if !is_short(text) {
        return None;
    }
    let digits: Vec<u32> = text.bytes().take_while(|byte| *byte != b'=').filter_map(base64_digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for chunk in digits.chunks(4) {
        let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len().max(1)]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned().into())
}

/// A value that is not a string is hashed as its JSON text.
pub(super) fn hash(data: &Value, algorithm: &str) -> Option<Value> {
    let text = match data {
        Value::String(text) => Cow::Borrowed(&**text),
        other => Cow::Owned(text::print(other)?),
    };
    if !is_short(&text) {
        return None;
    }
    hash_hex(&text, algorithm).map(Value::from)
}
