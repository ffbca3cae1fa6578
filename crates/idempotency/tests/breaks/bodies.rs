//! Contents that come in pieces, and what comes behind them.

use crate::kit::{Count, ask, in_memory, key, post};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use perdura_idempotency::{CONTENT_DIGEST, Policy, Routes, content_digest, routes};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Content that may not be asked for again once it has ended, as most streams may not.
struct Once {
    pieces: Vec<&'static str>,
    has_ended: bool,
}

impl http_body::Body for Once {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!self.has_ended, "it was asked again after its end");
        let piece = self.pieces.pop();
        self.has_ended = piece.is_none();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
    }
}

/// Whoever collects an answer outside of the layer asks until nothing comes any more.
#[tokio::test]
async fn content_that_has_ended_is_not_asked_again() {
    let layer = in_memory().build().await.expect("a layer");
    let handler = || async { Body::new(Once { pieces: vec!["world", "hello "], has_ended: false }) };
    let app: Router = Routes::new()
        .route("/stream", routes::post(handler).with(Policy::at_most_once().streaming()))
        .route("/large", routes::post(handler).with(Policy::at_most_once().answer_bytes_max(7)))
        .guarded_by(&layer)
        .expect("fit");
    for (n, path) in [(1, "/stream"), (2, "/large")] {
        let told = ask(&app, post(path, &key(n))).await;
        assert_eq!((told.status, &told.body[..]), (StatusCode::OK, &b"hello world"[..]), "{path}");
        assert_eq!(told.trailers[CONTENT_DIGEST], content_digest(b"hello world"), "{path}");
    }
}

/// RFC 9530 lets a digest come behind the content that it describes.
#[tokio::test]
async fn a_digest_behind_the_content_is_verified_too() {
    let layer = in_memory().build().await.expect("a layer");
    let count = Count::default();
    let handler = {
        let count = count.clone();
        move || async move { count.once_more().to_string() }
    };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    let wrong = content_digest(b"nine");
    for (n, name, value, reason) in [
        (1, "content-digest", content_digest(b"ten"), ""),
        (2, "content-digest", wrong.clone(), "CONTENT_DIGEST_MISMATCHED"),
        (3, "repr-digest", wrong.clone(), "CONTENT_DIGEST_MISMATCHED"),
        (4, "content-digest", HeaderValue::from_static("sha-256=:AAAA:"), "CONTENT_DIGEST_MALFORMED"),
        (5, "content-digest", HeaderValue::from_static("md5=:AAAA:"), "CONTENT_DIGEST_UNSUPPORTED"),
        (6, "x-other", wrong, ""),
    ] {
        let behind = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
        let content =
            Full::new(Bytes::from_static(b"ten")).with_trailers(std::future::ready(Some(Ok(behind))));
        let request = post("/pay", &key(n)).map(|_| Body::new(content));
        assert_eq!(ask(&app, request).await.reason(), reason, "{n}: {name}");
    }
    assert_eq!(count.so_far(), 2);
}

/// Content that breaks off.
struct BreaksOff;

impl http_body::Body for BreaksOff {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::Error::other("broke off on purpose"))))
    }
}

/// With a new key it would be done twice: the first request with this one may have been whole.
#[tokio::test]
async fn who_was_cut_off_is_not_told_to_use_a_new_key() {
    let layer = in_memory().build().await.expect("a layer");
    let handler = || async { StatusCode::CREATED };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    let told = ask(&app, post("/pay", &key(1)).map(|_| Body::new(BreaksOff))).await;
    assert_eq!((told.reason().as_str(), told.next().as_str()), ("CONTENT_MALFORMED", "same_key"));
}
