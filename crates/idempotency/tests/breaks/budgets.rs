//! One caller that uses up what there is, and what others, or it itself, notice of that.

use crate::kit::{Count, ask, key, over, post};
use axum::Router;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use perdura_idempotency::observe::{Happening, What};
use perdura_idempotency::store::Memory;
use perdura_idempotency::{Budgets, Routes, routes};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A clock that is moved by hand, and a memory on it.
fn clocked() -> (Arc<AtomicI64>, Memory) {
    let began = Timestamp::now();
    let passed = Arc::new(AtomicI64::new(0));
    let clock = passed.clone();
    let now = move || began + SignedDuration::from_secs(clock.load(Ordering::SeqCst));
    (passed, Memory::with_clock(Arc::new(now)))
}

/// Nobody claims a lease that ran out as long as its caller may run nothing, and asking again at once changes nothing.
#[tokio::test]
async fn who_may_run_nothing_does_not_spin_on_a_lease_that_ran_out() {
    let (passed, store) = clocked();
    let waits = Count::default();
    let counted = waits.clone();
    let observer = move |happening: &Happening| {
        if happening.what == What::Waiting {
            counted.once_more();
        }
    };
    let budgets = Budgets { running: 1, ..Budgets::default() };
    let layer = over(store).budgets(budgets).observe(observer).build().await.expect("a layer");
    let began = Arc::new(tokio::sync::Notify::new());
    let handler = {
        let began = began.clone();
        move || async move {
            began.notify_one();
            std::future::pending::<StatusCode>().await
        }
    };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    let first = app.clone();
    let hangs = tokio::spawn(async move { ask(&first, post("/pay", &key(1))).await });
    began.notified().await;
    passed.store(3_600, Ordering::SeqCst);
    let told = tokio::time::timeout(Duration::from_secs(5), ask(&app, post("/pay", &key(1)))).await;
    let told = told.unwrap_or_else(|_| panic!("it asked {} times, and would go on", waits.so_far()));
    assert_eq!(told.reason(), "IDEMPOTENCY_BUDGET_EXCEEDED");
    hangs.abort();
}
