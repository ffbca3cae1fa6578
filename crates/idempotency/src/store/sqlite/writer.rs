//! The writing thread: all verbs that arrived during the last sync are the next commit.
//!
//! There is no timer: a single verb is committed at once; many share a sync. A verb that fails rolls back the others of
//! its group too, so they run again one by one and each gets its own result. Nobody waits for ever: a panic is caught,
//! and its callers get an error; if the thread were gone, the channels would be closed.

use super::group::Group;
use super::guard;
use super::presence::Presence;
use super::session::{self, Session};
use super::trouble::Trouble;
use crate::store::wake::Bells;
use crate::store::{Clock, Scrubbed, StoreError};
use rusqlite::{Connection, ErrorCode};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The most verbs in one commit.
const GROUP_MAX: usize = 256;
/// The length of the queue; further callers wait for a place.
const QUEUE_MAX: usize = 1_024;

/// A request to the thread.
pub(super) enum Command {
    /// A verb.
    Errand(Box<dyn Errand>),
    /// A handler's transaction, which has the connection to itself until it ends.
    Session(Session),
    /// The file is to be written anew if it has so many bytes at most; outside of transactions.
    Scrub(u64, oneshot::Sender<Result<Scrubbed, StoreError>>),
}

/// A verb that waits for its commit.
pub(super) trait Errand: Send {
    /// Runs it in the open transaction. If it runs again after a rollback, only the last run counts.
    fn work(&mut self, group: &mut Group<'_>) -> Result<(), Trouble>;

    /// Sends the result to the caller: committed, or not.
    fn tell(self: Box<Self>, committed: Result<(), Trouble>);
}

struct Asked<T, F> {
    work: F,
    done: Option<Result<T, Trouble>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&mut Group<'_>) -> Result<T, Trouble> + Send> Errand for Asked<T, F> {
    fn work(&mut self, group: &mut Group<'_>) -> Result<(), Trouble> {
        match (self.work)(group) {
            Err(trouble @ Trouble::Sqlite(_)) => Err(trouble),
            // A damaged record concerns only its own caller; nothing was written for it.
            done @ (Ok(_) | Err(Trouble::Corrupt(..))) => {
                self.done = Some(done);
                Ok(())
            }
        }
    }

    fn tell(self: Box<Self>, committed: Result<(), Trouble>) {
        let done = self.done;
        let told = committed.and_then(|()| done.expect("what is committed was done"));
        // A caller that no longer waits repeats the verb if it still matters.
        drop(self.reply.send(told.map_err(StoreError::from)));
    }
}

/// The channel to the thread.
#[derive(Clone)]
pub(super) struct Writer(mpsc::Sender<Command>);

/// The thread dropped the request, or is gone.
#[derive(Debug, thiserror::Error)]
#[error("the thread that writes to the file did not answer")]
pub(super) struct Gone;

impl From<Gone> for StoreError {
    fn from(gone: Gone) -> Self {
        Self::Unavailable(Box::new(gone))
    }
}

impl Writer {
    /// Starts the thread, which ends with the last sender.
    pub(super) fn start(desk: Desk) -> Result<Self, StoreError> {
        let (sender, commands) = mpsc::channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("idempotency".to_owned())
            .spawn(move || desk.serve(commands))
            .map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        Ok(Self(sender))
    }

    /// Runs a verb in the next commit.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Group<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, told) = oneshot::channel();
        let errand = Box::new(Asked { work, done: None, reply });
        self.0.send(Command::Errand(errand)).await.map_err(|_| Gone)?;
        told.await.map_err(|_| Gone)?
    }

    /// Has what was erased taken out of the files.
    pub(super) async fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, StoreError> {
        let (reply, told) = oneshot::channel();
        self.0.send(Command::Scrub(bytes_max, reply)).await.map_err(|_| Gone)?;
        told.await.map_err(|_| Gone)?
    }

    /// A place in the queue, for a session.
    pub(super) async fn place(&self) -> Result<mpsc::Permit<'_, Command>, Gone> {
        self.0.reserve().await.map_err(|_| Gone)
    }
}

/// The thread's resources.
pub(super) struct Desk {
    pub(super) connection: Connection,
    pub(super) clock: Clock,
    pub(super) bells: Bells,
    pub(super) transaction_for: Duration,
    /// How long to wait for another process that writes.
    pub(super) busy_for: Duration,
    /// A handler left something on the connection.
    pub(super) soiled: Arc<AtomicBool>,
    /// Leases up to this epoch have ended.
    pub(super) void: u64,
    /// Released after the connection.
    pub(super) _presence: Arc<Presence>,
}

/// Where a group failed. A group that could not begin is not retried one by one: it has waited already.
enum Failed {
    Beginning(Trouble),
    Later(Trouble),
}

impl Desk {
    /// Verbs go before waiting transactions, one of which is served after each group: so leases are renewed however
    /// many handlers queue.
    fn serve(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut sessions = VecDeque::new();
        loop {
            let (mut errands, mut scrubs) = (Vec::new(), Vec::new());
            let mut next = if sessions.is_empty() {
                let Some(first) = commands.blocking_recv() else { return };
                Some(first)
            } else {
                commands.try_recv().ok()
            };
            while let Some(command) = next.take() {
                match command {
                    Command::Errand(errand) => errands.push(errand),
                    Command::Session(session) => sessions.push_back(session),
                    Command::Scrub(bytes_max, reply) => scrubs.push((bytes_max, reply)),
                }
                if errands.len() < GROUP_MAX && sessions.len() < QUEUE_MAX {
                    // If the queue is empty or closed, the group is complete.
                    next = commands.try_recv().ok();
                }
            }
            let session = sessions.pop_front();
            // A panic drops the reply, which its caller notices; the next group finds no transaction open.
            let worked = catch_unwind(AssertUnwindSafe(|| {
                self.commit(errands);
                let mut last = None;
                for (bytes_max, reply) in scrubs {
                    let scrubbed = match last.take() {
                        Some((done, scrubbed)) if done == bytes_max => scrubbed,
                        _ => self.scrub(bytes_max),
                    };
                    last = Some((bytes_max, scrubbed.clone()));
                    // A caller that no longer waits asks again if it still matters.
                    drop(reply.send(scrubbed.map_err(StoreError::from)));
                }
                if let Some(session) = session {
                    session::serve(&mut self, &session);
                }
            }));
            if worked.is_err() {
                tracing::error!("a verb of the idempotency store panicked");
                self.roll_back();
            }
        }
    }

    fn commit(&mut self, mut errands: Vec<Box<dyn Errand>>) {
        match self.attempt(&mut errands) {
            Ok(()) => {
                for errand in errands {
                    errand.tell(Ok(()));
                }
            }
            Err(Failed::Later(_)) if errands.len() > 1 => {
                for errand in errands {
                    self.commit(vec![errand]);
                }
            }
            Err(Failed::Beginning(trouble) | Failed::Later(trouble)) => {
                for errand in errands {
                    errand.tell(Err(trouble.clone()));
                }
            }
        }
    }

    /// Runs all of them in one transaction, or none.
    fn attempt(&mut self, errands: &mut [Box<dyn Errand>]) -> Result<(), Failed> {
        if errands.is_empty() {
            return Ok(());
        }
        self.begin().map_err(|error| Failed::Beginning(error.into()))?;
        let mut group = Group::new(&self.connection, &self.clock, self.void);
        let worked = errands.iter_mut().try_for_each(|errand| errand.work(&mut group));
        let done = worked.and_then(|()| group.close()).map(|()| (group.changed, group.erased));
        match done.and_then(|done| Ok(self.execute("COMMIT").map(|()| done)?)) {
            Ok((changed, erased)) => {
                if erased {
                    self.empty_log();
                }
                for operation in changed {
                    self.bells.ring(operation);
                }
                Ok(())
            }
            Err(trouble) => {
                self.roll_back();
                Err(Failed::Later(trouble))
            }
        }
    }

    /// Leaves no overwritten bytes beside the file. It waits for readers, up to the limit for other processes; `false`:
    /// one still reads.
    fn empty_log(&self) -> bool {
        let empty = "PRAGMA main.wal_checkpoint(TRUNCATE)";
        match self.connection.query_row(empty, [], |row| row.get::<_, bool>(0)) {
            Ok(false) => return true,
            Ok(true) => {
                tracing::warn!("a program reads for long: what was erased is in the log until it is emptied");
            }
            Err(error) => tracing::warn!(%error, "the log could not be emptied of what was erased"),
        }
        false
    }

    /// When SQLite moves rows between pages, it leaves copies of them in the unused parts: only a file that is written anew
    /// is without them. Those that are on their way at this moment wait.
    fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, Trouble> {
        let number = |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let pages = number("page_count")? - number("freelist_count")?;
        let is_small = pages.saturating_mul(number("page_size")?).unsigned_abs() <= bytes_max;
        let is_anew = is_small
            && match self.connection.execute_batch("VACUUM main") {
                Ok(()) => true,
                // There is no room for it twice, and it is as it was.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => false,
                Err(error) => return Err(error.into()),
            };
        Ok(match (self.empty_log(), is_anew) {
            (false, _) => Scrubbed::Read,
            (true, true) => Scrubbed::Clean,
            (true, false) => Scrubbed::TooLarge,
        })
    }

    /// Before a handler gets the connection: removes the objects and settings of the last one.
    pub(super) fn clean(&self) -> rusqlite::Result<()> {
        if self.soiled.load(Ordering::Relaxed) {
            guard::clean(&self.connection)?;
            self.soiled.store(false, Ordering::Relaxed);
        }
        self.connection.busy_timeout(self.busy_for)
    }

    /// Takes the write lock at once: a transaction that reads first and then finds the lock taken could not go on.
    pub(super) fn begin(&self) -> rusqlite::Result<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    pub(super) fn execute(&self, statement: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(statement)?.execute([]).map(drop)
    }

    /// Leaves no transaction open; SQLite may have rolled it back by itself.
    pub(super) fn roll_back(&self) {
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Command, Desk, GROUP_MAX, Group, Presence, QUEUE_MAX, Session, Writer};
    use crate::conformance::{claim, operation};
    use crate::record::Claimed;
    use crate::store::StoreError;
    use crate::store::clock;
    use crate::store::sqlite::schema;
    use crate::store::sqlite::session::{Job, Ran, Step};
    use crate::store::sqlite::transaction::Stage;
    use crate::store::wake::Bells;
    use rusqlite::Connection;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc as std_mpsc};
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};

    fn desk() -> Desk {
        let connection = Connection::open_in_memory().expect("opening");
        schema::migrate(&connection).expect("making the tables");
        let (clock, bells) = (clock::system(), Bells::default());
        Desk {
            connection,
            clock,
            bells,
            transaction_for: Duration::from_secs(1),
            busy_for: Duration::ZERO,
            soiled: Arc::default(),
            void: 0,
            _presence: Arc::new(Presence::nowhere()),
        }
    }

    /// How many commits it takes to grant this many waiting claims.
    fn commits_of(claims: usize) -> usize {
        let mut desk = desk();
        let commits = Arc::new(AtomicUsize::new(0));
        let counted = commits.clone();
        let hook = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            false
        };
        desk.connection.commit_hook(Some(hook)).expect("counting");
        let (sender, commands) = mpsc::channel(QUEUE_MAX);
        let mut waiting = Vec::new();
        for n in 0..claims {
            let claim = claim(operation(n as u64), 1);
            let (reply, told) = oneshot::channel();
            let work = move |group: &mut Group<'_>| group.claim(&claim);
            let errand = Asked { work, done: None, reply };
            assert!(sender.try_send(Command::Errand(Box::new(errand))).is_ok(), "there is a place");
            waiting.push(told);
        }
        drop(sender);
        desk.serve(commands);
        for (n, mut told) in waiting.into_iter().enumerate() {
            let claimed = told.try_recv().expect("everybody was told").expect("claiming");
            assert!(matches!(claimed, Claimed::Granted(grant) if grant.epoch.0 == n as u64 + 1));
        }
        commits.load(Ordering::SeqCst)
    }

    #[test]
    fn whoever_waits_shares_one_commit() {
        for (claims, commits) in [(1, 1), (100, 1), (GROUP_MAX, 1), (GROUP_MAX + 1, 2)] {
            assert_eq!(commits_of(claims), commits, "{claims} claims");
        }
    }

    #[test]
    fn a_verb_waits_for_one_transaction_at_most() {
        let (sender, commands) = mpsc::channel(QUEUE_MAX);
        let session = |steps| Session { steps, stage: Arc::new(Mutex::new(Stage::Waiting)) };
        let (reply, mut told) = oneshot::channel();
        let was_told = Arc::new(AtomicBool::new(false));
        let note = was_told.clone();
        let second: Job = Box::new(move |_| {
            note.store(told.try_recv().is_ok(), Ordering::SeqCst);
            Ran::ToItsEnd(Box::new(|| {}))
        });
        let (first_steps, second_steps) = (std_mpsc::channel(), std_mpsc::channel());
        second_steps.0.send(Step::Run(second)).expect("the other end is here");
        drop((first_steps.0, second_steps.0));
        let renewal = Asked { work: |group: &mut Group<'_>| group.agree([1; 16]), done: None, reply };
        for command in [
            Command::Session(session(first_steps.1)),
            Command::Session(session(second_steps.1)),
            Command::Errand(Box::new(renewal)),
        ] {
            assert!(sender.try_send(command).is_ok(), "there is a place");
        }
        drop(sender);
        desk().serve(commands);
        assert!(was_told.load(Ordering::SeqCst), "before the second transaction began");
    }

    #[tokio::test]
    async fn a_panic_is_told_to_who_waited_and_the_thread_goes_on() {
        let writer = Writer::start(desk()).expect("a thread");
        let told = writer.ask(|_| -> Result<(), _> { panic!("on purpose") }).await;
        assert!(matches!(told, Err(StoreError::Unavailable(_))));
        assert!(writer.ask(|group| group.agree([1; 16])).await.expect("agreeing"));
    }

    #[tokio::test]
    async fn nobody_waits_for_a_thread_that_is_gone() {
        let (sender, mut commands) = mpsc::channel(QUEUE_MAX);
        let writer = Writer(sender);
        let asked = writer.ask(|group| group.agree([1; 16]));
        let gone = async {
            drop(commands.recv().await);
            drop(commands);
        };
        let (told, ()) = tokio::join!(asked, gone);
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "it was asked, and ended");
        let told = writer.ask(|group| group.agree([1; 16])).await;
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "it had ended before");
        assert!(writer.place().await.is_err());
    }
}
