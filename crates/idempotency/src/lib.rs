//! The `Idempotency-Key` header for axum: a request that is sent twice is done once.

pub mod budget;
#[cfg(feature = "client")]
pub mod client;
pub mod context;
pub mod metrics;
pub mod observe;
pub mod openapi;
pub mod problem;
pub mod record;
pub mod rule;
pub mod scope;
pub mod store;
