//! Every store keeps the promises of the suite.

mod bench;
mod memory;
mod presence;
mod sqlite;
mod transactions;
