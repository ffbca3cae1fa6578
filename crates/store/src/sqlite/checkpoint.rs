//! Copies commits from the log into the file, beside the writers.
//!
//! A commit only appends to the log. When the log has grown, a thread with its own connection copies it into the file,
//! again and again, until little is left; that blocks nobody. The writer itself copies the rest between two commits:
//! nothing is added meanwhile, so all of the log is in the file, and the next commit restarts the log. So the log stays
//! small under endless load, and no commit ever waits for more than a short copy.
//!
//! If a copy or its sync fails, the handle is unusable: the next sync might succeed without having written the pages
//! that the first one lost.

use super::fault::{Files, Trouble};
use crate::store::Failure;
use rusqlite::Connection;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The writer takes over when at most so many pages are left: half a MiB.
const LITTLE: i32 = 128;
/// More rounds than this do not help: the writer is as fast as the copying.
const ROUNDS: u32 = 8;

/// The shared state of the writers and the copying thread.
#[derive(Debug)]
pub(super) struct Desk {
    orders: Mutex<Orders>,
    bell: Condvar,
    /// Little is left: the writer may finish the copy.
    finish: AtomicBool,
    /// The size in pages at which the log is copied next.
    copy_at: AtomicI32,
    /// The allowed size of the log in pages.
    pages: i32,
    failed: Mutex<Option<Failure>>,
}

#[derive(Debug, Default)]
struct Orders {
    copy: bool,
    stop: bool,
}

impl Desk {
    fn new(pages: i32) -> Self {
        Self {
            orders: Mutex::default(),
            bell: Condvar::new(),
            finish: AtomicBool::new(false),
            copy_at: AtomicI32::new(pages),
            pages,
            failed: Mutex::default(),
        }
    }

    /// After a commit: starts a copy if the log has become long.
    pub(super) fn grown(&self, connection: &Connection) {
        if self.finish.load(Ordering::Relaxed) {
            return;
        }
        // If the log cannot be measured, it cannot be copied either, and the copy reports the error.
        let pages = log(connection, "PRAGMA main.wal_checkpoint(NOOP)").map_or(i32::MAX, |(pages, _)| pages);
        if pages >= self.copy_at.load(Ordering::Relaxed) {
            self.copy();
        }
    }

    /// Starts a copy now, however short the log is.
    pub(super) fn copy(&self) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if !orders.copy {
            orders.copy = true;
            self.bell.notify_one();
        }
    }

    /// Between two commits: the writer copies the rest, if it is its turn.
    pub(super) fn finish(&self, connection: &Connection) -> Result<(), Trouble> {
        if !self.finish.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.finish.store(false, Ordering::Relaxed);
        let (pages, left) = pass(connection)?;
        // Pages that a reader still uses cannot be overwritten: retry when the log has grown a little more.
        let copy_at = if left > 0 { pages + self.pages / 4 } else { self.pages };
        self.copy_at.store(copy_at, Ordering::Relaxed);
        Ok(())
    }

    /// The error of a copy, if one failed.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, failure: Failure) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    fn stop(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.bell.notify_one();
    }

    /// Waits until there is something to copy; false: stop.
    fn wait(&self) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = self
            .bell
            .wait_while(orders, |orders| !orders.copy && !orders.stop)
            .unwrap_or_else(PoisonError::into_inner);
        !orders.stop
    }

    fn done(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).copy = false;
    }
}

/// The copying thread; it ends with the last handle.
#[derive(Debug)]
pub(super) struct Checkpointer {
    pub(super) desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on a connection of its own.
    pub(super) fn start(connection: Connection, files: Files, pages: i32) -> Result<Self, Failure> {
        let desk = Arc::new(Desk::new(pages));
        let theirs = desk.clone();
        let thread = std::thread::Builder::new()
            .name("perdura-checkpoint".to_owned())
            .spawn(move || {
                let _alarm = Alarm(&theirs);
                work(&connection, &files, &theirs);
            })
            .map_err(|error| Failure {
                what: "starting the thread for checkpoints".to_owned(),
                why: error.to_string(),
                kind: crate::store::FailureKind::Io,
            })?;
        Ok(Self { desk, thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.desk.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has nothing more to report: its connection is gone, and the log is unchanged.
            let _ = thread.join();
        }
    }
}

/// Without this thread the log would grow for ever: if a bug ends it, all handles stop writing.
struct Alarm<'d>(&'d Desk);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Failure {
                what: "the thread for checkpoints".to_owned(),
                why: "a mistake in perdura ended it; the store is to be opened again".to_owned(),
                kind: crate::store::FailureKind::Io,
            });
        }
    }
}

fn work(connection: &Connection, files: &Files, desk: &Desk) {
    while desk.wait() {
        for _ in 0..ROUNDS {
            match pass(connection) {
                Ok((_, left)) if left <= LITTLE => break,
                Ok(_) => {}
                Err(trouble) => {
                    desk.fail(files.failure("checkpointing", trouble));
                    return;
                }
            }
        }
        desk.finish.store(true, Ordering::Relaxed);
        desk.done();
    }
}

/// Copies what can be copied without waiting; returns the pages of the log, and how many are left.
fn pass(connection: &Connection) -> Result<(i32, i32), Trouble> {
    match log(connection, "PRAGMA main.wal_checkpoint(PASSIVE)") {
        Ok((pages, copied)) => Ok((pages, pages - copied)),
        Err(error) => {
            let trouble = Trouble::from(error);
            // Another connection copies at this moment.
            if trouble.is_busy() { Ok((0, 0)) } else { Err(trouble) }
        }
    }
}

/// The pages of the log, and how many of them are in the file. Both are -1 while another connection copies.
fn log(connection: &Connection, pragma: &str) -> Result<(i32, i32), rusqlite::Error> {
    connection.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
