//! What a running perdura answers, and the chores that it does beside its work.
//!
//! Commands reach it through a socket in the data directory, and what they ask is answered by [`handle`]. The same
//! function answers where no server runs and a command has opened the data itself. Whoever watches over it asks by
//! HTTP how it fares. How the data is kept, and when an execution moves, is decided elsewhere.

pub mod control;
pub mod data;
pub mod fold;
mod handle;
pub mod http;
pub mod names;
mod places;
mod refusal;
pub mod retention;
mod seldom;
pub mod sfn;
pub mod stuck;
pub mod telemetry;

pub use handle::handle;
pub use refusal::{Refusal, RefusalKind};
