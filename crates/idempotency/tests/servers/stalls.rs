//! Servers that are there and do not answer: a verb is given up in time, and leaves nothing in the way of the next.

use crate::kit::{answer, answered, complete, granted, in_time, is_unavailable, operation, take};
use crate::pg;
use crate::redis_server::{self, Server, fresh_name};
use perdura_idempotency::record::Holding;
use perdura_idempotency::store::{Postgres, Redis, Store, postgres, redis as redis_store};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);

/// Somebody holds the row's lock: an administrator in a console, or a backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_is_given_up_in_time() {
    let schema = pg::fresh_schema();
    let options = postgres::Options { timeout_for: PATIENCE, ..pg::options(&schema) };
    pg::open(&schema).await;
    let store = Postgres::connect(&pg::url(), options).await.expect("the store opens");
    let grant = granted(&store, &take(operation(1), 1)).await;
    let console = pg::connection().await;
    let lock = format!("BEGIN; SELECT FROM {schema}.idempotency_record FOR UPDATE");
    console.batch_execute(&lock).await.expect("the row is locked");
    assert!(is_unavailable(&store.complete(&answered(operation(1), grant.epoch, "first")).await));
    granted(&store, &take(operation(2), 1)).await;
    let working = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE state = 'active' AND query LIKE '%{schema}.idempotency_complete%' AND pid <> pg_backend_pid()"
    );
    in_time("giving up on the server too", async {
        while console.query_one(&working, &[]).await.expect("the server tells").get::<_, i64>(0) > 0 {}
    })
    .await;
    console.batch_execute("ROLLBACK").await.expect("the row is free");
    assert_eq!(complete(&store, operation(1), grant.epoch, "second").await, Holding::Held);
    assert_eq!(answer(&store, operation(1)).await, "second", "what was given up was not done later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_redis_is_given_up_in_time() {
    let server = Server::start();
    let options = redis_store::Options { timeout_for: PATIENCE, ..redis_server::options(&fresh_name()) };
    let store = Redis::connect(&server.url(), options).await.expect("the store opens");
    let grant = granted(&store, &take(operation(1), 1)).await;
    server.signal("STOP");
    assert!(is_unavailable(&store.complete(&answered(operation(1), grant.epoch, "first")).await));
    let began = Instant::now();
    let (second, third, fourth, fifth) =
        (take(operation(2), 1), take(operation(3), 1), take(operation(4), 1), take(operation(5), 1));
    let (second, third, fourth, fifth) =
        tokio::join!(store.claim(&second), store.claim(&third), store.claim(&fourth), store.claim(&fifth));
    for claimed in [second, third, fourth, fifth] {
        assert!(is_unavailable(&claimed), "{claimed:?}");
    }
    assert!(began.elapsed() < 3 * PATIENCE, "nobody waits for the patience of others");
    server.signal("CONT");
    assert_eq!(complete(&store, operation(1), grant.epoch, "first").await, Holding::Held);
    assert_eq!(answer(&store, operation(1)).await, "first");
    granted(&store, &take(operation(2), 1)).await;
}
