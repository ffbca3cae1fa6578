//! One process writes. It holds a lock on a file, which the system gives back whatever becomes of the process; the
//! file says who that is, for the one who finds it locked.

use super::fault::{Files, io};
use crate::store::{Failure, FailureKind};
use perdura_engine::Timestamp;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{Read, Seek, Write};

/// Held for as long as it lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(files: &Files) -> Result<Self, Failure> {
        let path = files.folder.join("lock");
        let options = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options().map_err(|error| io("opening", &path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // Who holds it is told as far as it can be read.
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let holder = if holder.is_empty() { "another process" } else { holder };
                return Err(Failure {
                    what: format!("opening {}", files.folder.display()),
                    why: format!("it is held by {holder}; stop that process, or name another data directory"),
                    kind: FailureKind::Held,
                });
            }
            Err(errno) => return Err(io("locking", &path, &errno.into())),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(holder().as_bytes()))
            .and_then(|()| file.flush());
        written.map_err(|error| io("writing", &path, &error))?;
        Ok(Self { _file: file })
    }
}

/// `process 4711 on host since 2025-01-01T00:00:00.000Z`
fn holder() -> String {
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy();
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as i64);
    format!("process {} on {host} since {}\n", std::process::id(), Timestamp(since))
}
