//! PostgreSQL: the suite, and what is about transactions of the caller's own.

use crate::bench;
use perdura_inbox::Receipt;
use perdura_inbox::conformance::{address, keyed, put, wish};
use perdura_inbox::row::{Ending, Holding};
use perdura_inbox::store::{Store, StoreError};
use std::time::Duration;

perdura_inbox::store_conformance!(bench::postgres);

#[tokio::test]
async fn a_message_put_in_a_callers_transaction_is_there_if_that_commits() {
    let store = bench::open_postgres(&bench::fresh_schema()).await;
    let mut client = bench::connection().await;
    for (id, commits) in [("1", false), ("2", true)] {
        let transaction = client.transaction().await.expect("beginning");
        let receipt = store.put_in(&transaction, &put(id)).await.expect("putting");
        assert!(matches!(receipt, Receipt::Accepted(_)), "{receipt:?}");
        assert_eq!(store.look(&address(id)).await.expect("looking"), None);
        if commits {
            transaction.commit().await.expect("committing");
        } else {
            transaction.rollback().await.expect("rolling back");
        }
        assert_eq!(store.look(&address(id)).await.expect("looking").is_some(), commits);
    }
}

/// A head ends while a transaction that put a row behind it is open: the end waits, and the row is the head after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_put_behind_a_head_while_it_ends_is_not_left_waiting() {
    let store = bench::open_postgres(&bench::fresh_schema()).await;
    store.put(&keyed("1", "k")).await.expect("putting");
    let claimed = store.claim(&wish("a", 1)).await.expect("claiming");
    let held = claimed[0].held().expect("it is held");
    let mut client = bench::connection().await;
    let transaction = client.transaction().await.expect("beginning");
    let receipt = store.put_in(&transaction, &keyed("2", "k")).await.expect("putting");
    assert!(matches!(&receipt, Receipt::Accepted(row) if !row.head), "{receipt:?}");
    let ending = {
        let store = store.clone();
        tokio::spawn(async move { store.end(&held, &Ending::Done).await.expect("ending") })
    };
    // Until it waits, or has not waited.
    let watcher = bench::connection().await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let mut waits = 0_i64;
    while waits == 0 && !ending.is_finished() {
        waits = watcher.query_one(waiting, &[]).await.expect("asking").get(0);
    }
    transaction.commit().await.expect("committing");
    assert_eq!(ending.await.expect("it does not panic"), Holding::Held);
    let next = store.claim(&wish("a", 1)).await.expect("claiming");
    assert_eq!(next.len(), 1, "2 waits for nobody");
    assert_eq!(next[0].row.address, address("2"));
}

/// A transaction that sees only what was there when it began could not tell whether a key has a head.
#[tokio::test]
async fn a_message_with_an_ordering_key_is_put_under_read_committed_only() {
    let store = bench::open_postgres(&bench::fresh_schema()).await;
    let mut client = bench::connection().await;
    let level = tokio_postgres::IsolationLevel::RepeatableRead;
    for (message, is_taken) in [(put("1"), true), (keyed("2", "k"), false)] {
        let transaction = client.build_transaction().isolation_level(level).start().await.expect("beginning");
        let told = store.put_in(&transaction, &message).await;
        assert_eq!(told.is_ok(), is_taken, "{told:?}");
        transaction.rollback().await.expect("rolling back");
    }
}

/// A row whose handler commits at this moment is not taken away.
#[tokio::test]
async fn a_row_that_is_being_ended_is_passed_over_by_a_lapse() {
    let schema = bench::fresh_schema();
    let store = bench::open_postgres(&schema).await;
    let clock = bench::PostgresClock::of(&schema).await;
    store.put(&put("1")).await.expect("putting");
    store.claim(&wish("a", 1)).await.expect("claiming");
    clock.step(Duration::from_hours(1).as_secs_f64()).await;
    let mut client = bench::connection().await;
    let transaction = client.transaction().await.expect("beginning");
    let lock = format!("SELECT FROM {schema}.inbox_row FOR UPDATE");
    transaction.execute(&lock, &[]).await.expect("locking");
    let inbox = perdura_inbox::conformance::name("in");
    assert_eq!(store.lapse(&inbox, 3, 10).await.expect("looking"), []);
    transaction.rollback().await.expect("rolling back");
    assert_eq!(store.lapse(&inbox, 3, 10).await.expect("looking").len(), 1);
}

#[tokio::test]
async fn a_schema_of_a_later_version_is_refused() {
    let schema = bench::fresh_schema();
    bench::open_postgres(&schema).await;
    let client = bench::connection().await;
    let later = format!("INSERT INTO {schema}.inbox_version (version) VALUES (2)");
    client.batch_execute(&later).await.expect("inserting");
    let options = perdura_inbox::store::postgres::Options { schema, ..Default::default() };
    let refused = perdura_inbox::store::Postgres::connect(&bench::url(), options).await.err();
    assert!(matches!(&refused, Some(StoreError::Unfit(why)) if why.contains("version 2")), "{refused:?}");
}
