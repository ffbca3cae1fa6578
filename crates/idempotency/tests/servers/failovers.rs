//! Another server takes over. PostgreSQL that replicates synchronously has lost nothing that was acknowledged; a Redis
//! that follows may have, and then it is the epoch that keeps the earlier holder out.

use crate::kit::{a_moment, answer, answered, complete, granted, in_time, is_running, operation, take};
use crate::redis_server::{self, Server, fresh_name};
use crate::{pg, pg_server};
use perdura_idempotency::record::{Claimed, Epoch, Holding};
use perdura_idempotency::store::{Pending, Postgres, Store, StoreError};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// By operation: under which epoch it was carried out, each time, and whether its end was acknowledged.
type Executions = Arc<Mutex<BTreeMap<u64, (Vec<Epoch>, bool)>>>;

/// Offers the same again until the store answers.
async fn until_answered<'a, T: 'a>(ask: impl Fn() -> Pending<'a, Result<T, StoreError>>) -> T {
    let asking = async {
        loop {
            match ask().await {
                Err(StoreError::Unavailable(_)) => a_moment().await,
                answer => break answer.expect("it is available or it answers"),
            }
        }
    };
    in_time("an answer", asking).await
}

/// One of several that want every operation; whoever is granted one carries it out.
async fn work(store: Postgres, claimant: u64, executions: Executions, stop: Arc<AtomicBool>) {
    for n in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let claim = take(operation(n), claimant);
        if let Claimed::Granted(grant) = until_answered(|| store.claim(&claim)).await {
            executions.lock().expect("nobody panics here").entry(n).or_default().0.push(grant.epoch);
            let end = answered(operation(n), grant.epoch, n.to_string());
            assert_eq!(until_answered(|| store.complete(&end)).await, Holding::Held, "{n}");
            executions.lock().expect("nobody panics here").entry(n).or_default().1 = true;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_replicates_synchronously_fails_over_without_loss() {
    let primary = pg_server::Server::start();
    let standby = pg_server::Server::following(&primary);
    let client = pg::connection_to(&primary.config()).await;
    for sql in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
        client.batch_execute(sql).await.expect("it may be set");
    }
    in_time("the standby being waited for", async {
        let waited_for = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while client.query_one(waited_for, &[]).await.expect("it tells").get::<_, i64>(0) == 0 {}
    })
    .await;

    let config = primary.config_with(&standby);
    let store = Postgres::connect(&config, pg::options("failover")).await.expect("the store opens");
    let (executions, stop) = (Executions::default(), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (1..=4)
        .map(|claimant| {
            tokio::spawn(work(store.clone(), claimant, Arc::clone(&executions), Arc::clone(&stop)))
        })
        .collect();
    let count = || executions.lock().expect("nobody panics here").len();
    let more = async |more| {
        let before = count();
        in_time("more of them", async {
            while count() < before + more {
                a_moment().await;
            }
        })
        .await;
    };
    more(100).await;
    tokio::task::block_in_place(|| {
        primary.crash();
        standby.promote();
    });
    more(100).await;
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        in_time("a worker's end", worker).await.expect("no worker panics");
    }

    let executions = executions.lock().expect("nobody panics here").clone();
    for (n, (epochs, ended)) in &executions {
        assert_eq!((epochs.len(), *ended), (1, true), "{n} is carried out once: {epochs:?}");
        let claim = take(operation(*n), 9);
        let again = until_answered(|| store.claim(&claim)).await;
        let Claimed::Found(record) = again else { panic!("{n} is granted again") };
        assert_eq!(record.epoch, epochs[0]);
        assert_eq!(answer(&store, operation(*n)).await, n.to_string());
    }
    let mut epochs: Vec<_> = executions.values().flat_map(|(epochs, _)| epochs).collect();
    epochs.sort_unstable();
    assert!(epochs.is_sorted_by(|before, after| before < after), "no epoch was given twice");
}

/// What was acknowledged after the replica lost sight of its primary is gone. The operation can be granted again, under an
/// epoch that was not given before, and who held it first is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_fails_over_may_lose_a_claim_and_gives_no_epoch_twice() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a port is free").port().to_string();
    let told = |more: &[&str]| more.iter().map(ToString::to_string).collect();
    let primary = Server::start_with(told(&[
        "--bind",
        "127.0.0.1",
        "--port",
        &port,
        "--repl-diskless-sync-delay",
        "0",
    ]));
    let replica = Server::start_with(told(&["--replicaof", "127.0.0.1", &port]));
    let say = |server: &Server, words: &str| {
        let client = redis::Client::open(server.url()).expect("the address is well-formed");
        let mut connection = client.get_connection().expect("it runs");
        let (name, arguments) = words.split_once(' ').expect("there are arguments");
        let command = redis::cmd(name).arg(arguments.split(' ').collect::<Vec<_>>()).to_owned();
        command.query::<redis::Value>(&mut connection).expect("it does as told")
    };
    let prefix = fresh_name();
    let before = redis_server::open(&primary.url(), &prefix).await;
    let kept = granted(&before, &take(operation(1), 1)).await;
    assert_eq!(complete(&before, operation(1), kept.epoch, "kept").await, Holding::Held);
    // Who waits does so for what it wrote itself, and what was written before.
    let client = redis::Client::open(primary.url()).expect("the address is well-formed");
    let mut waiting = client.get_connection().expect("it runs");
    let mut reached = || {
        redis::cmd("SET").arg("mark").arg(1).exec(&mut waiting).expect("it does as told");
        redis::cmd("WAIT").arg(1).arg(100).query::<u32>(&mut waiting).expect("it does as told")
    };
    in_time("the replica having it", async { while reached() != 1 {} }).await;

    // It looks for its primary where nobody is.
    say(&replica, "REPLICAOF 127.0.0.1 1");
    let lost = granted(&before, &take(operation(2), 1)).await;
    assert_eq!(
        complete(&before, operation(3), granted(&before, &take(operation(3), 1)).await.epoch, "lost").await,
        Holding::Held
    );
    primary.crash();
    say(&replica, "REPLICAOF NO ONE");

    let after = redis_server::open(&replica.url(), &prefix).await;
    assert_eq!(answer(&after, operation(1)).await, "kept");
    for n in [2, 3] {
        assert_eq!(after.look(operation(n)).await.expect("the store answers"), None, "this is the loss");
    }
    let second = granted(&after, &take(operation(2), 2)).await;
    assert!(second.epoch > lost.epoch, "{second:?} is newer than {lost:?}");
    assert_eq!(complete(&after, operation(2), lost.epoch, "late").await, Holding::Lost);
    assert!(is_running(&after, operation(2)).await);
    assert_eq!(complete(&after, operation(2), second.epoch, "second").await, Holding::Held);
    assert_eq!(answer(&after, operation(2)).await, "second");
}
