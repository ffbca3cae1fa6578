//! A receiver in another process: it counts its requests by key.
//!
//! One line per request on a TCP connection of this machine: `step KEY` performs one effect under its key, and `started
//! ID` says that an execution was acknowledged. Each line is answered with `ok`, after it was counted.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The counts of a receiver.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How many requests each key had.
    pub(crate) keys: BTreeMap<String, u32>,
    /// Executions that were acknowledged.
    pub(crate) started: BTreeSet<String>,
}

impl Seen {
    /// How many requests had a known key.
    pub(crate) fn repeats(&self) -> u64 {
        self.keys.values().map(|count| u64::from(count - 1)).sum()
    }
}

/// A listening receiver.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Receiver {
    pub(crate) fn listen() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen for the bench's own calls")?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let shared = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = shared.clone();
                thread::spawn(move || serve(stream, &seen));
            }
        });
        Ok(Self { address, seen })
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends with the connection: the process at the other end was killed, or has finished.
fn serve(stream: TcpStream, seen: &Mutex<Seen>) {
    let _ = stream.set_nodelay(true);
    let Ok(mut answers) = stream.try_clone() else { return };
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match line.split_once(' ') {
                Some(("step", key)) => *seen.keys.entry(key.into()).or_default() += 1,
                Some(("started", id)) => drop(seen.started.insert(id.into())),
                _ => return,
            }
        }
        if answers.write_all(b"ok\n").is_err() {
            return;
        }
    }
}
