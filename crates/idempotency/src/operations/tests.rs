//! What depends on no store; what every store has to do for it is in `tests/door/operators.rs`.

use super::*;
use crate::observe::{Happening, What};
use crate::routes::{Routes, post};
use crate::store::Memory;
use crate::{Builder, DerivedKeys, Policy, Secret};
use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode, header};
use serde_json::Value;
use std::sync::Mutex;
use tower::ServiceExt;

const HOUR: Duration = Duration::from_hours(1);

/// A program with one route, over a memory whose clock is moved by hand.
struct Shop {
    app: Router,
    operations: Operations,
    /// The operations that arrived.
    arrived: Arc<Mutex<Vec<OperationId>>>,
    now: Arc<Mutex<Timestamp>>,
}

impl Shop {
    async fn open(encrypted: bool) -> Self {
        let keys = || DerivedKeys::new(Secret::new([9; 32]).unwrap());
        Self::open_as(|builder| if encrypted { builder.encrypt_with(keys()) } else { builder }).await
    }

    async fn open_as(set_up: impl FnOnce(Builder) -> Builder) -> Self {
        let now = Arc::new(Mutex::new("2026-11-16T09:00:00.123456789Z".parse().unwrap()));
        let clock = Arc::clone(&now);
        let store = Arc::new(Memory::with_clock(Arc::new(move || *clock.lock().unwrap())));
        let arrived = Arc::<Mutex<Vec<_>>>::default();
        let seen = Arc::clone(&arrived);
        let builder = IdempotencyLayer::builder(store, Secret::new([7; 32]).unwrap())
            .scope(|parts| {
                let (tenant, user) = parts.headers.get("x-user")?.to_str().ok()?.split_once('/')?;
                Some(Scope::new(tenant, user))
            })
            .observe(move |happening: &Happening| {
                if happening.what == What::Arrived {
                    seen.lock().unwrap().extend(happening.operation);
                }
            });
        let layer = set_up(builder).build().await.unwrap();
        let pay = async |body: String| {
            assert_ne!(body, "break", "the power went out");
            (StatusCode::CREATED, "paid")
        };
        let policy = Policy::at_most_once().answer_bytes_max(1_000).wait_for_max(Duration::ZERO);
        let guarded = Routes::new().route("/payments", post(pay).with(policy)).guarded_by(&layer).unwrap();
        let operations = layer.operations();
        let app = guarded.nest("/idempotency", operations.router());
        Self { app, operations, arrived, now }
    }

    fn pass(&self, time: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = crate::rule::later(*now, time);
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, HeaderMap, String) {
        let (parts, body) = self.app.clone().oneshot(request).await.unwrap().into_parts();
        let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Pays under the one key that these tests use, and tells which operation that is.
    async fn pay(&self, what: &'static str) -> (StatusCode, HeaderMap, String, OperationId) {
        let request = Request::post("/payments")
            .header("x-user", "acme/ann")
            .header("idempotency-key", "0190a6e4-5f3c-7b1d-9c55-3e2b7a1f0d42")
            .body(what.into());
        let (status, headers, body) = self.send(request.unwrap()).await;
        (status, headers, body, *self.arrived.lock().unwrap().last().expect("one arrived"))
    }

    async fn get(&self, path: &str, user: Option<&str>) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::get(format!("/idempotency{path}"));
        if let Some(user) = user {
            request = request.header("x-user", user);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// What its caller is told of an operation.
    async fn told(&self, operation: OperationId) -> Value {
        let (status, headers, body) = self.get(&format!("/operations/{operation}"), Some("acme/ann")).await;
        assert_eq!((status, &headers[header::CACHE_CONTROL]), (StatusCode::OK, &"no-store".parse().unwrap()));
        serde_json::from_str(&body).unwrap()
    }

    async fn state(&self, operation: OperationId) -> Option<State> {
        self.operations.look(operation).await.unwrap().map(|looked| looked.state)
    }
}

fn reason(body: &str) -> String {
    serde_json::from_str::<Value>(body).unwrap()["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_caller_is_told_where_its_operation_stands_in_full_precision_and_never_the_answer() {
    for encrypted in [false, true] {
        let shop = Shop::open(encrypted).await;
        let (status, _, body, operation) = shop.pay("now").await;
        assert_eq!((status, body.as_str()), (StatusCode::CREATED, "paid"));
        shop.pass(HOUR);
        let told = shop.told(operation).await;
        let epoch = told["epoch"].as_u64().unwrap();
        let expected = serde_json::json!({
            "operation": operation.to_string(),
            "state": "completed",
            "epoch": epoch,
            "first_at": "2026-11-16T09:00:00.123456789Z",
            "ended_at": "2026-11-16T09:00:00.123456789Z",
            "expires_at": "2026-11-17T09:00:00.123456789Z",
            "result_retained": true,
        });
        assert_eq!(told, expected);
        let described =
            &shop.operations.published().openapi()["components"]["schemas"]["IdempotencyOperation"];
        let described = described["properties"].as_object().unwrap();
        assert!(described.keys().eq(told.as_object().unwrap().keys()), "and all of it is described");
    }
}

#[tokio::test]
async fn what_changes_between_looking_and_taking_over_is_noticed() {
    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("break").await;
    let record = shop.operations.door().store.look(operation).await.unwrap().unwrap();
    shop.operations.take_over(operation, &record).await.unwrap();
    let second = shop.operations.take_over(operation, &record).await.unwrap_err();
    assert!(matches!(second, ResolveError::NotUnknown { state: State::Running, .. }), "{second}");

    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("break").await;
    let record = shop.operations.door().store.look(operation).await.unwrap().unwrap();
    shop.pass(25 * HOUR);
    let gone = shop.operations.take_over(operation, &record).await.unwrap_err();
    assert!(matches!(gone, ResolveError::NotThere(_)), "{gone}");
    assert_eq!(shop.state(operation).await, None, "looking for it has not begun it anew");
}

#[tokio::test]
async fn who_may_no_longer_ask_is_told_so() {
    let shop = Shop::open_as(|builder| {
        builder.authorise(|request: &Parts, _: &Scope| request.method != http::Method::GET)
    });
    let shop = shop.await;
    let (_, _, _, operation) = shop.pay("now").await;
    let (status, _, body) = shop.get(&format!("/operations/{operation}"), Some("acme/ann")).await;
    assert_eq!((status, reason(&body).as_str()), (StatusCode::FORBIDDEN, "NOT_AUTHORISED"));
}

#[tokio::test]
async fn the_policy_and_the_description_are_there_for_everybody() {
    let shop = Shop::open(false).await;
    let (status, headers, body) = shop.get("/policy", None).await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE]),
        (StatusCode::OK, &"application/json".parse().unwrap())
    );
    let policy: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(policy["key"]["versions"], serde_json::json!([4, 5, 7]));
    let route = &policy["routes"][0];
    assert_eq!((&route["method"], &route["path"]), (&"POST".into(), &"/payments".into()));
    assert_eq!((&route["mode"], &route["answer_bytes_max"]), (&"at_most_once".into(), &1_000.into()));
    assert_eq!(route["retention_seconds"], 86_400);
    let (status, _, body) = shop.get("/openapi", None).await;
    let description: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, description), (StatusCode::OK, shop.operations.published().openapi()));
}
