//! Every refusal, in one closed set: problem details (RFC 9457) with a `code`, a `reason`, and the caller's next
//! action. A reason never has two meanings.

use crate::operations::State;
use crate::record::OperationId;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};
use std::time::Duration;

/// The profile of refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Ours: reuse of a key for another request is a conflict, 409.
    #[default]
    Perdura,
    /// draft-ietf-httpapi-idempotency-key-header-07: reuse of a key is 422.
    Ietf,
}

/// Generates the reasons from their table: status, `code`, `reason`, next action, and title.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident: $status:literal, $code:expr, $reason:literal, $next:ident, $title:literal;)+) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reason {
            $($(#[$doc])* $name),+
        }

        impl Reason {
            pub(crate) const ALL: [Self; [$($status),+].len()] = [$(Self::$name),+];

            const fn line(self) -> (u16, &'static str, &'static str, Next, &'static str) {
                match self {
                    $(Self::$name => ($status, $code, $reason, Next::$next, $title)),+
                }
            }
        }
    };
}

const HEADER: &str = "ERR400_MISSING_OR_MALFORMED_HEADER";
const CONFLICT: &str = "ERR409_SERVER_STATE_CONFLICT";

reasons! {
    KeyRequired: 400, HEADER, "IDEMPOTENCY_KEY_REQUIRED", NewKey,
        "This request needs an Idempotency-Key header";
    KeyMalformed: 400, HEADER, "IDEMPOTENCY_KEY_MALFORMED", NewKey,
        "The Idempotency-Key is not one key of a form that is taken here";
    KeyStale: 412, "ERR412_PRECONDITION_FAILED", "STALE_IDEMPOTENCY_KEY", Stop,
        "The Idempotency-Key is older than records are kept, so it cannot be told whether it was used";
    ScopeMissing: 401, "ERR401_NOT_AUTHENTICATED", "IDEMPOTENCY_SCOPE_MISSING", SameKey,
        "The caller is not known";
    NotAuthorised: 403, "ERR403_NOT_AUTHORISED", "NOT_AUTHORISED", Stop,
        "The caller may not do this, nor see what came of it before";
    DigestInvalid: 400, HEADER, "CONTENT_DIGEST_MALFORMED", SameKey,
        "The Content-Digest cannot be read";
    DigestMismatched: 400, HEADER, "CONTENT_DIGEST_MISMATCHED", SameKey,
        "The content that arrived is not the content that Content-Digest describes";
    DigestUnsupported: 400, HEADER, "CONTENT_DIGEST_UNSUPPORTED", SameKey,
        "The Content-Digest uses no algorithm that is accepted here: sha-256 and sha-512 are";
    ContentMalformed: 400, "ERR400_MALFORMED_CONTENT", "CONTENT_MALFORMED", NewKey,
        "The content is not what its media type says";
    ContentTooLarge: 413, "ERR413_CONTENT_TOO_LARGE", "CONTENT_TOO_LARGE", NewKey,
        "The content is too large";
    CharsetUnsupported: 415, "ERR415_UNSUPPORTED_MEDIA_TYPE", "CHARSET_UNSUPPORTED", NewKey,
        "JSON is read as UTF-8 only";
    Conflict: 409, CONFLICT, "CONFLICTING_IDEMPOTENT_REQUEST", NewKey,
        "This Idempotency-Key was used for a different request";
    InProgress: 409, CONFLICT, "IDEMPOTENT_REQUEST_IN_PROGRESS", SameKey,
        "The first request with this Idempotency-Key has not ended yet";
    OutcomeUnknown: 409, CONFLICT, "OUTCOME_UNKNOWN", Stop,
        "The first request with this Idempotency-Key began, and it is not known what came of it; it is not run again";
    /// It ended while this request waited for it.
    NotApplied: 409, CONFLICT, "NOT_APPLIED", SameKey,
        "The first request with this Idempotency-Key has ended, and nothing of it was done";
    /// The handler's changes violate a constraint that is checked only at the commit. Stored, and answered again.
    CommitRefused: 409, CONFLICT, "COMMIT_REFUSED", NewKey,
        "The database refused to commit what the request did, so nothing of it was done";
    /// The answer was too large, or of a kind that is not stored.
    ResultNotRetained: 409, CONFLICT, "RESULT_NOT_RETAINED", Stop,
        "The first request with this Idempotency-Key has ended; its answer was not kept";
    ResultExpired: 409, CONFLICT, "RESULT_EXPIRED", Stop,
        "The first request with this Idempotency-Key ended long ago; its answer is no longer kept";
    /// Too many replays, conflicts, running operations or stored bytes of one caller.
    TooMany: 429, "ERR429_TOO_MANY_REQUESTS", "IDEMPOTENCY_BUDGET_EXCEEDED", SameKey,
        "Too many of these requests";
    /// Nothing was done, or it is not known yet that it was.
    StoreUnavailable: 503, "ERR503_SERVICE_UNAVAILABLE", "IDEMPOTENCY_STORE_UNAVAILABLE", SameKey,
        "It cannot be recorded now what is done under this Idempotency-Key";
    RecordDamaged: 500, "ERR500_INTERNAL", "IDEMPOTENCY_RECORD_DAMAGED", Stop,
        "The record of this Idempotency-Key cannot be read; it is not run again";
    /// Its changes were rolled back.
    HandlerFailed: 500, "ERR500_INTERNAL", "HANDLER_FAILED", SameKey,
        "The request failed, and nothing of it was done";
    /// It never existed, expired, or belongs to another caller.
    OperationNotFound: 404, "ERR404_NOT_FOUND", "OPERATION_NOT_FOUND", Stop,
        "There is no such operation, or it is no longer kept";
}

/// The caller's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Repeat the same request with the same key, after `Retry-After` if there is one.
    SameKey,
    /// Correct the request, and send it with a new key.
    NewKey,
    /// Do not send it again: find out what happened.
    Stop,
}

impl Reason {
    /// The name for callers.
    pub(crate) const fn name(self) -> &'static str {
        self.line().2
    }

    /// The status of the answer.
    pub(crate) fn status(self, profile: Profile) -> StatusCode {
        let status = match (self, profile) {
            (Self::Conflict, Profile::Ietf) => 422,
            (_, Profile::Perdura | Profile::Ietf) => self.line().0,
        };
        StatusCode::from_u16(status).expect("the table holds statuses")
    }

    pub(crate) const fn next(self) -> Next {
        self.line().3
    }

    /// Whether the answer has `Retry-After`.
    pub(crate) const fn tells_when(self) -> bool {
        matches!(self, Self::InProgress | Self::NotApplied | Self::TooMany | Self::StoreUnavailable)
    }

    /// The operation's state, if the reason implies it.
    pub(crate) const fn state(self) -> Option<State> {
        match self {
            Self::InProgress => Some(State::Running),
            Self::OutcomeUnknown => Some(State::Unknown),
            Self::ResultNotRetained => Some(State::Completed),
            Self::ResultExpired => Some(State::Expired),
            Self::KeyRequired
            | Self::KeyMalformed
            | Self::KeyStale
            | Self::ScopeMissing
            | Self::NotAuthorised
            | Self::DigestInvalid
            | Self::DigestMismatched
            | Self::DigestUnsupported
            | Self::ContentMalformed
            | Self::ContentTooLarge
            | Self::CharsetUnsupported
            | Self::Conflict
            | Self::NotApplied
            | Self::CommitRefused
            | Self::TooMany
            | Self::StoreUnavailable
            | Self::RecordDamaged
            | Self::HandlerFailed
            | Self::OperationNotFound => None,
        }
    }

    /// Its `code`: the kind of refusal, beside the status.
    pub(crate) const fn code(self) -> &'static str {
        self.line().1
    }

    /// The title, for people.
    pub(crate) const fn title(self) -> &'static str {
        self.line().4
    }

    /// The problem's type. The digest problems have registered ones.
    pub(crate) fn uri(self) -> String {
        const DIGEST: &str = "https://iana.org/assignments/http-problem-types#digest-";
        match self {
            Self::DigestInvalid => format!("{DIGEST}invalid-values"),
            Self::DigestMismatched => format!("{DIGEST}mismatched-values"),
            Self::DigestUnsupported => format!("{DIGEST}unsupported-algorithms"),
            other => format!("urn:perdura:problem:{}", other.name().to_ascii_lowercase().replace('_', "-")),
        }
    }
}

impl Next {
    /// The name for callers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SameKey => "same_key",
            Self::NewKey => "new_key",
            Self::Stop => "stop",
        }
    }
}

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    reason: Reason,
    detail: Option<String>,
    operation: Option<OperationId>,
    retry_after: Option<Duration>,
    status: Option<StatusCode>,
    next: Option<Next>,
    instance: Option<String>,
}

impl Problem {
    pub(crate) fn new(reason: Reason) -> Self {
        Self {
            reason,
            detail: None,
            operation: None,
            retry_after: None,
            status: None,
            next: None,
            instance: None,
        }
    }

    /// Adds details about this request. They must not contain a secret.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Sets the operation that it is about.
    pub(crate) fn about(mut self, operation: OperationId) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Sets `Retry-After`.
    pub(crate) fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Sets this status, for the caller whose own request failed.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the next action, if it differs from the reason's.
    pub(crate) fn with_next(mut self, next: Next) -> Self {
        self.next = Some(next);
        self
    }

    /// Sets the path of operations, for the address of its operation.
    pub(crate) fn found_below(mut self, path: Option<&str>) -> Self {
        self.instance =
            path.zip(self.operation).map(|(path, operation)| format!("{path}/operations/{operation}"));
        self
    }

    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// The answer: problem details, never cached.
    pub(crate) fn into_response(self, profile: Profile) -> Response<Bytes> {
        let (_, code, name, next, title) = self.reason.line();
        let status = self.status.unwrap_or_else(|| self.reason.status(profile));
        let next = self.next.unwrap_or(next);
        let code = match self.status {
            None => code,
            Some(StatusCode::GATEWAY_TIMEOUT) => "ERR504_GATEWAY_TIMEOUT",
            Some(_) => "ERR500_INTERNAL",
        };
        let mut members = Map::new();
        members.insert("type".to_owned(), self.reason.uri().into());
        members.insert("title".to_owned(), title.into());
        members.insert("status".to_owned(), status.as_u16().into());
        if let Some(detail) = self.detail {
            members.insert("detail".to_owned(), detail.into());
        }
        members.insert("code".to_owned(), code.into());
        members.insert("reason".to_owned(), name.into());
        members.insert("next".to_owned(), next.name().into());
        if let Some(operation) = self.operation {
            members.insert("operation".to_owned(), operation.to_string().into());
            if let Some(state) = self.reason.state() {
                members.insert("state".to_owned(), state.name().into());
            }
        }
        if let Some(instance) = self.instance {
            members.insert("instance".to_owned(), instance.into());
        }
        let mut response = Response::new(Bytes::from(Value::Object(members).to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
