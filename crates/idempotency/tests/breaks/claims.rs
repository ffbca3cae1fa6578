//! Claims whose answer was lost, and what giving them back must not undo.

use crate::faulty::{Fault, Faulty, Verb};
use crate::kit::{Count, ask, clocked, in_memory, key, over, post};
use axum::Router;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use perdura_idempotency::store::Memory;
use perdura_idempotency::{Attached, Policy, Routes, routes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const UNAVAILABLE: &str = "IDEMPOTENCY_STORE_UNAVAILABLE";

#[tokio::test(start_paused = true)]
async fn a_takeover_that_is_given_back_does_not_forget_that_work_was_begun() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let (begun, asked) = (Count::default(), Count::default());
    let policy = Policy::durable({
        let asked = asked.clone();
        move |_| {
            asked.once_more();
            async { Attached::Answer("what the work came to".into_response()) }
        }
    });
    let handler = {
        let begun = begun.clone();
        move || async move {
            begun.once_more();
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    let app: Router =
        Routes::new().route("/work", routes::post(handler).with(policy)).guarded_by(&layer).expect("fit");
    assert_eq!(ask(&app, post("/work", &key(1))).await.status, StatusCode::INTERNAL_SERVER_ERROR);

    store.fail(Verb::Claim, Fault::Mute);
    assert_eq!(ask(&app, post("/work", &key(1))).await.reason(), UNAVAILABLE);
    store.mend();
    layer.drain().await;

    let told = ask(&app, post("/work", &key(1))).await;
    assert_eq!((begun.so_far(), asked.so_far()), (1, 1), "the work is asked for, and not begun again");
    assert_eq!(told.body, "what the work came to");
}

#[tokio::test(start_paused = true)]
async fn what_was_run_without_protection_is_not_given_back() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let count = Count::default();
    let handler = {
        let count = count.clone();
        move || async move { count.once_more().to_string() }
    };
    let policy = Policy::at_most_once().fail_open();
    let app: Router =
        Routes::new().route("/pay", routes::post(handler).with(policy)).guarded_by(&layer).expect("fit");
    store.fail(Verb::Claim, Fault::Mute);
    assert_eq!(ask(&app, post("/pay", &key(1))).await.body, "1");
    store.mend();
    layer.drain().await;
    let told = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((told.reason().as_str(), count.so_far()), ("IDEMPOTENT_REQUEST_IN_PROGRESS", 1));
}

/// Who was told that nothing was done comes again after the outage, however long that took.
#[tokio::test(start_paused = true)]
async fn a_claim_is_given_back_also_after_an_outage_that_outlasts_its_lease() {
    let (passed, store) = clocked();
    let store = Faulty::new(Arc::new(store));
    let layer = over(store.clone()).build().await.expect("a layer");
    let count = Count::default();
    let handler = {
        let count = count.clone();
        move || async move { count.once_more().to_string() }
    };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    store.fail(Verb::Claim, Fault::Mute);
    assert_eq!(ask(&app, post("/pay", &key(1))).await.reason(), UNAVAILABLE);
    store.go_down();
    let drained = tokio::time::timeout(Duration::from_mins(1), layer.drain()).await;
    assert!(drained.is_ok(), "a program that ends does not wait for the store because of what was never run");
    tokio::time::sleep(Duration::from_mins(10)).await;
    passed.store(600, Ordering::SeqCst);
    store.mend();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let told = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((&told.body[..], count.so_far()), (&b"1"[..], 1), "{}", told.reason());
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_to_be_given_back_are_bounded_for_each_caller() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let handler = || async { Response::new(axum::body::Body::empty()) };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    store.go_down();
    for n in 0..200 {
        assert_eq!(ask(&app, post("/pay", &key(n))).await.reason(), UNAVAILABLE);
    }
    store.take_asked_for();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let waiting = store.take_asked_for().len();
    assert!((1..=64).contains(&waiting), "{waiting} claims are offered again every second");
    store.mend();
    layer.drain().await;
    assert_eq!(ask(&app, post("/pay", &key(0))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_tombstone_that_stays_for_ever_goes_with_the_refusal_of_stale_keys() {
    let policy = Policy::at_most_once().tombstone_for(Duration::MAX);
    let layer = in_memory().refuse_stale_keys().build().await.expect("a layer");
    let handler = || async { StatusCode::CREATED };
    let app: Router =
        Routes::new().route("/pay", routes::post(handler).with(policy)).guarded_by(&layer).expect("fit");
    let told = ask(&app, post("/pay", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")).await;
    assert_eq!(told.status, StatusCode::CREATED, "no key is older than for ever");
}

/// A record that is there when the key's age is looked at, and gone when it is claimed.
#[tokio::test]
async fn a_stale_key_is_refused_also_where_its_record_expires_in_between() {
    let (passed, store) = clocked();
    let count = Count::default();
    let handler = {
        let count = count.clone();
        move || async move { count.once_more().to_string() }
    };
    let routes = || Routes::new().route("/pay", routes::post(handler.clone()));
    let before = over(Arc::new(store.clone())).build().await.expect("a layer");
    let app: Router = routes().guarded_by(&before).expect("fit");
    let minted_long_ago = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    assert_eq!(ask(&app, post("/pay", minted_long_ago)).await.body, "1");

    let expires = move || passed.store(25 * 3_600, Ordering::SeqCst);
    let store = Faulty::after_looks(Arc::new(store), expires);
    let guard = over(store).refuse_stale_keys().build().await.expect("a layer");
    let app: Router = routes().guarded_by(&guard).expect("fit");
    for _ in 0..2 {
        let told = ask(&app, post("/pay", minted_long_ago)).await;
        assert_eq!((told.reason().as_str(), count.so_far()), ("STALE_IDEMPOTENCY_KEY", 1));
    }
}
