//! `Content-Digest`: what comes in is held to it, and what goes out carries one that is right.

use crate::asks::{Ask, digest_of, key};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop};
use crate::wire::Wire;
use axum::body::Body;
use http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::{BodyExt, Full};
use perdura_idempotency::Policy;

/// The content of every request here.
const CONTENT: &str = r#"{"cents":100}"#;

on_each_store! {
    async fn a_request_is_held_to_its_digest_before_anything_is_run_or_told(ground) {
        const MISMATCHED: (u16, &str) = (400, "CONTENT_DIGEST_MISMATCHED");
        const MALFORMED: (u16, &str) = (400, "CONTENT_DIGEST_MALFORMED");
        const UNSUPPORTED: (u16, &str) = (400, "CONTENT_DIGEST_UNSUPPORTED");
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let (right, wrong) = (digest_of(CONTENT.as_bytes()), digest_of(b"something else"));
        let both = format!("md5=:AAAAAAAAAAAAAAAAAAAAAA==:, {right}");
        let refused = [
            ("content-digest", wrong.as_str(), MISMATCHED, "mismatched-values"),
            ("repr-digest", &wrong, MISMATCHED, "mismatched-values"),
            ("content-digest", "sha-256=:AAAA:", MALFORMED, "invalid-values"),
            ("content-digest", "sha-256=AAAA", MALFORMED, "invalid-values"),
            ("content-digest", "md5=:AAAAAAAAAAAAAAAAAAAAAA==:", UNSUPPORTED, "unsupported-algorithms"),
            ("content-digest", "sha=:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:", UNSUPPORTED, "unsupported-algorithms"),
        ];
        let ask = Ask::pay(&key(1)).body(CONTENT);
        for round in ["before the first run", "before a replay"] {
            for (name, value, (status, reason), kind) in &refused {
                let told = shop.ask(&ask.clone().header(name, value)).await;
                told.is_refused(*status, reason);
                assert!(told.member("type").unwrap().ends_with(kind), "{told:?}");
                assert!(!told.is_replayed(), "{round}: {value}");
            }
            for digest in [&right, &both] {
                shop.ask(&ask.clone().header("content-digest", digest)).await.is_payment(1);
            }
        }
        assert_eq!(shop.till.runs(), 1);
    }

    async fn every_answer_of_a_guarded_route_carries_the_digest_of_its_content(ground) {
        let plan = Plan::of(Policy::default().answer_bytes_max(1_000), |call| async move {
            let wrong = (http::HeaderName::from_static("content-digest"), digest_of(b"something else"));
            match call.request.uri().query() {
                Some("empty") => (StatusCode::NO_CONTENT, [wrong], String::new()),
                Some("large") => (StatusCode::OK, [wrong], "x".repeat(5_000)),
                Some("broken") => panic!("on purpose"),
                _ => (StatusCode::OK, [wrong], "done".to_owned()),
            }
        });
        let shop = Shop::open(&ground, plan).await;
        let asks = [
            ("first", Ask::pay(&key(1)), 200),
            ("replay", Ask::pay(&key(1)), 200),
            ("conflict", Ask::pay(&key(1)).body("{}"), 409),
            ("no key", Ask::pay(&key(1)).without("idempotency-key"), 400),
            ("nobody", Ask::pay(&key(1)).without("authorization"), 401),
            ("empty", Ask::pay(&key(2)).to("/payments?empty"), 204),
            ("empty, again", Ask::pay(&key(2)).to("/payments?empty"), 204),
            ("large", Ask::pay(&key(3)).to("/payments?large"), 200),
            ("large, again", Ask::pay(&key(3)).to("/payments?large"), 409),
            ("broken", Ask::pay(&key(4)).to("/payments?broken"), 500),
            ("broken, again", Ask::pay(&key(4)).to("/payments?broken"), 409),
        ];
        for (what, ask, status) in asks {
            // That a digest which is there is right, is looked at in every answer of every test.
            let told = shop.ask(&ask).await;
            assert_eq!(told.status.as_u16(), status, "{what}");
            assert!(told.is_digested(), "{what}: {told:?}");
            assert_eq!(
                told.headers.get_all("content-digest").iter().count() + told.trailers.len(),
                1,
                "{what}"
            );
        }
    }

    async fn the_digest_of_a_large_answer_comes_behind_it_on_the_wire(ground) {
        let policies =
            [("large", Policy::default().answer_bytes_max(10)), ("a stream", Policy::default().streaming())];
        for (nth, (what, policy)) in (1..).zip(policies) {
            let plan = Plan::of(policy, |_| async { ([(header::CONTENT_LENGTH, "50")], "x".repeat(50)) });
            let shop = Shop::open(&ground, plan).await;
            let mut wire = Wire::to(&shop).await;
            wire.head(&key(nth), &["TE: trailers", "Content-Length: 13"]).await;
            wire.say(CONTENT.as_bytes()).await;
            let heard = wire.hear_all().await;
            let (head, content) = heard.split_once("\r\n\r\n").unwrap();
            let lower = head.to_ascii_lowercase();
            assert!(lower.contains("trailer: content-digest"), "{what}: {head}");
            assert!(lower.contains("transfer-encoding: chunked"), "{what}: {head}");
            let trailer = format!("content-digest: {}", digest_of("x".repeat(50).as_bytes()));
            assert!(content.contains(&trailer), "{what}: {content}");
        }
    }

    async fn a_replay_over_the_wire_has_its_own_length_and_digest(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1)).body(CONTENT)).await.is_payment(1);
        let mut wire = Wire::to(&shop).await;
        wire.head(&key(1), &["Content-Length: 13"]).await;
        wire.say(CONTENT.as_bytes()).await;
        let heard = wire.hear_all().await;
        for line in [
            "HTTP/1.1 201 Created",
            "content-length: 13",
            "idempotency-replayed: true",
            &format!("{}: {}", header::LOCATION, "/payments/1"),
            &format!("content-digest: {}", digest_of(br#"{"payment":1}"#)),
        ] {
            assert!(heard.contains(line), "{line}: {heard}");
        }
        assert_eq!(heard.matches("content-digest").count(), 1);
    }
}

/// RFC 9530 lets a digest come behind the content that it describes.
#[tokio::test]
async fn a_digest_behind_the_content_is_verified_too() {
    let shop = Shop::open(&memory(), Plan::pays(Policy::default())).await;
    let (right, wrong) = (digest_of(b"10"), digest_of(b"9"));
    for (n, name, value, reason) in [
        (1, "content-digest", right.as_str(), ""),
        (2, "content-digest", &wrong, "CONTENT_DIGEST_MISMATCHED"),
        (3, "repr-digest", &wrong, "CONTENT_DIGEST_MISMATCHED"),
        (4, "content-digest", "sha-256=:AAAA:", "CONTENT_DIGEST_MALFORMED"),
        (5, "content-digest", "md5=:AAAA:", "CONTENT_DIGEST_UNSUPPORTED"),
        (6, "x-other", &wrong, ""),
    ] {
        let behind = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
        let content = Full::from("10").with_trailers(std::future::ready(Some(Ok(behind))));
        let told = shop.ask_with(&Ask::pay(&key(n)), Body::new(content)).await;
        assert_eq!(told.reason(), reason, "{n}: {name}");
    }
    assert_eq!(shop.till.runs(), 2);
}
