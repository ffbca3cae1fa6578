//! Clients: they start executions, watch, stop, redrive and answer by token, and ask again without an answer.

use perdura_engine::{ExecutionId, Input};
use perdura_runtime::{Ending, InputError, Reply, StartError, Started, Taken};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) type RequestId = usize;

/// The content of a request.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// One of the planned starts.
    Start(usize),
    /// An input for an execution.
    Input(ExecutionId, Input),
    /// Waits for its end.
    Watch(ExecutionId),
}

impl Wish {
    /// Whether an execution is to be redriven.
    pub(crate) fn is_redrive(&self) -> bool {
        matches!(self, Self::Input(_, Input::Redrive | Input::RedriveOnce { .. }))
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// To a start.
    Started(Result<Started, StartError>),
    /// To an input.
    Taken(Result<Taken, InputError>),
    /// To one who watches.
    Ended(Result<Ending, InputError>),
}

/// A request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) wish: Wish,
    /// The answer that counts.
    pub(crate) told: Option<Told>,
    /// How often it was sent.
    pub(crate) sent: u32,
    /// When it was first sent.
    pub(crate) sent_at: Option<i64>,
    /// The planned start that it belongs to.
    pub(crate) about: usize,
    /// A mark that its input leaves in the history.
    pub(crate) mark: Option<String>,
}

/// Answers that were sent and not received yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ears(Arc<Mutex<Vec<(RequestId, Told)>>>);

impl Ears {
    /// A reply that is received here.
    pub(crate) fn reply<T: Send + 'static>(&self, request: RequestId, told: fn(T) -> Told) -> Reply<T> {
        let ears = self.clone();
        Reply::new(move |answer| ears.lock().push((request, told(answer))))
    }

    /// Takes the new answers.
    pub(crate) fn hear(&self) -> Vec<(RequestId, Told)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(RequestId, Told)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// Whether the answer means "unknown" or "not now": then the client asks again.
    pub(crate) fn is_for_later(&self) -> bool {
        match self {
            Self::Started(Err(StartError::Unavailable(_)))
            | Self::Taken(Err(InputError::Unavailable(_) | InputError::Unknown))
            | Self::Ended(Err(InputError::Unavailable(_) | InputError::Unknown)) => true,
            Self::Started(
                Ok(_)
                | Err(
                    StartError::Exists(_)
                    | StartError::NoMachine
                    | StartError::TooMany(_)
                    | StartError::Paused,
                ),
            )
            | Self::Taken(Ok(_) | Err(InputError::Parked(_) | InputError::TooMany(_)))
            | Self::Ended(Ok(_) | Err(InputError::Parked(_) | InputError::TooMany(_))) => false,
        }
    }
}
