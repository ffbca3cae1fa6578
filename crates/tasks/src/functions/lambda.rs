//! A function at a Lambda-compatible endpoint, by Lambda's own Invoke.
//!
//! The key is in the client context, as `custom.idempotencyKey`, which every Lambda runtime passes to its function.
//! Requests are signed if there are credentials.

use super::outcome::{LATEST, failed, succeeded, too_large};
use super::web::{FUNCTION_ERROR, JSON, LOG_TYPE, TAIL, of_function_error, said, with_log_of};
use super::{Bounds, Calling, Line, Shape, body};
use crate::aws::Signer;
use crate::client::{CallError, Incoming, Outgoing};
use crate::http::Verdict;
use crate::sign::{self, TRACEPARENT};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::{Map, Payload, Value};
use perdura_engine::{Certainty, Fault, Outcome};
use std::collections::BTreeMap;
use url::Url;

const INVOCATION_TYPE: HeaderName = HeaderName::from_static("x-amz-invocation-type");
const CLIENT_CONTEXT: HeaderName = HeaderName::from_static("x-amz-client-context");
const EXECUTED_VERSION: HeaderName = HeaderName::from_static("x-amz-executed-version");
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
/// The longest client context that Lambda accepts, in base64.
const CLIENT_CONTEXT_BYTES_MAX: usize = 3_583;

/// A function and its endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function<'a> {
    pub(super) endpoint: &'a Url,
    pub(super) name: &'a str,
    pub(super) qualifier: Option<&'a str>,
    pub(super) signer: &'a Signer,
}

/// Invokes it.
pub(super) async fn invoke(
    line: Line<'_>,
    function: Function<'_>,
    bounds: Bounds,
    calling: Calling<'_>,
) -> Outcome {
    let invocation = calling.invocation;
    let wire = calling.call.key.wire().to_string();
    let context = match client_context(invocation.client_context.as_deref(), &wire) {
        Ok(context) => context,
        Err(cause) => {
            let fault = Fault::new("Lambda.InvalidRequestContentException", cause);
            return failed(fault, Certainty::NotSent);
        }
    };
    let kind = match invocation.shape {
        Shape::Bare | Shape::Invoke => "RequestResponse",
        Shape::Event => "Event",
        Shape::DryRun => "DryRun",
    };
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(INVOCATION_TYPE, HeaderValue::from_static(kind));
    headers.insert(CLIENT_CONTEXT, context);
    headers.insert(TRACEPARENT, sign::trace(calling.execution, &calling.call.key));
    if invocation.wants_log {
        headers.insert(LOG_TYPE, TAIL);
    }
    let mut outgoing = Outgoing {
        method: http::Method::POST,
        url: function.address(),
        headers,
        body: body(&invocation.payload),
        timeout: bounds.timeout,
        answer_bytes_max: bounds.answer_bytes_max,
    };
    function.signer.sign(&mut outgoing, "lambda");
    match line.send(&format!("lambda {}", function.name), outgoing).await {
        Ok(answer) => {
            let outcome = of_answer(&answer, invocation.shape, &calling.destination.statuses);
            with_log_of(&answer, invocation.wants_log, outcome)
        }
        Err(error) => of_error(&error, calling.call.resource.whose()),
    }
}

impl Function<'_> {
    fn address(&self) -> Url {
        let mut url = self.endpoint.clone();
        url.path_segments_mut().expect("an endpoint is an address of http or https").pop_if_empty().extend([
            "2015-03-31",
            "functions",
            self.name,
            "invocations",
        ]);
        url.set_query(None);
        if let Some(qualifier) = self.qualifier {
            url.query_pairs_mut().append_pair("Qualifier", qualifier);
        }
        url
    }
}

/// The definition's client context, with the key added. A key in the definition wins.
pub(crate) fn client_context(written: Option<&str>, key: &str) -> Result<HeaderValue, String> {
    let mut context = match written {
        None => Map::new(),
        Some(written) => {
            let bytes = BASE64.decode(written).map_err(|error| {
                format!(
                    "Could not base64-decode the client context: {error}. Write it as base64 of a JSON object"
                )
            })?;
            let text = String::from_utf8(bytes).map_err(|_| "The client context is not UTF-8 text")?;
            let payload = Payload::from_text(text)
                .map_err(|error| format!("The client context is no JSON: {error}, at byte {}", error.at))?;
            payload.value().as_object().cloned().ok_or("The client context is no JSON object")?
        }
    };
    let mut custom = match context.get("custom") {
        None => Map::new(),
        Some(custom) => {
            custom.as_object().cloned().ok_or("`custom` in the client context is no JSON object")?
        }
    };
    if !custom.contains_key("idempotencyKey") {
        custom.insert("idempotencyKey", key);
    }
    context.insert("custom", Value::from(custom));
    let text = BASE64.encode(Value::from(context).to_string());
    if text.len() > CLIENT_CONTEXT_BYTES_MAX {
        return Err(format!(
            "The client context has {} bytes in base64 with the key in it; the most is {CLIENT_CONTEXT_BYTES_MAX}",
            text.len()
        ));
    }
    Ok(HeaderValue::from_str(&text).expect("base64 is plain text"))
}

/// The outcome of an answer.
fn of_answer(answer: &Incoming, shape: Shape, statuses: &BTreeMap<u16, Verdict>) -> Outcome {
    let Incoming { status, headers, body } = answer;
    if !(200..300).contains(status) {
        let certainty = match statuses.get(status) {
            Some(Verdict::Done) => {
                let output = shape.wrap(Value::Null.into(), LATEST);
                return Outcome::Succeeded { output };
            }
            Some(Verdict::Refused) => Certainty::Refused,
            Some(Verdict::Ambiguous) => Certainty::Ambiguous,
            None => Certainty::of_http(Some(*status)),
        };
        return failed(of_refusal(answer), certainty);
    }
    if let Some(output) = shape.without_answer() {
        return Outcome::Succeeded { output };
    }
    if headers.contains_key(FUNCTION_ERROR) {
        return of_function_error(body);
    }
    let version = headers.get(EXECUTED_VERSION).and_then(|version| version.to_str().ok());
    succeeded(body, "of the function", shape, version.unwrap_or(LATEST))
}

/// An error of Invoke itself, as Step Functions shows it.
fn of_refusal(answer: &Incoming) -> Fault {
    let Incoming { status, headers, body } = answer;
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let said = Payload::from_text(said(body)).unwrap_or_else(|_| Value::from(said(body)).into());
    let member = |name: &str| said.value().get(name).and_then(Value::as_str);
    // A type may come with a namespace in front or an address behind.
    let named = text(&ERROR_TYPE).or_else(|| member("__type")).and_then(|kind| {
        kind.split(':').next().and_then(|kind| kind.rsplit('#').next()).filter(|kind| !kind.is_empty())
    });
    let kind = named.unwrap_or(match status {
        404 => "ResourceNotFoundException",
        429 => "TooManyRequestsException",
        500..=599 => "ServiceException",
        _ => "AWSLambdaException",
    });
    let message =
        member("Message").or_else(|| member("message")).map_or_else(|| said.to_string(), str::to_owned);
    let request_id = text(&REQUEST_ID).unwrap_or("null");
    let cause = format!(
        "{message} (Service: AWSLambda; Status Code: {status}; Error Code: {kind}; Request ID: {request_id}; \
         Proxy: null)"
    );
    Fault::new(&*format!("Lambda.{kind}"), cause)
}

/// There is no answer.
fn of_error(error: &CallError, whose: &str) -> Outcome {
    let name = match error {
        CallError::TooLarge { .. } => return too_large(whose),
        CallError::TimedOut { .. } => "Lambda.ClientExecutionTimeoutException",
        CallError::Forbidden { .. } => "Lambda.AccessDeniedException",
        CallError::NotConnected { .. } | CallError::Lost { .. } => "Lambda.SdkClientException",
    };
    failed(Fault::new(name, error.to_string()), error.certainty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn answer(status: u16, headers: &[(HeaderName, &'static str)], body: &'static str) -> Incoming {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        Incoming { status, headers: headers.collect(), body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn a_function_has_its_address_below_the_endpoint() {
        let signer = Signer { region: "us-east-1".into(), credentials: None };
        for (endpoint, name, qualifier, expected) in [
            ("http://h:1", "f", None, "http://h:1/2015-03-31/functions/f/invocations"),
            (
                "http://h:1/",
                "f",
                Some("live"),
                "http://h:1/2015-03-31/functions/f/invocations?Qualifier=live",
            ),
            (
                "http://h/aws/",
                "a/b c",
                Some("$LATEST"),
                "http://h/aws/2015-03-31/functions/a%2Fb%20c/invocations?Qualifier=%24LATEST",
            ),
        ] {
            let endpoint = Url::parse(endpoint).unwrap();
            let function = Function { endpoint: &endpoint, name, qualifier, signer: &signer };
            assert_eq!(function.address().as_str(), expected);
        }
    }

    #[test]
    fn the_key_joins_the_client_context_and_does_not_push_out_one_that_was_written() {
        for (written, expected) in [
            (None, r#"{"custom":{"idempotencyKey":"k"}}"#),
            (Some("{}"), r#"{"custom":{"idempotencyKey":"k"}}"#),
            (
                Some(r#"{"client":{"app":"a"},"custom":{"x":"1"}}"#),
                r#"{"client":{"app":"a"},"custom":{"x":"1","idempotencyKey":"k"}}"#,
            ),
            (Some(r#"{"custom":{"idempotencyKey":"own"}}"#), r#"{"custom":{"idempotencyKey":"own"}}"#),
        ] {
            let written = written.map(|text| BASE64.encode(text));
            let found = client_context(written.as_deref(), "k").unwrap();
            assert_eq!(BASE64.decode(found.as_bytes()).unwrap(), expected.as_bytes(), "{written:?}");
        }
        let long = BASE64.encode(format!("{{\"client\":\"{}\"}}", "x".repeat(3_000)));
        for (written, expected) in [
            ("{}", "Could not base64-decode"),
            (&BASE64.encode("[]"), "is no JSON object"),
            (&BASE64.encode("{"), "is no JSON:"),
            (&BASE64.encode([0xff]), "is not UTF-8"),
            (&BASE64.encode(r#"{"custom": 1}"#), "`custom` in the client context"),
            (&long, "the most is 3583"),
        ] {
            let found = client_context(Some(written), "k").expect_err(written);
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn errors_of_invoke_and_of_the_function_have_the_names_of_step_functions() {
        use Certainty::{Ambiguous, Refused};
        let kind = |kind| vec![(ERROR_TYPE, kind), (REQUEST_ID, "r-1")];
        let function_error = || vec![(FUNCTION_ERROR, "Unhandled")];
        let own = r#"{"errorMessage":"no","errorType":"CardDeclined","stackTrace":[]}"#;
        let late =
            r#"{"errorType":"Sandbox.Timedout","errorMessage":"Error: Task timed out after 3.00 seconds"}"#;
        let old_late = r#"{"errorMessage":"2026-01-01T00:00:00.000Z r-1 Task timed out after 3.00 seconds"}"#;
        for (status, headers, body, name, cause, certainty) in [
            (
                404,
                kind("ResourceNotFoundException"),
                r#"{"Type":"User","Message":"Function not found: arn:f"}"#,
                "Lambda.ResourceNotFoundException",
                "Function not found: arn:f (Service: AWSLambda; Status Code: 404; Error Code: \
                 ResourceNotFoundException; Request ID: r-1; Proxy: null)",
                Refused,
            ),
            (
                429,
                kind("TooManyRequestsException:http://internal.amazon.com/coral/"),
                r#"{"message":"Rate Exceeded."}"#,
                "Lambda.TooManyRequestsException",
                "Rate Exceeded. (Service: AWSLambda; Status Code: 429;",
                Ambiguous,
            ),
            (
                400,
                vec![],
                r#"{"__type":"com.amazonaws#InvalidParameterValueException"}"#,
                "Lambda.InvalidParameterValueException",
                "Request ID: null",
                Refused,
            ),
            (413, kind("RequestTooLargeException"), "", "Lambda.RequestTooLargeException", "413", Refused),
            (500, vec![], "<html>", "Lambda.ServiceException", "<html>", Ambiguous),
            (502, kind("EFSIOException"), "{}", "Lambda.EFSIOException", "502", Ambiguous),
            (404, vec![], "", "Lambda.ResourceNotFoundException", "404", Refused),
            (403, vec![], "", "Lambda.AWSLambdaException", "403", Refused),
            (200, function_error(), own, "CardDeclined", own, Ambiguous),
            (200, function_error(), late, "Sandbox.Timedout", late, Ambiguous),
            (200, function_error(), old_late, "Lambda.Unknown", old_late, Ambiguous),
            (200, vec![], "no json", "Runtime.MarshalError", "no JSON value", Ambiguous),
        ] {
            match of_answer(&answer(status, &headers, body), Shape::Invoke, &BTreeMap::new()) {
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
    fn an_answer_has_the_version_that_ran() {
        let version = [(EXECUTED_VERSION, "7")];
        for (status, shape, expected) in [
            (200, Shape::Invoke, r#"{"ExecutedVersion":"7","Payload":{"a":1},"StatusCode":200}"#),
            (200, Shape::Bare, r#"{"a":1}"#),
            (202, Shape::Event, r#"{"Payload":"","StatusCode":202}"#),
            (204, Shape::DryRun, r#"{"Payload":"","StatusCode":204}"#),
        ] {
            match of_answer(&answer(status, &version, r#"{"a":1}"#), shape, &BTreeMap::new()) {
                Outcome::Succeeded { output } => assert_eq!(output.to_string(), expected),
                other => panic!("{shape:?}: {other:?}"),
            }
        }
    }
}
