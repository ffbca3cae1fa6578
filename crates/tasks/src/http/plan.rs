//! Builds the request from the arguments. It sends nothing.

use super::HttpCall;
use super::arguments::{Arguments, Encoding, runtime};
use super::form;
use crate::aws::push_pair;
use crate::client::Outgoing;
use crate::connection::{Connection, Extra, Token, sensitive};
use crate::sign::{self, TRACEPARENT};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RANGE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use perdura_engine::asl::json::Value;
use perdura_engine::{Fault, Limits};
use std::time::Duration;
use url::Url;

/// AWS's time limit for an HTTP Task.
const STRICT_FOR_MAX: Duration = Duration::from_mins(1);
/// The time limit here if the task's own timeout is longer, or missing.
const GENEROUS_FOR_MAX: Duration = Duration::from_hours(1);
const STRICT_BYTES_MAX: usize = 262_144;

/// The time limit of the whole call, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) lasts_for: Duration,
    /// It is the task's own timeout; otherwise the limit of every HTTP Task.
    pub(super) is_of_task: bool,
}

impl Allowance {
    pub(super) fn of(call: &HttpCall<'_>) -> Self {
        let most = if call.strict { STRICT_FOR_MAX } else { GENEROUS_FOR_MAX };
        match call.call.timeout_seconds.map(Duration::from_secs) {
            Some(own) if own <= most => Self { lasts_for: own, is_of_task: true },
            Some(_) | None => Self { lasts_for: most, is_of_task: false },
        }
    }
}

/// The largest size of a body, in either direction.
pub(super) fn bytes_max(strict: bool) -> usize {
    if strict { STRICT_BYTES_MAX } else { Limits::GENEROUS.payload_bytes_max }
}

/// The request, with what the connection adds to it.
pub(super) fn plan(
    call: &HttpCall<'_>,
    arguments: &Arguments<'_>,
    credentials: Option<(&Connection, Option<&Token>)>,
) -> Result<Outgoing, Fault> {
    if call.strict && arguments.endpoint.scheme() != "https" {
        return Err(runtime(
            "`ApiEndpoint` must begin with https://; plain http is taken without --strict only",
        ));
    }
    if call.strict && credentials.is_none() {
        return Err(runtime(
            "`InvocationConfig` with a `ConnectionArn` is missing; it is needed under --strict",
        ));
    }
    let nothing = Extra::default();
    let extra = credentials.map_or(&nothing, |(connection, _)| &connection.extra);
    let (body, content_type) = body(arguments, extra, bytes_max(call.strict))?;
    let mut headers = headers(call, arguments, content_type);
    for (name, value) in &extra.headers {
        headers.insert(name, sensitive(value));
    }
    if let Some((connection, token)) = credentials {
        connection.authorize(&mut headers, token);
    }
    sign(call, &mut headers);
    Ok(Outgoing {
        method: arguments.method.clone(),
        url: with_query(arguments, extra),
        headers,
        body,
        timeout: Allowance::of(call).lasts_for,
        answer_bytes_max: bytes_max(call.strict),
    })
}

fn headers(call: &HttpCall<'_>, arguments: &Arguments<'_>, content_type: Option<&'static str>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(arguments.headers.len() + 6);
    for (name, value) in &arguments.headers {
        headers.append(name, value.clone());
    }
    if let Some(content_type) = content_type {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
    }
    if call.strict {
        let agent = format!("Amazon|StepFunctions|HttpInvoke|{}", call.region);
        let agent = HeaderValue::from_str(&agent)
            .unwrap_or(HeaderValue::from_static("Amazon|StepFunctions|HttpInvoke"));
        headers.insert(USER_AGENT, agent);
        headers.insert(RANGE, HeaderValue::from_static("bytes=0-262144"));
    } else {
        let agent = concat!("perdura/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
    }
    headers
}

/// Adds key and trace, unless the definition or the connection has them.
fn sign(call: &HttpCall<'_>, headers: &mut HeaderMap) {
    if !headers.contains_key(call.header) {
        headers.insert(call.header.clone(), sign::key(&call.call.key));
    }
    if !headers.contains_key(TRACEPARENT) {
        headers.insert(TRACEPARENT, sign::trace(call.execution, &call.call.key));
    }
}

fn body(
    arguments: &Arguments<'_>,
    extra: &Extra,
    bytes_max: usize,
) -> Result<(Bytes, Option<&'static str>), Fault> {
    let merged;
    let body = match arguments.body {
        body if extra.body.is_empty() => body,
        None | Some(Value::Object(_)) => {
            merged = with_parameters(arguments.body, extra);
            Some(&merged)
        }
        Some(other) => {
            return Err(runtime(format!(
                "the connection adds body parameters, and `RequestBody` is no object but {}",
                other.type_name()
            )));
        }
    };
    let too_long = || runtime(format!("the request body exceeds {bytes_max} bytes"));
    let (text, content_type) = match (body, arguments.encoding) {
        (None, _) => return Ok((Bytes::new(), None)),
        (Some(Value::String(text)), Encoding::Json) => (text.to_string(), "text/plain; charset=UTF-8"),
        (Some(Value::String(text)), Encoding::Form(_)) => {
            (text.to_string(), "application/x-www-form-urlencoded")
        }
        (Some(body @ Value::Object(_)), Encoding::Form(format)) => {
            let form = form::encode(body, format, bytes_max).map_err(|form::TooLong| too_long())?;
            (form, "application/x-www-form-urlencoded")
        }
        (Some(other), Encoding::Form(_)) => {
            let kind = other.type_name();
            return Err(runtime(format!("`RequestBody` must be an object to be URL_ENCODED, not {kind}")));
        }
        (Some(body), Encoding::Json) => (body.to_string(), "application/json; charset=UTF-8"),
    };
    if text.len() > bytes_max { Err(too_long()) } else { Ok((text.into(), Some(content_type))) }
}

fn with_parameters(body: Option<&Value>, extra: &Extra) -> Value {
    let mut members = body.and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, value) in &extra.body {
        members.insert(name.as_str(), value.reveal());
    }
    members.into()
}

/// The endpoint's own query stays unchanged; parameters follow it. Those of the connection replace the task's with the
/// same name.
fn with_query(arguments: &Arguments<'_>, extra: &Extra) -> Url {
    let mut url = arguments.endpoint.clone();
    let of_task = arguments.query.iter().filter(|(name, _)| !extra.query.contains_key(name));
    let of_task = of_task.map(|(name, value)| (name.as_str(), value.as_str()));
    let of_connection = extra.query.iter().map(|(name, value)| (name.as_str(), value.reveal()));
    let mut query = url.query().unwrap_or_default().to_owned();
    for (name, value) in of_task.chain(of_connection) {
        push_pair(&mut query, name, value);
    }
    if !query.is_empty() {
        url.set_query(Some(&query));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_LENGTH;
    use perdura_engine::asl::json::Payload;
    use perdura_engine::asl::resource::Resource;
    use perdura_engine::{Attempt, Call, EffectKey, ExecutionId, StrandId};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn call(arguments: &str, timeout_seconds: Option<u64>) -> Call {
        Call {
            strand: StrandId(0),
            key: EffectKey::try_from(Arc::from("00000000-0000-4000-8000-000000000001:Charge#1:1"))
                .expect("a key"),
            attempt: Attempt::FIRST,
            resource: Resource::parse("arn:aws:states:::http:invoke").expect("a resource"),
            input: Payload::from_text(arguments).expect("JSON"),
            token: None,
            credentials: None,
            timeout_seconds,
            heartbeat_seconds: None,
            submitted: false,
        }
    }

    /// Runs `check` on an HTTP Task with these arguments.
    fn with<Checked>(call: &Call, strict: bool, check: impl FnOnce(&HttpCall<'_>) -> Checked) -> Checked {
        check(&HttpCall {
            call,
            execution: ExecutionId::from_random(7),
            strict,
            region: "eu-west-1",
            header: &http::HeaderName::from_static("idempotency-key"),
            statuses: &BTreeMap::new(),
            onlooker: None,
        })
    }

    fn planned(more: &str, extra_body: &str) -> Result<(String, Option<String>), String> {
        let call = call(&format!(r#"{{"ApiEndpoint": "http://a.test/", "Method": "POST"{more}}}"#), None);
        let connection = format!(r#"{{"basic": {{"user": "u", "password": "p"}}, "body": {extra_body}}}"#);
        let connection = Connection::from_kept(&connection).expect("valid");
        let plan = with(&call, false, |http| {
            let arguments = Arguments::read(http.call.input.value())?;
            plan(http, &arguments, Some((&connection, None)))
        });
        let plan = plan.map_err(|fault| fault.cause.expect("a cause").to_string())?;
        assert!(!plan.headers.contains_key(CONTENT_LENGTH), "it follows from the body");
        let content_type =
            plan.headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("text").to_owned());
        Ok((String::from_utf8(plan.body.to_vec()).expect("text"), content_type))
    }

    #[test]
    fn a_body_is_json_text_or_a_form() {
        const JSON: &str = "application/json; charset=UTF-8";
        const FORM: &str = "application/x-www-form-urlencoded";
        let form = r#", "Transform": {"RequestBodyEncoding": "URL_ENCODED"}"#;
        let table = [
            (String::new(), "{}", "", None),
            (r#", "RequestBody": null"#.into(), "{}", "", None),
            (r#", "RequestBody": {"a": 1}"#.into(), "{}", r#"{"a":1}"#, Some(JSON)),
            (r#", "RequestBody": [1]"#.into(), "{}", "[1]", Some(JSON)),
            (r#", "RequestBody": "plain""#.into(), "{}", "plain", Some("text/plain; charset=UTF-8")),
            (
                r#", "RequestBody": {"a": 1}, "Headers": {"content-type": "x/y"}"#.into(),
                "{}",
                r#"{"a":1}"#,
                Some("x/y"),
            ),
            (format!(r#", "RequestBody": {{"a": [1, 2]}}{form}"#), "{}", "a%5B0%5D=1&a%5B1%5D=2", Some(FORM)),
            (format!(r#", "RequestBody": "a=1"{form}"#), "{}", "a=1", Some(FORM)),
            (String::new(), r#"{"b": "2"}"#, r#"{"b":"2"}"#, Some(JSON)),
            (format!(r#", "RequestBody": {{"a": 1, "b": 1}}{form}"#), r#"{"b": "2"}"#, "a=1&b=2", Some(FORM)),
        ];
        for (more, extra, body, content_type) in table {
            let expected = Ok((body.to_owned(), content_type.map(str::to_owned)));
            assert_eq!(planned(&more, extra), expected, "{more} {extra}");
        }
    }

    #[test]
    fn a_body_that_cannot_be_written_is_named() {
        let form = r#", "Transform": {"RequestBodyEncoding": "URL_ENCODED"}"#;
        for (more, extra, says) in [
            (r#", "RequestBody": "a""#.to_owned(), r#"{"b": "2"}"#, "`RequestBody` is no object but string"),
            (r#", "RequestBody": [1]"#.to_owned(), r#"{"b": "2"}"#, "`RequestBody` is no object but array"),
            (
                format!(r#", "RequestBody": [1]{form}"#),
                "{}",
                "must be an object to be URL_ENCODED, not array",
            ),
        ] {
            let cause = planned(&more, extra).expect_err(&more);
            assert!(cause.contains(says), "{cause}");
        }
    }

    #[test]
    fn time_is_the_tasks_own_up_to_the_limit_of_all() {
        let table = [
            (None, true, 60, false),
            (Some(5), true, 5, true),
            (Some(300), true, 60, false),
            (None, false, 3_600, false),
            (Some(300), false, 300, true),
            (Some(99_999_999), false, 3_600, false),
        ];
        for (own, strict, seconds, is_of_task) in table {
            let allowance = with(&call("{}", own), strict, Allowance::of);
            assert_eq!(
                allowance,
                Allowance { lasts_for: Duration::from_secs(seconds), is_of_task },
                "{own:?} {strict}"
            );
        }
    }
}
