//! The canonical form of a request, which both sides sign.
//!
//! Two requests with the same meaning must have the same form, however they were spelled on the wire: header names in
//! lower case, parameters in order, every character escaped that may be escaped.

use crate::sign::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of the scheme, at the start of the signed text.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The parts of a request that are signed.
#[derive(Clone, Copy)]
pub(crate) struct Canonical<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// By lower-case name; several values of one name are joined.
    pub(crate) headers: &'a BTreeMap<String, String>,
    pub(crate) body_sha256: &'a str,
    /// `s3` signs paths as they are; all other services escape them once more.
    pub(crate) service: &'a str,
}

impl Canonical<'_> {
    /// The names of the signed headers, as `Authorization` lists them.
    pub(crate) fn signed_headers(&self) -> String {
        self.headers.keys().map(String::as_str).collect::<Vec<_>>().join(";")
    }

    /// The SHA-256 of the canonical request, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hex(&Sha256::digest(self.text()))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n", self.method, self.canonical_path(), query(self.query));
        for (name, value) in self.headers {
            writeln!(text, "{name}:{value}").expect("a String takes everything");
        }
        write!(text, "\n{}\n{}", self.signed_headers(), self.body_sha256).expect("a String takes everything");
        text
    }

    fn canonical_path(&self) -> String {
        if self.service == "s3" {
            return escaped(unescaped(self.path), true);
        }
        escaped(without_dots(self.path), true)
    }
}

/// Headers under their lower-case names, with values as they are signed: trimmed, with one space instead of several,
/// and several values of one name joined in their order.
pub(crate) fn headers<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in given {
        let value = value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let value = value.trim();
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|joined| {
                joined.push(',');
                joined.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    headers
}

/// The parameters sorted by name, then by value, each in its escaped form.
fn query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (escaped(unescaped(name), false), escaped(unescaped(value), false))
    });
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort();
    let pairs = pairs.into_iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

/// A path without empty segments, `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) && !segments.is_empty();
    format!("/{}{}", segments.join("/"), if is_folder { "/" } else { "" })
}

/// Escapes all bytes except letters, digits and `-_.~` as `%XX`; a slash too, unless it separates parts of a path.
pub fn escaped(bytes: impl AsRef<[u8]>, is_path: bool) -> String {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (is_path && byte == b'/') {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a String takes everything");
        }
    }
    text
}

/// The bytes that a text encodes. Anything that only resembles an escape stays unchanged.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        if bytes[at] == b'%'
            && let (Some(high), Some(low)) = (digit(1), digit(2))
        {
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_query_come_out_the_same() {
        for (written, expected) in [
            ("", ""),
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&a=1", "a=1&a=2"),
            ("a", "a="),
            ("&&a=&", "a="),
            ("a=b%2fc", "a=b%2Fc"),
            ("a=b/c", "a=b%2Fc"),
            ("%61=~-_.", "a=~-_."),
            ("a=100%", "a=100%25"),
            ("a=b=c", "a=b%3Dc"),
            ("a=%zz%4", "a=%25zz%254"),
        ] {
            assert_eq!(query(written), expected, "{written}");
        }
    }

    #[test]
    fn a_path_is_escaped_once_more_except_at_s3() {
        let headers = BTreeMap::new();
        let path = |path, service| {
            Canonical { method: "GET", path, query: "", headers: &headers, body_sha256: "", service }
                .canonical_path()
        };
        for (written, elsewhere, s3) in [
            ("/", "/", "/"),
            ("", "/", ""),
            ("/a/b/", "/a/b/", "/a/b/"),
            ("/a%20b", "/a%2520b", "/a%20b"),
            ("//a//b", "/a/b", "//a//b"),
            ("/a/./b/../c", "/a/c", "/a/./b/../c"),
            ("/../..", "/", "/../.."),
            ("/a/..", "/", "/a/.."),
        ] {
            assert_eq!(path(written, "states"), elsewhere, "{written}");
            assert_eq!(path(written, "s3"), s3, "{written}");
        }
    }

    #[test]
    fn values_are_trimmed_and_joined() {
        let found = headers([("B", "  x   y "), ("a", "2"), ("A", "1"), ("c", "")]);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "2,1"), ("b", "x y"), ("c", "")]);
    }
}
