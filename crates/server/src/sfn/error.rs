//! Errors as Step Functions names them: one table from what went wrong to a code, a status and AWS's words.

use crate::places::Crowded;
use perdura_engine::asl::json::{Map, Value};
use perdura_runtime::Seldom;
use perdura_runtime::card::{CardError, TAGS_MAX};
use perdura_runtime::{InputError, Unavailable};
use perdura_store::{CommitError, Failure};

/// A call that was not carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct ApiError {
    pub code: Code,
    pub message: String,
    /// Further members: `reason`, `resourceName`, `kmsKeyState`.
    pub members: Vec<(&'static str, String)>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal),* $(,)?) => {
        /// The codes of the service's model, and those that every AWS service has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "AWS's own names")]
        pub enum Code { $($(#[$doc])* $name),* }

        impl Code {
            /// The value of `__type`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }
        }
    };
}

codes! {
    ActivityAlreadyExists = 400,
    ActivityDoesNotExist = 400,
    ActivityLimitExceeded = 400,
    ActivityWorkerLimitExceeded = 400,
    ConflictException = 400,
    ExecutionAlreadyExists = 400,
    ExecutionDoesNotExist = 400,
    ExecutionLimitExceeded = 400,
    ExecutionNotRedrivable = 400,
    InvalidArn = 400,
    InvalidDefinition = 400,
    InvalidEncryptionConfiguration = 400,
    InvalidExecutionInput = 400,
    InvalidLoggingConfiguration = 400,
    InvalidName = 400,
    InvalidOutput = 400,
    InvalidToken = 400,
    InvalidTracingConfiguration = 400,
    KmsAccessDeniedException = 400,
    KmsInvalidStateException = 400,
    KmsThrottlingException = 400,
    MissingRequiredParameter = 400,
    ResourceNotFound = 400,
    ServiceQuotaExceededException = 400,
    StateMachineAlreadyExists = 400,
    StateMachineDeleting = 400,
    StateMachineDoesNotExist = 400,
    StateMachineLimitExceeded = 400,
    StateMachineTypeNotSupported = 400,
    TaskDoesNotExist = 400,
    TaskTimedOut = 400,
    TooManyTags = 400,
    ValidationException = 400,
    // Those that every AWS service has.
    AccessDeniedException = 400,
    IncompleteSignatureException = 400,
    InvalidSignatureException = 403,
    MissingAuthenticationTokenException = 403,
    RequestEntityTooLargeException = 413,
    RequestTimeoutException = 408,
    SerializationException = 400,
    ServiceUnavailable = 503,
    ThrottlingException = 429,
    UnknownOperationException = 400,
    UnrecognizedClientException = 403,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), members: Vec::new() }
    }

    /// A `ValidationException`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::ValidationException, message)
    }

    /// With a further member.
    #[must_use]
    pub fn with(mut self, member: &'static str, value: impl Into<String>) -> Self {
        self.members.push((member, value.into()));
        self
    }

    pub(super) fn invalid_arn(why: impl AsRef<str>) -> Self {
        Self::new(Code::InvalidArn, format!("Invalid Arn: '{}'", why.as_ref()))
    }

    pub(super) fn invalid_name(name: &str) -> Self {
        Self::new(Code::InvalidName, format!("Invalid Name: '{name}'"))
    }

    pub(super) fn invalid_token() -> Self {
        Self::new(Code::InvalidToken, "Invalid Token: 'Invalid token'")
    }

    pub(super) fn no_machine(arn: &str) -> Self {
        Self::new(Code::StateMachineDoesNotExist, format!("State Machine Does Not Exist: '{arn}'"))
    }

    pub(super) fn no_execution(arn: &str) -> Self {
        Self::new(Code::ExecutionDoesNotExist, format!("Execution Does Not Exist: '{arn}'"))
    }

    pub(super) fn no_activity(arn: &str) -> Self {
        Self::new(Code::ActivityDoesNotExist, format!("Activity Does Not Exist: '{arn}'"))
    }

    /// The error for what is neither a machine nor an execution.
    pub(super) fn no_resource(arn: &str) -> Self {
        Self::new(Code::ResourceNotFound, format!("Resource not found: '{arn}'")).with("resourceName", arn)
    }

    /// The error for an alias, or a version that an alias should lead to.
    pub(super) fn no_alias() -> Self {
        Self::new(Code::ResourceNotFound, "Request references a resource that does not exist.")
    }

    pub(super) fn wrong_type() -> Self {
        Self::new(
            Code::StateMachineTypeNotSupported,
            "This operation is not supported by this type of state machine",
        )
    }

    pub(super) fn too_many_run(most: u64) -> Self {
        Self::new(Code::ExecutionLimitExceeded, format!("Execution Limit Exceeded: '{most}'"))
    }

    /// The node cannot do it now. SDKs retry by themselves.
    pub(super) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::new(Code::ServiceUnavailable, why.to_string())
    }

    /// Whether the same request may succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, Code::ServiceUnavailable | Code::ThrottlingException)
    }

    /// The body of the answer.
    pub fn to_json(&self) -> Value {
        let mut body = Map::new();
        body.insert("__type", self.code.name());
        body.insert("message", self.message.as_str());
        for (member, value) in &self.members {
            body.insert(*member, value.as_str());
        }
        body.into()
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        not_carried_out(&failure);
        Self::unavailable(failure)
    }
}

impl From<CardError> for ApiError {
    fn from(error: CardError) -> Self {
        match error {
            CardError::OtherRevision { wanted, current } => Self::new(
                Code::ConflictException,
                format!(
                    "Failed to publish the State Machine version for revision {wanted}. The current State Machine \
                     revision is {current}."
                ),
            ),
            CardError::VersionsFull(most) => Self::new(
                Code::ServiceQuotaExceededException,
                format!("The maximum number of versions for a state machine is {most}"),
            ),
            CardError::AliasesFull(most) => Self::new(
                Code::ServiceQuotaExceededException,
                format!("The maximum number of aliases for a state machine is {most}"),
            ),
            CardError::LedTo(aliases) => Self::new(
                Code::ConflictException,
                format!(
                    "Version to be deleted must not be referenced by an alias. Current list of aliases referencing \
                     this version: [{}]",
                    aliases.join(", ")
                ),
            ),
            CardError::AliasTaken(name) => Self::new(
                Code::ConflictException,
                format!(
                    "Failed to create alias because an alias with the same name and a different routing \
                     configuration already exists: {name}"
                ),
            ),
            CardError::NotThere => Self::no_alias(),
            CardError::TagsFull(count) => {
                Self::new(Code::TooManyTags, format!("Resource has {count} tags; the most is {TAGS_MAX}"))
            }
        }
    }
}

impl From<CommitError> for ApiError {
    fn from(error: CommitError) -> Self {
        not_carried_out(&error);
        Self::unavailable(error)
    }
}

/// Logged seldom: a store that fails fails every call.
fn not_carried_out(error: &dyn std::fmt::Display) {
    static LINE: Seldom = Seldom::new();
    if let Some(left_out) = LINE.turn() {
        tracing::error!(%error, left_out, "a call could not be carried out");
    }
}

/// SDKs retry it.
impl From<Crowded> for ApiError {
    fn from(crowded: Crowded) -> Self {
        Self::new(Code::ThrottlingException, crowded.to_string())
    }
}

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> Self {
        Self::unavailable(error)
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::TooMany(most) => Self::too_many_run(most),
            InputError::Unknown | InputError::Parked(_) | InputError::Unavailable(_) => {
                Self::unavailable(error)
            }
        }
    }
}
