#![doc = include_str!("../README.md")]

mod answer;
mod asked;
mod budget;
mod carried;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod content;
pub mod context;
mod digest;
mod door;
mod ending;
pub mod fingerprint;
mod key;
mod layer;
mod locals;
pub mod metrics;
pub mod observe;
pub mod openapi;
pub mod operations;
pub mod policy;
mod problem;
pub mod record;
mod route;
pub mod routes;
pub mod rule;
mod run;
mod save;
mod scope;
mod self_test;
mod service;
pub mod store;
pub mod vault;
mod wait;

pub use answer::{Answer, Kept};
pub use asked::{
    CONTENT_DIGEST, EXPOSED_HEADERS, IDEMPOTENCY_FINGERPRINT, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED,
};
pub use budget::Budgets;
pub use context::IdempotencyContext;
pub use ending::{NotApplied, OutcomeUnknown};
pub use fingerprint::{Fingerprint, Hashing};
pub use key::Versions;
pub use layer::{Builder, IdempotencyLayer, StartError};
pub use metrics::Metrics;
pub use operations::Operations;
pub use policy::{Attach, Attached, Mode, Policy};
pub use problem::Profile;
pub use routes::Routes;
pub use scope::{Audit, AuditFailed, Authorise, Denied, ResultRead, Scope};
pub use self_test::Misplaced;
pub use service::IdempotencyService;
pub use vault::{DataKeys, DerivedKeys, Secret};
