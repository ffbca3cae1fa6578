//! A handler's transaction, as the writing thread serves it: one step after the other, on its own connection, until it
//! is completed, given up, or too old.
//!
//! Nobody else writes meanwhile, so it is bounded in time: also within one statement, which SQLite interrupts. What the
//! handler may run is decided in [`guard`](super::guard).

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

/// What the handler does to the file.
pub(super) type Job = Box<dyn FnOnce(&Connection) -> Ran + Send>;

/// Tells a caller.
pub(super) type Tell = Box<dyn FnOnce() + Send>;

/// What came of a job. Its caller is told after it is known whether the transaction goes on; dropped untold, the caller
/// asks why.
pub(super) enum Ran {
    ToItsEnd(Tell),
    /// What is left of it, to be dropped then.
    Panicked(Tell),
}

/// One step of the handler, or of the layer that ends it.
pub(super) enum Step {
    Run(Job),
    Complete(Completion, oneshot::Sender<Result<Holding, StoreError>>),
    /// Whoever waits on the other end learns that it is done when this is dropped.
    RollBack(oneshot::Sender<Infallible>),
}

/// A transaction that waits for the thread.
pub(super) struct Session {
    pub(super) steps: Receiver<Step>,
    pub(super) stage: Arc<Mutex<Stage>>,
}

impl Session {
    /// Whether it is still wanted, now that its turn has come. Those who were stopped while they queued would otherwise be
    /// served one after the other, for nothing.
    fn begins(&self) -> bool {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            Stage::Queued(steps) => *stage = Stage::Open(steps.clone()),
            Stage::Ended(Why::GivenUp) => return false,
            Stage::Waiting | Stage::Open(_) | Stage::Ended(_) => {}
        }
        true
    }

    /// Says why there is no transaction any more, before the steps that still come find nobody.
    fn ended(&self, why: Why) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match &*stage {
            // Whoever ended it did not know what the thread knows.
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
                // Whoever no longer waits finds the end in the record.
                return (Why::Ended, Some(Box::new(move || drop(reply.send(completed)))));
            }
            Ok(Step::RollBack(waiting)) => return (Why::Ended, Some(Box::new(move || drop(waiting)))),
            Err(RecvTimeoutError::Timeout) => return (Why::TimedOut, None),
            Err(RecvTimeoutError::Disconnected) => return (Why::Ended, None),
        }
    }
}

/// Runs what the handler brought. `Err`: there is no transaction to go on with.
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
        // What was run knows the reason, and tells it.
        Ran::ToItsEnd(tell) if desk.connection.is_autocommit() => Err((Why::RolledBack, Some(tell))),
        Ran::ToItsEnd(tell) => Ok(tell),
    }
}

/// Commits what the handler did together with its end, or neither.
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
