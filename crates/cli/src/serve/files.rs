//! How many files the process may open: as many as the system lets it have.
//!
//! Shells often give 1,024, of which a server with many connections has none left for its store and its calls.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More are of no use here, and some programs that are started as commands look at each one.
const FILES_MAX: u64 = 1 << 17;

/// Raises the limit as far as it goes, and says how far that is.
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
