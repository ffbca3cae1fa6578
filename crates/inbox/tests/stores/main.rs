//! Every store keeps the promises of the suite. Run through `scripts/with-servers`.

mod bench;
mod faulty;
mod memory;
mod monitoring;
mod plans;
mod postgres;
mod sqlite;
mod suite;
