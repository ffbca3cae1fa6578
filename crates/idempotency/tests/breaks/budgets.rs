//! One caller that uses up what there is, and what others, or it itself, notice of that.

use crate::kit::{Count, ask, clocked, key, over, post, post_as};
use axum::Router;
use axum::routing;
use http::StatusCode;
use perdura_idempotency::observe::{Happening, What};
use perdura_idempotency::store::Memory;
use perdura_idempotency::{Budgets, Routes, routes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

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
    let layer = over(Arc::new(store)).budgets(budgets).observe(observer).build().await.expect("a layer");
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

/// Two callers, of whom one has as many running operations and waiting requests as it may.
#[tokio::test]
async fn one_caller_does_not_take_all_places_to_wait_in() {
    let (waiting, mut waiters) = watch::channel(0_usize);
    let observer = move |happening: &Happening| {
        if happening.what == What::Waiting {
            waiting.send_modify(|waiting| *waiting += 1);
        }
    };
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let handler = {
        let gate = gate.clone();
        move || async move {
            gate.acquire().await.expect("the gate is never closed").forget();
            StatusCode::CREATED
        }
    };
    let layer =
        over(Arc::new(Memory::new())).waiting_max(8, 64).observe(observer).build().await.expect("a layer");
    let app: Router = Router::new().route("/pay", routing::post(handler)).layer(layer);
    let send = |who: &str, n: u32| {
        let (app, request) = (app.clone(), post_as(who, "/pay", &key(n)));
        tokio::spawn(async move { ask(&app, request).await })
    };
    let mut greedy = Vec::new();
    for n in 0..16 {
        for _ in 0..9 {
            greedy.push(send("greedy", n));
        }
    }
    // All of the greedy one's requests wait at the gate, wait for the first, or were told to come again.
    while greedy.iter().filter(|sent| sent.is_finished()).count() + *waiters.borrow() + 16 < greedy.len() {
        tokio::task::yield_now().await;
    }
    let before = *waiters.borrow_and_update();
    assert!(before >= 32, "alone, it may have most of the places: {before}");
    let modest = [send("modest", 1), send("modest", 1)];
    let waited = tokio::time::timeout(Duration::from_secs(20), waiters.wait_for(|all| *all > before)).await;
    assert!(waited.is_ok(), "somebody else finds a place");
    gate.add_permits(100);
    for told in modest {
        assert_eq!(told.await.expect("an answer").status, StatusCode::CREATED);
    }
}
