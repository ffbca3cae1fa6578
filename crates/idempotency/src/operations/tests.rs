use super::*;
use crate::observe::{Happening, What};
use crate::routes::{Routes, post};
use crate::store::Memory;
use crate::vault::{DataKey, KeyId};
use crate::{Builder, DataKeys, DerivedKeys, Policy, Secret};
use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode, header};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;
use tower::ServiceExt;

const HOUR: Duration = Duration::from_hours(1);

/// A program with one route, over a memory whose clock is moved by hand.
struct Shop {
    app: Router,
    operations: Operations,
    /// The operations that arrived.
    arrived: Arc<Mutex<Vec<OperationId>>>,
    now: Arc<Mutex<Timestamp>>,
    /// How many payments were made.
    paid: Arc<AtomicU32>,
    /// Lets a slow payment end.
    go_on: Arc<Notify>,
    /// Says that a slow payment has begun.
    begun: Arc<Notify>,
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
        let (arrived, paid) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicU32>::default());
        let (go_on, begun) = (Arc::<Notify>::default(), Arc::<Notify>::default());
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
        let pay = {
            let (paid, go_on, begun) = (Arc::clone(&paid), Arc::clone(&go_on), Arc::clone(&begun));
            move |body: String| async move {
                let number = paid.fetch_add(1, Ordering::SeqCst) + 1;
                match body.as_str() {
                    "break" => panic!("the power went out"),
                    "slow" => {
                        begun.notify_one();
                        go_on.notified().await;
                    }
                    "large" => return (StatusCode::CREATED, "x".repeat(5_000)),
                    _ => {}
                }
                (StatusCode::CREATED, format!("paid {number}"))
            }
        };
        let policy = Policy::at_most_once().answer_bytes_max(1_000).wait_for_max(Duration::ZERO);
        let guarded = Routes::new().route("/payments", post(pay).with(policy)).guarded_by(&layer).unwrap();
        let operations = layer.operations();
        let app = guarded.nest("/idempotency", operations.router());
        Self { app, operations, arrived, now, paid, go_on, begun }
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
        (status, headers, body, self.operation())
    }

    fn operation(&self) -> OperationId {
        *self.arrived.lock().unwrap().last().expect("one arrived")
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

fn answer(body: &'static str) -> Response<Bytes> {
    let answer = Response::builder().status(201).header(header::LOCATION, "/payments/1");
    answer.header(header::SET_COOKIE, "session=1").body(Bytes::from(body)).unwrap()
}

fn ann() -> Scope {
    Scope::new("acme", "ann")
}

#[tokio::test]
async fn a_caller_is_told_where_its_operation_stands_in_full_precision_and_never_the_answer() {
    for encrypted in [false, true] {
        let shop = Shop::open(encrypted).await;
        let (status, _, body, operation) = shop.pay("now").await;
        assert_eq!((status, body.as_str()), (StatusCode::CREATED, "paid 1"));
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
async fn each_state_is_told_by_its_name() {
    let members = async |shop: &Shop, operation| {
        let told = shop.told(operation).await;
        let is_there = |name: &str| !told[name].is_null();
        (told["state"].as_str().unwrap().to_owned(), is_there("ended_at"), told["result_retained"] == true)
    };
    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("break").await;
    assert_eq!(members(&shop, operation).await, ("unknown".to_owned(), true, false));

    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("large").await;
    assert_eq!(members(&shop, operation).await, ("completed".to_owned(), true, false), "it was too large");

    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("now").await;
    assert!(shop.operations.erase(operation).await.unwrap());
    assert_eq!(members(&shop, operation).await, ("expired".to_owned(), true, false));
    shop.pass(25 * HOUR);
    assert_eq!(shop.state(operation).await, None, "nothing is kept for ever");

    let shop = Shop::open(false).await;
    let paying = async {
        shop.begun.notified().await;
        let operation = shop.operation();
        assert_eq!(members(&shop, operation).await, ("running".to_owned(), false, false));
        shop.pass(HOUR);
        assert_eq!(members(&shop, operation).await, ("interrupted".to_owned(), false, false));
        shop.go_on.notify_one();
    };
    tokio::join!(paying, shop.pay("slow"));
}

#[tokio::test]
async fn another_callers_operation_is_answered_like_one_that_never_was() {
    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("now").await;
    let never = OperationId::from_hash([3; 16]);
    let expected = shop.get(&format!("/operations/{never}"), Some("acme/ann")).await;
    assert_eq!((expected.0, reason(&expected.2).as_str()), (StatusCode::NOT_FOUND, "OPERATION_NOT_FOUND"));
    for other in ["acme/bob", "umbrella/ann"] {
        assert_eq!(shop.get(&format!("/operations/{operation}"), Some(other)).await, expected, "{other}");
    }
    assert_eq!(shop.get("/operations/what", Some("acme/ann")).await, expected, "nor one that cannot be");
    let nobody = shop.get(&format!("/operations/{operation}"), None).await;
    assert_eq!(
        (nobody.0, reason(&nobody.2).as_str()),
        (StatusCode::UNAUTHORIZED, "IDEMPOTENCY_SCOPE_MISSING")
    );
}

#[tokio::test]
async fn what_was_not_applied_is_forgotten_and_a_retry_runs_it() {
    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("break").await;
    let (status, _, body, _) = shop.pay("break").await;
    assert_eq!((status, reason(&body).as_str()), (StatusCode::CONFLICT, "OUTCOME_UNKNOWN"));
    assert_eq!(shop.paid.load(Ordering::SeqCst), 1);

    let before = shop.operations.look(operation).await.unwrap().unwrap().epoch;
    let resolved = shop.operations.resolve(operation, Resolution::NotApplied).await.unwrap();
    assert!(resolved > before, "{resolved} is a new epoch");
    assert_eq!(shop.state(operation).await, None);
    shop.pay("break").await;
    assert_eq!(shop.paid.load(Ordering::SeqCst), 2, "it was run again");
}

#[tokio::test]
async fn what_was_applied_gets_the_answer_that_it_would_have_had_and_is_not_run_again() {
    for encrypted in [false, true] {
        let shop = Shop::open(encrypted).await;
        let (_, _, _, operation) = shop.pay("break").await;
        let applied = Resolution::Applied(ann(), answer("paid after all"));
        shop.operations.resolve(operation, applied).await.unwrap();
        let (status, headers, body, _) = shop.pay("break").await;
        assert_eq!((status, body.as_str()), (StatusCode::CREATED, "paid after all"));
        assert_eq!(headers["idempotency-replayed"], "true");
        assert_eq!(headers[header::LOCATION], "/payments/1");
        assert!(!headers.contains_key(header::SET_COOKIE), "what is never kept is not kept here either");
        assert_eq!(shop.paid.load(Ordering::SeqCst), 1);
        assert_eq!(shop.told(operation).await["result_retained"], true);
        let again = shop.operations.resolve(operation, Resolution::NotApplied).await.unwrap_err();
        assert!(matches!(again, ResolveError::NotUnknown { state: State::Completed, .. }), "{again}");
    }
}

#[tokio::test]
async fn what_is_resolved_wins_over_a_holder_who_is_late() {
    let shop = Shop::open(false).await;
    let resolving = async {
        shop.begun.notified().await;
        let operation = shop.operation();
        let refused = shop.operations.resolve(operation, Resolution::NotApplied).await.unwrap_err();
        assert!(matches!(refused, ResolveError::NotUnknown { state: State::Running, .. }), "{refused}");
        shop.pass(HOUR);
        let applied = Resolution::Applied(ann(), answer("said by a person"));
        shop.operations.resolve(operation, applied).await.unwrap();
        shop.go_on.notify_one();
    };
    let ((), (status, _, body, _)) = tokio::join!(resolving, shop.pay("slow"));
    assert_eq!((status, body.as_str()), (StatusCode::CREATED, "said by a person"), "not its own");
    assert_eq!(shop.pay("slow").await.2, "said by a person");
}

#[tokio::test]
async fn what_cannot_be_resolved_stays_as_it_is() {
    let shop = Shop::open(true).await;
    let never = OperationId::from_hash([3; 16]);
    let refused = shop.operations.resolve(never, Resolution::NotApplied).await.unwrap_err();
    assert!(matches!(refused, ResolveError::NotThere(_)), "{refused}");
    assert_eq!(shop.state(never).await, None);

    let (_, _, _, operation) = shop.pay("break").await;
    let before = shop.operations.look(operation).await.unwrap();
    let other = Resolution::Applied(Scope::new("acme", "bob"), answer("x"));
    let refused = shop.operations.resolve(operation, other).await.unwrap_err();
    assert!(matches!(refused, ResolveError::OtherScope(_)), "{refused}");
    assert_eq!(shop.operations.look(operation).await.unwrap(), before);
}

#[tokio::test]
async fn an_answer_that_cannot_be_sealed_leaves_the_outcome_unknown() {
    /// The keys of a tenant that was erased.
    struct Erased;
    impl DataKeys for Erased {
        fn newest(&self, _: &str) -> Option<(KeyId, DataKey)> {
            None
        }
        fn by_id(&self, _: &str, _: KeyId) -> Option<DataKey> {
            None
        }
    }
    let shop = Shop::open_as(|builder| builder.encrypt_with(Erased)).await;
    let (_, _, _, operation) = shop.pay("break").await;
    let applied = Resolution::Applied(ann(), answer("paid after all"));
    let refused = shop.operations.resolve(operation, applied).await.unwrap_err();
    assert!(matches!(refused, ResolveError::Seal(_)), "{refused}");
    assert_eq!(shop.state(operation).await, Some(State::Unknown));
    assert!(shop.operations.resolve(operation, Resolution::NotApplied).await.is_ok(), "nobody holds it");
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
async fn what_is_erased_is_neither_given_nor_run_again() {
    let shop = Shop::open(false).await;
    let (_, _, _, operation) = shop.pay("now").await;
    assert!(shop.operations.erase(operation).await.unwrap());
    assert!(!shop.operations.erase(operation).await.unwrap(), "there was none any more");
    let (status, _, body, _) = shop.pay("now").await;
    assert_eq!((status, reason(&body).as_str()), (StatusCode::CONFLICT, "RESULT_EXPIRED"));
    assert_eq!(shop.paid.load(Ordering::SeqCst), 1);
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
