//! Contents that come in pieces, and what comes behind them.

use crate::kit::{ask, in_memory, key, post};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use perdura_idempotency::{CONTENT_DIGEST, Policy, Routes, digest, routes};
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
        assert_eq!(told.trailers[CONTENT_DIGEST], digest::content_digest(b"hello world"), "{path}");
    }
}
