//! What a running perdura answers, and the chores that it does beside its work.
//!
//! Programs call the Step Functions API ([`sfn`]) over HTTP ([`http`]). The command line asks through a socket in the
//! data directory ([`control`]), and [`handle`] answers; the same function answers where no server runs and a command
//! has opened the data itself. How data is stored, and when an execution moves, is decided in `store` and `runtime`.

mod commands;
pub mod http;
pub mod names;
mod places;
pub mod retention;
pub mod sfn;
pub mod stuck;
pub mod telemetry;

pub use commands::{Refusal, RefusalKind, control, data, fold, handle};
