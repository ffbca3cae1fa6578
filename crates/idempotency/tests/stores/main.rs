//! Every store keeps the promises of the suite.

mod clock;
mod memory;
