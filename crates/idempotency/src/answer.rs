//! A stored answer: status, some headers, body.
//!
//! The stored form is ours: a format byte, then counted fields. A golden test pins it; a changed meaning gets a new
//! format byte.

mod retained;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
pub(crate) use retained::{is_never_retained, retained_headers};
use std::fmt;

/// The first byte of the stored form: without trailers, and with trailers.
const FORMAT: u8 = 1;
const FORMAT_TRAILERS: u8 = 2;
const NOT_RETAINED: u8 = 0;
const BODY: u8 = 1;

/// A stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    /// The headers that a replay has.
    pub headers: HeaderMap,
    pub body: Kept,
    /// The trailers that a replay has.
    pub trailers: HeaderMap,
}

/// The stored body. `Debug` does not show its bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum Kept {
    /// All of it.
    Body(Bytes),
    /// None of it: the body was too large, or a stream.
    NotRetained,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(body) => write!(f, "Body({} bytes)", body.len()),
            Self::NotRetained => f.write_str("NotRetained"),
        }
    }
}

impl Answer {
    /// The stored form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = match &self.body {
            Kept::Body(body) => body.as_ref(),
            Kept::NotRetained => &[],
        };
        let mut out = Vec::with_capacity(64 + self.headers.len() * 64 + body.len());
        out.push(if self.trailers.is_empty() { FORMAT } else { FORMAT_TRAILERS });
        out.extend(self.status.as_u16().to_be_bytes());
        put_headers(&mut out, &self.headers);
        if !self.trailers.is_empty() {
            put_headers(&mut out, &self.trailers);
        }
        out.push(match self.body {
            Kept::Body(_) => BODY,
            Kept::NotRetained => NOT_RETAINED,
        });
        out.extend(body);
        out
    }

    /// Parses the stored form. `None`: it is invalid. The body is a slice of the bytes, not a copy.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut left = bytes.as_ref();
        let [format @ (FORMAT | FORMAT_TRAILERS)] = take::<1>(&mut left)? else { return None };
        let status = StatusCode::from_u16(u16::from_be_bytes(take(&mut left)?)).ok()?;
        let headers = take_headers(&mut left)?;
        let trailers = if format == FORMAT_TRAILERS { take_headers(&mut left)? } else { HeaderMap::new() };
        let body = match (take::<1>(&mut left)?, left) {
            ([BODY], body) => Kept::Body(bytes.slice_ref(body)),
            ([NOT_RETAINED], []) => Kept::NotRetained,
            _ => return None,
        };
        Some(Self { status, headers, body, trailers })
    }
}

fn put_headers(out: &mut Vec<u8>, headers: &HeaderMap) {
    out.extend((headers.len() as u32).to_be_bytes());
    for (name, value) in headers {
        put(out, name.as_str().as_bytes());
        put(out, value.as_bytes());
    }
}

fn take_headers(left: &mut &[u8]) -> Option<HeaderMap> {
    let count = u32::from_be_bytes(take(left)?);
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let name = HeaderName::from_bytes(field(left)?).ok()?;
        let value = HeaderValue::from_bytes(field(left)?).ok()?;
        headers.try_append(name, value).ok()?;
    }
    Some(headers)
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    let length = u32::try_from(field.len()).expect("a header field is far below 4 GiB");
    out.extend(length.to_be_bytes());
    out.extend(field);
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(*taken)
}

fn field<'a>(left: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(take(left)?);
    let (taken, rest) = left.split_at_checked(usize::try_from(length).ok()?)?;
    *left = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
            })
            .collect()
    }

    #[test]
    fn the_stored_form_is_pinned() {
        let kept = Answer {
            status: StatusCode::CREATED,
            headers: headers(&[("location", "/o/1"), ("link", "</a>"), ("link", "</b>")]),
            body: Kept::Body(Bytes::from_static(b"{}")),
            trailers: HeaderMap::new(),
        };
        let golden: &[u8] = b"\x01\x00\xc9\x00\x00\x00\x03\
            \x00\x00\x00\x08location\x00\x00\x00\x04/o/1\
            \x00\x00\x00\x04link\x00\x00\x00\x04</a>\
            \x00\x00\x00\x04link\x00\x00\x00\x04</b>\
            \x01{}";
        assert_eq!(kept.encode(), golden);
        assert_eq!(Answer::decode(&Bytes::from_static(golden)), Some(kept));

        let lost = Answer {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Kept::NotRetained,
            trailers: HeaderMap::new(),
        };
        let golden: &[u8] = b"\x01\x00\xc8\x00\x00\x00\x00\x00";
        assert_eq!(lost.encode(), golden);
        assert_eq!(Answer::decode(&Bytes::from_static(golden)), Some(lost));

        let trailed = Answer {
            status: StatusCode::OK,
            headers: headers(&[("etag", "1")]),
            body: Kept::Body(Bytes::from_static(b"{}")),
            trailers: headers(&[("x-sum", "17")]),
        };
        let golden: &[u8] = b"\x02\x00\xc8\x00\x00\x00\x01\
            \x00\x00\x00\x04etag\x00\x00\x00\x011\
            \x00\x00\x00\x01\
            \x00\x00\x00\x05x-sum\x00\x00\x00\x0217\
            \x01{}";
        assert_eq!(trailed.encode(), golden);
        assert_eq!(Answer::decode(&Bytes::from_static(golden)), Some(trailed));
    }

    #[test]
    fn what_is_not_the_stored_form_is_refused() {
        let table: &[(&str, &[u8])] = &[
            ("nothing", b""),
            ("another format", b"\x03\x00\xc8\x00\x00\x00\x00\x00"),
            ("cut before the trailers", b"\x02\x00\xc8\x00\x00\x00\x00\x00"),
            ("no such status", b"\x01\x00\x10\x00\x00\x00\x00\x00"),
            ("cut in the status", b"\x01\x00"),
            ("cut before the body", b"\x01\x00\xc8\x00\x00\x00\x00"),
            ("more headers than bytes", b"\x01\x00\xc8\xff\xff\xff\xff\x00"),
            ("a longer name than bytes", b"\x01\x00\xc8\x00\x00\x00\x01\xff\xff\xff\xffa"),
            ("no name", b"\x01\x00\xc8\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
            ("a line break", b"\x01\x00\xc8\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x01\n\x00"),
            ("no such kind of body", b"\x01\x00\xc8\x00\x00\x00\x00\x02"),
            ("a body that was not kept", b"\x01\x00\xc8\x00\x00\x00\x00\x00{}"),
        ];
        for (what, bytes) in table {
            assert_eq!(Answer::decode(&Bytes::from_static(bytes)), None, "{what}");
        }
    }

    #[test]
    fn more_headers_than_a_map_takes_is_refused() {
        let mut bytes = b"\x01\x00\xc8\x00\x00\xff\xff".to_vec();
        for at in 0..0xffff_u32 {
            put(&mut bytes, format!("x-{at}").as_bytes());
            put(&mut bytes, b"");
        }
        bytes.push(NOT_RETAINED);
        assert_eq!(Answer::decode(&bytes.into()), None);
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_is_decoded(
            status in 100_u16..1000,
            lines in prop::collection::vec(("[a-z]{1,3}", "[ -~]{0,20}"), 0..8),
            behind in prop::collection::vec(("[a-z]{1,3}", "[ -~]{0,20}"), 0..3),
            body in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        ) {
            let [lines, behind] = [&lines, &behind].map(|lines| {
                lines.iter().map(|(name, value)| (&name[..], value.trim())).collect::<Vec<_>>()
            });
            let answer = Answer {
                status: StatusCode::from_u16(status).expect("in range"),
                headers: headers(&lines),
                body: body.map_or(Kept::NotRetained, |body| Kept::Body(body.into())),
                trailers: headers(&behind),
            };
            let bytes = Bytes::from(answer.encode());
            prop_assert_eq!(Answer::decode(&bytes), Some(answer.clone()));
            if answer.body == Kept::NotRetained {
                for cut in 0..bytes.len() {
                    prop_assert_eq!(Answer::decode(&bytes.slice(..cut)), None);
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_an_answer_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = if *first < 128 { FORMAT } else { FORMAT_TRAILERS };
            }
            let bytes = Bytes::from(bytes);
            if let Some(answer) = Answer::decode(&bytes) {
                prop_assert!(answer.encode().len() <= bytes.len());
            }
        }

        #[test]
        fn damaged_bytes_are_an_answer_or_none(at in 0_usize..60, bit in 0_u8..8) {
            let answer = Answer {
                status: StatusCode::OK,
                headers: headers(&[("location", "/o/1"), ("etag", "\"1\"")]),
                body: Kept::Body(Bytes::from_static(b"{}")),
                trailers: headers(&[("x-sum", "17")]),
            };
            let mut bytes = answer.encode();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let bytes = Bytes::from(bytes);
            if let Some(other) = Answer::decode(&bytes) {
                prop_assert!(other.encode().len() <= bytes.len());
            }
        }
    }
}
