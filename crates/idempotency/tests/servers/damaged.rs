//! Records that somebody else wrote, or that a disk spoilt: refused for good, each alone, and in nobody's way.

use crate::kit::{answered, complete, granted, in_time, operation, take};
use crate::pg;
use crate::redis_server::{self, Server, fresh_name};
use perdura_idempotency::conformance::KEEP;
use perdura_idempotency::record::{Holding, Standing};
use perdura_idempotency::store::{Store, StoreError};
use std::time::Duration;

pub(crate) fn assert_corrupt<T: std::fmt::Debug>(result: &Result<T, StoreError>, damage: &str) {
    assert!(matches!(result, Err(StoreError::Corrupt { .. })), "{damage}: {result:?}");
}

async fn is_refused(store: &dyn Store, damage: &str) {
    assert_corrupt(&store.claim(&take(operation(1), 2)).await, damage);
    assert_corrupt(&store.look(operation(1)).await, damage);
}

/// A command, as somebody types it.
fn tell(url: &str, command: &[String]) {
    let client = redis::Client::open(url).expect("the address is well-formed");
    let mut connection = client.get_connection().expect("it runs");
    let [name, arguments @ ..] = command else { panic!("a command has a name") };
    redis::cmd(name).arg(arguments).query::<redis::Value>(&mut connection).expect("it is done");
}

/// What can be wrong with a record in Redis, as commands in which RECORD and ANSWER stand for its keys.
const REDIS_DAMAGES: &[&str] = &[
    "HSET RECORD state odd",
    "HDEL RECORD state",
    "HSET RECORD epoch many",
    "HDEL RECORD epoch",
    "HSET RECORD scope short",
    "HDEL RECORD request",
    "HDEL RECORD first_at",
    "HDEL RECORD taken_over",
    "DEL RECORD|SET RECORD text",
    "DEL RECORD|RPUSH RECORD a b",
];

/// What can be wrong with it while it runs, and once it has an end.
const REDIS_RUNNING: &[&str] = &["HDEL RECORD until_at", "HSET RECORD until_at soon", "HDEL RECORD claimant"];
const REDIS_ENDED: &[&str] = &[
    "HDEL RECORD gone_at",
    "HSET RECORD gone_at never",
    "HDEL RECORD expires_at",
    "HSET RECORD expires_at 99999999999999999999",
    "HDEL RECORD ended_at",
    "DEL ANSWER|RPUSH ANSWER a b",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_damaged_in_redis_is_damage_and_no_outage() {
    for (has_ended, damages) in
        [(false, [REDIS_DAMAGES, REDIS_RUNNING].concat()), (true, [REDIS_DAMAGES, REDIS_ENDED].concat())]
    {
        for damage in damages {
            let prefix = fresh_name();
            let store = redis_server::open(&redis_server::url(), &prefix).await;
            let grant = granted(&store, &take(operation(1), 1)).await;
            if has_ended {
                assert_eq!(complete(&store, operation(1), grant.epoch, "done").await, Holding::Held);
            }
            let keys = ["record", "answer"].map(|kind| format!("{{{prefix}}}:{kind}:{}", operation(1)));
            for command in damage.split('|') {
                let words: Vec<_> = command
                    .split(' ')
                    .map(|word| match word {
                        "RECORD" => keys[0].clone(),
                        "ANSWER" => keys[1].clone(),
                        word => word.to_owned(),
                    })
                    .collect();
                tell(&redis_server::url(), &words);
            }
            is_refused(&store, damage).await;
            granted(&store, &take(operation(2), 1)).await;
        }
    }
}

/// Nobody is told an end that a damaged record could not take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_damaged_record_in_redis_is_refused_as_such() {
    let prefix = fresh_name();
    let store = redis_server::open(&redis_server::url(), &prefix).await;
    let grant = granted(&store, &take(operation(1), 1)).await;
    let record = format!("{{{prefix}}}:record:{}", operation(1));
    tell(&redis_server::url(), &["HDEL", &record, "until_at"].map(str::to_owned));
    assert_corrupt(&store.renew(operation(1), grant.epoch, Duration::from_secs(1)).await, "renewing");
    assert_corrupt(&store.complete(&answered(operation(1), grant.epoch, "done")).await, "completing");
    assert_corrupt(&store.release(operation(1), grant.epoch).await, "releasing");
    assert_corrupt(&store.erase(operation(1)).await, "erasing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_in_redis_does_not_stop_the_sweep_and_stays() {
    let server = Server::start();
    let prefix = fresh_name();
    let store = redis_server::open(&server.url(), &prefix).await;
    for n in 1..=6 {
        granted(&store, &take(operation(n), 1)).await;
    }
    let record = |n| format!("{{{prefix}}}:record:{}", operation(n));
    for (n, damage) in [(1, vec!["until_at", "soon"]), (2, vec!["state", "odd"]), (3, vec!["scope", "short"])]
    {
        let words = [vec!["HSET".to_owned(), record(n)], damage.into_iter().map(str::to_owned).collect()];
        tell(&server.url(), &words.concat());
    }
    tell(&server.url(), &["SET".to_owned(), record(4), "text".to_owned()]);
    server.step(3_600.0);
    // They are due before the others: as many as a sweep takes must not keep it from the rest.
    let mut lapsed = Vec::new();
    for _ in 0..4 {
        lapsed.extend(store.sweep(4, KEEP).await.expect("it goes on").lapsed);
    }
    assert_eq!(lapsed, [operation(5), operation(6)]);
    for n in 1..=4 {
        assert_corrupt(&store.claim(&take(operation(n), 2)).await, "it is not run again");
    }
    let unknown = store.unknown(10).await.expect("the store answers");
    assert_eq!(unknown.iter().map(|(operation, _)| *operation).collect::<Vec<_>>(), lapsed);
}

/// What all operations share is in the way of a takeover, before anything of the record is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_that_fails_in_redis_leaves_the_record() {
    let server = Server::start();
    let prefix = fresh_name();
    let store = redis_server::open(&server.url(), &prefix).await;
    granted(&store, &take(operation(1), 1)).await;
    server.step(3_600.0);
    for (key, value) in [("due", "text"), ("unknown", "text"), ("epoch", "text")] {
        let key = format!("{{{prefix}}}:{key}");
        tell(&server.url(), &["SET".to_owned(), key.clone(), value.to_owned()]);
        let refused = store.claim(&take(operation(1), 2)).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{key}: {refused:?}");
        let standing = store.look(operation(1)).await.expect("it can be read").expect("it is there").standing;
        assert!(matches!(standing, Standing::Running { .. }), "{key}: {standing:?}");
        tell(&server.url(), &["DEL".to_owned(), key]);
    }
    in_time("a takeover", granted(&store, &take(operation(1), 2))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instants_that_no_clock_tells_are_damage_in_postgres_too() {
    for (has_ended, damage) in [
        (false, "until_at = 'infinity'"),
        (false, "first_at = '-infinity'"),
        (true, "first_at = 'infinity'"),
        (true, "ended_at = 'infinity'"),
        (true, "expires_at = 'infinity'"),
        (true, "ended_at = NULL"),
        (true, "request = ''"),
    ] {
        let schema = pg::fresh_schema();
        let store = pg::open(&schema).await;
        let grant = granted(&store, &take(operation(1), 1)).await;
        if has_ended {
            assert_eq!(complete(&store, operation(1), grant.epoch, "done").await, Holding::Held);
        }
        let damaged = format!("UPDATE {schema}.idempotency_record SET {damage}");
        pg::connection().await.batch_execute(&damaged).await.expect("it is written");
        is_refused(&store, damage).await;
        granted(&store, &take(operation(2), 1)).await;
    }
}
