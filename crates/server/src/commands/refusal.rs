//! Why a command was not carried out, sorted by what the caller can do about it.

use perdura_runtime::{InputError, StartError, TokenError, Unavailable};
use perdura_store::{CommitError, Failure, FailureKind};
use serde::{Deserialize, Serialize};

/// The remedy where too many executions run.
const WAIT_OR_RAISE: &str = "wait until one has ended, stop one, or raise quotas.executions";

/// Why a request was not carried out, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What the caller can do about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalKind {
    /// There is nothing of that name: look for it.
    NotFound,
    /// Something is in the way: the name is taken, the execution has ended.
    Conflict,
    /// The request is wrong: ask otherwise.
    Invalid,
    /// Not now: ask again.
    Unavailable,
    /// The data cannot be used until a person has seen to it.
    Broken,
}

impl Refusal {
    pub fn new(kind: RefusalKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), remedy: None }
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, what)
    }

    pub fn conflict(what: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, what)
    }

    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, what)
    }

    /// With a remedy.
    #[must_use]
    pub fn but(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let (kind, remedy) = match failure.kind {
            FailureKind::DiskFull => (
                RefusalKind::Unavailable,
                "make room on the disk; a server that runs goes on by itself, one that did not begin is started again",
            ),
            FailureKind::ReadOnly => (
                RefusalKind::Broken,
                "let perdura write to the data directory, or name another one with --data",
            ),
            FailureKind::Corrupt => (
                RefusalKind::Broken,
                "see what `perdura check` says, and restore a backup with `perdura restore`",
            ),
            // The failure itself names the process that holds the data, and the remedy.
            FailureKind::Held => return Self::new(RefusalKind::Unavailable, failure.to_string()),
            FailureKind::Newer => (RefusalKind::Broken, "use the newer perdura that wrote it"),
            FailureKind::Io => (RefusalKind::Unavailable, "see what the system says about the disk"),
        };
        Self::new(kind, failure.to_string()).but(remedy)
    }
}

impl From<CommitError> for Refusal {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Lost(failure) => failure.into(),
            CommitError::Busy | CommitError::Fenced { .. } => {
                Self::new(RefusalKind::Unavailable, error.to_string()).but("ask again")
            }
        }
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::Exists(id) => Self::conflict(error.to_string())
                .but(format!("see `perdura show {id}`, or choose another name")),
            StartError::NoMachine => Self::not_found(error.to_string()),
            StartError::TooMany(_) => Self::conflict(error.to_string()).but(WAIT_OR_RAISE),
            StartError::Paused => Self::conflict(error.to_string())
                .but("`perdura resume` lets it go on; a start that nobody waits for is taken, and waits"),
            StartError::Unavailable(_) => Self::new(RefusalKind::Unavailable, error.to_string())
                .but("start it again with the same name"),
        }
    }
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        match &error {
            InputError::Unknown => Self::not_found(error.to_string()),
            InputError::Parked(_) => {
                Self::new(RefusalKind::Broken, error.to_string()).but("see what `perdura check` says")
            }
            InputError::TooMany(_) => Self::conflict(error.to_string()).but(WAIT_OR_RAISE),
            InputError::Unavailable(_) => {
                Self::new(RefusalKind::Unavailable, error.to_string()).but("ask again")
            }
        }
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        Self::new(RefusalKind::Unavailable, error.to_string()).but("ask again")
    }
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Unknown => Self::not_found(error.to_string()),
            TokenError::TimedOut => Self::conflict(error.to_string())
                .but("a late answer is on record: `perdura trace TOKEN` tells what became of the task"),
            TokenError::NotTaken(error) => error.into(),
        }
    }
}
