//! `Content-Digest` and `Repr-Digest` (RFC 9530): verifies received digests and creates our own.
//!
//! Both cover the encoded bytes, because `Content-Encoding` belongs to the representation, so both are checked before
//! decoding. They differ if a request carries a part of a representation, as `Content-Range` says; `Repr-Digest` then
//! describes bytes that are not in the message, and is ignored.
//!
//! sha-256 and sha-512 are verified, both if both are present. Other algorithms are ignored if one of these two is
//! present; md5, sha-1 and the checksums prove nothing against an attacker.

mod dictionary;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

/// Digests of the content of a message.
pub(crate) const CONTENT_DIGEST: &str = "content-digest";
/// Digests of the whole representation.
pub(crate) const REPR_DIGEST: &str = "repr-digest";

/// A mistake in the digests of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DigestFault {
    /// A field is not a dictionary of byte sequences, or a digest does not have the length of its algorithm.
    #[error("the digest field cannot be read, or a digest has the wrong length")]
    Invalid,
    /// The content is not what a digest says.
    #[error("the content is not what its digest says")]
    Mismatched,
    /// There are digests, but none of a supported algorithm.
    #[error("the digest field holds neither sha-256 nor sha-512")]
    Unsupported,
}

/// Checks the received content against all digests that cover it, in headers or trailers. No digest at all is fine.
pub(crate) fn verify(headers: &HeaderMap, trailers: &HeaderMap, content: &[u8]) -> Result<(), DigestFault> {
    let fields: &[&str] = if headers.contains_key(header::CONTENT_RANGE) {
        &[CONTENT_DIGEST]
    } else {
        &[CONTENT_DIGEST, REPR_DIGEST]
    };
    let mut listed = Vec::new();
    for field in fields {
        for section in [headers, trailers] {
            let lines: Vec<&[u8]> = section.get_all(*field).iter().map(HeaderValue::as_bytes).collect();
            listed.extend(dictionary::parse(&lines.join(&b", "[..])).ok_or(DigestFault::Invalid)?);
        }
    }
    let known: Vec<(Algorithm, &[u8])> = listed
        .iter()
        .filter_map(|(name, digest)| Algorithm::named(name).map(|algorithm| (algorithm, digest.as_slice())))
        .collect();
    if known.iter().any(|(algorithm, digest)| digest.len() != algorithm.bytes()) {
        return Err(DigestFault::Invalid);
    }
    if known.is_empty() && !listed.is_empty() {
        return Err(DigestFault::Unsupported);
    }
    if known.iter().all(|(algorithm, digest)| algorithm.is_digest_of(content, digest)) {
        Ok(())
    } else {
        Err(DigestFault::Mismatched)
    }
}

/// The `Content-Digest` of this content, by sha-256.
pub(crate) fn content_digest(content: &[u8]) -> HeaderValue {
    field_value(&Sha256::digest(content).into())
}

/// A sha-256 as the value of a digest field.
pub(crate) fn field_value(digest: &[u8; 32]) -> HeaderValue {
    let text = format!("sha-256=:{}:", STANDARD.encode(digest));
    HeaderValue::try_from(text).expect("base64 is fit for a header")
}

/// The supported algorithms.
#[derive(Clone, Copy)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        match name {
            "sha-256" => Some(Self::Sha256),
            "sha-512" => Some(Self::Sha512),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn is_digest_of(self, content: &[u8], digest: &[u8]) -> bool {
        match self {
            Self::Sha256 => Sha256::digest(content).as_slice().ct_eq(digest).into(),
            Self::Sha512 => Sha512::digest(content).as_slice().ct_eq(digest).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &[u8] = b"{\"hello\": \"world\"}";
    const SHA256: &str = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";
    const SHA512: &str =
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:";
    const WRONG: &str = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";

    fn check(lines: &[(&'static str, String)], content: &[u8]) -> Result<(), DigestFault> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a field value"));
        }
        verify(&headers, &HeaderMap::new(), content)
    }

    #[test]
    fn content_digest_is_verified_as_the_table_says() {
        use DigestFault::{Invalid, Mismatched, Unsupported};
        let unpadded = SHA256.replace('=', "").replacen("sha-256", "sha-256=", 1);
        let table: &[(String, Result<(), DigestFault>)] = &[
            (SHA256.into(), Ok(())),
            (SHA512.into(), Ok(())),
            (format!("{SHA256}, {SHA512}"), Ok(())),
            (format!("{SHA256},{WRONG}"), Err(Mismatched)),
            (format!("{WRONG},{SHA256}"), Ok(())),
            (format!("{WRONG},{SHA512}"), Err(Mismatched)),
            (WRONG.into(), Err(Mismatched)),
            (unpadded, Ok(())),
            (format!("{SHA256};note=\"x\""), Ok(())),
            (format!("md5=:AAAA:, {SHA256}"), Ok(())),
            ("md5=:AAAAAAAAAAAAAAAAAAAAAA==:".into(), Err(Unsupported)),
            ("sha=:AAAA:".into(), Err(Unsupported)),
            (
                "sha-1=:AAAA:, unixsum=:AAAA:, unixcksum=:AA==:, adler=:AA==:, crc32c=:AA==:".into(),
                Err(Unsupported),
            ),
            ("sha-384=:AAAA:".into(), Err(Unsupported)),
            (String::new(), Ok(())),
            ("sha-256=:AAAA:".into(), Err(Invalid)),
            ("sha-256=::".into(), Err(Invalid)),
            (format!("{SHA512}, sha-256=:AAAA:"), Err(Invalid)),
            (SHA512.replace("512", "256"), Err(Invalid)),
            ("SHA-256=:AAAA:".into(), Err(Invalid)),
            ("sha-256".into(), Err(Invalid)),
            ("sha-256=abc".into(), Err(Invalid)),
            ("sha-256=\"X48E\"".into(), Err(Invalid)),
            ("sha-256=:*:".into(), Err(Invalid)),
            (SHA256[..40].into(), Err(Invalid)),
            (format!("{SHA256},"), Err(Invalid)),
            (format!("{SHA256} {SHA512}"), Err(Invalid)),
            (SHA256.replace('/', "_").replace('+', "-").replace(':', ""), Err(Invalid)),
        ];
        for (value, expected) in table {
            assert_eq!(check(&[(CONTENT_DIGEST, value.clone())], CONTENT), *expected, "{value}");
        }
    }

    #[test]
    fn lines_are_one_dictionary() {
        let lines = |values: [&str; 2]| values.map(|value| (CONTENT_DIGEST, value.to_owned()));
        assert_eq!(check(&lines([SHA256, SHA512]), CONTENT), Ok(()));
        assert_eq!(check(&lines(["md5=:AAAA:", SHA512]), CONTENT), Ok(()));
        assert_eq!(check(&lines([SHA256, WRONG]), CONTENT), Err(DigestFault::Mismatched));
        assert_eq!(check(&lines([SHA512, WRONG]), CONTENT), Err(DigestFault::Mismatched));
    }

    #[test]
    fn the_representation_is_the_content_unless_it_is_a_part() {
        let repr = |value: &str| (REPR_DIGEST, value.to_owned());
        assert_eq!(check(&[], CONTENT), Ok(()));
        assert_eq!(check(&[repr(SHA256)], CONTENT), Ok(()));
        assert_eq!(check(&[repr(WRONG)], CONTENT), Err(DigestFault::Mismatched));
        assert_eq!(
            check(&[repr(WRONG), ("content-encoding", "gzip".into())], CONTENT),
            Err(DigestFault::Mismatched)
        );
        assert_eq!(check(&[repr(WRONG), ("content-range", "bytes 0-17/99".into())], CONTENT), Ok(()));
        assert_eq!(
            check(&[(CONTENT_DIGEST, WRONG.into()), ("content-range", "bytes 0-17/99".into())], CONTENT),
            Err(DigestFault::Mismatched)
        );
        assert_eq!(check(&[(CONTENT_DIGEST, SHA256.into()), repr("md5=:AAAA:")], CONTENT), Ok(()));
        assert_eq!(check(&[repr("md5=:AAAA:")], CONTENT), Err(DigestFault::Unsupported));
    }

    #[test]
    fn our_own_digest_verifies() {
        assert_eq!(content_digest(CONTENT), SHA256);
        for content in [&b""[..], CONTENT] {
            let value = content_digest(content).to_str().expect("ASCII").to_owned();
            assert_eq!(check(&[(CONTENT_DIGEST, value)], content), Ok(()));
        }
    }
}
