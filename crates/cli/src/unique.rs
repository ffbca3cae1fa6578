//! Unique names and keys.

use anyhow::{Context, Result};
use uuid::{Builder, Uuid};

/// A UUID of version 4.
pub(crate) fn uuid() -> Result<Uuid> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).context("this system gives no random numbers")?;
    Ok(Builder::from_random_bytes(bits).into_uuid())
}
