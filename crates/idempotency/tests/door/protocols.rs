//! HTTP/2 beside HTTP/1.1: what was answered over one is replayed over the other.

use crate::asks::{Ask, Told, key};
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop};
use axum::body::Body;
use http::{HeaderMap, Version, header};
use http_body_util::BodyExt;
use perdura_idempotency::{CONTENT_DIGEST, IDEMPOTENCY_REPLAYED, Policy};
use std::net::SocketAddr;

/// Asks over a connection that speaks this and nothing else.
async fn over(version: Version, address: SocketAddr, ask: &Ask) -> Told {
    // Where TLS is switched on in reqwest by somebody else, it wants to be told whose.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder().no_proxy();
    let client = match version {
        Version::HTTP_2 => client.http2_prior_knowledge(),
        _ => client.http1_only(),
    };
    let (parts, content) = ask.clone().to(&format!("http://{address}/payments")).request().into_parts();
    let content = content.collect().await.unwrap().to_bytes();
    let request = reqwest::Request::try_from(http::Request::from_parts(parts, content)).unwrap();
    let response = http::Response::from(client.build().unwrap().execute(request).await.unwrap());
    assert_eq!(response.version(), version);
    Told::read(response.map(Body::new)).await
}

/// The headers, without what belongs to one answer, or to the first one.
fn lasting(told: &Told) -> HeaderMap {
    let mut headers = told.headers.clone();
    for name in [header::DATE, header::LAST_MODIFIED, header::SET_COOKIE, IDEMPOTENCY_REPLAYED] {
        headers.remove(name);
    }
    headers
}

on_each_store! {
    async fn what_was_answered_over_one_protocol_is_replayed_over_the_other(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let address = shop.listen().await;
        let orders = [(Version::HTTP_2, Version::HTTP_11), (Version::HTTP_11, Version::HTTP_2)];
        for (nth, (one, other)) in (1..).zip(orders) {
            let ask = Ask::pay(&key(nth));
            let (first, replay) = (over(one, address, &ask).await, over(other, address, &ask).await);
            assert!(!first.is_payment(nth).is_replayed(), "{one:?}");
            assert!(replay.is_payment(nth).is_replayed(), "{other:?}");
            assert_eq!(lasting(&replay), lasting(&first), "{one:?}, then {other:?}");
            assert!(replay.headers.contains_key(CONTENT_DIGEST), "{replay:?}");
        }
    }

    async fn over_http_2_the_digest_of_a_large_answer_comes_as_a_trailer(ground) {
        let plan = Plan::of(Policy::default().answer_bytes_max(10), |_| async { "x".repeat(100_000) });
        let shop = Shop::open(&ground, plan).await;
        let told = over(Version::HTTP_2, shop.listen().await, &Ask::pay(&key(1))).await;
        // That the digest is right, is looked at where every answer is read.
        assert_eq!((told.status.as_u16(), told.body.len()), (200, 100_000));
        assert_eq!((told.header(header::TRAILER), told.trailers.len()), ("content-digest", 1));
        assert!(told.trailers.contains_key(CONTENT_DIGEST) && !told.headers.contains_key(CONTENT_DIGEST));
    }
}
