//! What was found by trying to break the layer: each a way in which something once ran twice, was forgotten, or was given
//! to the wrong one.

mod bodies;
mod budgets;
mod callers;
mod claims;
mod ends;
#[allow(dead_code, reason = "the tests of the door use the rest")]
#[path = "../faulty/mod.rs"]
mod faulty;
#[path = "../stores/folder.rs"]
mod folder;
mod kit;
mod leases;
mod routing;
mod sqlite;
mod sweeps;
