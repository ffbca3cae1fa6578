//! A replay: the same status, headers and content, what is not to be told twice left out, and marked as what it is.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop};
use crate::wire::Wire;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderName, StatusCode, header};
use jiff::Timestamp;
use perdura_idempotency::store::Store;
use perdura_idempotency::{EXPOSED_HEADERS, IDEMPOTENCY_REPLAYED, Kept, Policy};
use std::time::Duration;

fn at(told: &crate::asks::Told) -> Timestamp {
    let text = told.header(header::LAST_MODIFIED);
    jiff::fmt::rfc2822::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).timestamp()
}

on_each_store! {
    async fn a_replay_has_the_headers_of_the_list_and_no_others(ground) {
        // Whether the replay has it. X-Order is named by the configuration; X-Of-This-Connection is too, in vain.
        const LINES: &[(&str, &str, bool)] = &[
            ("content-type", "application/vnd.order+json", true),
            ("content-language", "en", true),
            ("location", "/orders/17", true),
            ("content-location", "/orders/17.json", true),
            ("etag", "\"17\"", true),
            ("link", "</orders>; rel=up", true),
            ("link", "</orders/18>; rel=next", true),
            ("vary", "accept", true),
            ("content-disposition", "attachment; filename=\"17.json\"", true),
            ("content-security-policy", "sandbox", true),
            ("x-content-type-options", "nosniff", true),
            ("preference-applied", "return=minimal", true),
            ("x-order", "17", true),
            ("x-other", "17", false),
            ("x-of-this-connection", "17", false),
            ("connection", "X-Of-This-Connection", false),
            ("set-cookie", "session=17", false),
            ("www-authenticate", "Basic", false),
            ("date", "Tue, 14 Nov 2023 22:13:20 GMT", false),
            ("age", "17", false),
            ("server-timing", "db;dur=17", false),
            ("ratelimit-remaining", "17", false),
            ("traceparent", "00-1-2-01", false),
            ("x-request-id", "17", false),
        ];
        let plan = Plan::of(Policy::default(), |_| async {
            let mut answer = (StatusCode::CREATED, "done").into_response();
            answer.headers_mut().clear();
            for (name, value, _) in LINES {
                answer.headers_mut().append(*name, value.parse().unwrap());
            }
            answer
        });
        let plan = plan.set_up(|layer| {
            let named = ["x-order", "x-of-this-connection"];
            named.into_iter().fold(layer, |layer, name| layer.retain_header(HeaderName::from_static(name)))
        });
        let shop = Shop::open(&ground, plan).await;
        let (first, replay) = (shop.ask(&Ask::pay(&key(1))).await, shop.ask(&Ask::pay(&key(1))).await);
        let values = |told: &crate::asks::Told, name: &str| {
            told.headers
                .get_all(name)
                .iter()
                .map(|value| value.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        for (name, value, expected) in LINES {
            assert!(values(&first, name).iter().any(|sent| sent == value), "the first has {name}");
            assert_eq!(values(&replay, name).iter().any(|sent| sent == value), *expected, "{name}");
        }
        assert_eq!(values(&replay, "link").len(), 2);
        let expected = LINES.iter().filter(|(_, _, expected)| *expected).count() + 6;
        assert_eq!(replay.headers.len(), expected, "and those that the layer sets: {replay:?}");
    }

    /// RFC 9110 wants them with these statuses, the first time and every time.
    async fn what_a_status_cannot_be_without_is_kept_with_it(ground) {
        const NEEDED: &[(u16, &str, &str)] = &[
            (401, "www-authenticate", "Bearer realm=\"shop\""),
            (407, "proxy-authenticate", "Basic"),
            (206, "content-range", "bytes 0-3/17"),
            (416, "content-range", "bytes */17"),
        ];
        let plan = Plan::of(Policy::default(), |call| async move {
            let status: u16 = call.request.uri().query().unwrap_or_default().parse().unwrap();
            let mut answer = (StatusCode::from_u16(status).unwrap(), "done").into_response();
            // All of them, so that each is seen to be left out where it does not belong.
            for (of, name, value) in NEEDED {
                if *of == status || !answer.headers().contains_key(*name) {
                    answer.headers_mut().insert(*name, value.parse().unwrap());
                }
            }
            answer
        });
        let shop = Shop::open(&ground, plan).await;
        for (nth, (status, name, value)) in (1..).zip(NEEDED) {
            let ask = Ask::pay(&key(nth)).to(&format!("/payments?{status}"));
            shop.ask(&ask).await;
            let replay = shop.ask(&ask).await;
            assert!(replay.is_replayed() && replay.status == *status, "{replay:?}");
            assert_eq!(replay.headers.get(*name).map(|kept| kept.to_str().unwrap()), Some(*value), "{status}");
            for challenge in ["www-authenticate", "proxy-authenticate"] {
                assert_eq!(replay.headers.contains_key(challenge), challenge == *name, "{status}: {replay:?}");
            }
        }
    }

    async fn a_replay_has_the_status_and_every_byte(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            match call.request.uri().query() {
                Some("bytes") => (StatusCode::ACCEPTED, (0..=255).cycle().take(100_000).collect()),
                Some("moved") => (StatusCode::SEE_OTHER, Bytes::new()),
                _ => (StatusCode::NO_CONTENT, Bytes::new()),
            }
        });
        let shop = Shop::open(&ground, plan).await;
        for (nth, how) in (1..).zip(["bytes", "moved", "nothing"]) {
            let ask = Ask::pay(&key(nth)).to(&format!("/payments?{how}"));
            let (first, replay) = (shop.ask(&ask).await, shop.ask(&ask).await);
            assert_eq!((first.status, first.body), (replay.status, replay.body), "{how}");
            assert!(!first.headers.contains_key(IDEMPOTENCY_REPLAYED));
            assert_eq!(replay.headers[IDEMPOTENCY_REPLAYED], "true");
        }
    }

    async fn what_another_service_replayed_is_not_this_ones_replay(ground) {
        let plan = Plan::of(Policy::default(), |_| async { ([(IDEMPOTENCY_REPLAYED, "true")], "passed on") });
        let shop = Shop::open(&ground, plan).await;
        assert!(!shop.ask(&Ask::pay(&key(1))).await.is_replayed());
        assert!(shop.ask(&Ask::pay(&key(1))).await.is_replayed());
    }

    async fn what_a_page_of_another_origin_should_read_is_listed(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let first = shop.send(&Ask::pay(&key(1)));
        shop.till.began(1).await;
        let running = shop.ask(&Ask::pay(&key(1)).header("prefer", "wait=0")).await;
        shop.till.open(1);
        let told = [first.await.unwrap(), running, shop.ask(&Ask::pay(&key(1))).await];
        // The browser shows these without being told to, or the handler set them.
        let others = ["content-type", "content-length", "cache-control", "location", "set-cookie"];
        for name in told.iter().flat_map(|told| told.headers.keys()) {
            assert!(EXPOSED_HEADERS.contains(name) || others.contains(&name.as_str()), "{name}");
        }
        for name in EXPOSED_HEADERS {
            assert!(told.iter().any(|told| told.headers.contains_key(&name)), "{name}");
        }
    }

    async fn last_modified_is_when_the_first_began_on_the_stores_clock(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        assert!(!shop.ask(&ask).await.headers.contains_key(header::LAST_MODIFIED));
        let first_at = at(&shop.ask(&ask).await);
        let record = shop.store.look(shop.store.operation()).await.unwrap().unwrap();
        assert_eq!(first_at.as_second(), record.first_at.as_second());
        ground.pass(Duration::from_hours(1)).await;
        let later = shop.ask(&ask).await;
        assert_eq!(at(&later), first_at, "it stays");
        assert!(first_at <= Timestamp::now(), "it is never later than the answer");
    }

    async fn an_answer_is_kept_as_the_redaction_leaves_it(ground) {
        let plan = Plan::pays(Policy::default()).set_up(|layer| {
            layer.redact(|answer| {
                answer.headers.remove(header::LOCATION);
                answer.body = Kept::Body(Bytes::from_static(b"redacted"));
            })
        });
        let shop = Shop::open(&ground, plan).await;
        let first = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!(first.is_payment(1).header(header::LOCATION), "/payments/1", "the first gets all");
        let replay = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!((replay.status.as_u16(), &replay.body[..]), (201, &b"redacted"[..]));
        assert_eq!(replay.header(header::LOCATION), "");
        assert!(!shop.store.given().windows(11).any(|window| window == b"{\"payment\":"));
    }

    async fn a_stream_is_passed_on_as_it_comes_and_protected(ground) {
        let events = || ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], "data: 1\n\n");
        let capitals = || ([(header::CONTENT_TYPE, "Text/Event-Stream ; charset=utf-8")], "data: 1\n\n");
        let plain = || ([(header::CONTENT_TYPE, "text/plain")], "data: 1\n\n");
        let plans = [
            ("by its type", Plan::of(Policy::default(), move |_| async move { events() })),
            ("by its type in capitals", Plan::of(Policy::default(), move |_| async move { capitals() })),
            ("by choice", Plan::of(Policy::default().streaming(), move |_| async move { plain() })),
        ];
        for (nth, (what, plan)) in (1..).zip(plans) {
            let shop = Shop::open(&ground, plan).await;
            let first = shop.ask(&Ask::pay(&key(nth))).await;
            assert_eq!(first.body, "data: 1\n\n", "{what}");
            shop.ask(&Ask::pay(&key(nth))).await.is_refused(409, "RESULT_NOT_RETAINED");
            assert_eq!(shop.till.runs(), 1, "{what}");
        }
    }

    async fn a_switch_of_protocols_has_no_trailer(ground) {
        let plan = Plan::of(Policy::default(), |_| async {
            (StatusCode::SWITCHING_PROTOCOLS, [(header::CONNECTION, "upgrade"), (header::UPGRADE, "chat")])
        });
        let shop = Shop::open(&ground, plan).await;
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!((told.status.as_u16(), told.header(header::TRAILER)), (101, ""), "{told:?}");
    }

    async fn a_switch_of_protocols_is_passed_on_and_protected(ground) {
        let plan = Plan::of(Policy::default(), |_| async {
            (StatusCode::SWITCHING_PROTOCOLS, [(header::CONNECTION, "upgrade"), (header::UPGRADE, "chat")])
        });
        let shop = Shop::open(&ground, plan).await;
        let mut wire = Wire::to(&shop).await;
        wire.head(&key(1), &["Connection: upgrade", "Upgrade: chat", "Content-Length: 13"]).await;
        wire.say(br#"{"cents":100}"#).await;
        let heard = wire.hear("\r\n\r\n").await.to_ascii_lowercase();
        for line in ["http/1.1 101 switching protocols\r\n", "\nconnection: upgrade", "\nupgrade: chat\r"] {
            assert!(heard.contains(line), "{line}: {heard}");
        }
        assert!(!heard.contains("transfer-encoding") && !heard.contains("content-length"), "{heard}");
        assert!(!heard.contains("trailer"), "{heard}");
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "RESULT_NOT_RETAINED");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn an_erased_answer_is_not_given_and_not_made_again(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        assert!(shop.store.erase(shop.store.operation()).await.unwrap());
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "RESULT_EXPIRED");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn a_handler_is_not_asked_for_a_coding_that_a_later_caller_may_not_take(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            format!("{:?}", call.request.headers().get(header::ACCEPT_ENCODING))
        });
        let shop = Shop::open(&ground, plan).await;
        let told = shop.ask(&Ask::pay(&key(1)).header("accept-encoding", "gzip")).await;
        assert_eq!(told.body, "None");
    }
}
