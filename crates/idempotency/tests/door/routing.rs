//! Which route a request is taken for, wherever a program puts it.

use crate::asks::{Ask, key};
use crate::grounds::memory;
use crate::shop::{ask_of, paid, signed_in};
use axum::Router;
use axum::handler::Handler;
use axum::routing;
use http::{Method, StatusCode};
use perdura_idempotency::routes::post;
use perdura_idempotency::{Builder, IDEMPOTENCY_FINGERPRINT, IdempotencyLayer, Policy, Routes, Secret};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn builder() -> Builder {
    IdempotencyLayer::builder(memory().store(), Secret::new([1; 32]).unwrap()).scope(signed_in)
}

/// Takes a payment at each run.
fn counting(runs: &Arc<AtomicU32>) -> impl Handler<((),), ()> + use<> {
    let runs = runs.clone();
    move || async move { paid(runs.fetch_add(1, Ordering::Relaxed) + 1) }
}

/// A layer, and routes that count their runs.
async fn counted() -> (IdempotencyLayer, Routes, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let handler = counting(&runs);
    let routes = Routes::new()
        .route("/", post(handler.clone()))
        .route("/{id}", post(handler.clone()))
        .route("/payments", post(handler.clone()))
        .route("/search", post(handler).exempt());
    (builder().build().await.unwrap(), routes, runs)
}

#[tokio::test]
async fn routes_are_guarded_wherever_they_are_nested() {
    let (layer, routes, _) = counted().await;
    let own = Routes::new().nest("/v1", routes).guarded_by(&layer).unwrap();
    let (layer, routes, _) = counted().await;
    let by_axum = Router::new().nest("/v1", routes.guarded_by(&layer).unwrap());
    let (layer, routes, _) = counted().await;
    let deeper = Router::new().nest("/v1", Routes::new().nest("/in", routes).guarded_by(&layer).unwrap());
    let deeper = Router::new().nest("/out", deeper);
    let (layer, routes, _) = counted().await;
    let as_service = Router::new().nest_service("/v1", routes.guarded_by(&layer).unwrap());
    let (layer, routes, _) = counted().await;
    let as_service_again = Router::new().nest_service("/v1", routes.guarded_by(&layer).unwrap());
    for (what, app, paths) in [
        ("as declared", own, ["/v1", "/v1/payments", "/v1/7"]),
        ("by the router", by_axum, ["/v1", "/v1/payments", "/v1/7"]),
        ("several times", deeper, ["/out/v1/in", "/out/v1/in/payments", "/out/v1/in/7"]),
        ("as a service", as_service, ["/v1", "/v1/payments", "/v1/7"]),
        ("as a service, with a slash", as_service_again, ["/v1/", "/v1/payments", "/v1/7"]),
    ] {
        let exempt = paths[1].replace("payments", "search");
        for (nth, path) in (1..).zip(paths) {
            let without = ask_of(&app, &Ask::new(Method::POST, path)).await;
            assert_eq!(without.reason(), "IDEMPOTENCY_KEY_REQUIRED", "{what}: {path}: {without:?}");
            let ask = Ask::pay(&key(1)).to(path);
            assert!(!ask_of(&app, &ask).await.is_payment(nth).is_replayed(), "{what}: {path}");
            assert!(ask_of(&app, &ask).await.is_payment(nth).is_replayed(), "{what}: {path}");
        }
        for nth in 4..6 {
            ask_of(&app, &Ask::pay(&key(1)).to(&exempt)).await.is_payment(nth);
        }
    }
}

#[tokio::test]
async fn one_router_nested_twice_is_two_routes() {
    let (layer, routes, runs) = counted().await;
    let guarded = routes.guarded_by(&layer).unwrap();
    let app = Router::new().nest("/one", guarded.clone()).nest("/two", guarded);
    ask_of(&app, &Ask::pay(&key(1)).to("/one/payments")).await.is_payment(1);
    ask_of(&app, &Ask::pay(&key(1)).to("/two/payments")).await.is_payment(2);
    for path in ["/one/payments", "/two/payments"] {
        assert!(ask_of(&app, &Ask::pay(&key(1)).to(path)).await.is_replayed(), "{path}");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_route_under_two_layers_is_guarded_once() {
    let (inner, routes, runs) = counted().await;
    let (outer, _, _) = counted().await;
    let app = routes.guarded_by(&inner).unwrap().layer(outer);
    let ask = Ask::pay(&key(1));
    assert!(!ask_of(&app, &ask).await.is_payment(1).is_replayed());
    assert!(ask_of(&app, &ask).await.is_payment(1).is_replayed());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_route_of_a_plain_router_that_was_not_declared_has_the_layers_policy() {
    for (policy, second) in [(Policy::default(), 409), (Policy::exempt(), 500)] {
        let layer = builder().policy(policy).route(&Method::POST, "/declared", Policy::exempt());
        let layer = layer.build().await.unwrap();
        let broken = async || StatusCode::INTERNAL_SERVER_ERROR;
        let app = Router::new()
            .route("/undeclared", routing::post(broken))
            .route("/declared", routing::post(broken))
            .layer(layer);
        for (path, expected) in [("/undeclared", [500, second]), ("/declared", [500, 500])] {
            let ask = Ask::pay(&key(1)).to(path);
            assert_eq!(
                [ask_of(&app, &ask).await.status, ask_of(&app, &ask).await.status],
                expected,
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn a_declared_route_of_a_plain_router_keeps_its_policy_when_it_is_nested() {
    let layer = builder().route(&Method::POST, "/search", Policy::exempt()).build().await.unwrap();
    let inner = Router::new().route("/search", routing::post(counting(&Arc::default()))).layer(layer);
    let app = Router::new().nest("/api", inner);
    for nth in 1..=2 {
        assert!(!ask_of(&app, &Ask::pay(&key(1)).to("/api/search")).await.is_payment(nth).is_replayed());
    }
}

#[tokio::test]
async fn an_encoded_slash_and_a_slash_are_two_requests() {
    let layer = builder().build().await.unwrap();
    let app = Router::new().route("/files/{*path}", routing::post(counting(&Arc::default()))).layer(layer);
    let ask = Ask::pay(&key(1)).to("/files/a/b");
    ask_of(&app, &ask).await.is_payment(1);
    for other in ["/files/a%2Fb", "/files/a%2fb"] {
        ask_of(&app, &ask.clone().to(other)).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    }
    assert!(ask_of(&app, &ask).await.is_payment(1).is_replayed());
}

#[tokio::test]
async fn what_the_router_gives_no_template_is_guarded_too() {
    let (layer, handler) = (builder().build().await.unwrap(), counting(&Arc::default()));
    let inner: Router = Router::new().route("/orders", routing::post(handler.clone()));
    let app = Router::new().nest_service("/api", inner).fallback(handler).layer(layer);
    for (n, path) in [(1, "/api/orders"), (2, "/elsewhere")] {
        let ask = Ask::pay(&key(n)).to(path);
        assert!(!ask_of(&app, &ask).await.is_payment(n).is_replayed(), "{path}");
        assert!(ask_of(&app, &ask).await.is_payment(n).is_replayed(), "{path}");
    }
    // Without a template, the path tells requests apart.
    let other = ask_of(&app, &Ask::pay(&key(2)).to("/elsewhere/still")).await;
    other.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
}

#[tokio::test]
async fn a_fallback_may_be_declared_exempt() {
    let layer = builder().route(&Method::POST, "*", Policy::exempt()).build().await.unwrap();
    let app = Router::new().route("/", routing::get(|| async {})).layer(layer);
    let told = ask_of(&app, &Ask::pay(&key(1)).to("/nowhere")).await;
    assert_eq!(told.status, StatusCode::NOT_FOUND);
    assert!(!told.headers.contains_key(IDEMPOTENCY_FINGERPRINT), "it passes untouched");
}
