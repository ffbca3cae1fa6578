//! Every store keeps the promises of the suite.

mod clock;
mod folder;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod transactions;
