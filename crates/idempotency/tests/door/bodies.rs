//! The content: all of it is read before anything runs, it is bounded, and what is only packed differently is the same.

use crate::asks::{Ask, key};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop};
use crate::wire::Wire;
use axum::body::Body;
use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use perdura_idempotency::{Hashing, Policy};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

fn gzip(bytes: &[u8], level: u32, made_at: u32) -> Vec<u8> {
    let mut coded = GzBuilder::new().mtime(made_at).write(Vec::new(), Compression::new(level));
    coded.write_all(bytes).expect("writing to memory");
    coded.finish().expect("writing to memory")
}

on_each_store! {
    async fn a_body_may_have_as_many_bytes_as_the_route_takes(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default().body_bytes_max(100))).await;
        let ask = Ask::pay(&key(1)).header("content-type", "text/plain");
        let told = shop.ask(&ask.clone().body("x".repeat(101))).await;
        told.is_refused(413, "CONTENT_TOO_LARGE").says_next("new_key");
        let declared = ask.clone().header("content-length", "101").body("x");
        shop.ask(&declared).await.is_refused(413, "CONTENT_TOO_LARGE");
        assert_eq!((shop.till.runs(), shop.store.given()), (0, vec![]), "nothing of it was kept");
        shop.ask(&ask.clone().body("x".repeat(100))).await.is_payment(1);
    }

    async fn a_body_without_a_length_is_counted_while_it_is_read(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default().body_bytes_max(100))).await;
        for (bytes, status) in [(101, "HTTP/1.1 413"), (100, "HTTP/1.1 201")] {
            let mut wire = Wire::to(&shop).await;
            wire.head(&key(1), &["Transfer-Encoding: chunked"]).await;
            wire.say(format!("32\r\n{}\r\n", "x".repeat(50)).as_bytes()).await;
            wire.say(format!("{:x}\r\n{}\r\n0\r\n\r\n", bytes - 50, "x".repeat(bytes - 50)).as_bytes()).await;
            let heard = wire.hear_all().await;
            assert!(heard.starts_with(status), "{bytes}: {heard}");
        }
        assert_eq!(shop.till.runs(), 1);
    }

    async fn a_body_that_breaks_off_runs_nothing_and_uses_up_no_key(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let mut wire = Wire::to(&shop).await;
        wire.head(&key(1), &["Content-Length: 13"]).await;
        wire.say(b"{\"cents\":").await;
        drop(wire);
        shop.events.until(1, |what| format!("{what:?}").contains("CONTENT_MALFORMED")).await;
        assert_eq!((shop.till.runs(), shop.store.given()), (0, vec![]));
        assert!(!shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
    }

    async fn who_is_refused_anyway_is_not_asked_for_the_body(ground) {
        let plan = Plan::pays(Policy::default().body_bytes_max(100)).set_up(|layer| {
            layer.authorise(|parts: &http::request::Parts, _: &_| !parts.headers.contains_key("x-not"))
        });
        let shop = Shop::open(&ground, plan).await;
        for (key, lines, status) in [
            ("order-17", &["Content-Length: 13"][..], "HTTP/1.1 400"),
            (&key(1), &["Content-Length: 13", &format!("Idempotency-Key: {}", key(1))], "HTTP/1.1 400"),
            (&key(1), &["Content-Length: 101"], "HTTP/1.1 413"),
            (&key(1), &["Content-Length: 13", "X-Not: me"], "HTTP/1.1 403"),
        ] {
            let mut wire = Wire::to(&shop).await;
            wire.head(key, &[lines, &["Expect: 100-continue"]].concat()).await;
            let heard = wire.hear_all().await;
            assert!(heard.starts_with(status), "{lines:?}: {heard}");
        }
        let mut wire = Wire::to(&shop).await;
        wire.head(&key(1), &["Content-Length: 13", "Expect: 100-continue"]).await;
        assert_eq!(wire.hear("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        wire.say(br#"{"cents":100}"#).await;
        assert!(wire.hear_all().await.contains("HTTP/1.1 201 Created"));
        assert_eq!(shop.till.runs(), 1);
    }

    async fn two_codings_of_one_content_are_one_request(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default().body_bytes_max(10_000))).await;
        let plain = Ask::pay(&key(1));
        let coded = |bytes: Vec<u8>| plain.clone().header("content-encoding", "gzip").body(bytes);
        let (one, other) = (gzip(br#"{"cents":100}"#, 1, 1), gzip(br#"{"cents":100}"#, 9, 1_700_000_000));
        assert_ne!(one, other);
        shop.ask(&coded(one)).await.is_payment(1);
        assert!(shop.ask(&coded(other.clone())).await.is_payment(1).is_replayed());
        assert!(shop.ask(&plain).await.is_payment(1).is_replayed(), "nor does it matter that it is coded");
        shop.ask(&coded(gzip(br#"{"cents":101}"#, 1, 1)))
            .await
            .is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        let twice = coded(gzip(&other, 6, 0)).line("content-encoding", b"gzip");
        assert!(shop.ask(&twice).await.is_payment(1).is_replayed(), "coded twice, told in two lines");
        shop.ask(&coded(b"not gzip".to_vec())).await.is_refused(400, "CONTENT_MALFORMED");
        shop.ask(&coded(other[..other.len() - 4].to_vec())).await.is_refused(400, "CONTENT_MALFORMED");
        let bomb = coded(gzip(&vec![0; 1_000_000], 9, 0));
        shop.ask(&bomb).await.is_refused(413, "CONTENT_TOO_LARGE");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn the_handler_gets_the_content_as_it_was_sent(ground) {
        let plan = Plan::of(Policy::default().hashing(Hashing::CanonicalJson), |call| async move {
            call.request.into_body().collect().await.unwrap().to_bytes()
        });
        let shop = Shop::open(&ground, plan).await;
        let coded = gzip(b"{ \"b\": 1.0, \"a\": 2 }", 6, 7);
        let ask = Ask::pay(&key(1)).header("content-encoding", "gzip").body(coded.clone());
        assert_eq!(shop.ask(&ask).await.body, coded);
        let told = shop.ask(&Ask::pay(&key(1)).body(r#"{"a":2,"b":1}"#)).await;
        assert!(told.is_replayed());
        assert_eq!(told.body, coded, "the answer to the first request");
    }

    async fn a_form_is_the_same_whatever_divides_its_parts(ground) {
        let form = |boundary: &str, file: &str, end: &str| {
            let typed = format!("multipart/form-data; boundary={boundary}");
            let text = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"cents\"\r\n\r\n100\r\n\
                 --{boundary}\r\nContent-Disposition: form-data; name=\"receipt\"; filename=\"r.txt\"\r\n\
                 Content-Type: text/plain\r\n\r\n{file}\r\n--{boundary}{end}"
            );
            Ask::pay(&key(1)).header("content-type", &typed).body(text)
        };
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&form("one", "paid", "--\r\n")).await.is_payment(1);
        assert!(shop.ask(&form("two", "paid", "--\r\n")).await.is_payment(1).is_replayed());
        shop.ask(&form("two", "owed", "--\r\n")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&form("two", "paid", "")).await.is_refused(400, "CONTENT_MALFORMED");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn canonical_json_is_compared_by_value(ground) {
        let bodies = [
            (r#"{"cents": 100, "to": {"name": "é", "id": 9007199254740993}}"#, 201),
            ("{\"to\":{\"id\":9007199254740993,\"name\":\"\\u00e9\"},\"cents\":1e2}", 201),
            (r#"{"to":{"id":9007199254740993.0,"name":"é"},"cents":100.00}"#, 201),
            (r#"{"to":{"id":9007199254740992,"name":"é"},"cents":100}"#, 409),
            ("{\"to\":{\"id\":9007199254740993,\"name\":\"e\u{301}\"},\"cents\":100}", 409),
            (r#"{"to":{"id":9007199254740993,"name":"é"},"cents":"100"}"#, 409),
            (r#"{"cents":100,"cents":100,"to":{"name":"é","id":9007199254740993}}"#, 400),
            (r#"{"cents":100"#, 400),
            (r#"{"cents":NaN}"#, 400),
        ];
        let plan = Plan::pays(Policy::default().hashing(Hashing::CanonicalJson));
        let shop = Shop::open(&ground, plan).await;
        for (body, status) in bodies {
            let told = shop.ask(&Ask::pay(&key(1)).body(body)).await;
            assert_eq!(told.status.as_u16(), status, "{body}: {told:?}");
        }
        assert_eq!(shop.till.runs(), 1);
    }

    async fn json_is_compared_by_its_bytes_unless_told_otherwise(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1)).body(r#"{"a":1,"b":2}"#)).await.is_payment(1);
        let turned = Ask::pay(&key(1)).body(r#"{"b":2,"a":1}"#);
        shop.ask(&turned).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&Ask::pay(&key(2)).body("not json")).await.is_payment(2);
    }
}

/// Content that may not be asked for again once it has ended, as most streams may not.
struct Once(Vec<&'static str>, bool);

impl http_body::Body for Once {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!self.1, "it was asked again after its end");
        let piece = self.0.pop();
        self.1 = piece.is_none();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
    }
}

/// Whoever collects an answer outside of the layer asks until nothing comes any more.
#[tokio::test]
async fn content_that_has_ended_is_not_asked_again() {
    for policy in [Policy::default().streaming(), Policy::default().answer_bytes_max(7)] {
        let plan = Plan::of(policy, |_| async { Body::new(Once(vec!["world", "hello "], false)) });
        let told = Shop::open(&memory(), plan).await.ask(&Ask::pay(&key(1))).await;
        assert_eq!(told.body, "hello world");
        assert!(told.trailers.contains_key("content-digest"), "{told:?}");
    }
}

/// With a new key it would be done twice: the first request with this one may have been whole.
#[tokio::test]
async fn who_was_cut_off_is_not_told_to_use_a_new_key() {
    let shop = Shop::open(&memory(), Plan::pays(Policy::default())).await;
    let cut_off = std::future::ready(Some(Err(std::io::Error::other("on purpose"))));
    let begun = Full::new(Bytes::from_static(b"{")).map_err(|never| match never {});
    let told = shop.ask_with(&Ask::pay(&key(1)), Body::new(begun.with_trailers(cut_off))).await;
    told.is_refused(400, "CONTENT_MALFORMED").says_next("same_key");
}
