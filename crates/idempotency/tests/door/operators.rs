//! What came of an operation, for its caller and for whoever has to decide it; and how they learn of it.

use crate::asks::{Ask, Told, key};
use crate::faulty::{Fault, Verb};
use crate::grounds::{Ground, memory, on_each_store};
use crate::logs;
use crate::shop::{Plan, Shop, paid};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use perdura_idempotency::conformance::take;
use perdura_idempotency::observe::{FoundBy, What};
use perdura_idempotency::operations::{Looked, Resolution, ResolveError, State};
use perdura_idempotency::record::{Claim, Claimed, Keep, OperationId};
use perdura_idempotency::store::Store;
use perdura_idempotency::vault::{DataKey, KeyId};
use perdura_idempotency::{
    Attached, Builder, DataKeys, DerivedKeys, IdempotencyContext, Metrics, Policy, Scope, Secret,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);
/// How long these tests' own sweeps keep what lapsed.
const KEEP: Keep = Keep { answer_for: HOUR, tombstone_for: Duration::ZERO };

fn at_most_once() -> Policy {
    Policy::at_most_once().answer_bytes_max(1_000).wait_for_max(Duration::ZERO)
}

/// Handlers that end as the query says.
fn plan(policy: Policy) -> Plan {
    Plan::of(policy, |call| async move {
        match call.request.uri().query() {
            Some("break") => panic!("the power went out"),
            Some("slow") => call.till.at_the_gate().await,
            Some("large") => return (StatusCode::CREATED, "x".repeat(5_000)).into_response(),
            Some(_) | None => {}
        }
        paid(call.nth)
    })
}

/// A program that also tells callers of their operations.
async fn open(ground: &Arc<Ground>, plan: Plan) -> Shop {
    let mut shop = Shop::open(ground, plan).await;
    shop.app = shop.app.nest("/idempotency", shop.layer.operations().router());
    shop
}

/// The same, with answers that are sealed or not.
async fn open_sealed(ground: &Arc<Ground>, sealed: bool) -> Shop {
    let keys = || DerivedKeys::new(Secret::new([9; 32]).expect("it is long enough"));
    open(
        ground,
        plan(at_most_once()).set_up(move |layer| if sealed { layer.encrypt_with(keys()) } else { layer }),
    )
    .await
}

/// A payment that ends in this way.
fn pay(nth: u32, how: &str) -> Ask {
    Ask::pay(&key(nth)).to(&format!("/payments?{how}"))
}

fn status_of(operation: &str, who: &str) -> Ask {
    Ask::new(Method::GET, &format!("/idempotency/operations/{operation}")).by(who)
}

/// What its caller is told of the operation: its state, whether it has an end, whether its answer would be given.
async fn told(shop: &Shop, operation: OperationId) -> (String, bool, bool) {
    let told = shop.ask(&status_of(&operation.to_string(), "acme/ann")).await;
    assert_eq!((told.status, told.header(header::CACHE_CONTROL)), (StatusCode::OK, "no-store"));
    let told: Value = serde_json::from_slice(&told.body).expect("JSON");
    let state = told["state"].as_str().expect("a state").to_owned();
    (state, !told["ended_at"].is_null(), told["result_retained"] == true)
}

async fn look(shop: &Shop, operation: OperationId) -> Option<Looked> {
    shop.layer.operations().look(operation).await.expect("the store answers")
}

async fn unknown(shop: &Shop) -> Vec<OperationId> {
    let unknown = shop.layer.operations().unknown(100).await.expect("the store answers");
    assert!(unknown.iter().all(|(_, looked)| looked.state == State::Unknown), "{unknown:?}");
    unknown.into_iter().map(|(operation, _)| operation).collect()
}

async fn resolve(shop: &Shop, operation: OperationId, resolution: Resolution) -> Result<u64, ResolveError> {
    shop.layer.operations().resolve(operation, resolution).await.map(|epoch| epoch.0)
}

fn answer(body: &'static str) -> Response<Bytes> {
    let answer = Response::builder().status(201).header(header::LOCATION, "/payments/1");
    answer.header(header::SET_COOKIE, "session=1").body(Bytes::from(body)).expect("an answer")
}

fn applied(body: &'static str) -> Resolution {
    Resolution::Applied(Scope::new("acme", "ann"), answer(body))
}

/// What one who did not ask may compare: all but what differs between any two answers.
fn comparable(told: &Told) -> (StatusCode, Bytes) {
    (told.status, told.body.clone())
}

fn lapsed(by: FoundBy) -> impl Fn(&What) -> bool {
    move |what| *what == What::Lapsed { by }
}

fn swept_often(layer: Builder) -> Builder {
    layer.sweep_every(Duration::from_millis(10))
}

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

on_each_store! {
    async fn each_state_is_told_by_its_name(ground) {
        let shop = open(&ground, plan(at_most_once())).await;
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        assert_eq!(told(&shop, shop.store.operation()).await, ("unknown".to_owned(), true, false));
        shop.ask(&pay(2, "large")).await;
        let large = told(&shop, shop.store.operation()).await;
        assert_eq!(large, ("completed".to_owned(), true, false), "it was too large");
        shop.ask(&pay(3, "")).await.is_payment(3);
        let operation = shop.store.operation();
        assert_eq!(told(&shop, operation).await, ("completed".to_owned(), true, true));
        assert!(shop.layer.operations().erase(operation).await.unwrap());
        assert_eq!(told(&shop, operation).await, ("expired".to_owned(), true, false));
        let slow = shop.send(&pay(4, "slow"));
        shop.till.began(4).await;
        let running = shop.store.operation();
        assert_eq!(told(&shop, running).await, ("running".to_owned(), false, false));
        ground.pass(HOUR).await;
        assert_eq!(told(&shop, running).await, ("interrupted".to_owned(), false, false));
        assert_eq!(shop.store.sweep(100, KEEP).await.unwrap().lapsed, [running]);
        assert_eq!(told(&shop, running).await, ("unknown".to_owned(), true, false));
        shop.till.open(1);
        slow.await.unwrap().is_payment(4);
        assert_eq!(told(&shop, running).await, ("completed".to_owned(), true, true), "it told, late");
        ground.pass(25 * HOUR).await;
        assert_eq!(look(&shop, operation).await, None, "nothing is kept for ever");
    }

    async fn another_callers_operation_is_answered_like_one_that_never_was(ground) {
        let shop = open(&ground, plan(at_most_once())).await;
        shop.ask(&pay(1, "")).await.is_payment(1);
        let operation = shop.store.operation().to_string();
        let never = "00000000-0000-8000-8000-000000000003";
        let expected = shop.ask(&status_of(never, "acme/ann")).await;
        expected.is_refused(404, "OPERATION_NOT_FOUND");
        for (id, who) in [
            (operation.as_str(), "acme/bob"),
            (&operation, "umbrella/ann"),
            ("what", "acme/ann"),
            (never, "acme/bob"),
        ] {
            let told = shop.ask(&status_of(id, who)).await;
            assert_eq!(comparable(&told), comparable(&expected), "{id} for {who}");
        }
        let nobody = shop.ask(&status_of(&operation, "").without("authorization")).await;
        nobody.is_refused(401, "IDEMPOTENCY_SCOPE_MISSING");
    }

    async fn what_was_not_applied_is_forgotten_and_a_retry_runs_it(ground) {
        let shop = open(&ground, plan(at_most_once())).await;
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        shop.ask(&pay(1, "break")).await.is_refused(409, "OUTCOME_UNKNOWN");
        assert_eq!(shop.till.runs(), 1);
        let operation = shop.store.operation();
        assert_eq!(unknown(&shop).await, [operation]);
        let before = look(&shop, operation).await.unwrap().epoch;
        let resolved = resolve(&shop, operation, Resolution::NotApplied).await.unwrap();
        assert!(resolved > before.0, "{resolved} is a new epoch");
        assert_eq!((look(&shop, operation).await, unknown(&shop).await), (None, Vec::new()));
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        assert_eq!(shop.till.runs(), 2, "it was run again");
    }

    async fn what_was_applied_gets_the_answer_that_it_would_have_had_and_is_not_run_again(ground) {
        for (nth, sealed) in [(1, false), (2, true)] {
            let shop = open_sealed(&ground, sealed).await;
            shop.ask(&pay(nth, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
            let operation = shop.store.operation();
            resolve(&shop, operation, applied("paid after all")).await.unwrap();
            let told_again = shop.ask(&pay(nth, "break")).await;
            assert_eq!(comparable(&told_again), (StatusCode::CREATED, "paid after all".into()));
            assert!(told_again.is_replayed());
            assert_eq!(told_again.header(header::LOCATION), "/payments/1");
            assert_eq!(told_again.header(header::SET_COOKIE), "", "what is never kept is not kept here either");
            assert_eq!(shop.till.runs(), 1);
            assert_eq!(told(&shop, operation).await, ("completed".to_owned(), true, true));
            assert_eq!(unknown(&shop).await, []);
            let again = resolve(&shop, operation, Resolution::NotApplied).await.unwrap_err();
            assert!(matches!(again, ResolveError::NotUnknown { state: State::Completed, .. }), "{again}");
        }
    }

    async fn what_is_resolved_wins_over_a_holder_who_is_late(ground) {
        // Swept before or not, it is unknown to whoever resolves it.
        for (nth, swept) in [(1, false), (2, true)] {
            let shop = open(&ground, plan(at_most_once())).await;
            let slow = shop.send(&pay(nth, "slow"));
            shop.till.began(1).await;
            let operation = shop.store.operation();
            let refused = resolve(&shop, operation, Resolution::NotApplied).await.unwrap_err();
            assert!(matches!(refused, ResolveError::NotUnknown { state: State::Running, .. }), "{refused}");
            ground.pass(HOUR).await;
            if swept {
                assert_eq!(shop.store.sweep(100, KEEP).await.unwrap().lapsed, [operation]);
            }
            resolve(&shop, operation, applied("said by a person")).await.unwrap();
            shop.till.open(1);
            assert_eq!(slow.await.unwrap().body, "said by a person", "not its own");
            assert_eq!(shop.ask(&pay(nth, "slow")).await.body, "said by a person");
        }
    }

    async fn what_cannot_be_resolved_stays_as_it_is(ground) {
        let shop = open_sealed(&ground, true).await;
        let never = OperationId::parse("00000000-0000-8000-8000-000000000003").unwrap();
        let refused = resolve(&shop, never, Resolution::NotApplied).await.unwrap_err();
        assert!(matches!(refused, ResolveError::NotThere(_)), "{refused}");
        assert_eq!(look(&shop, never).await, None);
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        let operation = shop.store.operation();
        let before = look(&shop, operation).await;
        let other = Resolution::Applied(Scope::new("acme", "bob"), answer("x"));
        let refused = resolve(&shop, operation, other).await.unwrap_err();
        assert!(matches!(refused, ResolveError::OtherScope(_)), "{refused}");
        assert_eq!(look(&shop, operation).await, before);
    }

    async fn an_answer_that_cannot_be_sealed_leaves_the_outcome_unknown(ground) {
        let shop = open(&ground, plan(at_most_once()).set_up(|layer| layer.encrypt_with(Erased))).await;
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        let operation = shop.store.operation();
        let refused = resolve(&shop, operation, applied("paid after all")).await.unwrap_err();
        assert!(matches!(refused, ResolveError::Seal(_)), "{refused}");
        assert_eq!(unknown(&shop).await, [operation]);
        assert!(resolve(&shop, operation, Resolution::NotApplied).await.is_ok(), "nobody holds it");
    }

    async fn what_is_erased_is_neither_given_nor_run_again(ground) {
        let shop = open(&ground, plan(at_most_once())).await;
        shop.ask(&pay(1, "")).await.is_payment(1);
        let operation = shop.store.operation();
        assert!(shop.layer.operations().erase(operation).await.unwrap());
        assert!(!shop.layer.operations().erase(operation).await.unwrap(), "there was none any more");
        shop.ask(&pay(1, "")).await.is_refused(409, "RESULT_EXPIRED");
        assert_eq!(shop.till.runs(), 1);
    }

    /// Nobody asked for it again: it is told, counted, logged, listed, and kept as long as any route keeps.
    async fn what_a_process_left_behind_is_found_without_a_retry(ground) {
        let metrics = Metrics::new();
        let counting = metrics.clone();
        let policy = at_most_once().retention(2 * HOUR).tombstone_for(48 * HOUR);
        let plan = plan(policy).set_up(move |layer| swept_often(layer).observe(counting.clone()));
        let shop = open(&ground, plan).await;
        let left = shop.send(&pay(1, "slow"));
        shop.till.began(1).await;
        let operation = shop.store.operation();
        assert_eq!(unknown(&shop).await, []);
        ground.pass(Duration::from_mins(1)).await;
        shop.events.until(1, lapsed(FoundBy::Sweep)).await;
        assert_eq!(unknown(&shop).await, [operation]);
        assert!(logs::text().contains(&format!("operation={operation}")), "and logged");
        ground.pass(70 * HOUR).await;
        shop.ask(&pay(1, "slow")).await.is_refused(409, "OUTCOME_UNKNOWN");
        assert_eq!(shop.events.count(|what| matches!(what, What::Lapsed { .. })), 1, "it is found once");
        let rendered = metrics.render();
        for line in ["{by=\"sweep\"} 1", "{by=\"claim\"} 0"] {
            let line = format!("perdura_idempotency_lease_expiries_total{line}\n");
            assert!(rendered.contains(&line), "{line} in {rendered}");
        }
        resolve(&shop, operation, Resolution::NotApplied).await.unwrap();
        assert_eq!(unknown(&shop).await, []);
        left.abort();
    }

    async fn a_crash_that_a_retry_finds_out_counts_once(ground) {
        let shop = open(&ground, plan(at_most_once())).await;
        let slow = shop.send(&pay(1, "slow"));
        shop.till.began(1).await;
        ground.pass(HOUR).await;
        for _ in 0..2 {
            shop.ask(&pay(1, "slow")).await.is_refused(409, "OUTCOME_UNKNOWN");
        }
        assert_eq!(shop.store.sweep(100, KEEP).await.unwrap().lapsed, []);
        assert_eq!(shop.events.count(lapsed(FoundBy::Claim)), 1);
        assert_eq!(unknown(&shop).await, [shop.store.operation()]);
        shop.till.open(1);
        slow.await.unwrap().is_payment(1);
        assert_eq!(unknown(&shop).await, []);
    }

    /// It has no end yet, and nobody has to find anything out.
    async fn work_that_goes_on_is_told_apart_from_an_unknown_outcome(ground) {
        let metrics = Metrics::new();
        let counting = metrics.clone();
        let policy = Policy::durable(|_: IdempotencyContext| async { Attached::StillRunning });
        let plan = plan(policy).set_up(move |layer| layer.observe(counting.clone()));
        let shop = open(&ground, plan).await;
        shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
        for _ in 0..2 {
            shop.ask(&pay(1, "break")).await.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        }
        assert_eq!(shop.events.count(|what| matches!(what, What::GoesOn { .. })), 2);
        assert_eq!(shop.events.count(|what| matches!(what, What::Unknown { .. })), 1);
        let rendered = metrics.render();
        for line in ["still_running_total{route=\"POST /payments\"} 2", "unknown_outcomes_total{route=\"POST /payments\"} 1"]
        {
            assert!(rendered.contains(&format!("perdura_idempotency_{line}\n")), "{line} in {rendered}");
        }
        assert_eq!(unknown(&shop).await, [shop.store.operation()], "it is kept like an end");
    }

    /// Where a second run is safe, what a sweep found is taken over, and nobody is told to stop.
    async fn what_a_sweep_found_is_run_again_where_that_is_safe(ground) {
        let policy = Policy::durable(|_: IdempotencyContext| async { Attached::NotBegun });
        let shop = open(&ground, Plan::of(policy.lease_for(Duration::from_secs(1)), |call| async move {
            if call.nth == 1 {
                std::future::pending::<()>().await;
            }
            paid(call.nth)
        }))
        .await;
        shop.store.fail(Verb::Renew, Fault::Down);
        let first = shop.send(&pay(1, ""));
        shop.till.began(1).await;
        let operation = shop.store.operation();
        ground.pass(Duration::from_secs(2)).await;
        assert_eq!(shop.store.sweep(100, KEEP).await.unwrap().lapsed, [operation]);
        first.await.unwrap().is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        shop.store.mend();
        shop.ask(&pay(1, "")).await.is_payment(2);
        let claims = shop.events.claims();
        assert_eq!(claims.iter().map(|(_, taken_over)| *taken_over).collect::<Vec<_>>(), [false, true]);
        assert_eq!(unknown(&shop).await, []);
    }
}

#[tokio::test]
async fn a_caller_is_told_where_its_operation_stands_in_full_precision_and_never_the_answer() {
    for sealed in [false, true] {
        let ground = memory();
        let shop = open_sealed(&ground, sealed).await;
        shop.ask(&pay(1, "")).await.is_payment(1);
        ground.pass(HOUR).await;
        let operation = shop.store.operation().to_string();
        let told = shop.ask(&status_of(&operation, "acme/ann")).await;
        let told: Value = serde_json::from_slice(&told.body).unwrap();
        let expected = json!({
            "operation": operation,
            "state": "completed",
            "epoch": told["epoch"].as_u64().unwrap(),
            "first_at": "2023-11-14T22:13:20.123456Z",
            "ended_at": "2023-11-14T22:13:20.123456Z",
            "expires_at": "2023-11-15T22:13:20.123456Z",
            "result_retained": true,
        });
        assert_eq!(told, expected);
        let described = shop.layer.operations().published().openapi();
        let described = &described["components"]["schemas"]["IdempotencyOperation"]["properties"];
        let described = described.as_object().unwrap().keys();
        assert!(described.eq(told.as_object().unwrap().keys()), "and all of it is described");
    }
}

#[tokio::test]
async fn what_changes_between_looking_and_resolving_is_noticed() {
    let ground = memory();
    let shop = open(&ground, plan(at_most_once())).await;
    shop.ask(&pay(1, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
    let (operation, elsewhere) = (shop.store.operation(), ground.another());
    shop.store.after_looks(move || {
        let store = elsewhere.clone();
        Box::pin(async move {
            let record = store.look(operation).await.unwrap().unwrap();
            let claim = Claim { scope: record.scope, request: record.request, ..take(operation, 1) };
            assert!(matches!(store.claim(&claim).await, Ok(Claimed::Granted(_))));
        })
    });
    let refused = resolve(&shop, operation, Resolution::NotApplied).await.unwrap_err();
    assert!(matches!(refused, ResolveError::NotUnknown { state: State::Running, .. }), "{refused}");

    let shop = open(&ground, plan(at_most_once())).await;
    shop.ask(&pay(2, "break")).await.is_refused(500, "OUTCOME_UNKNOWN");
    let (operation, clock) = (shop.store.operation(), ground.clone());
    shop.store.after_looks(move || {
        let clock = clock.clone();
        Box::pin(async move { clock.pass(25 * HOUR).await })
    });
    let gone = resolve(&shop, operation, Resolution::NotApplied).await.unwrap_err();
    assert!(matches!(gone, ResolveError::NotThere(_)), "{gone}");
    assert_eq!(look(&shop, operation).await, None, "looking for it has not begun it anew");
}

#[tokio::test]
async fn who_may_no_longer_ask_is_told_so() {
    let reads_nothing = |request: &Parts, _: &Scope| request.method != Method::GET;
    let plan = plan(at_most_once()).set_up(move |layer| layer.authorise(reads_nothing));
    let shop = open(&memory(), plan).await;
    shop.ask(&pay(1, "")).await.is_payment(1);
    let told = shop.ask(&status_of(&shop.store.operation().to_string(), "acme/ann")).await;
    told.is_refused(403, "NOT_AUTHORISED");
}

#[tokio::test]
async fn the_policy_and_the_description_are_there_for_everybody() {
    let shop = open(&memory(), plan(at_most_once())).await;
    let read = async |path| {
        let told = shop.ask(&Ask::new(Method::GET, path).without("authorization")).await;
        assert_eq!((told.status.as_u16(), told.header(header::CONTENT_TYPE)), (200, "application/json"));
        serde_json::from_slice::<Value>(&told.body).unwrap()
    };
    let policy = read("/idempotency/policy").await;
    assert_eq!(policy["key"]["versions"], json!([4, 5, 7]));
    let routes = policy["routes"].as_array().unwrap();
    let route = routes.iter().find(|route| route["path"] == "/payments").unwrap();
    assert_eq!((&route["method"], &route["mode"]), (&json!("POST"), &json!("at_most_once")));
    assert_eq!((&route["answer_bytes_max"], &route["retention_seconds"]), (&json!(1_000), &json!(86_400)));
    assert_eq!(read("/idempotency/openapi").await, shop.layer.operations().published().openapi());
}
