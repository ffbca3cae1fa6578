//! What a program's own parts can do to the end of an operation.

use crate::kit::{Count, ask, in_memory, key, post};
use axum::Router;
use http::StatusCode;
use perdura_idempotency::vault::{DataKey, KeyId};
use perdura_idempotency::{Budgets, DataKeys, Policy, Routes, routes};
use std::time::Duration;

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
