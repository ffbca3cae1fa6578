//! What does not fit is found before the first request, and every route is listed with what it promises.

use crate::asks::{Ask, Told, key};
use crate::faulty::{Fault, Faulty, Verb};
use crate::grounds::{memory, on_each_store, sqlite};
use crate::logs;
use crate::shop::{Plan, Shop, paid, signed_in};
use axum::Router;
use http::{Method, StatusCode, header};
use perdura_idempotency::routes::{get, post, put};
use perdura_idempotency::{
    Attached, IdempotencyContext, IdempotencyLayer, Metrics, Policy, Routes, Scope, Secret, StartError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tower::ServiceExt;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32]).unwrap()
}

async fn told(app: &Router, ask: &Ask) -> Told {
    Told::read(app.clone().oneshot(ask.request()).await.unwrap()).await
}

on_each_store! {
    async fn retention_is_from_two_hours_to_a_day(ground) {
        const HOUR: u64 = 3600;
        for (seconds, fits) in [
            (0, false),
            (2 * HOUR - 1, false),
            (2 * HOUR, true),
            (24 * HOUR, true),
            (24 * HOUR + 1, false),
            (u64::MAX, false),
        ] {
            let policy = Policy::default().retention(Duration::from_secs(seconds));
            match Shop::try_open(&ground, Plan::pays(policy)).await {
                Ok(_) => assert!(fits, "{seconds}"),
                Err(error) => {
                    assert!(!fits, "{seconds}: {error}");
                    let text = error.to_string();
                    assert!(text.contains("between 2 h and 24 h") && text.contains("POST "), "{text}");
                }
            }
        }
    }

    async fn a_store_that_was_used_with_another_secret_is_refused(ground) {
        let start = |byte| IdempotencyLayer::builder(ground.store(), secret(byte)).scope(signed_in).build();
        assert!(start(1).await.is_ok());
        assert!(start(1).await.is_ok(), "the same again");
        let other = start(2).await.err().expect("another secret");
        assert!(matches!(other, StartError::OtherSecret { .. }), "{other}");
        let another = IdempotencyLayer::builder(ground.another(), secret(2)).scope(signed_in).build().await;
        assert!(matches!(another, Err(StartError::OtherSecret { .. })), "on any instance");
    }

    async fn two_layers_around_one_route_count_once(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        let (store, metrics) = (Faulty::new(ground.another()), Metrics::new());
        let outer = Plan::pays(Policy::default()).builder(store.clone()).observe(metrics.clone());
        let app = shop.app.clone().layer(outer.build().await.unwrap());
        assert!(!told(&app, &Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        assert!(told(&app, &Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        assert_eq!((shop.till.runs(), store.asked(Verb::Complete)), (1, 1));
        assert!(metrics.render().contains("arrived_total{route=\"POST /payments\"} 2\n"));
        assert_eq!(shop.store.verbs(), [Verb::Agree], "the inner one stands back");
        assert_eq!(shop.events.all(), []);
    }

    async fn a_store_that_is_down_is_refused(ground) {
        let store = Faulty::new(ground.store());
        store.fail(Verb::Agree, Fault::Down);
        let started = IdempotencyLayer::builder(store, secret(1)).scope(signed_in).build().await;
        assert!(matches!(started, Err(StartError::Store(_))));
    }
}

#[tokio::test]
async fn what_is_not_safe_by_itself_has_to_be_said() {
    let builder = || IdempotencyLayer::builder(memory().store(), secret(1));
    let refused = builder().build().await.err().expect("nobody said whose requests these are");
    assert!(refused.to_string().contains("anonymous("), "{refused}");
    assert!(builder().anonymous(Scope::new("all", "all")).build().await.is_ok());
    for name in [header::SET_COOKIE, header::AUTHORIZATION, header::DATE, header::CONNECTION] {
        let refused = builder().scope(signed_in).retain_header(name.clone()).build().await;
        assert!(matches!(refused, Err(StartError::Header(refused)) if refused == name));
    }
    for policy in [
        Policy::default().lease_for(Duration::from_millis(299)),
        Policy::default().lease_for(Duration::ZERO),
        Policy::default().retention(Duration::from_hours(1)),
        Policy::transactional(),
        Policy::transactional().fail_open(),
    ] {
        let refused = builder().scope(signed_in).policy(policy.clone()).build().await.err();
        assert!(refused.expect("it does not fit").to_string().contains("not declared"), "{policy:?}");
        let declared =
            builder().scope(signed_in).route(&Method::PUT, "/orders/{id}", policy.clone()).build().await;
        assert!(
            declared.err().expect("it does not fit").to_string().contains("PUT /orders/{id}"),
            "{policy:?}"
        );
    }
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        let refused = builder().scope(signed_in).route(&method, "/orders", Policy::default()).build().await;
        assert!(refused.err().expect("it is safe").to_string().contains("never protected"), "{method}");
        assert!(builder().scope(signed_in).route(&method, "/orders", Policy::exempt()).build().await.is_ok());
    }
    assert!(
        builder().scope(signed_in).policy(Policy::exempt().retention(Duration::ZERO)).build().await.is_ok()
    );
}

#[test]
fn a_short_secret_is_none() {
    assert_eq!(Secret::new([0; 31]).unwrap_err().given, 31);
    assert_eq!(format!("{:?}", secret(7)), "Secret(..)");
}

#[test]
fn the_list_names_every_route_that_changes_something_with_its_full_template() {
    let handler = async || StatusCode::OK;
    let attach = |_: IdempotencyContext| async { Attached::Unknown };
    let items = Routes::<()>::new()
        .route("/", post(handler).with(Policy::transactional()))
        .route("/{item}", get(handler).patch(handler).delete(handler));
    let orders = Routes::new()
        .route("/orders", get(handler).post(handler).with(Policy::durable(attach)))
        .nest("/orders/{order}/items", items);
    let routes = Routes::new()
        .nest("/v1", orders)
        .merge(Routes::new().route("/search", post(handler).exempt()))
        .route("/orders/{order}", get(handler).put(handler).with(Policy::at_most_once()));
    assert_eq!(
        routes.to_string(),
        "PUT    /orders/{order}  at_most_once\n\
         POST   /search  exempt\n\
         POST   /v1/orders  durable\n\
         POST   /v1/orders/{order}/items  transactional\n\
         PATCH  /v1/orders/{order}/items/{item}  at_most_once\n"
    );
}

#[tokio::test]
async fn the_list_is_logged_when_the_routes_are_put_under_the_layer() {
    let layer =
        IdempotencyLayer::builder(sqlite().store(), secret(1)).scope(signed_in).build().await.unwrap();
    let handler = async || StatusCode::OK;
    let attach = |_: IdempotencyContext| async { Attached::Unknown };
    let items = Routes::<()>::new().route("/{item}", get(handler).patch(handler).delete(handler));
    let routes = Routes::new()
        .route("/listed/plain", post(handler))
        .route("/listed/moved", post(handler).with(Policy::transactional()))
        .route("/listed/begun", post(handler).with(Policy::durable(attach)))
        .route("/listed/found", post(handler).exempt())
        .route("/listed/put", put(handler).with(Policy::default()))
        .route("/listed/untouched", put(handler))
        .nest("/listed/nested", items);
    let listed = routes.to_string();
    drop(routes.guarded_by(&layer).unwrap());
    let logged = logs::text();
    let logged = logged.lines().filter(|line| line.contains("/listed/")).collect::<Vec<_>>();
    let expected = [
        ("POST", "/listed/begun", "durable"),
        ("POST", "/listed/found", "exempt"),
        ("POST", "/listed/moved", "transactional"),
        ("PATCH", "/listed/nested/{item}", "at_most_once"),
        ("POST", "/listed/plain", "at_most_once"),
        ("PUT", "/listed/put", "at_most_once"),
    ];
    let lines = expected.map(|(method, path, mode)| {
        format!("perdura_idempotency::routes message=idempotency route=\"{method} {path}\" mode=\"{mode}\"")
    });
    assert_eq!(logged, lines);
    let lines = expected.map(|(method, path, mode)| format!("{method:<6} {path}  {mode}\n"));
    assert_eq!(listed, lines.concat());
}

/// A layer, and routes that count their runs.
async fn counted() -> (IdempotencyLayer, Routes, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let layer =
        IdempotencyLayer::builder(memory().store(), secret(1)).scope(signed_in).build().await.unwrap();
    let counting = runs.clone();
    let handler = move || {
        let nth = counting.fetch_add(1, Ordering::Relaxed) + 1;
        async move { paid(nth) }
    };
    let routes = Routes::new().route("/", post(handler.clone())).route("/payments", post(handler));
    (layer, routes, runs)
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
        ("as declared", own, ["/v1", "/v1/payments"]),
        ("by the router", by_axum, ["/v1", "/v1/payments"]),
        ("several times", deeper, ["/out/v1/in", "/out/v1/in/payments"]),
        ("as a service", as_service, ["/v1", "/v1/payments"]),
        ("as a service, with a slash", as_service_again, ["/v1/", "/v1/payments"]),
    ] {
        for (nth, path) in (1..).zip(paths) {
            let without = told(&app, &Ask::new(Method::POST, path)).await;
            assert_eq!(without.reason(), "IDEMPOTENCY_KEY_REQUIRED", "{what}: {path}: {without:?}");
            let ask = Ask::pay(&key(1)).to(path);
            assert!(!told(&app, &ask).await.is_payment(nth).is_replayed(), "{what}: {path}");
            assert!(told(&app, &ask).await.is_payment(nth).is_replayed(), "{what}: {path}");
        }
    }
}

#[tokio::test]
async fn one_router_nested_twice_is_two_routes() {
    let (layer, routes, runs) = counted().await;
    let guarded = routes.guarded_by(&layer).unwrap();
    let app = Router::new().nest("/one", guarded.clone()).nest("/two", guarded);
    told(&app, &Ask::pay(&key(1)).to("/one/payments")).await.is_payment(1);
    told(&app, &Ask::pay(&key(1)).to("/two/payments")).await.is_payment(2);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_route_under_two_layers_is_guarded_once() {
    let (inner, routes, runs) = counted().await;
    let (outer, _, _) = counted().await;
    let app = routes.guarded_by(&inner).unwrap().layer(outer);
    let ask = Ask::pay(&key(1));
    assert!(!told(&app, &ask).await.is_payment(1).is_replayed());
    assert!(told(&app, &ask).await.is_payment(1).is_replayed());
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_route_of_a_plain_router_that_was_not_declared_has_the_layers_policy() {
    for (policy, second) in [(Policy::default(), 409), (Policy::exempt(), 500)] {
        let layer = IdempotencyLayer::builder(memory().store(), secret(1)).scope(signed_in);
        let layer =
            layer.policy(policy).route(&Method::POST, "/declared", Policy::exempt()).build().await.unwrap();
        let broken = async || StatusCode::INTERNAL_SERVER_ERROR;
        let app = Router::new()
            .route("/undeclared", axum::routing::post(broken))
            .route("/declared", axum::routing::post(broken))
            .layer(layer);
        for (path, expected) in [("/undeclared", [500, second]), ("/declared", [500, 500])] {
            let ask = Ask::pay(&key(1)).to(path);
            assert_eq!([told(&app, &ask).await.status, told(&app, &ask).await.status], expected, "{path}");
        }
    }
}
