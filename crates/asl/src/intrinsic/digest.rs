//! Base64 and hashes.

use super::text;
use crate::json::Value;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::borrow::Cow;
use std::fmt::Write;

/// How many characters, counted as Java counts them, these functions take.
const CHARACTERS_MAX: usize = 10_000;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn is_short(text: &str) -> bool {
    text.len() <= CHARACTERS_MAX || text.encode_utf16().take(CHARACTERS_MAX + 1).count() <= CHARACTERS_MAX
}

pub(super) fn base64_encode(text: &str) -> Option<Value> {
    if !is_short(text) {
        return None;
    }
    let mut out = String::with_capacity(text.len().div_ceil(3) * 4);
    for chunk in text.as_bytes().chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let bits = a << 16 | b << 8 | c;
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = ALPHABET[(bits >> shift & 63) as usize] as char;
            out.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    Some(out.into())
}

/// Forgiving, like the service: what is no digit is passed over, both alphabets are read, the first `=`
/// ends it, and bytes that are no text become U+FFFD.
pub(super) fn base64_decode(text: &str) -> Option<Value> {
    if !is_short(text) {
        return None;
    }
    let digits: Vec<u32> = text.bytes().take_while(|byte| *byte != b'=').filter_map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for chunk in digits.chunks(4) {
        let bits = chunk.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len().max(1)]);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned().into())
}

fn digit(byte: u8) -> Option<u32> {
    let at = match byte {
        b'-' => Some(62),
        b'_' => Some(63),
        _ => ALPHABET.iter().position(|known| *known == byte),
    };
    at.map(|at| at as u32)
}

/// What is not a string is hashed as its JSON text.
pub(super) fn hash(data: &Value, algorithm: &str) -> Option<Value> {
    let text = match data {
        Value::String(text) => Cow::Borrowed(&**text),
        other => Cow::Owned(text::print(other)?),
    };
    if !is_short(&text) {
        return None;
    }
    let bytes = text.as_bytes();
    let digest: &[u8] = match algorithm {
        "MD5" => &Md5::digest(bytes),
        "SHA-1" => &Sha1::digest(bytes),
        "SHA-256" => &Sha256::digest(bytes),
        "SHA-384" => &Sha384::digest(bytes),
        "SHA-512" => &Sha512::digest(bytes),
        _ => return None,
    };
    let mut out = String::with_capacity(digest.len() * 2);
    for byte in digest {
        write!(out, "{byte:02x}").expect("writing to a String cannot fail");
    }
    Some(out.into())
}
