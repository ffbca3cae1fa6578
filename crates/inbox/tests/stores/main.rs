//! Every store keeps the promises of the suite. Run through `scripts/with-servers`.

mod bench;
mod faulty;
mod memory;
mod monitoring;
#[path = "../naive/mod.rs"]
mod naive;
mod plans;
mod postgres;
mod sqlite;
