//! Redis keeps the promises of the suite.

use crate::redis_server::{self, Server};
use perdura_idempotency::conformance::Bench;

async fn bench() -> Bench {
    redis_server::bench(Server::start()).await
}

perdura_idempotency::store_conformance!(bench);

/// No member of a set outlives what it is about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_leaves_no_keys() {
    let server = Server::start();
    let url = server.url();
    let bench = redis_server::bench(server).await;
    perdura_idempotency::conformance::sweeping::after_everything_ended_nothing_is_left(&bench).await;
    let mut connection = redis::Client::open(url).and_then(|client| client.get_connection());
    let connection = connection.as_mut().expect("Redis answers");
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).expect("a list");
    assert!(matches!(&keys[..], [key] if key.ends_with(":epoch")), "{keys:?}");
}
