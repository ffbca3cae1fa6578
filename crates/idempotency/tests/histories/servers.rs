//! Histories of two instances on PostgreSQL and of two on Redis, by the same clients and under the same checker. Run
//! through `scripts/with-servers`.

use crate::check::{self, Looks};
use crate::pg;
use crate::redis_server::{self, Server};
use crate::tape::Counts;
use crate::world::{self, Plan, World};
use perdura_idempotency::record::Keep;
use perdura_idempotency::store::postgres::Options;
use perdura_idempotency::store::{Postgres, Store};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How many histories each is put through; more where more kills are asked for too.
fn histories() -> u32 {
    let kills = std::env::var("PERDURA_KILLS").map_or(0, |kills| kills.parse().expect("a number"));
    (20_u32 * kills).max(150)
}

/// One history after the other on the same data, each on keys of its own. Between them time passes, so that all is
/// swept that the last one left.
async fn are_linearizable(
    instances: [Arc<dyn Store>; 2],
    jump: impl Fn(i64) + Send + Sync + Clone + 'static,
) {
    let mut counts = Counts::default();
    for nth in 0..histories() {
        let world = World::shared(instances.clone(), jump.clone(), nth);
        world::run_on_tasks(&world, &Plan::at_once(u64::from(nth))).await;
        let tape = world.tape.take();
        if let Err(found) = check::check(&tape, Looks::DuringTheCall) {
            panic!("seed {nth}: {found}");
        }
        counts.add(&tape);
        jump(10_000);
        let keep = Keep { answer_for: Duration::ZERO, tombstone_for: Duration::ZERO };
        instances[0].sweep(u32::MAX, keep).await.expect("sweeping");
    }
    counts.assert_each_at_least(histories() / 5);
}

/// Nothing crashes in these histories, so nothing waits for the disk.
fn unsynced() -> String {
    format!("{}?options=-csynchronous_commit%3Doff", pg::url())
}

/// A clock that stands still until it is told to go on. Who tells it cannot wait for an answer as others do, so that is
/// done elsewhere.
async fn standing_clock(schema: &str) -> impl Fn(i64) + Send + Sync + Clone + 'static {
    pg::step(schema, 0.0).await;
    let stand_still = format!(
        "CREATE OR REPLACE FUNCTION {schema}.idempotency_now() RETURNS timestamptz LANGUAGE sql VOLATILE
         AS 'SELECT timestamptz ''2026-01-01 00:00Z'' + (SELECT ahead FROM {schema}.clock)'"
    );
    pg::connection().await.batch_execute(&stand_still).await.expect("the clock can be set");
    let (jumps, told) = mpsc::channel::<(i64, mpsc::Sender<()>)>();
    let go_on = format!("UPDATE {schema}.clock SET ahead = ahead + $1::bigint * interval '1 second'");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(pg::connection_to(&unsynced()));
        while let Ok((by, done)) = told.recv() {
            runtime.block_on(client.execute(&go_on, &[&by])).expect("the clock can be set");
            done.send(()).expect("somebody waits");
        }
    });
    move |by| {
        let (done, is_done) = mpsc::channel();
        jumps.send((by, done)).expect("the clock goes");
        is_done.recv().expect("the clock goes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn random_histories_of_two_instances_on_postgres_are_linearizable() {
    let schema = pg::fresh_schema();
    let options = || Options { volatile: true, ..pg::options(&schema) };
    let open = async || Postgres::connect(&unsynced(), options()).await.expect("the store opens");
    let (here, there) = (open().await, open().await);
    are_linearizable([Arc::new(here), Arc::new(there)], standing_clock(&schema).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn random_histories_of_two_instances_on_redis_are_linearizable() {
    let server = Arc::new(Server::start());
    let (url, prefix) = (server.url(), redis_server::fresh_name());
    let (here, there) = tokio::join!(redis_server::open(&url, &prefix), redis_server::open(&url, &prefix));
    are_linearizable([Arc::new(here), Arc::new(there)], move |by| server.step(by as f64)).await;
}
