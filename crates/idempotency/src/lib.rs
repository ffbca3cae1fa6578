//! The `Idempotency-Key` header for axum: a request that is sent twice is done once.

pub mod conformance;
pub mod observe;
pub mod problem;
pub mod record;
pub mod rule;
pub mod scope;
pub mod store;
