//! The fingerprint of a request, as one hash: two requests are the same if their fingerprints are.
//!
//! It covers path parameters, query, media type and content, each with its length, so that bytes cannot move from one
//! to the next. The comparison of the content depends on its type, because senders do not repeat themselves byte for
//! byte: a content coding is undone, the parts of a form are hashed without the boundary between them, the byte order
//! mark of JSON is dropped, and optionally JSON is brought into a canonical form. The hash includes which of these was
//! done, so two requests that were read in different ways are never the same.

mod coding;
mod multipart;

use crate::digest::field_value;
use coding::Decoded;
use http::HeaderValue;
use perdura_canonical::{MediaType, Parts};
use sha2::{Digest, Sha256};
use std::fmt;

/// Changes whenever the same request would get another fingerprint than before.
const VERSION: &[u8] = b"perdura-fingerprint-1";

/// The hash of a request. The hash of a guessable request reveals the request: it is given to the caller, and never
/// stored or logged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The bytes of the hash.
    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// As the value of a header field: `sha-256=:base64:`.
    pub fn header(&self) -> HeaderValue {
        field_value(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// How to compare JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hashing {
    /// By its bytes, like all other content.
    #[default]
    Raw,
    /// By its value: white space, the order of members, escapes and the spelling of numbers do not count.
    CanonicalJson,
}

/// The input of a fingerprint.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The parameters of the path, in the order of the route.
    pub params: &'a [(&'a str, &'a str)],
    /// The query, as it was sent.
    pub query: Option<&'a str>,
    /// The value of `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The value of `Content-Encoding`; several lines are joined with commas.
    pub content_encoding: Option<&'a str>,
    /// The whole content, as it was sent.
    pub body: &'a [u8],
    /// The largest size of the content after decoding.
    pub body_bytes_max: u64,
}

/// Why a request has no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentFault {
    /// The content does not match its media type or coding. The text says where, and quotes nothing.
    #[error("the content is malformed: {0}")]
    Malformed(String),
    /// JSON in another charset than UTF-8.
    #[error("the content is JSON in a charset other than UTF-8")]
    Charset,
    /// It is, or becomes when decoded, larger than allowed.
    #[error("the content is too large")]
    TooLarge,
}

impl ContentFault {
    fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

/// The fingerprint of a request.
///
/// ```
/// use perdura_idempotency::fingerprint::{Asked, Hashing, fingerprint};
///
/// let first = Asked {
///     params: &[("account", "7")],
///     query: None,
///     content_type: Some("application/json"),
///     content_encoding: None,
///     body: br#"{"amount": 100, "currency": "EUR"}"#,
///     body_bytes_max: 1 << 20,
/// };
/// let again = Asked { body: br#"{"currency":"EUR","amount":1e2}"#, ..first };
/// let fingerprint = |asked, hashing| fingerprint(asked, hashing).unwrap();
/// assert_eq!(fingerprint(&first, Hashing::CanonicalJson), fingerprint(&again, Hashing::CanonicalJson));
/// assert_ne!(fingerprint(&first, Hashing::Raw), fingerprint(&again, Hashing::Raw));
/// ```
pub fn fingerprint(asked: &Asked<'_>, hashing: Hashing) -> Result<Fingerprint, ContentFault> {
    let media = asked.content_type.map(MediaType::parse);
    let decoded = coding::decode(asked.content_encoding, asked.body, asked.body_bytes_max)?;
    let content = content(media.as_ref(), &decoded, hashing)?;
    let mut parts = Parts::new(VERSION);
    parts.count(asked.params.len());
    for (name, value) in asked.params {
        parts.add(name.as_bytes());
        parts.add(value.as_bytes());
    }
    parts.add_option(asked.query.map(str::as_bytes));
    parts.add_option(media.as_ref().map(|media| media.essence.as_bytes()));
    parts.add_option(content.charset.map(str::as_bytes));
    parts.add(content.form.as_bytes());
    parts.add(decoded.codings_left.as_bytes());
    parts.add(&content.digest);
    Ok(Fingerprint(parts.finish()))
}

/// The content of a request, in the form that is compared.
struct Content<'a> {
    /// The form in which it was hashed.
    form: &'static str,
    /// The charset of its bytes, if it matters.
    charset: Option<&'a str>,
    digest: [u8; 32],
}

fn content<'a>(
    media: Option<&'a MediaType>,
    decoded: &Decoded<'_>,
    hashing: Hashing,
) -> Result<Content<'a>, ContentFault> {
    let raw = |form, charset, bytes: &[u8]| Content { form, charset, digest: Sha256::digest(bytes).into() };
    let bytes = decoded.bytes.as_ref();
    let Some(media) = media else { return Ok(raw("raw", None, bytes)) };
    if media.is_json() && !media.is_utf8() {
        return Err(ContentFault::Charset);
    }
    if !decoded.codings_left.is_empty() {
        return Ok(raw("coded", media.charset.as_deref(), bytes));
    }
    if media.essence == "multipart/form-data" {
        return Ok(Content { form: "multipart", charset: None, digest: multipart::digest(media, bytes)? });
    }
    if !media.is_json() {
        return Ok(raw("raw", media.charset.as_deref(), bytes));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match hashing {
        // Empty content is not JSON, but the route's handler decides whether to accept it.
        Hashing::CanonicalJson if !text.is_empty() => {
            let form =
                perdura_canonical::form(text).map_err(|fault| ContentFault::malformed(fault.to_string()))?;
            Ok(raw("canonical-json", None, &form))
        }
        Hashing::CanonicalJson | Hashing::Raw => Ok(raw("raw", None, text)),
    }
}

#[cfg(test)]
mod tests;
