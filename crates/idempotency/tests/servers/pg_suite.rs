//! PostgreSQL keeps the promises of the suite.

use crate::pg;
use perdura_idempotency::conformance::Bench;
use perdura_idempotency::store::{Pending, Postgres, Store};
use std::sync::Arc;
use std::time::Duration;

struct PostgresBench {
    schema: String,
    here: Postgres,
    there: Postgres,
}

async fn bench() -> PostgresBench {
    let schema = pg::fresh_schema();
    let (here, there) = tokio::join!(pg::open(&schema), pg::open(&schema));
    PostgresBench { schema, here, there }
}

impl Bench for PostgresBench {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.here.clone())
    }

    fn another(&self) -> Arc<dyn Store> {
        Arc::new(self.there.clone())
    }

    fn pass(&self, time: Duration) -> Pending<'_, ()> {
        Box::pin(pg::step(&self.schema, time.as_secs_f64()))
    }

    fn hears_others(&self) -> bool {
        true
    }
}

perdura_idempotency::store_conformance!(bench);
