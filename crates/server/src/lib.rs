//! What a running perdura answers, and the chores that it does beside its work.
//!
//! Programs call the Step Functions API ([`sfn`]) and our own ([`v1`]) over HTTP ([`http`]). The command line asks
//! through a socket in the data directory ([`control`]), where the same [`v1`] is served. [`handle`] has the verbs; it
//! also answers where no server runs and a command has opened the data itself. How data is stored, and when an execution moves, is decided in `store` and `runtime`.

mod commands;
mod house;
pub mod http;
pub mod names;
pub mod places;
pub mod retention;
pub mod sfn;
pub mod stuck;
pub mod telemetry;
pub mod v1;
pub mod who;

pub use commands::{Refusal, RefusalKind, control, data, ends, fold, handle};
pub use house::{BackedUp, Backups, House, SettingShown};
