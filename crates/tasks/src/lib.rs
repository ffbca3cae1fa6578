//! Calls to the outside: HTTP, functions, services of AWS, local commands, and files of items.
//!
//! Every call has its key, and its Turn is on disk before it leaves. This room reports the outcome of a call for a
//! Step: refused, not sent, done or in doubt. The engine decides what follows.

pub mod aws;
pub mod client;
pub mod connection;
pub mod destination;
pub mod functions;
pub mod guard;
pub mod http;
pub mod items;
mod lack;
mod performer;
pub mod settings;
mod shares;
mod sign;

pub use performer::{Tasks, Unprepared, can_perform, warnings};
pub use settings::Settings;
pub use shares::Share;
