//! The lock of the data directory: one process writes. It locks a file, and the system releases the lock when the
//! process ends; the file's text names the holder, for a process that finds it locked.

use super::fault::{Files, io};
use crate::store::{Failure, FailureKind};
use perdura_engine::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::time::Duration;

/// How often to retry if the holder is gone.
const TRIES_MAX: u32 = 400;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The held lock.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(files: &Files) -> Result<Self, Failure> {
        let path = files.folder.join("lock");
        let open = || File::options().read(true).write(true).open(&path);
        let mut file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => match super::mode::make(&path) {
                Ok(file) => file,
                // Another process has created it meanwhile.
                Err(_) => open().map_err(|error| io("opening", &path, &error))?,
            },
            opened => opened.map_err(|error| io("opening", &path, &error))?,
        };
        let mut tries = 0;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(io("locking", &path, &errno.into())),
            }
            let holder = read_holder(&mut file);
            if tries == TRIES_MAX || !is_gone(&holder) {
                let holder = if holder.is_empty() { "another process" } else { &holder };
                return Err(Failure {
                    what: format!("opening {}", files.folder.display()),
                    why: format!("it is held by {holder}; stop that process, or name another data directory"),
                    kind: FailureKind::Held,
                });
            }
            tries += 1;
            std::thread::sleep(PAUSE);
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

/// The holder, as far as the text can be read.
fn read_holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
    holder.trim().to_owned()
}

/// Whether the holder was a process of this machine that is gone. A process that was killed while it forked a child
/// leaves the lock to the child, until the child calls exec.
fn is_gone(holder: &str) -> bool {
    let mut words = holder.split_whitespace();
    let (Some("process"), Some(pid), Some("on"), Some(host)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) else { return false };
    host == hostname() && test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `process 4711 on host since 2025-01-01T00:00:00.000Z`
fn holder() -> String {
    let host = hostname();
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_millis() as i64);
    format!("process {} on {host} since {}\n", std::process::id(), Timestamp(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_gone_when_its_process_is() {
        let of = |pid: u32, host: &str| format!("process {pid} on {host} since 2025-01-01T00:00:00.000Z");
        let mut ended = std::process::Command::new("true").spawn().expect("true runs");
        let pid = ended.id();
        ended.wait().expect("true ends");
        assert!(is_gone(&of(pid, &hostname())));
        assert!(!is_gone(&of(std::process::id(), &hostname())), "it lives");
        assert!(!is_gone(&of(pid, "elsewhere")), "nobody knows");
        for unreadable in ["", "process", "process x on y", "another process"] {
            assert!(!is_gone(unreadable), "{unreadable}");
        }
    }
}
