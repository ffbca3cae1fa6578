//! A handler's transaction on the writing thread: one step after the other, on its connection, until it is completed,
//! given up, or too old.
//!
//! All other writes wait meanwhile, so it has a time limit, also within one statement, which SQLite interrupts.
//! [`guard`](super::guard) decides what the handler may run.

use super::group::Group;
use super::guard::{guard, unguard};
use super::transaction::{Stage, Why};
use super::trouble::Trouble;
use super::writer::Desk;
use crate::record::{Completion, Holding};
use crate::store::StoreError;
use rusqlite::{Connection, ErrorCode};
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// The handler's work on the file.
pub(super) type Job = Box<dyn FnOnce(&Connection) -> Ran + Send>;

/// Replies to a caller.
pub(super) type Tell = Box<dyn FnOnce() + Send>;

/// The result of a job. Its caller gets the reply after it is known whether the transaction goes on; if the reply is
/// dropped, the caller asks for the reason.
pub(super) enum Ran {
    ToItsEnd(Tell),
    /// Values to drop then.
    Panicked(Tell),
}

/// A step of the handler, or of the layer that ends it.
pub(super) enum Step {
    Run(Job),
    Complete(Completion, oneshot::Sender<Result<Holding, StoreError>>),
    /// Dropped when it is done, which the waiting side notices.
    RollBack(oneshot::Sender<Infallible>),
}

/// A transaction that waits for the thread.
pub(super) struct Session {
    pub(super) steps: Receiver<Step>,
    pub(super) stage: Arc<Mutex<Stage>>,
}

impl Session {
    /// Whether it is still wanted, now that its turn has come. Transactions that were stopped while they queued would
    /// otherwise be served for nothing.
    fn begins(&self) -> bool {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            Stage::Queued(steps) => *stage = Stage::Open(steps.clone()),
            Stage::Ended(Why::GivenUp) => return false,
            Stage::Waiting | Stage::Open(_) | Stage::Ended(_) => {}
        }
        true
    }

    /// Stores why the transaction ended, before later steps fail.
    fn ended(&self, why: Why) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            // The thread's reason is more precise.
            Stage::Waiting | Stage::Queued(_) | Stage::Open(_) | Stage::Ended(Why::Ended | Why::GivenUp) => {
                *stage = Stage::Ended(why);
            }
            Stage::Ended(_) => {}
        }
    }
}

/// Serves one transaction to its end.
pub(super) fn serve(desk: &mut Desk, session: &Session) {
    if !session.begins() {
        return;
    }
    let (why, tell) = match desk.clean().and_then(|()| desk.begin()) {
        Ok(()) => steps(desk, session),
        Err(error) => (Why::NotBegun(Arc::new(error)), None),
    };
    desk.roll_back();
    session.ended(why);
    if let Some(tell) = tell {
        tell();
    }
}

fn steps(desk: &mut Desk, session: &Session) -> (Why, Option<Tell>) {
    let deadline = Instant::now() + desk.transaction_for;
    loop {
        match session.steps.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Step::Run(job)) => match run(desk, job, deadline) {
                Ok(tell) => tell(),
                Err(ended) => return ended,
            },
            Ok(Step::Complete(completion, reply)) => {
                let completed = complete(desk, &completion);
                // A caller that no longer waits finds the end in the record.
                return (Why::Ended, Some(Box::new(move || drop(reply.send(completed)))));
            }
            Ok(Step::RollBack(waiting)) => return (Why::Ended, Some(Box::new(move || drop(waiting)))),
            Err(RecvTimeoutError::Timeout) => return (Why::TimedOut, None),
            Err(RecvTimeoutError::Disconnected) => return (Why::Ended, None),
        }
    }
}

/// Runs the handler's work. `Err`: the transaction is over.
fn run(desk: &mut Desk, job: Job, deadline: Instant) -> Result<Tell, (Why, Option<Tell>)> {
    let failed = |error| (Why::NotBegun(Arc::new(error)), None);
    guard(&mut desk.connection, deadline, &desk.soiled).map_err(failed)?;
    let ran = job(&desk.connection);
    unguard(&mut desk.connection).map_err(failed)?;
    match ran {
        Ran::Panicked(untold) => Err((Why::Panicked, Some(untold))),
        Ran::ToItsEnd(tell) if Instant::now() >= deadline => {
            Err((Why::TimedOut, Some(Box::new(move || drop(tell)))))
        }
        // The job knows the reason, and reports it.
        Ran::ToItsEnd(tell) if desk.connection.is_autocommit() => Err((Why::RolledBack, Some(tell))),
        Ran::ToItsEnd(tell) => Ok(tell),
    }
}

/// Commits the handler's changes together with its end, or neither.
fn complete(desk: &Desk, completion: &Completion) -> Result<Holding, StoreError> {
    let mut group = Group::new(&desk.connection, &desk.clock, desk.void);
    let holding = group.complete(completion)?;
    match holding {
        Holding::Held => {
            group.close()?;
            desk.execute("COMMIT").map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => StoreError::Refused(Box::new(error)),
                Some(_) | None => Trouble::told(error),
            })?;
            desk.bells.ring(completion.operation);
        }
        Holding::Lost => desk.roll_back(),
    }
    Ok(holding)
}
