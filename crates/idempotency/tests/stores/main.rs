//! Every store keeps the promises of the suite.

mod clock;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/kit.rs"]
mod kit;
mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
#[path = "../servers/stepped.rs"]
mod stepped;
#[cfg(feature = "sqlite")]
mod transactions;
