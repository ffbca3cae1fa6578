//! The real runtime under a seed.
//!
//! Clocks, random numbers, crashes, disks and receivers follow from one number. A failing seed is the whole bug report:
//! running it again gives the same trace. [`check`] has the promises, each as one function.

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
