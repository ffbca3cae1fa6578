//! Errors of this crate, sorted by the caller's next action.

use perdura_engine::ExecutionId;
use perdura_runtime::InputError;
use perdura_store::{CommitError, Failure, FailureKind};

/// Why opening or deploying failed.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use perdura::{Perdura, SetupError, Workflow};
///
/// let empty = Workflow::<u32, u32>::new("empty");
/// match Perdura::in_memory().workflow(&empty).await {
///     Err(SetupError::Program(what)) => assert!(what.contains("has no steps")),
///     other => panic!("{other:?}"),
/// }
/// # });
/// ```
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Correct the program: a workflow or a step is invalid. The text lists all mistakes.
    #[error("{0}")]
    Program(String),
    /// Another process has this folder open. End it, or use another folder.
    #[error("{0}")]
    Held(String),
    /// Not now: the disk is full or failed. Try again when that is fixed.
    #[error("{0}")]
    Unavailable(String),
    /// The data in the folder is unusable: damaged, read-only, or made by a newer perdura. A person must look at it;
    /// `perdura check` says more.
    #[error("{0}")]
    Data(String),
}

impl From<Failure> for SetupError {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure.kind {
            FailureKind::Held => Self::Held(text),
            FailureKind::DiskFull | FailureKind::Io => Self::Unavailable(text),
            FailureKind::Corrupt | FailureKind::Newer | FailureKind::ReadOnly => Self::Data(text),
        }
    }
}

impl From<CommitError> for SetupError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Lost(failure) => failure.into(),
            CommitError::Busy | CommitError::Fenced { .. } => Self::Unavailable(error.to_string()),
        }
    }
}

/// Why a start failed.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use perdura::{Perdura, StartError, Workflow};
/// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
/// # let workflow = Workflow::new("double").step(double);
/// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
/// perdura.start(&workflow, "first", 1).await.unwrap();
/// let other_input = perdura.start(&workflow, "first", 2).await;
/// assert!(matches!(other_input, Err(StartError::Taken { .. })));
/// # });
/// ```
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Correct the program: this workflow was not given to `open` or `deploy`, or not in this form.
    #[error("{0}")]
    NotDeployed(String),
    /// Choose another name for the execution: this one is not allowed.
    #[error("{0}")]
    Name(String),
    /// Correct the input: it cannot be written as JSON, or is too large.
    #[error("the input cannot be taken: {0}")]
    Input(String),
    /// The name belongs to an execution with another input. Choose another name, or look at that execution.
    #[error("an execution of this name has another input: {execution}")]
    Taken {
        /// The execution with this name.
        execution: ExecutionId,
    },
    /// Start it again later, with the same name: it is unknown whether the execution began, and the name keeps it from
    /// beginning twice.
    #[error("{0}")]
    Unavailable(String),
}

/// Why an execution has no output.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use perdura::{Perdura, RunError, StepError, Workflow};
/// async fn decline(_: u32) -> Result<u32, StepError> {
///     Err(StepError::refused("Declined", "not today"))
/// }
/// # let workflow = Workflow::new("decline").step(decline);
/// # let perdura = Perdura::in_memory().workflow(&workflow).await.unwrap();
/// match perdura.start(&workflow, "first", 1).await.unwrap().await {
///     Err(RunError::Failed { error, cause }) => assert_eq!((&*error, &*cause), ("Declined", "not today")),
///     other => panic!("{other:?}"),
/// }
/// # });
/// ```
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A step failed for good. Fix the cause, then [`redrive`](crate::Run::redrive).
    #[error("{error}: {cause}")]
    Failed {
        /// The error's name.
        error: String,
        /// The error's text.
        cause: String,
    },
    /// Somebody stopped the execution.
    #[error("it was stopped: {error}: {cause}")]
    Stopped {
        /// Why, as a name.
        error: String,
        /// Why, as a sentence.
        cause: String,
    },
    /// The execution took longer than its definition allows.
    #[error("it took too long")]
    TimedOut,
    /// The execution succeeded, but its output is not of this type: correct the program, and ask again.
    #[error("the output is of another type: {0}")]
    Output(String),
    /// Its end could not be read.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// Why an execution could not be read or changed.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use perdura::{AskError, Context, Perdura};
/// let perdura = Perdura::in_memory().await.unwrap();
/// let nobody = perdura.execution(Context::for_tests("key-1").execution());
/// assert!(matches!(nobody.status().await, Err(AskError::Unknown)));
/// # });
/// ```
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There is no such execution, or it was deleted.
    #[error("there is no such execution")]
    Unknown,
    /// The request changed nothing, for this reason: the execution has ended already, or the call no longer waits.
    #[error("nothing was changed: {0}")]
    Ignored(String),
    /// Ask again later.
    #[error("{0}")]
    Unavailable(String),
    /// Its stored data is unusable. It was set aside, and the others continue; `perdura check` says more.
    #[error("{0}")]
    Broken(String),
}

impl From<InputError> for AskError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Unknown => Self::Unknown,
            InputError::Parked(_) => Self::Broken(error.to_string()),
            InputError::TooMany(_) | InputError::Unavailable(_) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Failure> for AskError {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Corrupt | FailureKind::Newer => Self::Broken(failure.to_string()),
            FailureKind::Held | FailureKind::DiskFull | FailureKind::Io | FailureKind::ReadOnly => {
                Self::Unavailable(failure.to_string())
            }
        }
    }
}

impl From<CommitError> for AskError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Lost(failure) => failure.into(),
            CommitError::Busy | CommitError::Fenced { .. } => Self::Unavailable(error.to_string()),
        }
    }
}
