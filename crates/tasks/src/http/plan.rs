//! From arguments to a request: who is called, with what. Nothing is sent here.

use super::HttpCall;
use super::arguments::{Arguments, Encoding, runtime};
use super::form;
use crate::client::Outgoing;
use crate::connection::{Connection, Extra, Token, sensitive};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RANGE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use perdura_engine::asl::json::Value;
use perdura_engine::{Fault, Limits};
use std::time::Duration;
use url::Url;

/// How long AWS lets an HTTP Task take.
const STRICT_FOR_MAX: Duration = Duration::from_mins(1);
/// How long one may take here when its own timeout is longer, or missing.
const GENEROUS_FOR_MAX: Duration = Duration::from_hours(1);
const STRICT_BYTES_MAX: usize = 262_144;
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// How long the whole call may take, and whose limit that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) lasts_for: Duration,
    /// The task's own timeout; otherwise it is the limit of every HTTP Task.
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

/// How large a body may be, in either direction.
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

/// Key and trace, unless somebody wrote them: what is written wins.
fn sign(call: &HttpCall<'_>, headers: &mut HeaderMap) {
    let wire = call.call.key.wire();
    let value = |text: &str| {
        HeaderValue::from_str(text).expect("hexadecimal digits and dashes can stand in a header")
    };
    if !headers.contains_key(call.header) {
        headers.insert(call.header.clone(), value(wire.as_hyphenated().encode_lower(&mut [0; 36])));
    }
    if !headers.contains_key(TRACEPARENT) {
        let span = &wire.simple().to_string()[..16];
        headers.insert(TRACEPARENT, value(&format!("00-{}-{span}-01", call.execution.uuid().simple())));
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

/// The endpoint's own query stays as it was written; parameters follow it, those of the connection in place of the
/// task's of the same name.
fn with_query(arguments: &Arguments<'_>, extra: &Extra) -> Url {
    let mut url = arguments.endpoint.clone();
    let of_task = arguments.query.iter().filter(|(name, _)| !extra.query.contains_key(name));
    let of_task = of_task.map(|(name, value)| (name.as_str(), value.as_str()));
    let of_connection = extra.query.iter().map(|(name, value)| (name.as_str(), value.reveal()));
    let mut query = url.query().unwrap_or_default().to_owned();
    for (name, value) in of_task.chain(of_connection) {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(&form::escaped(name));
        query.push('=');
        query.push_str(&form::escaped(value));
    }
    if !query.is_empty() {
        url.set_query(Some(&query));
    }
    url
}
