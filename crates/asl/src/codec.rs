//! Hashes and Base64, for both query languages.

use crate::hex;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The hash of `text` in lower-case hexadecimal. `None`: no such algorithm.
pub(crate) fn hash_hex(text: &str, algorithm: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digest: &[u8] = match algorithm {
        "MD5" => &Md5::digest(bytes),
        "SHA-1" => &Sha1::digest(bytes),
        "SHA-256" => &Sha256::digest(bytes),
        "SHA-384" => &Sha384::digest(bytes),
        "SHA-512" => &Sha512::digest(bytes),
        _ => return None,
    };
    Some(hex::encode(digest))
}

/// Up to three bytes as four characters, padded.
pub(crate) fn base64_four(chunk: &[u8]) -> [char; 4] {
    let [a, b, c] = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
    let bits = a << 16 | b << 8 | c;
    [0, 1, 2, 3].map(|at| {
        if at <= chunk.len() { ALPHABET[(bits >> (18 - 6 * at) & 63) as usize] as char } else { '=' }
    })
}

/// The value of a Base64 character, of either alphabet. `None`: not one.
pub(crate) fn base64_digit(byte: u8) -> Option<u32> {
    let at = match byte {
        b'-' => Some(62),
        b'_' => Some(63),
        _ => ALPHABET.iter().position(|known| *known == byte),
    };
    at.map(|at| at as u32)
}
