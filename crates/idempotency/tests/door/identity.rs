//! Which requests are the same: who asks, by which method, on which route, for what.

use crate::asks::{Ask, Told, key};
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop};
use http::Method;
use perdura_idempotency::{Policy, Profile};

/// What a request is to the one before it.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The same: it is given the same answer.
    Same,
    /// The same operation, and something else is asked.
    Conflict,
    /// Another operation: it is run.
    Other,
    /// Refused by itself.
    Refused,
}

fn seen(told: &Told) -> Seen {
    match (told.status.as_u16(), told.is_replayed()) {
        (201, true) => Seen::Same,
        (201, false) => Seen::Other,
        (409, false) if told.reason() == "CONFLICTING_IDEMPOTENT_REQUEST" => Seen::Conflict,
        _ => Seen::Refused,
    }
}

on_each_store! {
    async fn a_key_counts_within_tenant_principal_method_and_route(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        for (what, other) in [
            ("another tenant", ask.clone().by("other/ann")),
            ("another principal", ask.clone().by("acme/bob")),
            ("the same letters, divided elsewhere", ask.clone().by("acmea/nn")),
            ("another route", ask.clone().to("/refunds")),
            ("a longer route", ask.clone().to("/accounts/1/payments")),
            ("another method", ask.clone().to("/payments/1").method(Method::PATCH)),
            ("one more method on the same route", ask.clone().to("/payments/1").method(Method::PUT)),
        ] {
            assert_eq!(seen(&shop.ask(&other).await), Seen::Other, "{what}");
            assert_eq!(seen(&shop.ask(&other).await), Seen::Same, "{what}, again");
        }
        assert_eq!(seen(&shop.ask(&ask).await), Seen::Same);
        assert_eq!(shop.till.runs(), 8);
    }

    /// Two services may share a store and a secret, and have routes of the same name.
    async fn a_key_counts_within_a_realm(ground) {
        let of = |realm: &'static str| Plan::pays(Policy::default()).set_up(move |layer| layer.realm(realm));
        let plain = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let (here, there) = (Shop::open(&ground, of("shop")).await, Shop::open(&ground, of("club")).await);
        let ask = Ask::pay(&key(1));
        for shop in [&plain, &here, &there] {
            assert_eq!(seen(&shop.ask(&ask).await), Seen::Other, "each does its own");
            assert_eq!(seen(&shop.ask(&ask).await), Seen::Same);
        }
        let again = here.beside().await;
        assert_eq!(seen(&again.ask(&ask).await), Seen::Same, "instances of one service have one realm");
        let other = ask.clone().body(r#"{"cents":101}"#);
        assert_eq!(seen(&here.ask(&other).await), Seen::Conflict);
        // What came of it can be looked at where it was done, and nowhere else.
        let operation = here.store.operation();
        for (shop, status) in [(&here, 200), (&there, 404), (&plain, 404)] {
            let looks: axum::Router = shop.layer.operations().router();
            let look = Ask::new(Method::GET, &format!("/operations/{operation}"));
            assert_eq!(crate::shop::ask_of(&looks, &look).await.status, status);
        }
    }

    async fn what_is_asked_counts_and_how_it_is_sent_does_not(ground) {
        use Seen::{Conflict, Refused, Same};
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1)).to("/accounts/17/payments?currency=EUR");
        shop.ask(&ask).await.is_payment(1);
        let to = |path: &str| ask.clone().to(path);
        let typed = |value: &str| ask.clone().header("content-type", value);
        for (what, other, expected) in [
            ("another resource of the route", to("/accounts/18/payments?currency=EUR"), Conflict),
            ("the same resource, escaped", to("/accounts/%317/payments?currency=EUR"), Same),
            ("a resource with a slash in its name", to("/accounts/1%2F7/payments?currency=EUR"), Conflict),
            ("a resource whose name is no text", to("/accounts/%FF/payments?currency=EUR"), Refused),
            ("another query", to("/accounts/17/payments?currency=USD"), Conflict),
            ("a longer query", to("/accounts/17/payments?currency=EUR&x"), Conflict),
            ("an empty query", to("/accounts/17/payments?"), Conflict),
            ("no query", to("/accounts/17/payments"), Conflict),
            ("another media type", typed("text/plain"), Conflict),
            ("no media type", ask.clone().without("content-type"), Conflict),
            ("two media types", ask.clone().line("content-type", b"text/plain"), Conflict),
            ("a charset that JSON has anyway", typed("application/json; charset=utf-8"), Same),
            ("in capitals", typed("Application/JSON;Charset=\"UTF-8\""), Same),
            ("a charset that JSON cannot have", typed("application/json; charset=utf-16"), Refused),
            ("a byte more", ask.clone().body("{\"cents\":100}\n"), Conflict),
            ("a byte order mark", ask.clone().body("\u{feff}{\"cents\":100}"), Same),
            ("nothing", ask.clone().body(""), Conflict),
            ("another client", ask.clone().header("user-agent", "curl"), Same),
            ("another trace", ask.clone().header("traceparent", "00-1-2-01"), Same),
            ("another wish", ask.clone().header("accept", "text/html"), Same),
            ("a wish for a coding", ask.clone().header("accept-encoding", "gzip"), Same),
            ("the same", ask.clone(), Same),
        ] {
            assert_eq!(seen(&shop.ask(&other).await), expected, "{what}");
        }
        shop.ask(&typed("application/json; charset=utf-16")).await.is_refused(415, "CHARSET_UNSUPPORTED");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn the_charset_of_text_counts(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let typed = |value: &str| Ask::pay(&key(1)).header("content-type", value).body("100");
        shop.ask(&typed("text/plain; charset=utf-8")).await.is_payment(1);
        assert_eq!(seen(&shop.ask(&typed("text/plain; charset=utf-16")).await), Seen::Conflict);
        assert_eq!(seen(&shop.ask(&typed("text/plain; charset=UTF-8")).await), Seen::Same);
    }

    async fn the_fingerprint_is_told_and_is_that_of_the_request(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        let fingerprint = |told: &Told| told.headers["idempotency-fingerprint"].clone();
        let first = fingerprint(&shop.ask(&ask).await);
        assert_eq!(fingerprint(&shop.ask(&ask).await), first, "of a replay");
        assert_eq!(fingerprint(&shop.ask(&ask.clone().by("acme/bob")).await), first, "of another caller");
        let conflict = shop.ask(&ask.clone().body("{}")).await;
        assert_ne!(fingerprint(&conflict), first, "of another request");
        assert_eq!(seen(&conflict), Seen::Conflict);
    }

    async fn the_ietf_profile_answers_422_to_a_reused_key(ground) {
        let shop =
            Shop::open(&ground, Plan::waits(Policy::default()).set_up(|layer| layer.profile(Profile::Ietf)))
                .await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        shop.ask(&ask.clone().body("{}")).await.is_refused(422, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&ask.clone().header("prefer", "wait=0"))
            .await
            .is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        shop.ask(&ask.clone().without("idempotency-key")).await.is_refused(400, "IDEMPOTENCY_KEY_REQUIRED");
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
    }
}
