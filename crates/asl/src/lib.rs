//! The Amazon States Language: parse, validate, evaluate.
//!
//! This room knows only the language: no executions, no time, no storage.

pub mod choice;
mod codec;
pub mod diagnostic;
pub mod error;
pub mod evaluate;
pub mod hex;
pub mod intrinsic;
mod java_random;
pub mod json;
pub mod jsonata;
pub mod machine;
pub mod node;
pub mod path;
pub mod read;
pub mod resource;
pub mod scope;
pub mod source;
pub mod timestamp;
