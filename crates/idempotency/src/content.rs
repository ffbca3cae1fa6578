//! The content of an answer on its way out: complete, with its digest in front, or streamed, with its digest behind.

use crate::asked::CONTENT_DIGEST;
use crate::digest;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A complete content, and its trailers.
#[derive(Clone, Default)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl From<Bytes> for Whole {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, trailers: HeaderMap::new() }
    }
}

impl From<Whole> for Body {
    fn from(Whole { bytes, trailers }: Whole) -> Self {
        if trailers.is_empty() {
            Self::from(bytes)
        } else {
            Self::new(Trailed([Some(Frame::data(bytes)), Some(Frame::trailers(trailers))]))
        }
    }
}

/// A content with trailers. It has no length: HTTP/1.1 sends no trailers after a content with a length.
struct Trailed([Option<Frame<Bytes>>; 2]);

impl HttpBody for Trailed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.iter_mut().find_map(Option::take).map(Ok))
    }
}

pub(crate) enum Content {
    /// All of it, with its digest.
    Whole(Whole, HeaderValue),
    /// As it comes.
    Flowing(Body),
}

impl Content {
    /// A complete content with its digest.
    pub(crate) fn whole(whole: impl Into<Whole>) -> Self {
        let whole = whole.into();
        let digest = digest::content_digest(&whole.bytes);
        Self::Whole(whole, digest)
    }
}

/// Content that arrives in pieces. A single piece is not copied.
#[derive(Default)]
pub(crate) struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    pub(crate) fn add(&mut self, piece: Bytes) {
        if self.all.is_empty() {
            if self.first.is_empty() {
                self.first = piece;
                return;
            }
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
    }

    pub(crate) fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

/// Adds the digest of the content: a header if the content is complete, a trailer if it is streamed.
pub(crate) fn with_digest(response: Response<Content>) -> Response<Body> {
    let (mut parts, content) = response.into_parts();
    let body = match content {
        Content::Whole(whole, digest) => {
            parts.headers.insert(CONTENT_DIGEST, digest);
            announce(&mut parts.headers, &whole.trailers);
            Body::from(whole)
        }
        // The bytes that follow are not content of this answer.
        Content::Flowing(body) if parts.status == StatusCode::SWITCHING_PROTOCOLS => body,
        Content::Flowing(body) => {
            parts.headers.remove(CONTENT_DIGEST);
            // HTTP/1.1 sends no trailers after a content with a length.
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.append(header::TRAILER, HeaderValue::from_static("content-digest"));
            Body::new(Digested { body, hash: Some(Sha256::new()) })
        }
    };
    Response::from_parts(parts, body)
}

/// Sets `Trailer` to these names, or removes it.
fn announce(headers: &mut HeaderMap, trailers: &HeaderMap) {
    if trailers.is_empty() {
        headers.remove(header::TRAILER);
        return;
    }
    headers.remove(header::CONTENT_LENGTH);
    if !headers.contains_key(header::TRAILER) {
        let names: Vec<_> = trailers.keys().map(HeaderName::as_str).collect();
        headers.insert(header::TRAILER, HeaderValue::try_from(names.join(", ")).expect("names are ASCII"));
    }
}

/// The part of a body that was read, and then its rest.
pub(crate) struct Resumed {
    pub(crate) read: Bytes,
    pub(crate) rest: Body,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(cx);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.read)))))
    }
}

/// A body that sends its digest at the end (RFC 9530, section 2).
struct Digested {
    body: Body,
    /// `None` once it was sent, or cannot be: nothing comes after that.
    hash: Option<Sha256>,
}

impl HttpBody for Digested {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // A body must not be polled again once it has ended, and this one ends later.
        if self.hash.is_none() {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                self.hash = None;
                return Poll::Ready(Some(Err(error)));
            }
            None => Frame::trailers(HeaderMap::new()),
        };
        match frame.into_trailers() {
            Ok(mut trailers) => Poll::Ready(self.hash.take().map(|hash| {
                trailers.insert(CONTENT_DIGEST, digest::field_value(&hash.finalize().into()));
                Ok(Frame::trailers(trailers))
            })),
            Err(frame) => {
                if let (Some(data), Some(hash)) = (frame.data_ref(), &mut self.hash) {
                    hash.update(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    /// Never exact: a known length would be sent in front, and then no trailer is sent.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.body.size_hint().lower());
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[test]
    fn pieces_make_a_whole() {
        for pieces in [&[][..], &["a"], &["", "a"], &["a", ""], &["a", "bc", "", "def"]] {
            let mut gathered = Gathered::default();
            for (n, piece) in pieces.iter().enumerate() {
                gathered.add(Bytes::from_static(piece.as_bytes()));
                assert_eq!(gathered.len(), pieces[..=n].concat().len(), "{pieces:?}");
            }
            assert_eq!(gathered.whole(), pieces.concat(), "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn what_flows_tells_its_digest_at_the_end() {
        let resumed = Resumed { read: Bytes::from_static(b"hello "), rest: Body::from("world") };
        let response = with_digest(Response::new(Content::Flowing(Body::new(resumed))));
        assert_eq!(response.headers()[header::TRAILER], "content-digest");
        let collected = response.into_body().collect().await.unwrap();
        let trailers = collected.trailers().unwrap().clone();
        assert_eq!(collected.to_bytes(), "hello world");
        assert_eq!(trailers[CONTENT_DIGEST], digest::content_digest(b"hello world"));
    }
}
