//! Renewals that hang.

use crate::faulty::{Fault, Faulty, Verb};
use crate::kit::{ask, clocked, key, over, post};
use axum::Router;
use http::StatusCode;
use perdura_idempotency::store::Memory;
use perdura_idempotency::{Attached, Policy, Routes, routes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_a_renewal_that_hangs() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let handler = || async {
        sleep(Duration::from_secs(11)).await;
        StatusCode::CREATED
    };
    let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
    store.fail(Verb::Renew, Fault::Stuck);
    let began = Instant::now();
    assert_eq!(ask(&app, post("/pay", &key(1))).await.status, StatusCode::CREATED);
    assert_eq!(began.elapsed().as_secs(), 11, "the renewal began after 10 s and never ends");
}

/// Tells when it is dropped.
struct Stopped(mpsc::UnboundedSender<Instant>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.send(Instant::now()).expect("the test waits");
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_may_run_is_stopped_before_its_lease_ends_also_while_a_renewal_hangs() {
    let store = Faulty::new(Arc::new(Memory::new()));
    let layer = over(store.clone()).build().await.expect("a layer");
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move || async move {
        let _stopped = Stopped(tell);
        std::future::pending::<StatusCode>().await
    };
    let lease = Duration::from_secs(30);
    let policy = Policy::durable(|_| async { Attached::Unknown }).lease_for(lease);
    let app: Router =
        Routes::new().route("/work", routes::post(handler).with(policy)).guarded_by(&layer).expect("fit");
    let began = Instant::now();
    let asked = tokio::spawn(async move { ask(&app, post("/work", &key(1))).await });
    // Renewals fail at once for a while, and the last before the end of the lease hangs.
    sleep(Duration::from_secs(1)).await;
    store.go_down();
    sleep(Duration::from_secs(25)).await;
    store.mend();
    store.fail(Verb::Renew, Fault::Stuck);
    let stopped = told.recv().await.expect("it is stopped");
    assert!(stopped - began < lease, "it ran for {:?}", stopped - began);
    assert_eq!(asked.await.expect("an answer").reason(), "IDEMPOTENT_REQUEST_IN_PROGRESS");
}

/// Another instance has taken the work over, and its hook says that it goes on: a retry is attached to it.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_of_work_that_goes_on_is_told_to_come_again() {
    let (passed, memory) = clocked();
    let store = Faulty::new(Arc::new(memory.clone()));
    let (here, there) = (over(store.clone()).build().await, over(Arc::new(memory)).build().await);
    let routes = || {
        let policy = Policy::durable(|_| async { Attached::StillRunning });
        Routes::new().route("/work", routes::post(std::future::pending::<StatusCode>).with(policy))
    };
    let here: Router = routes().guarded_by(&here.expect("a layer")).expect("fit");
    let there: Router = routes().guarded_by(&there.expect("a layer")).expect("fit");
    store.fail(Verb::Renew, Fault::Stuck);
    let asked = tokio::spawn(async move { ask(&here, post("/work", &key(1))).await });
    sleep(Duration::from_secs(1)).await;
    passed.store(31, Ordering::SeqCst);
    assert_eq!(ask(&there, post("/work", &key(1))).await.reason(), "IDEMPOTENT_REQUEST_IN_PROGRESS");
    let told = asked.await.expect("an answer");
    assert_eq!(
        (told.reason().as_str(), told.next().as_str()),
        ("IDEMPOTENT_REQUEST_IN_PROGRESS", "same_key")
    );
}
