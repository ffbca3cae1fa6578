//! What a server keeps when it is killed, and for how long Redis keeps anything.

use crate::kit::{a_moment, answer, answered, complete, granted, in_time, operation, take};
use crate::redis_server::{self, Server, fresh_name};
use crate::{pg, pg_server};
use perdura_idempotency::record::{Claimed, Epoch, Holding, Standing};
use perdura_idempotency::store::{Postgres, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a worker was told, by operation: the epoch it was granted, and whether its end was acknowledged.
type Acknowledged = Arc<Mutex<BTreeMap<u64, (Epoch, bool)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_loses_nothing_that_it_acknowledged() {
    let server = Server::start();
    let store = redis_server::open(&server.url(), &fresh_name()).await;
    nothing_acknowledged_is_lost(Arc::new(store), || server.crash_and_restart()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_is_killed_loses_nothing_that_it_acknowledged() {
    let server = pg_server::Server::start();
    let store = Postgres::connect(&server.config(), pg::options("crashes")).await.expect("the store opens");
    nothing_acknowledged_is_lost(Arc::new(store), || server.crash_and_restart()).await;
}

async fn nothing_acknowledged_is_lost(store: Arc<dyn Store>, crash_and_restart: impl Fn()) {
    let acknowledged = Acknowledged::default();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let workers: Vec<_> = (0..4_u64)
        .map(|worker| tokio::spawn(work(store.clone(), worker, Arc::clone(&acknowledged), stopped.clone())))
        .collect();
    let count = || acknowledged.lock().expect("no worker panics").len();
    for _ in 0..3 {
        let before = count();
        in_time("fifty more", async {
            while count() < before + 50 {
                a_moment().await;
            }
        })
        .await;
        tokio::task::block_in_place(&crash_and_restart);
    }
    let before = count();
    in_time("going on after the last", async {
        while count() < before + 50 {
            a_moment().await;
        }
    })
    .await;
    stop.send(true).expect("the workers listen");
    for worker in workers {
        in_time("a worker's end", worker).await.expect("no worker panics");
    }
    tokio::task::block_in_place(&crash_and_restart);

    let acknowledged = acknowledged.lock().expect("no worker panics").clone();
    assert!(acknowledged.values().any(|(_, ended)| *ended));
    let mut epochs: Vec<_> = acknowledged.values().map(|(epoch, _)| *epoch).collect();
    epochs.sort_unstable();
    assert!(epochs.is_sorted_by(|before, after| before < after), "no epoch was given twice");
    for (n, (epoch, ended)) in acknowledged {
        let record = in_time("looking after a crash", async {
            loop {
                // Connections that were there before are found to be broken one by one.
                match store.look(operation(n)).await {
                    Err(StoreError::Unavailable(_)) => a_moment().await,
                    record => break record.expect("the store answers").expect("it was acknowledged"),
                }
            }
        })
        .await;
        assert_eq!(record.epoch, epoch, "{n}");
        if ended {
            assert_eq!(answer(&*store, operation(n)).await, n.to_string());
        }
    }
    let newer = granted(&*store, &take(operation(1 << 40), 1)).await;
    assert!(epochs.last().is_some_and(|last| newer.epoch > *last));
}

/// Claims and completes its operations one after the other; what got no answer is left behind.
async fn work(
    store: Arc<dyn Store>,
    worker: u64,
    acknowledged: Acknowledged,
    stopped: tokio::sync::watch::Receiver<bool>,
) {
    for n in (worker..).step_by(4) {
        if *stopped.borrow() {
            return;
        }
        match store.claim(&take(operation(n), 1)).await {
            Ok(Claimed::Granted(grant)) => {
                acknowledged.lock().expect("no worker panics").insert(n, (grant.epoch, false));
                let end = answered(operation(n), grant.epoch, n.to_string());
                match store.complete(&end).await {
                    Ok(holding) => {
                        assert_eq!(holding, Holding::Held);
                        acknowledged.lock().expect("no worker panics").insert(n, (grant.epoch, true));
                    }
                    Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
                }
            }
            Ok(Claimed::Found(record) | Claimed::Lapsed(record)) => {
                panic!("nobody else claims it: {record:?}")
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
                a_moment().await;
            }
        }
    }
}

/// Retention of answers that went by themselves, seen from outside: nothing is left in Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_keeps_what_runs_and_removes_the_rest_by_itself() {
    let server = Server::start();
    let prefix = fresh_name();
    let store = redis_server::open(&server.url(), &prefix).await;
    let ended = granted(&store, &take(operation(1), 1)).await;
    assert_eq!(complete(&store, operation(1), ended.epoch, "done").await, Holding::Held);
    granted(&store, &take(operation(2), 1)).await;
    let client = redis::Client::open(server.url()).expect("the address is well-formed");
    let mut connection = client.get_connection().expect("it runs");
    let mut ends_at = |kind: &str, n: u64| {
        let key = format!("{{{prefix}}}:{kind}:{}", operation(n));
        redis::cmd("PEXPIRETIME").arg(key).query::<i64>(&mut connection).expect("it answers")
    };
    let record = store.look(operation(1)).await.expect("the store answers").expect("it is there");
    let Standing::Completed { expires_at, .. } = record.standing else { panic!("should be completed") };
    let millis = (expires_at.as_microsecond() + 999) / 1_000;
    assert_eq!([ends_at("record", 1), ends_at("answer", 1)], [millis, millis]);
    assert_eq!([ends_at("record", 2), ends_at("answer", 2)], [-1, -2], "what runs has no end, and no answer");
    server.step(2.0 * 3_600.0 + 1.0);
    assert_eq!([ends_at("record", 1), ends_at("answer", 1)], [-2, -2], "both are gone");
    assert_eq!(ends_at("record", 2), -1);
}
