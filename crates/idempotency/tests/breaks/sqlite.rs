//! What a handler can do to the transaction that it shares on SQLite.

use crate::faulty::{Fault, Faulty, Verb};
use crate::folder::Folder;
use crate::kit::{Count, ask, key, over, post};
use axum::Router;
use http::StatusCode;
use perdura_idempotency::store::sqlite::{Options, Sqlite, Transaction};
use perdura_idempotency::{Policy, Routes, routes};
use rusqlite::Connection;
use std::sync::Arc;

/// A statement that fails may roll the whole transaction back, and then SQLite commits each further one by itself.
#[tokio::test]
async fn what_is_run_after_sqlite_rolled_back_is_not_committed_apart_from_its_record() {
    let folder = Folder::new();
    let prepare: fn(&Connection) -> rusqlite::Result<()> = |connection| {
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS payment (cents INTEGER NOT NULL CHECK (cents > 0))")
    };
    let options = Options { prepare, ..Options::default() };
    let layer = over(Arc::new(Sqlite::open(folder.file(), &options).expect("opening")))
        .build()
        .await
        .expect("a layer");
    let runs = Count::default();
    let handler = {
        let runs = runs.clone();
        move |transaction: Transaction| async move {
            let spoils = runs.once_more() == 1;
            let ran = transaction.run(move |connection| {
                if spoils {
                    let refused = connection.execute("INSERT OR ROLLBACK INTO payment VALUES (0)", []);
                    assert!(refused.is_err(), "the check holds");
                }
                connection.execute("INSERT INTO payment VALUES (100)", [])
            });
            if ran.await.is_ok() { StatusCode::CREATED } else { StatusCode::INTERNAL_SERVER_ERROR }
        }
    };
    let app: Router = Routes::new()
        .route("/pay", routes::post(handler).with(Policy::transactional()))
        .guarded_by(&layer)
        .expect("fit");
    let first = ask(&app, post("/pay", &key(1))).await;
    assert!(first.status.is_server_error(), "{first:?}");
    assert_eq!(ask(&app, post("/pay", &key(1))).await.status, StatusCode::CREATED);
    assert_eq!(runs.so_far(), 2);
    let paid: i64 = Connection::open(folder.file())
        .and_then(|file| file.query_row("SELECT count(*) FROM payment", [], |row| row.get(0)))
        .expect("counting");
    assert_eq!(paid, 1, "of two runs, one was undone");
}

/// The commit got nowhere, and of the release that finds this out the answer is lost too.
#[tokio::test]
async fn who_lost_a_transaction_without_a_trace_is_told_that_nothing_was_done() {
    let folder = Folder::new();
    let sqlite = Sqlite::open(folder.file(), &Options::default()).expect("opening");
    let store = Faulty::new(Arc::new(sqlite));
    let layer = over(store.clone()).build().await.expect("a layer");
    let handler = || async { StatusCode::CREATED };
    let routes = Routes::new().route("/pay", routes::post(handler).with(Policy::transactional()));
    let app: Router = routes.guarded_by(&layer).expect("fit");
    store.fail(Verb::Commit, Fault::Down);
    store.fail_once(Verb::Release, Fault::Mute);
    let told = ask(&app, post("/pay", &key(1))).await;
    assert_eq!((told.reason().as_str(), told.next().as_str()), ("IDEMPOTENCY_STORE_UNAVAILABLE", "same_key"));
}
