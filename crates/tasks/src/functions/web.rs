//! A function at a URL: the payload is posted there, and the answer is JSON.
//!
//! Errors have Lambda's names where Lambda has one, so that the Retry that AWS advises works for every kind of
//! function. A refusal that Lambda cannot give is named by its status, as in `http:invoke`.

use super::outcome::{LATEST, LogResult, failed, own_error, succeeded, timed_out, too_large, with_log};
use super::{Bounds, Calling, Line, Shape, body};
use crate::client::{CallError, Incoming, Outgoing};
use crate::destination::Place;
use crate::http::Verdict;
use crate::sign::{self, TRACEPARENT};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::{Payload, Value, without_mark};
use perdura_engine::{Certainty, Fault, Outcome};
use std::collections::BTreeMap;
use url::Url;

/// The header that says that the function itself failed; the answer is its error.
pub(super) const FUNCTION_ERROR: HeaderName = HeaderName::from_static("x-amz-function-error");
/// The headers that request the log and return its end in base64, both as Lambda's.
pub(super) const LOG_TYPE: HeaderName = HeaderName::from_static("x-amz-log-type");
const LOG_RESULT: HeaderName = HeaderName::from_static("x-amz-log-result");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const TAIL: HeaderValue = HeaderValue::from_static("Tail");
/// The longest cause that Step Functions accepts.
const CAUSE_CHARS_MAX: usize = 32_768;

/// Posts the payload.
pub(super) async fn post(line: Line<'_>, url: &Url, bounds: Bounds, calling: Calling<'_>) -> Outcome {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(calling.destination.header.clone(), sign::key(&calling.call.key));
    headers.insert(TRACEPARENT, sign::trace(calling.execution, &calling.call.key));
    if calling.invocation.wants_log {
        headers.insert(LOG_TYPE, TAIL);
    }
    let outgoing = Outgoing {
        method: http::Method::POST,
        url: url.clone(),
        headers,
        body: body(&calling.invocation.payload),
        timeout: bounds.timeout,
        answer_bytes_max: bounds.answer_bytes_max,
    };
    let receiver = Place::of(url).map(|place| place.receiver());
    match line.send(receiver.as_deref().unwrap_or_default(), outgoing).await {
        Ok(answer) => {
            let outcome = of_answer(&answer, calling.invocation.shape, &calling.destination.statuses);
            with_log_of(&answer, calling.invocation.wants_log, outcome)
        }
        Err(error) => of_error(&error, calling.call.resource.whose()),
    }
}

/// Adds the log of the answer, if it is wanted. A function that sends none has an empty one.
pub(super) fn with_log_of(answer: &Incoming, wants_log: bool, outcome: Outcome) -> Outcome {
    if !wants_log {
        return outcome;
    }
    let log = answer.headers.get(LOG_RESULT).and_then(|log| log.to_str().ok());
    with_log(outcome, LogResult::Encoded(log.unwrap_or_default()))
}

/// The outcome of an answer.
fn of_answer(answer: &Incoming, shape: Shape, statuses: &BTreeMap<u16, Verdict>) -> Outcome {
    let Incoming { status, headers, body } = answer;
    let is_success = (200..300).contains(status);
    if is_success && let Some(output) = shape.without_answer() {
        return Outcome::Succeeded { output };
    }
    if is_success && headers.contains_key(FUNCTION_ERROR) {
        return of_function_error(body);
    }
    if is_success {
        return succeeded(body, "of the function", shape, LATEST);
    }
    match statuses.get(status) {
        // The answer to a repeated call may differ from the first answer.
        Some(Verdict::Done) => {
            let text = String::from_utf8_lossy(body);
            let text = without_mark(&text).trim();
            let answer = Payload::from_text(text).unwrap_or_else(|_| Value::from(text).into());
            Outcome::Succeeded { output: shape.wrap(answer, LATEST) }
        }
        Some(Verdict::Refused) => failed(of_status(*status, body), Certainty::Refused),
        Some(Verdict::Ambiguous) => failed(of_status(*status, body), Certainty::Ambiguous),
        None => failed(of_status(*status, body), Certainty::of_http(Some(*status))),
    }
}

/// The function itself failed. It may have acted before: an exception does not tell. Only an error name in `refused`
/// says that it did not.
pub(super) fn of_function_error(body: &[u8]) -> Outcome {
    let fault = own_error(body).unwrap_or_else(|| {
        let cause = format!(
            "The cause could not be determined because Lambda did not return an error type. Returned payload: {}",
            said(body)
        );
        Fault::new("Lambda.Unknown", cause)
    });
    failed(fault, Certainty::Ambiguous)
}

/// The error of an answer outside 2xx: the one in its body, or the nearest of Lambda's, or the status.
fn of_status(status: u16, body: &[u8]) -> Fault {
    own_error(body).unwrap_or_else(|| {
        let cause = match said(body) {
            said if said.is_empty() => format!("the function answered {status}, and nothing else"),
            said => said,
        };
        match status {
            429 => Fault::new("Lambda.TooManyRequestsException", cause),
            500..=599 => Fault::new("Lambda.ServiceException", cause),
            _ => Fault::new(&*format!("States.Http.StatusCode.{status}"), cause),
        }
    })
}

/// There is no answer.
fn of_error(error: &CallError, whose: &str) -> Outcome {
    let name = match error {
        CallError::TimedOut { after, .. } => return timed_out(*after, error.certainty()),
        CallError::TooLarge { .. } => return too_large(whose),
        CallError::Forbidden { .. } => "Lambda.AccessDeniedException",
        CallError::NotConnected { .. } | CallError::Lost { .. } => "Lambda.SdkClientException",
    };
    failed(Fault::new(name, error.to_string()), error.certainty())
}

/// The text of an answer, up to the length of a cause.
pub(crate) fn said(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim().chars().take(CAUSE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn answer(status: u16, error: bool, body: &'static str) -> Incoming {
        let headers = error.then(|| (FUNCTION_ERROR, HeaderValue::from_static("Unhandled")));
        Incoming { status, headers: headers.into_iter().collect(), body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn an_answer_is_the_result_in_the_shape_that_was_asked_for() {
        let statuses = BTreeMap::from([(409, Verdict::Done)]);
        for (status, body, shape, expected) in [
            (200, "{\"a\": 1}\n", Shape::Bare, "{\"a\": 1}"),
            (204, "", Shape::Bare, "null"),
            (200, "5", Shape::Invoke, r#"{"ExecutedVersion":"$LATEST","Payload":5,"StatusCode":200}"#),
            (202, "accepted", Shape::Event, r#"{"Payload":"","StatusCode":202}"#),
            (409, r#"{"id": 7}"#, Shape::Bare, r#"{"id": 7}"#),
            (409, "done before", Shape::Bare, r#""done before""#),
        ] {
            match of_answer(&answer(status, false, body), shape, &statuses) {
                Outcome::Succeeded { output } => assert_eq!(output.to_string(), expected, "{status} {body}"),
                other => panic!("{status} {body}: {other:?}"),
            }
        }
    }

    #[test]
    fn each_bad_answer_has_a_name_and_says_whether_the_function_may_have_acted() {
        use Certainty::{Ambiguous, Refused};
        let statuses = BTreeMap::from([(402, Verdict::Ambiguous), (503, Verdict::Refused)]);
        let own = r#"{"errorType": "CardDeclined", "errorMessage": "no"}"#;
        let timeout = r#"{"errorType":"Sandbox.Timedout","errorMessage":"after 3 seconds"}"#;
        for (status, error, body, name, cause, certainty) in [
            (200, false, "hello", "Runtime.MarshalError", "It begins: hello", Ambiguous),
            (200, true, own, "CardDeclined", own, Ambiguous),
            (400, true, own, "CardDeclined", own, Refused),
            (500, true, own, "CardDeclined", own, Ambiguous),
            (200, true, timeout, "Sandbox.Timedout", timeout, Ambiguous),
            (200, true, "{}", "Lambda.Unknown", "Returned payload: {}", Ambiguous),
            (400, false, own, "CardDeclined", own, Refused),
            (500, false, own, "CardDeclined", own, Ambiguous),
            (404, false, "no such order", "States.Http.StatusCode.404", "no such order", Refused),
            (409, false, "", "States.Http.StatusCode.409", "answered 409, and nothing else", Ambiguous),
            (301, false, "", "States.Http.StatusCode.301", "answered 301", Ambiguous),
            (303, false, "", "States.Http.StatusCode.303", "answered 303", Ambiguous),
            (429, false, "slowly", "Lambda.TooManyRequestsException", "slowly", Ambiguous),
            (500, false, "oh", "Lambda.ServiceException", "oh", Ambiguous),
            (402, false, "pay", "States.Http.StatusCode.402", "pay", Ambiguous),
            (503, false, "closed", "Lambda.ServiceException", "closed", Refused),
        ] {
            match of_answer(&answer(status, error, body), Shape::Bare, &statuses) {
                Outcome::Failed { fault, certainty: found } => {
                    assert_eq!(fault.error.as_deref(), Some(name), "{status} {body}");
                    assert!(fault.cause.as_deref().unwrap_or_default().contains(cause), "{fault:?}");
                    assert_eq!(found, certainty, "{status} {body}");
                }
                other => panic!("{status} {body}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_end_of_the_log_comes_with_the_answer_where_it_is_wanted() {
        let done = || succeeded(b"1", "of the function", Shape::Invoke, LATEST);
        let mut logged = answer(200, false, "1");
        logged.headers.insert(LOG_RESULT, HeaderValue::from_static("bG9n"));
        for (answer, wants_log, expected) in [
            (&logged, true, r#""StatusCode":200,"LogResult":"bG9n"}"#),
            (&answer(200, false, "1"), true, r#""StatusCode":200,"LogResult":""}"#),
            (&logged, false, r#""StatusCode":200}"#),
        ] {
            let Outcome::Succeeded { output } = with_log_of(answer, wants_log, done()) else { panic!() };
            assert!(output.to_string().ends_with(expected), "{output}");
        }
        assert_eq!(with_log_of(&logged, true, too_large("f")), too_large("f"), "a failure has no log");
    }

    #[test]
    fn a_cause_is_bounded() {
        assert_eq!(said("é".repeat(40_000).as_bytes()).chars().count(), CAUSE_CHARS_MAX);
    }
}
