//! The verdict on an operation, from the end of its handler.

use crate::policy::Mode;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It answered with this status; `not_applied` if it says itself that nothing was done, `attached` if the answer is
    /// the end of work that began before.
    Answered { status: StatusCode, not_applied: bool, attached: bool },
    /// It panicked, ran too long, or its answer broke off.
    Broke,
}

/// The record of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The answer: it is final.
    Keep,
    /// Nothing: the handler did nothing, so the same key may be used again.
    Release,
    /// That the outcome is unknown.
    Unknown,
}

/// The verdict on this end. A server error says nothing about earlier effects; only a rolled-back transaction, or the
/// handler's own statement, does.
pub(crate) fn verdict(mode: &Mode, ended: Ended) -> Verdict {
    let undone = match mode {
        Mode::Transactional => Verdict::Release,
        Mode::Exempt | Mode::AtMostOnce | Mode::Durable(_) => Verdict::Unknown,
    };
    match ended {
        Ended::Broke => undone,
        Ended::Answered { not_applied: true, .. } => Verdict::Release,
        Ended::Answered { status, not_applied: false, attached } => match status.as_u16() {
            405 | 408 | 425 | 429 if !attached => Verdict::Release,
            500.. => undone,
            _ => Verdict::Keep,
        },
    }
}

/// An answer by which a handler says that it did nothing: the operation is forgotten, and the caller may retry with the
/// same key.
///
/// ```
/// use axum::http::StatusCode;
/// use axum::response::IntoResponse;
/// use perdura_idempotency::NotApplied;
///
/// async fn pay() -> impl IntoResponse {
///     // The bank could not be reached, so nothing was sent.
///     NotApplied(StatusCode::SERVICE_UNAVAILABLE)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NotApplied<R>(pub R);

/// An answer by which a handler says that it does not know what was done: it called another service, which did not
/// answer. The outcome is recorded as unknown, and the caller gets the layer's own problem, under this status.
#[derive(Clone, Debug)]
pub struct OutcomeUnknown {
    /// A server error, such as 502 or 504; any other one counts as 502.
    pub status: StatusCode,
    /// Why it is not known. It must hold no secret.
    pub detail: String,
}

impl IntoResponse for OutcomeUnknown {
    fn into_response(self) -> Response {
        let status = if self.status.is_server_error() { self.status } else { StatusCode::BAD_GATEWAY };
        let mut response = (status, self.detail.clone()).into_response();
        response.extensions_mut().insert(Self { status, ..self });
        response
    }
}

/// The mark that [`NotApplied`] leaves on a response.
#[derive(Clone, Copy)]
struct NotAppliedMark;

/// The mark of an answer that is the end of earlier work.
#[derive(Clone, Copy)]
pub(crate) struct AttachedMark;

impl Ended {
    /// The end according to the marks on a response.
    pub(crate) fn with<B>(response: &http::Response<B>) -> Self {
        let extensions = response.extensions();
        Self::Answered {
            status: response.status(),
            not_applied: extensions.get::<NotAppliedMark>().is_some(),
            attached: extensions.get::<AttachedMark>().is_some(),
        }
    }
}

impl<R: IntoResponse> IntoResponse for NotApplied<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        response.extensions_mut().insert(NotAppliedMark);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Keep, Release, Unknown};
    use super::*;
    use crate::policy::Attached;
    use std::sync::Arc;

    #[test]
    fn what_is_recorded_follows_from_how_it_ended() {
        let durable = Mode::Durable(Arc::new(|_| async { Attached::NotBegun }));
        let status = |status| StatusCode::from_u16(status).unwrap();
        let answered =
            |code, not_applied| Ended::Answered { status: status(code), not_applied, attached: false };
        let attached =
            |code, not_applied| Ended::Answered { status: status(code), not_applied, attached: true };
        // How it ended, then at most once, transactional, durable.
        let table = [
            (answered(200, false), [Keep, Keep, Keep]),
            (answered(201, false), [Keep, Keep, Keep]),
            (answered(303, false), [Keep, Keep, Keep]),
            (answered(400, false), [Keep, Keep, Keep]),
            (answered(404, false), [Keep, Keep, Keep]),
            (answered(409, false), [Keep, Keep, Keep]),
            (answered(422, false), [Keep, Keep, Keep]),
            (answered(405, false), [Release, Release, Release]),
            (answered(408, false), [Release, Release, Release]),
            (answered(425, false), [Release, Release, Release]),
            (answered(429, false), [Release, Release, Release]),
            (answered(503, true), [Release, Release, Release]),
            (answered(500, false), [Unknown, Release, Unknown]),
            (answered(502, false), [Unknown, Release, Unknown]),
            (answered(503, false), [Unknown, Release, Unknown]),
            (answered(504, false), [Unknown, Release, Unknown]),
            (attached(200, false), [Keep, Keep, Keep]),
            (attached(405, false), [Keep, Keep, Keep]),
            (attached(408, false), [Keep, Keep, Keep]),
            (attached(425, false), [Keep, Keep, Keep]),
            (attached(429, false), [Keep, Keep, Keep]),
            (attached(429, true), [Release, Release, Release]),
            (attached(500, false), [Unknown, Release, Unknown]),
            (Ended::Broke, [Unknown, Release, Unknown]),
        ];
        for (ended, expected) in table {
            let found = [&Mode::AtMostOnce, &Mode::Transactional, &durable].map(|mode| verdict(mode, ended));
            assert_eq!(found, expected, "{ended:?}");
        }
    }
}
