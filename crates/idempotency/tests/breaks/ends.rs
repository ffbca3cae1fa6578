//! What a program's own parts can do to the end of an operation.

use crate::faulty::{Fault, Faulty, Verb};
use crate::kit::{Count, ask, in_memory, key, over, post};
use axum::Router;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use perdura_idempotency::observe::{Happening, Observer, What};
use perdura_idempotency::store::{Memory, Pending};
use perdura_idempotency::vault::{DataKey, KeyId};
use perdura_idempotency::{
    Attached, Audit, AuditFailed, Budgets, DataKeys, NotApplied, Policy, ResultRead, Routes, routes,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;

struct Spoilt;

impl DataKeys for Spoilt {
    fn newest(&self, _: &str) -> Option<(KeyId, DataKey)> {
        panic!("on purpose")
    }

    fn by_id(&self, _: &str, _: KeyId) -> Option<DataKey> {
        panic!("on purpose")
    }
}

#[tokio::test]
async fn data_keys_that_panic_cost_the_stored_answer_and_not_the_outcome() {
    let layer = in_memory().encrypt_with(Spoilt).build().await.expect("a layer");
    let count = Count::default();
    let handler = {
        let count = count.clone();
        move || async move { count.once_more().to_string() }
    };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    let first = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((first.status, &first.body[..]), (StatusCode::OK, &b"1"[..]));
    let again = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((again.reason().as_str(), count.so_far()), ("RESULT_NOT_RETAINED", 1));
}

/// Data keys that are out of order when a test says so.
#[derive(Clone, Default)]
struct Fickle(Arc<AtomicBool>);

impl DataKeys for Fickle {
    fn newest(&self, tenant: &str) -> Option<(KeyId, DataKey)> {
        let id = KeyId([1; 8]);
        self.by_id(tenant, id).map(|key| (id, key))
    }

    fn by_id(&self, _: &str, _: KeyId) -> Option<DataKey> {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
        Some(DataKey::new([7; 32]))
    }
}

#[tokio::test]
async fn who_asks_while_the_data_keys_panic_is_told_to_come_again() {
    let keys = Fickle::default();
    let layer = in_memory().encrypt_with(keys.clone()).build().await.expect("a layer");
    let handler = || async { "done" };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    assert_eq!(ask(&app, post("/pay", &key(1))).await.body, "done");
    keys.0.store(true, Ordering::SeqCst);
    let told = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((told.status, told.next().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "same_key"));
    assert!(told.headers.contains_key(header::RETRY_AFTER), "{told:?}");
    keys.0.store(false, Ordering::SeqCst);
    assert!(ask(&app, post("/pay", &key(1))).await.is_replayed());
}

#[tokio::test]
async fn a_time_without_end_is_refused_at_the_start_and_not_with_each_request() {
    for (what, policy) in [
        ("a lease", Policy::at_most_once().lease_for(Duration::MAX)),
        ("a run", Policy::at_most_once().run_for_max(Duration::MAX)),
        ("a wait", Policy::at_most_once().wait_for_max(Duration::MAX)),
    ] {
        let refused = in_memory().policy(policy).build().await.err();
        let refused = refused.unwrap_or_else(|| panic!("{what} without end is refused"));
        assert!(refused.to_string().contains("longer than"), "{what}: {refused}");
    }
}

/// Work that goes on by itself, begun by a handler that then breaks, and found by a hook that says this of it.
async fn durable(attached: fn() -> Attached, observer: impl Observer) -> (Router, Count) {
    let begun = Count::default();
    let handler = {
        let begun = begun.clone();
        move || async move {
            begun.once_more();
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    let policy = Policy::durable(move |_| async move { attached() });
    let layer = in_memory().observe(observer).build().await.expect("a layer");
    let routes = Routes::new().route("/work", routes::post(handler).with(policy));
    (routes.guarded_by(&layer).expect("fit"), begun)
}

/// A handler that answers 429 did nothing. Work that has ended with it did.
#[tokio::test]
async fn work_that_has_ended_is_not_begun_again_whatever_it_ended_with() {
    let (app, begun) = durable(|| Attached::Answer(TOO_MANY.into_response()), |_: &Happening| {}).await;
    assert_eq!(ask(&app, post("/work", &key(1))).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    for replayed in [false, true, true] {
        let told = ask(&app, post("/work", &key(1))).await;
        assert_eq!((told.status, told.is_replayed(), begun.so_far()), (TOO_MANY, replayed, 1));
    }
}

#[tokio::test]
async fn the_hook_can_say_that_nothing_was_done_and_the_work_is_begun_again() {
    let not_applied = || Attached::Answer(NotApplied(TOO_MANY).into_response());
    let (app, begun) = durable(not_applied, |_: &Happening| {}).await;
    for (status, runs) in [(StatusCode::INTERNAL_SERVER_ERROR, 1), (TOO_MANY, 1)] {
        assert_eq!((ask(&app, post("/work", &key(1))).await.status, begun.so_far()), (status, runs));
    }
    assert_eq!(ask(&app, post("/work", &key(1))).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(begun.so_far(), 2);
}

/// Who has an eye on unknown outcomes is not called for work that goes on.
#[tokio::test]
async fn work_that_goes_on_is_not_told_as_an_unknown_outcome() {
    let unknown = Count::default();
    let counted = unknown.clone();
    let observer = move |happening: &Happening| {
        if matches!(happening.what, What::Unknown { .. }) {
            counted.once_more();
        }
    };
    let (app, begun) = durable(|| Attached::StillRunning, observer).await;
    ask(&app, post("/work", &key(1))).await;
    for _ in 0..3 {
        assert_eq!(ask(&app, post("/work", &key(1))).await.reason(), "IDEMPOTENT_REQUEST_IN_PROGRESS");
    }
    assert_eq!((unknown.so_far(), begun.so_far()), (1, 1), "only of the handler that broke");
}

#[tokio::test]
async fn outcomes_that_are_not_known_are_stored_and_count_as_such() {
    let budgets = Budgets { stored_bytes: 1_000, ..Budgets::default() };
    let layer = in_memory().budgets(budgets).build().await.expect("a layer");
    let handler = || async { StatusCode::INTERNAL_SERVER_ERROR };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    let mut refused = 0;
    for n in 0..100 {
        refused += u32::from(ask(&app, post("/pay", &key(n))).await.status == StatusCode::TOO_MANY_REQUESTS);
    }
    assert!(refused > 90, "{refused} of 100 were refused");
}

/// Keeps no record of anybody.
struct Deaf;

impl Audit for Deaf {
    fn result_read<'a>(&'a self, _: &'a ResultRead) -> Pending<'a, Result<(), AuditFailed>> {
        Box::pin(async { Err(AuditFailed("on purpose".into())) })
    }
}

#[tokio::test]
async fn whose_read_cannot_be_audited_is_told_when_to_come_again() {
    let layer = in_memory().audit(Deaf).build().await.expect("a layer");
    let handler = || async { StatusCode::CREATED };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    assert_eq!(ask(&app, post("/pay", &key(1))).await.status, StatusCode::CREATED);
    let told = ask(&app, post("/pay", &key(1))).await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(told.headers.contains_key(header::RETRY_AFTER), "{told:?}");
}

/// Nothing that is tried again makes a damaged record whole.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_holds_up_neither_its_caller_nor_the_end_of_the_program() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let handler = || async { StatusCode::CREATED };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    store.fail(Verb::Complete, Fault::Damaged);
    let began = Instant::now();
    assert_eq!(ask(&app, post("/pay", &key(1))).await.reason(), "IDEMPOTENCY_RECORD_DAMAGED");
    let drained = tokio::time::timeout(Duration::from_mins(1), layer.drain()).await;
    assert!(drained.is_ok(), "its end is offered again and again");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
