//! Turns a service's answer into an outcome: its result, or its error in the words of Step Functions.
//!
//! Step Functions calls services by two SDKs: an older one for its optimized integrations, and a newer one for SDK
//! integrations. They name errors and write causes differently, and so does this module.

use super::faults;
use super::service::{Operation, Style};
use crate::client::{CallError, Incoming};
use crate::functions::{said, too_large};
use crate::http::Verdict;
use http::{HeaderMap, HeaderName};
use perdura_engine::asl::error::RUNTIME;
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_engine::asl::object;
use perdura_engine::{Certainty, Fault, Outcome};
use std::collections::BTreeMap;

/// The headers with the id of a request.
const REQUEST_IDS: [HeaderName; 2] =
    [HeaderName::from_static("x-amzn-requestid"), HeaderName::from_static("x-amz-request-id")];
const EXTENDED_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
/// Headers that AWS writes with capitals, which HTTP libraries lose.
const SPELLINGS: &[(&str, &str)] = &[
    ("content-length", "Content-Length"),
    ("content-type", "Content-Type"),
    ("date", "Date"),
    ("x-amzn-requestid", "x-amzn-RequestId"),
];
/// Errors about the token of a call: the service saw it before, so the call may have been performed.
const OF_TOKENS: &[&str] = &[
    "IdempotentParameterMismatch",
    "IdempotentParameterMismatchException",
    "TransactionInProgressException",
];

/// A service's reason for a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The error's name.
    pub(super) code: Option<String>,
    /// Its name in an older protocol of the service, which causes of older SDKs show.
    pub(super) old_code: Option<String>,
    pub(super) message: Option<String>,
}

/// The call succeeded.
pub(super) fn succeeded(
    operation: &Operation<'_>,
    answer: &Incoming,
    result: Value,
    request_id: Option<&str>,
) -> Outcome {
    let output = match operation.style {
        Style::Sdk => result,
        Style::Optimized(_) => {
            if let Some(failed) = failed_entries(operation, &result) {
                return failed;
            }
            let mut members = result.as_object().cloned().unwrap_or_default();
            members.insert("SdkHttpMetadata", metadata(answer));
            let id = request_id.or_else(|| self::request_id(&answer.headers)).unwrap_or_default();
            members.insert("SdkResponseMetadata", object! { "RequestId" => id });
            members.into()
        }
    };
    Outcome::Succeeded { output: output.into() }
}

/// An optimized integration fails if the service took only some of the events. Those that it took cannot be taken back,
/// so the call is refused only if none was taken.
fn failed_entries(operation: &Operation<'_>, result: &Value) -> Option<Outcome> {
    let count = result.get("FailedEntryCount").and_then(Value::as_i64).filter(|count| *count > 0)?;
    if operation.service.name != "eventbridge" {
        return None;
    }
    let entries = result.get("Entries").and_then(Value::as_array).map_or(0, <[Value]>::len);
    let is_refused = usize::try_from(count).is_ok_and(|count| count >= entries);
    let certainty = if is_refused { Certainty::Refused } else { Certainty::Ambiguous };
    Some(failed(Fault::new("EventBridge.FailedEntry", result.to_string()), certainty))
}

/// The head of the answer, in the form of the older SDK.
fn metadata(answer: &Incoming) -> Value {
    let spelled = |name: &HeaderName| {
        let found = SPELLINGS.iter().find(|(lower, _)| *lower == name.as_str());
        found.map_or(name.as_str(), |(_, spelled)| spelled).to_owned()
    };
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let all = answer.headers.keys().map(|name| {
        let values: Value = answer.headers.get_all(name).iter().map(text).collect();
        (spelled(name), values)
    });
    let first =
        answer.headers.keys().filter_map(|name| Some((spelled(name), text(answer.headers.get(name)?))));
    object! {
        "AllHttpHeaders" => all.collect::<Map>(),
        "HttpHeaders" => first.collect::<Map>(),
        "HttpStatusCode" => i64::from(answer.status),
    }
}

fn request_id(headers: &HeaderMap) -> Option<&str> {
    REQUEST_IDS.iter().find_map(|name| headers.get(name)?.to_str().ok())
}

/// The service answered with an error, or with a status that the destination interprets differently.
pub(super) fn refused(
    operation: &Operation<'_>,
    answer: &Incoming,
    refusal: &Refusal,
    statuses: &BTreeMap<u16, Verdict>,
) -> Outcome {
    let tells_of_token = refusal.code.as_deref().is_some_and(|code| OF_TOKENS.contains(&code));
    let certainty = match statuses.get(&answer.status) {
        Some(Verdict::Done) => return Outcome::Succeeded { output: Payload::default() },
        Some(Verdict::Refused) => Certainty::Refused,
        Some(Verdict::Ambiguous) => Certainty::Ambiguous,
        None if tells_of_token => Certainty::Ambiguous,
        None => Certainty::of_http(Some(answer.status)),
    };
    let extended = answer.headers.get(EXTENDED_ID).and_then(|id| id.to_str().ok());
    let told = Told { status: answer.status, request_id: request_id(&answer.headers), extended };
    let mut refusal = refusal.clone();
    if refusal.code.is_none() && refusal.message.is_none() {
        refusal.message = Some(said(&answer.body)).filter(|said| !said.is_empty());
    }
    failed(fault(operation, &refusal, told), certainty)
}

/// The parts of a cause besides the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) status: u16,
    pub(super) request_id: Option<&'a str>,
    pub(super) extended: Option<&'a str>,
}

/// An error in the words of Step Functions.
pub(super) fn fault(operation: &Operation<'_>, refusal: &Refusal, told: Told<'_>) -> Fault {
    let service = operation.service;
    let code = refusal.code.as_deref().filter(|code| faults::has(service.faults, code));
    let message = refusal.message.as_deref().unwrap_or("null");
    let (status, id) = (told.status, told.request_id.unwrap_or("null"));
    match operation.style {
        Style::Sdk => {
            let name = code
                .map_or_else(|| format!("{}Exception", service.sdk_name), |code| in_java(&exception(code)));
            let extended =
                told.extended.map_or_else(String::new, |id| format!(", Extended Request ID: {id}"));
            let cause = format!(
                "{message} (Service: {}, Status Code: {status}, Request ID: {id}{extended}) (SDK Attempt Count: 1)",
                service.sdk_name
            );
            Fault::new(format!("{}.{name}", service.sdk_name), cause)
        }
        Style::Optimized(own) => {
            let name = code.map_or_else(|| own.base.to_owned(), exception);
            let code = refusal.old_code.as_deref().or(refusal.code.as_deref()).unwrap_or("null");
            let cause = format!(
                "{message} (Service: {}; Status Code: {status}; Error Code: {code}; Request ID: {id}; Proxy: null)",
                own.service
            );
            Fault::new(format!("{}.{name}", own.prefix), cause)
        }
    }
}

/// The class of an error, by its code.
fn exception(code: &str) -> String {
    let code = if code == "ParameterValueInvalid" { "InvalidParameterValue" } else { code };
    let stem = code.strip_suffix("Exception").or_else(|| code.strip_suffix("Fault")).unwrap_or(code);
    format!("{stem}Exception")
}

/// The newer SDK writes abbreviations like words: `KmsInvalidState` for `KMSInvalidState`.
fn in_java(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let begins_word = |at: usize| {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(at + 1);
        before.is_none_or(|before| !before.is_ascii_uppercase())
            || after.is_some_and(char::is_ascii_lowercase)
    };
    let spelled = letters.iter().enumerate().map(|(at, letter)| {
        if letter.is_ascii_uppercase() && !begins_word(at) { letter.to_ascii_lowercase() } else { *letter }
    });
    spelled.collect()
}

/// There is no answer.
pub(super) fn unanswered(operation: &Operation<'_>, error: &CallError, whose: &str) -> Outcome {
    match error {
        CallError::TooLarge { .. } => too_large(whose),
        CallError::Forbidden { .. }
        | CallError::NotConnected { .. }
        | CallError::TimedOut { .. }
        | CallError::Lost { .. } => {
            failed(Fault::new(client_error(operation), error.to_string()), error.certainty())
        }
    }
}

/// The answer cannot be parsed: the call was performed.
pub(super) fn unreadable(operation: &Operation<'_>, what: String) -> Outcome {
    failed(Fault::new(client_error(operation), what), Certainty::Ambiguous)
}

fn client_error(operation: &Operation<'_>) -> String {
    let prefix = match operation.style {
        Style::Sdk => operation.service.sdk_name,
        Style::Optimized(own) => own.prefix,
    };
    format!("{prefix}.SdkClientException")
}

/// The arguments are wrong, and no call is made.
pub(super) fn unusable(input: &Payload, what: &str) -> Outcome {
    let cause = format!("The Parameters '{input}' could not be used to start the Task: [{what}]");
    failed(Fault::new(RUNTIME, cause), Certainty::NotSent)
}

pub(super) fn failed(fault: Fault, certainty: Certainty) -> Outcome {
    Outcome::Failed { fault, certainty }
}

#[cfg(test)]
mod tests;
