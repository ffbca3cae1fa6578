//! PostgreSQL keeps the promises of the suite.

use crate::bench;

perdura_inbox::store_conformance!(bench::postgres);
