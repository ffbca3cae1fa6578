#![doc = include_str!("../README.md")]

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod inbox;
mod lease;
mod log;
pub mod row;
pub mod rule;
pub mod store;
mod work;
mod worker;

pub use inbox::{Inbox, Settings};
pub use row::{Address, Message, Name, Put, Receipt, Row, Status};
pub use work::{Failed, Handler, Key, Worked, at_least_once, keyed};
pub use worker::Worker;
