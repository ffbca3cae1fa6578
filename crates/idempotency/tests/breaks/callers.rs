//! Callers that go away in unusual ways.

use crate::kit::{Count, ask, in_memory, key, post};
use axum::Router;
use http::StatusCode;
use perdura_idempotency::{Routes, routes};
use std::sync::Arc;
use tokio::sync::Notify;

/// How somebody lets go of a request that runs.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// A layer further out panics, and all that it waits for is dropped while the thread unwinds.
    Panicking,
    /// What served the request is dropped by a thread that knows no runtime.
    OnAnotherThread,
}

#[tokio::test]
async fn what_runs_is_recorded_however_its_caller_is_dropped() {
    for (n, leaves) in [(1, Leaves::Panicking), (2, Leaves::OnAnotherThread)] {
        let layer = in_memory().build().await.expect("a layer");
        let (began, go, count) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Count::default());
        let handler = {
            let (began, go, count) = (began.clone(), go.clone(), count.clone());
            move || async move {
                count.once_more();
                began.notify_one();
                go.notified().await;
                StatusCode::CREATED
            }
        };
        let app: Router = Routes::new().route("/pay", routes::post(handler)).guarded_by(&layer).expect("fit");
        let first = app.clone();
        let mut asked = Box::pin(async move { ask(&first, post("/pay", &key(n))).await });
        tokio::select! {
            biased;
            told = &mut asked => panic!("it waits: {told:?}"),
            () = began.notified() => {}
        }
        match leaves {
            Leaves::Panicking => {
                let panics = tokio::spawn(async move {
                    let _asked = asked;
                    panic!("on purpose");
                });
                assert!(panics.await.is_err(), "it panicked");
            }
            Leaves::OnAnotherThread => std::thread::spawn(move || drop(asked)).join().expect("it ends"),
        }
        go.notify_one();
        let told = ask(&app, post("/pay", &key(n))).await;
        assert_eq!((told.status, told.is_replayed()), (StatusCode::CREATED, true), "{leaves:?}");
        assert_eq!(count.so_far(), 1, "{leaves:?}");
    }
}
