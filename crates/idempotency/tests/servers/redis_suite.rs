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
