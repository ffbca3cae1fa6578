//! Refusals as problem details (RFC 9457): one table from what went wrong to a code, a status and a title.

use crate::places::NotDone;
use crate::sfn::{ApiError, Code as Aws};
use crate::{Refusal, RefusalKind};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::json;

/// Seconds after which somebody who was sent away may come again.
const RETRY_AFTER: &str = "1";
const TYPE: &str = "urn:perdura:problem:";

macro_rules! codes {
    ($($name:ident $code:literal $status:literal $title:literal $kind:ident;)*) => {
        /// What went wrong, by what the caller can do about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($name),* }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The value of `code`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// The same as a command is told it.
            pub fn kind(self) -> RefusalKind {
                match self { $(Self::$name => RefusalKind::$kind),* }
            }
        }
    };
}

codes! {
    Invalid "invalid" 400 "The request is wrong" Invalid;
    NotAuthenticated "notAuthenticated" 401 "Nobody knows who asks" Invalid;
    Forbidden "forbidden" 403 "The caller may not do this" Invalid;
    NotFound "notFound" 404 "There is nothing of that name" NotFound;
    WrongMethod "wrongMethod" 405 "This path has other methods" Invalid;
    TooSlow "tooSlow" 408 "The request did not arrive in time" Unavailable;
    Conflict "conflict" 409 "Something is in the way" Conflict;
    Changed "changed" 412 "It has changed since" Conflict;
    TooLarge "tooLarge" 413 "The request is too large" Invalid;
    NotJson "notJson" 415 "The body is to be JSON" Invalid;
    WrongHost "wrongHost" 421 "Not under this name" Invalid;
    Crowded "crowded" 429 "Too many at once" Unavailable;
    Broken "broken" 500 "The data needs a person" Broken;
    Unavailable "unavailable" 503 "Not now" Unavailable;
}

impl From<RefusalKind> for Code {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::NotFound => Self::NotFound,
            RefusalKind::Conflict => Self::Conflict,
            RefusalKind::Invalid => Self::Invalid,
            RefusalKind::Unavailable => Self::Unavailable,
            RefusalKind::Broken => Self::Broken,
        }
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub remedy: Option<String>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), remedy: None }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::Invalid, detail)
    }

    /// With a remedy.
    #[must_use]
    pub fn but(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        let code = self.code;
        let mut told = json!({
            "type": format!("{TYPE}{}", code.name()), "title": code.title(), "status": code.status(),
            "code": code.name(), "detail": self.detail,
        });
        if let Some(remedy) = &self.remedy {
            told["remedy"] = remedy.as_str().into();
        }
        told
    }

    pub(crate) fn into_response(self) -> Response {
        tracing::debug!(code = self.code.name(), detail = self.detail, "refused");
        let mut response = Response::new(Body::from(self.to_json().to_string()));
        *response.status_mut() = StatusCode::from_u16(self.code.status()).expect("the table has statuses");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.code == Code::NotAuthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code.kind() == RefusalKind::Unavailable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }

    /// Reads what another server told. A code of somebody else, as the idempotency layer has, goes by its status.
    pub(super) fn read(status: u16, body: &[u8]) -> Refusal {
        let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| told.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
        let code = text("code").and_then(|code| Code::ALL.iter().copied().find(|known| known.name() == code));
        let kind = code.map_or_else(|| of_status(status), Code::kind);
        let what = text("detail").or_else(|| text("title"));
        let what = what.unwrap_or_else(|| format!("the server answers with the status {status}"));
        Refusal { kind, what, remedy: text("remedy") }
    }
}

fn of_status(status: u16) -> RefusalKind {
    match status {
        404 => RefusalKind::NotFound,
        409 | 412 => RefusalKind::Conflict,
        429 | 502 | 503 | 504 => RefusalKind::Unavailable,
        500.. => RefusalKind::Broken,
        _ => RefusalKind::Invalid,
    }
}

impl From<Refusal> for Problem {
    fn from(Refusal { kind, what, remedy }: Refusal) -> Self {
        Self { code: kind.into(), detail: what, remedy }
    }
}

impl From<NotDone> for Problem {
    fn from(not_done: NotDone) -> Self {
        match not_done {
            NotDone::Crowded(crowded) => Self::new(Code::Crowded, crowded.to_string()),
            NotDone::Panicked(panic) => {
                tracing::error!(%panic, "a request could not be answered");
                Self::new(Code::Broken, "the request failed by a bug in perdura").but("see the server's log")
            }
        }
    }
}

/// Where a verb is carried out by the Step Functions API, its error in our words.
impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let name = error.code.name();
        let code = match error.code {
            Aws::ConflictException | Aws::StateMachineDeleting | Aws::ServiceQuotaExceededException => {
                Code::Conflict
            }
            Aws::RequestEntityTooLargeException => Code::TooLarge,
            Aws::RequestTimeoutException => Code::TooSlow,
            Aws::ThrottlingException => Code::Crowded,
            _ if name.ends_with("DoesNotExist") || name == "ResourceNotFound" => Code::NotFound,
            _ if error.is_passing() => Code::Unavailable,
            _ => Code::Invalid,
        };
        Self::new(code, error.message)
    }
}
