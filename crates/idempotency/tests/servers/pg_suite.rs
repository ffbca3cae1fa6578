//! PostgreSQL keeps the promises of the suite.

use crate::pg;
use perdura_idempotency::conformance::Bench;

async fn bench() -> Bench {
    pg::bench(&pg::fresh_schema()).await
}

perdura_idempotency::store_conformance!(bench);
