//! Routes that the layer did not recognise, and requests that it took for others.

use crate::kit::{Count, ask, in_memory, key, post};
use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::routing;
use http::{HeaderValue, Method, Request, StatusCode, header};
use perdura_idempotency::{Policy, Routes, routes};

/// Answers with how often it was run.
fn counting(count: &Count) -> impl Handler<((),), ()> + use<> {
    let count = count.clone();
    move || async move { count.once_more().to_string() }
}

#[tokio::test]
async fn guarded_routes_that_are_nested_afterwards_are_still_guarded() {
    let layer = in_memory().build().await.expect("a layer");
    let (paid, read) = (Count::default(), Count::default());
    let orders = Routes::new()
        .route("/", routes::post(counting(&paid)))
        .route("/{id}", routes::post(counting(&paid)))
        .route("/search", routes::post(counting(&read)).exempt());
    let guarded = orders.guarded_by(&layer).expect("fit");
    let app = Router::new().nest("/api", Router::new().nest("/orders", guarded));
    for (n, path) in [(1, "/api/orders"), (2, "/api/orders/7")] {
        let first = ask(&app, post(path, &key(n))).await;
        let again = ask(&app, post(path, &key(n))).await;
        assert_eq!((first.status, first.is_replayed()), (StatusCode::OK, false), "{path}");
        assert_eq!((again.status, again.is_replayed()), (StatusCode::OK, true), "{path}");
        assert_eq!(paid.so_far(), n, "{path}");
    }
    for run in 1..=2 {
        ask(&app, post("/api/orders/search", &key(3))).await;
        assert_eq!(read.so_far(), run, "what is exempt stays so");
    }
}

#[tokio::test]
async fn one_guarded_router_under_two_prefixes_is_two_routes() {
    let layer = in_memory().build().await.expect("a layer");
    let count = Count::default();
    let guarded =
        Routes::new().route("/orders", routes::post(counting(&count))).guarded_by(&layer).expect("fit");
    let app = Router::new().nest("/eu", guarded.clone()).nest("/us", guarded);
    for (run, path) in [(1, "/eu/orders"), (2, "/us/orders")] {
        let told = ask(&app, post(path, &key(1))).await;
        assert_eq!((told.is_replayed(), count.so_far()), (false, run), "{path}");
    }
    for path in ["/eu/orders", "/us/orders"] {
        assert!(ask(&app, post(path, &key(1))).await.is_replayed(), "{path}");
    }
}

#[tokio::test]
async fn a_declared_route_of_a_plain_router_keeps_its_policy_when_it_is_nested() {
    let layer = in_memory().route(&Method::POST, "/search", Policy::exempt()).build().await.expect("a layer");
    let count = Count::default();
    let inner = Router::new().route("/search", routing::post(counting(&count))).layer(layer);
    let app = Router::new().nest("/api", inner);
    for run in 1..=2 {
        let told = ask(&app, post("/api/search", &key(1))).await;
        assert_eq!((told.status, told.is_replayed(), count.so_far()), (StatusCode::OK, false, run));
    }
}

#[tokio::test]
async fn an_encoded_slash_and_a_slash_are_two_requests() {
    let layer = in_memory().build().await.expect("a layer");
    let count = Count::default();
    let app = Router::new().route("/files/{*path}", routing::post(counting(&count))).layer(layer);
    assert_eq!(ask(&app, post("/files/a/b", &key(1))).await.status, StatusCode::OK);
    for other in ["/files/a%2Fb", "/files/a%2fb"] {
        let told = ask(&app, post(other, &key(1))).await;
        assert_eq!(told.reason(), "CONFLICTING_IDEMPOTENT_REQUEST", "{other}");
    }
    assert!(ask(&app, post("/files/a/b", &key(1))).await.is_replayed());
    assert_eq!(count.so_far(), 1);
}

#[tokio::test]
async fn what_the_router_gives_no_template_is_guarded_too() {
    let layer = in_memory().build().await.expect("a layer");
    let count = Count::default();
    let inner: Router = Router::new().route("/orders", routing::post(counting(&count)));
    let app = Router::new().nest_service("/api", inner).fallback(counting(&count)).layer(layer);
    for (n, path) in [(1, "/api/orders"), (2, "/elsewhere")] {
        let first = ask(&app, post(path, &key(n))).await;
        let again = ask(&app, post(path, &key(n))).await;
        assert_eq!((first.status, first.is_replayed()), (StatusCode::OK, false), "{path}");
        assert!(again.is_replayed(), "{path}");
        assert_eq!(count.so_far(), n, "{path}");
    }
    let other = ask(&app, post("/elsewhere/still", &key(2))).await;
    assert_eq!(
        other.reason(),
        "CONFLICTING_IDEMPOTENT_REQUEST",
        "without a template, the path tells requests apart"
    );
}

#[tokio::test]
async fn a_fallback_may_be_declared_exempt() {
    let declared = in_memory().route(&Method::POST, "*", Policy::exempt());
    let layer = declared.build().await.expect("a layer");
    let app = Router::new().route("/", routing::get(|| async {})).layer(layer);
    let told = ask(&app, post("/nowhere", &key(1))).await;
    assert_eq!(told.status, StatusCode::NOT_FOUND);
    assert!(!told.headers.contains_key(perdura_idempotency::IDEMPOTENCY_FINGERPRINT), "it passes untouched");
}

#[tokio::test]
async fn what_only_reads_cannot_be_declared_as_protected() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        let refused = in_memory().route(&method, "/orders", Policy::at_most_once()).build().await.err();
        let refused = refused.unwrap_or_else(|| panic!("{method} is never protected"));
        assert!(refused.to_string().contains("never protected"), "{refused}");
        assert!(in_memory().route(&method, "/orders", Policy::exempt()).build().await.is_ok(), "{method}");
    }
}

/// It has no path that a probe could be sent to.
#[tokio::test]
async fn the_self_test_does_not_take_a_fallback_for_a_route() {
    let sign_in = |request: &mut Request<Body>| {
        request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::from_static("somebody"));
    };
    let layer = in_memory()
        .route(&Method::POST, "*", Policy::at_most_once())
        .route(&Method::POST, "/pay", Policy::at_most_once())
        .build()
        .await
        .expect("a layer");
    let app = Router::new().route("/pay", routing::post(|| async {})).layer(layer.clone());
    assert_eq!(layer.self_test(app, sign_in).await, Ok(()));
}
