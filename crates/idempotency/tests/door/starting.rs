//! What does not fit is found before the first request, and every route is listed with what it promises.

use crate::asks::{Ask, key};
use crate::faulty::{Fault, Faulty, Verb};
use crate::grounds::{memory, on_each_store, sqlite};
use crate::logs;
use crate::shop::{Plan, Shop, ask_of, signed_in};
use http::{Method, StatusCode, header};
use perdura_idempotency::routes::{get, post, put};
use perdura_idempotency::{
    Attached, IdempotencyContext, IdempotencyLayer, Metrics, Policy, Routes, Scope, Secret, StartError,
};
use std::time::Duration;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32]).unwrap()
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
        assert!(!ask_of(&app, &Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        assert!(ask_of(&app, &Ask::pay(&key(1))).await.is_payment(1).is_replayed());
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

#[tokio::test]
async fn a_time_without_end_is_refused_at_the_start_and_not_with_each_request() {
    for (what, policy) in [
        ("a lease", Policy::default().lease_for(Duration::MAX)),
        ("a run", Policy::default().run_for_max(Duration::MAX)),
        ("a wait", Policy::default().wait_for_max(Duration::MAX)),
    ] {
        let Err(refused) = Shop::try_open(&memory(), Plan::pays(policy)).await else {
            panic!("{what} without end is refused")
        };
        assert!(refused.to_string().contains("longer than"), "{what}: {refused}");
    }
}

#[tokio::test]
async fn what_only_reads_cannot_be_declared_as_protected() {
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        let declare = |policy| {
            let layer = IdempotencyLayer::builder(memory().store(), secret(1)).scope(signed_in);
            layer.route(&method, "/orders", policy).build()
        };
        let refused = declare(Policy::default()).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{method} is never protected"));
        assert!(refused.to_string().contains("never protected"), "{refused}");
        assert!(declare(Policy::exempt()).await.is_ok(), "{method}");
    }
}
