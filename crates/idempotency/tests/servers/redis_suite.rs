//! Redis keeps the promises of the suite.

use crate::redis_server::{Server, fresh_name, open};
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::{Pending, Redis, Store};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

struct RedisBench {
    server: Server,
    here: Redis,
    there: Redis,
}

async fn bench() -> RedisBench {
    let server = Server::start();
    let (url, prefix) = (server.url(), fresh_name());
    let (here, there) = tokio::join!(open(&url, &prefix), open(&url, &prefix));
    RedisBench { server, here, there }
}

impl Bench for RedisBench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.here.clone())
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(self.there.clone())
    }

    fn pass(&self, time: Duration) -> Pending<'_, ()> {
        self.server.step(time.as_secs_f64());
        Box::pin(ready(()))
    }

    fn hears_others(&self) -> bool {
        true
    }
}

perdura_idempotency::store_conformance!(bench);

/// No member of a set outlives what it is about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_leaves_no_keys() {
    let bench = bench().await;
    perdura_idempotency::conformance::sweeping::after_everything_ended_nothing_is_left(&bench).await;
    let mut connection = redis::Client::open(bench.server.url()).and_then(|client| client.get_connection());
    let connection = connection.as_mut().expect("Redis answers");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).expect("a list");
    assert!(matches!(&keys[..], [key] if key.ends_with(":epoch")), "{keys:?}");
}
