//! The limit of open files: raised as far as the system allows.
//!
//! Shells often set 1,024. Many connections would use that up, and leave none for the store and for calls.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More are not needed, and some programs that run as commands look at each possible one.
const FILES_MAX: u64 = 1 << 17;

/// Raises the limit; returns the new one.
pub(crate) fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current else { return FILES_MAX };
    let wanted = maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    if wanted <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, files = current, "the limit of open files cannot be raised");
            current
        }
    }
}
