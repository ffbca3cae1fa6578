//! Headers behind a content: they arrive with it, the first time and every time.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::shop::{Call, Plan, Shop};
use crate::wire::Wire;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use http_body::Frame;
use http_body_util::BodyExt;
use perdura_idempotency::Policy;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of these frames.
struct Frames(Vec<Frame<Bytes>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready((!self.0.is_empty()).then(|| Ok(self.0.remove(0))))
    }
}

fn behind(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a value")))
        .collect()
}

/// A content with these headers behind it.
fn with_trailers(content: &'static str, lines: &[(&'static str, &'static str)]) -> Body {
    Body::new(Frames(vec![
        Frame::data(Bytes::from_static(content.as_bytes())),
        Frame::trailers(behind(lines)),
    ]))
}

const SENT: &[(&str, &str)] = &[("x-checksum", "17"), ("x-steps", "3"), ("server-timing", "db;dur=17")];

async fn tells(_: Call) -> Response {
    let trailer = [(header::TRAILER, "x-checksum, x-steps, server-timing")];
    (trailer, with_trailers("done", SENT)).into_response()
}

fn plan() -> Plan {
    Plan::of(Policy::default(), tells)
        .set_up(|layer| layer.retain_header(HeaderName::from_static("x-checksum")))
}

on_each_store! {
    async fn trailers_are_given_with_the_first_answer_and_kept_by_the_list(ground) {
        let shop = Shop::open(&ground, plan()).await;
        let (first, replay) = (shop.ask(&Ask::pay(&key(1))).await, shop.ask(&Ask::pay(&key(1))).await);
        assert_eq!((&first.body, &replay.body), (&Bytes::from("done"), &Bytes::from("done")));
        assert_eq!(first.trailers, behind(SENT));
        assert_eq!(first.headers[header::TRAILER], "x-checksum, x-steps, server-timing");
        assert!(replay.is_replayed());
        assert_eq!(replay.trailers, behind(&SENT[..1]), "as headers of the same names are");
        assert_eq!(replay.headers[header::TRAILER], "x-checksum");
        assert!(first.is_digested() && replay.is_digested());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_trailers_announces_none() {
    let plan = Plan::of(Policy::default(), |_| async { ([(header::TRAILER, "x-checksum")], "done") });
    let shop = Shop::open(&crate::grounds::memory(), plan).await;
    for _ in 0..2 {
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert!(told.trailers.is_empty() && !told.headers.contains_key(header::TRAILER), "{told:?}");
    }
}

/// A length in front would keep HTTP/1.1 from sending anything behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trailers_reach_a_client_of_http_1_that_takes_them() {
    let shop = Shop::open(&crate::grounds::memory(), plan()).await;
    for _ in 0..2 {
        let mut wire = Wire::to(&shop).await;
        wire.head(&key(1), &["TE: trailers", "Content-Length: 2"]).await;
        wire.say(b"{}").await;
        let told = wire.hear_all().await;
        assert!(told.contains("\r\nx-checksum: 17\r\n"), "{told}");
        assert!(told.contains("transfer-encoding: chunked") && !told.contains("content-length"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trailers_of_a_request_reach_the_handler() {
    let plan = Plan::of(Policy::default(), |call| async move {
        let announced = call.request.headers().contains_key(header::TRAILER);
        let collected = call.request.into_body().collect().await.expect("it comes to its end");
        let checksum = collected.trailers().and_then(|trailers| trailers.get("x-checksum")).cloned();
        format!("{announced} {checksum:?} {:?}", collected.to_bytes())
    });
    let shop = Shop::open(&crate::grounds::memory(), plan).await;
    let ask = Ask::pay(&key(1)).header("trailer", "x-checksum");
    let told = shop.ask_with(&ask, with_trailers("{}", &[("x-checksum", "17")])).await;
    assert_eq!(told.body, "true Some(\"17\") b\"{}\"");
}
