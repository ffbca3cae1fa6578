//! The key: which requests need one, which shapes it may have, and that it comes back as it was sent.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop};
use http::{Method, header};
use perdura_idempotency::{Policy, Versions};

const V4: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const V5: &str = "2ed6657d-e927-568b-95e1-2665a8aea6a2";
const V6: &str = "1ec9414c-232a-6b00-b3c8-9f6bdeced846";
const V7: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

on_each_store! {
    async fn a_key_that_is_not_one_is_refused_and_nothing_runs(ground) {
        const REQUIRED: &str = "IDEMPOTENCY_KEY_REQUIRED";
        const MALFORMED: &str = "IDEMPOTENCY_KEY_MALFORMED";
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let long = format!("{V4}{}", "0".repeat(5_000));
        let list = format!("{V4}, {V7}");
        let quoted_list = format!("\"{V4}\", \"{V7}\"");
        let half = format!("\"{V4}");
        let parameters = format!("\"{V4}\";v=1");
        let braces = format!("{{{V4}}}");
        let urn = format!("urn:uuid:{V4}");
        let lines: &[(&[&str], &str)] = &[
            (&[], REQUIRED),
            (&[""], MALFORMED),
            (&["   "], MALFORMED),
            (&["\"\""], MALFORMED),
            (&[V4, V4], MALFORMED),
            (&[V4, V7], MALFORMED),
            (&[V4, ""], MALFORMED),
            (&[&list], MALFORMED),
            (&[&quoted_list], MALFORMED),
            (&[&half], MALFORMED),
            (&[&parameters], MALFORMED),
            (&[&braces], MALFORMED),
            (&[&urn], MALFORMED),
            (&["8e03978e40d543ddbc936894a57f9324"], MALFORMED),
            (&["8e03978e-40d5-43dd-bc93-6894a57f932"], MALFORMED),
            (&["8e03978e-40d5-43dd-bc93-6894a57f932g"], MALFORMED),
            (&["00000000-0000-0000-0000-000000000000"], MALFORMED),
            (&["ffffffff-ffff-ffff-ffff-ffffffffffff"], MALFORMED),
            (&["8e03978e-40d5-43dd-7c93-6894a57f9324"], MALFORMED),
            (&["8e03978e-40d5-13dd-bc93-6894a57f9324"], MALFORMED),
            (&[V6], MALFORMED),
            (&["order-17"], MALFORMED),
            (&["8e03978é-40d5-43dd-bc93-6894a57f9324"], MALFORMED),
            (&[&long], MALFORMED),
        ];
        for (values, reason) in lines {
            for method in [Method::POST, Method::PATCH] {
                let path = if method == Method::POST { "/payments" } else { "/payments/1" };
                let ask = Ask::new(method, path);
                let ask = values.iter().fold(ask, |ask, value| ask.line("idempotency-key", value.as_bytes()));
                let told = shop.ask(&ask).await;
                told.is_refused(400, reason);
                assert_eq!(told.member("code").as_deref(), Some("ERR400_MISSING_OR_MALFORMED_HEADER"));
                assert_eq!(told.member("next").as_deref(), Some("new_key"));
                assert_eq!(told.header(header::CONTENT_TYPE), "application/problem+json");
                assert_eq!(told.header(header::CACHE_CONTROL), "no-store");
                assert!(told.is_digested(), "{values:?}");
            }
        }
        assert_eq!(shop.till.runs(), 0);
        assert_eq!(shop.store.given(), b"", "the store was not asked");
    }

    async fn every_spelling_of_a_key_is_that_key_and_is_echoed_as_it_was_sent(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let spellings =
            [V4.to_owned(), V4.to_uppercase(), format!("\"{V4}\""), format!("\"{}\"", V4.to_uppercase())];
        for (nth, spelling) in spellings.iter().enumerate() {
            let told = shop.ask(&Ask::pay(spelling)).await;
            told.is_payment(1);
            assert_eq!(told.is_replayed(), nth > 0, "{spelling}");
            assert_eq!(told.echo().unwrap(), spelling.as_str());
            assert!(told.headers.contains_key("idempotency-fingerprint"));
        }
        shop.ask(&Ask::pay(V5)).await.is_payment(2);
        shop.ask(&Ask::pay(V7)).await.is_payment(3);
        assert_eq!(shop.till.runs(), 3);
    }

    async fn other_versions_are_taken_by_choice(ground) {
        let plan =
            Plan::pays(Policy::default()).set_up(|layer| layer.key_versions(Versions::default().and(6)));
        let shop = Shop::open(&ground, plan).await;
        shop.ask(&Ask::pay(V6)).await.is_payment(1);
        assert!(shop.ask(&Ask::pay(V6)).await.is_payment(1).is_replayed());
    }

    async fn a_refusal_echoes_the_key_that_was_sent(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let told = shop.ask(&Ask::pay("order-17")).await;
        assert_eq!(told.echo().unwrap(), "order-17");
        let told = shop.ask(&Ask::pay(&key(1)).without("authorization")).await;
        assert_eq!(told.echo().unwrap(), key(1).as_str());
    }

    async fn what_only_reads_is_untouched_even_with_a_key(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let mut runs = 0;
        for (method, path) in [
            (Method::GET, "/payments"),
            (Method::HEAD, "/payments"),
            (Method::GET, "/health"),
            (Method::POST, "/search"),
            (Method::PUT, "/drafts/1"),
            (Method::DELETE, "/drafts/1"),
        ] {
            for key in [None, Some(key(1)), Some("no key at all".to_owned())] {
                let ask = Ask::new(method.clone(), path).without("authorization");
                let ask = key.iter().fold(ask, |ask, key| ask.header("idempotency-key", key));
                for _ in 0..2 {
                    let told = shop.ask(&ask).await;
                    runs += 1;
                    assert_eq!(told.status, 201, "{method} {path}");
                    assert_eq!(told.echo(), None, "{method} {path}");
                    assert!(!told.is_digested(), "{method} {path}");
                    assert_eq!(told.header(header::SET_COOKIE), format!("session={runs}"));
                }
            }
        }
        assert_eq!(shop.till.runs(), runs, "each was run");
        assert_eq!(shop.store.given(), b"", "the store was not asked");
    }

    async fn put_and_delete_are_protected_by_choice(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        for (nth, (method, path)) in
            [(Method::PUT, "/payments/1"), (Method::PATCH, "/payments/1"), (Method::DELETE, "/cards/1")]
                .into_iter()
                .enumerate()
        {
            let nth = nth as u32 + 1;
            let ask = Ask::new(method, path);
            shop.ask(&ask).await.is_refused(400, "IDEMPOTENCY_KEY_REQUIRED");
            let ask = ask.header("idempotency-key", V4);
            assert!(!shop.ask(&ask).await.is_payment(nth).is_replayed());
            assert!(shop.ask(&ask).await.is_payment(nth).is_replayed());
        }
    }
}

#[tokio::test]
async fn what_a_plain_router_answers_to_any_method_is_guarded_for_post_and_patch_only() {
    let plan = Plan::pays(Policy::default());
    let store = crate::faulty::Faulty::new(crate::grounds::memory().store());
    let layer = plan.builder(store.clone()).build().await.unwrap();
    let app = axum::Router::new().route("/any", axum::routing::any(async || "done")).layer(layer);
    for (method, guarded) in [
        (Method::GET, false),
        (Method::HEAD, false),
        (Method::OPTIONS, false),
        (Method::TRACE, false),
        (Method::PUT, false),
        (Method::DELETE, false),
        (Method::POST, true),
        (Method::PATCH, true),
    ] {
        let ask = Ask::new(method.clone(), "/any").header("idempotency-key", "not a key");
        let response = tower::ServiceExt::oneshot(app.clone(), ask.request()).await.unwrap();
        assert_eq!(response.status(), if guarded { 400 } else { 200 }, "{method}");
    }
    assert_eq!(store.given(), b"");
}

on_each_store! {
    /// For those who come from a service that took any text.
    async fn keys_of_any_form_are_taken_where_the_program_says_so(ground) {
        let strict = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let plan = Plan::pays(Policy::default()).set_up(perdura_idempotency::Builder::opaque_keys);
        let shop = Shop::open(&ground, plan).await;
        let longest = "k".repeat(255);
        let keys = ["order-17", "17", "KG5LxwFBepaKHyUD", "a;b=c", "\"with spaces, and commas\"", &longest];
        for (nth, sent) in (1..).zip(keys) {
            strict.ask(&Ask::pay(sent)).await.is_refused(400, "IDEMPOTENCY_KEY_MALFORMED");
            let first = shop.ask(&Ask::pay(sent)).await;
            first.is_payment(nth);
            assert_eq!(first.echo().map(http::HeaderValue::as_bytes), Some(sent.as_bytes()));
            assert!(shop.ask(&Ask::pay(sent)).await.is_payment(nth).is_replayed(), "{sent}");
        }
        // Quoted and bare are one key, as letters of another case are not.
        assert!(shop.ask(&Ask::pay("\"order-17\"")).await.is_payment(1).is_replayed());
        shop.ask(&Ask::pay("Order-17")).await.is_payment(7);
        // A UUID is the key that it is without this, whatever its version and however it is spelled.
        let uuid = key(99);
        strict.ask(&Ask::pay(&uuid)).await.is_payment(1);
        assert!(shop.ask(&Ask::pay(&uuid.to_uppercase())).await.is_replayed());
        shop.ask(&Ask::pay("c232ab00-9414-11ec-b3c8-9f6bdeced846")).await.is_payment(8);
        assert!(shop.ask(&Ask::pay("\"C232AB00-9414-11EC-B3C8-9F6BDECED846\"")).await.is_replayed());
        let too_long = "k".repeat(256);
        for sent in ["", "\"\"", "a b", "a,b", "a\"b", "\"a", "\"a\"b\"", "\"a\\x\"", "00000000-0000-0000-0000-000000000000", &too_long] {
            shop.ask(&Ask::pay(sent)).await.is_refused(400, "IDEMPOTENCY_KEY_MALFORMED");
        }
    }
}
