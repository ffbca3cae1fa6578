//! One request to a store or a web server, retried if that may help: a connection that fails, a busy server.

use super::listing::read_error;
use super::place::PlaceError;
use crate::client::{Arriving, CallError, Client, Outgoing};
use http::StatusCode;
use std::time::Duration;

/// How many times to try a request.
pub(super) const TRIES: u32 = 5;

/// How long a receiver may be silent.
pub(super) const SILENT_FOR_MAX: Duration = Duration::from_mins(1);

/// The pause before the second try; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// How much of an error answer to read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// The pause before try number `tried + 1`.
pub(super) async fn pause(tried: u32) {
    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tried.saturating_sub(1).min(10))).await;
}

/// Sends the request until there is an answer that another try would not change. Each try builds the request anew,
/// because a signature is valid for a short time only.
pub(super) async fn ask(client: &Client, request: impl Fn() -> Outgoing) -> Result<Arriving, PlaceError> {
    let mut tried = 0;
    loop {
        let answer = client.open(request()).await;
        tried += 1;
        let is_passing = match &answer {
            Ok(answer) => answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS,
            Err(CallError::NotConnected { .. } | CallError::TimedOut { .. } | CallError::Lost { .. }) => true,
            Err(CallError::Forbidden { .. } | CallError::TooLarge { .. }) => false,
        };
        if !is_passing || tried == TRIES {
            return answer.map_err(|error| trouble(&error));
        }
        pause(tried).await;
    }
}

/// The answer, if it is a success; otherwise an error by its remedy.
pub(super) async fn accepted(answer: Arriving) -> Result<Arriving, PlaceError> {
    let status = answer.status;
    Err(match status {
        status if status.is_success() => return Ok(answer),
        StatusCode::NOT_FOUND | StatusCode::GONE => PlaceError::Missing,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => PlaceError::Denied,
        StatusCode::PRECONDITION_FAILED => PlaceError::Changed,
        status if status.is_redirection() => PlaceError::Failed(format!(
            "it answered {status}, and redirects are not followed: configure the address that it leads to"
        )),
        status => {
            let body = whole(answer, REFUSAL_BYTES_MAX).await.unwrap_or_default();
            let said = read_error(&body).map_or_else(String::new, |said| format!(": {said}"));
            PlaceError::Failed(format!("it answered {status}{said}"))
        }
    })
}

/// The body of an answer, up to so many bytes.
pub(super) async fn whole(mut answer: Arriving, bytes_max: usize) -> Result<Vec<u8>, PlaceError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.next().await.map_err(|error| trouble(&error))? {
        if body.len() + piece.len() > bytes_max {
            return Err(PlaceError::Failed(format!("its answer has more than {bytes_max} bytes")));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The error of a call, by its remedy.
pub(super) fn trouble(error: &CallError) -> PlaceError {
    match error {
        CallError::Forbidden { .. } => PlaceError::Refused(error.to_string()),
        CallError::NotConnected { .. }
        | CallError::TimedOut { .. }
        | CallError::Lost { .. }
        | CallError::TooLarge { .. } => PlaceError::Failed(error.to_string()),
    }
}
