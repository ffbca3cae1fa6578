//! Random machines and random fates for them.

pub(crate) mod fate;
pub(crate) mod machines;
