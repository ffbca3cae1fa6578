//! The real runtime under a seed.
//!
//! Clock, dice, crashes, disks and those who are called follow from one number. A failing seed is the whole bug
//! report: running it again gives the same trace. What must hold is in [`check`], each promise on its own.

pub mod check;
mod clients;
mod clock;
mod dice;
mod facts;
mod history;
mod home;
mod machines;
mod observed;
mod plan;
mod receiver;
mod sabotage;
mod sim;
mod store;
mod verdict;

pub use plan::Trouble;
pub use sabotage::Sabotage;
pub use sim::{Setting, Sim};
pub use verdict::{Verdict, judge, replay_command};
