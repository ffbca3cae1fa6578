//! Turns an answer into an outcome: the task's output, or its error and whether the call was performed.

use super::Verdict;
use super::mask::{document, without};
use super::plan::Allowance;
use crate::client::{CallError, Incoming};
use crate::connection::{ConnectionError, TokenError};
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use perdura_engine::asl::json::{DEPTH_MAX, Map, Payload, Value};
use perdura_engine::{Certainty, Fault, Outcome};
use perdura_sigv4::Secret;
use std::collections::BTreeMap;

/// A cause is for people; AWS truncates it here, too.
const CAUSE_CHARS_MAX: usize = 32_768;

/// The meaning of a status: the destination's, or the default.
pub(super) fn verdict(status: u16, statuses: &BTreeMap<u16, Verdict>) -> Verdict {
    match statuses.get(&status) {
        Some(verdict) => *verdict,
        None if (200..300).contains(&status) => Verdict::Done,
        None => match Certainty::of_http(Some(status)) {
            Certainty::Refused => Verdict::Refused,
            Certainty::Ambiguous | Certainty::NotSent => Verdict::Ambiguous,
        },
    }
}

/// The outcome of a call with an answer.
pub(super) fn of_answer(answer: &Incoming, statuses: &BTreeMap<u16, Verdict>, secrets: &[Secret]) -> Outcome {
    let text = text_of(answer);
    let certainty = match verdict(answer.status, statuses) {
        Verdict::Done => {
            return match text {
                Ok(text) => Outcome::Succeeded { output: output(answer, text, secrets) },
                Err(cause) => failed("States.Runtime", cause, Certainty::Ambiguous),
            };
        }
        Verdict::Refused => Certainty::Refused,
        Verdict::Ambiguous => Certainty::Ambiguous,
    };
    let cause = match text.map(|text| without(text, secrets)) {
        Ok(text) if !text.is_empty() => text.chars().take(CAUSE_CHARS_MAX).collect(),
        Ok(_) | Err(_) => without(&summary(answer), secrets),
    };
    failed(format!("States.Http.StatusCode.{}", answer.status), cause, certainty)
}

/// The outcome of a call without an answer.
pub(super) fn of_error(error: &CallError, allowance: Allowance) -> Outcome {
    let name = match error {
        CallError::Forbidden { .. } => "States.Permissions",
        CallError::TimedOut { .. } if allowance.is_of_task => "States.Timeout",
        CallError::NotConnected { .. } | CallError::TimedOut { .. } | CallError::Lost { .. } => {
            "States.Http.Socket"
        }
        CallError::TooLarge { .. } => "States.DataLimitExceeded",
    };
    let cause = match error {
        // The time limit here is the rest after getting a token; the message shows the limit of the whole call.
        CallError::TimedOut { host, sent, .. } => {
            CallError::TimedOut { host: host.clone(), sent: *sent, after: allowance.lasts_for }.to_string()
        }
        CallError::Forbidden { .. }
        | CallError::NotConnected { .. }
        | CallError::Lost { .. }
        | CallError::TooLarge { .. } => error.to_string(),
    };
    failed(name, cause, error.certainty())
}

/// The outcome of a call whose connection cannot be used.
pub(super) fn of_connection(error: &ConnectionError) -> Outcome {
    let name = match error {
        ConnectionError::Missing { .. } => "Events.ConnectionResource.ResourceNotFound",
        ConnectionError::Shut(_) | ConnectionError::Elsewhere { .. } => {
            "Events.ConnectionResource.AccessDenied"
        }
    };
    failed(name, error.to_string(), Certainty::NotSent)
}

/// The outcome of a call whose connection has no token.
pub(super) fn of_token(name: &str, error: &TokenError) -> Outcome {
    let kind = match error {
        TokenError::Refused { .. } | TokenError::Unusable => {
            "Events.ConnectionResource.InvalidConnectionState"
        }
        TokenError::Unreachable(_) => "Events.ConnectionResource.InternalError",
        TokenError::TooLate => "Events.ConnectionResource.AuthInProgress",
    };
    failed(kind, format!("connection `{name}` has no token: {error}"), Certainty::NotSent)
}

pub(super) fn failed(error: impl Into<String>, cause: impl Into<String>, certainty: Certainty) -> Outcome {
    Outcome::Failed { fault: Fault::new(error.into(), cause.into()), certainty }
}

fn media_type(headers: &HeaderMap) -> String {
    let written = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    written.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) fn text_of(answer: &Incoming) -> Result<&str, String> {
    const BINARY: [&str; 3] = ["image/", "video/", "audio/"];
    let media_type = media_type(&answer.headers);
    let is_binary = media_type == "application/octet-stream"
        || BINARY.iter().any(|prefix| media_type.starts_with(prefix));
    if is_binary && !answer.body.is_empty() {
        return Err(format!("the answer is {media_type}, and an HTTP Task takes text"));
    }
    std::str::from_utf8(&answer.body).map_err(|_| "the answer is not readable as text (UTF-8)".into())
}

fn status_text(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

fn summary(answer: &Incoming) -> String {
    let mut said = format!("{} {}", answer.status, status_text(answer.status));
    if let Some(location) = answer.headers.get(LOCATION) {
        said.push_str("; redirects are not followed, this one leads to ");
        said.push_str(&String::from_utf8_lossy(location.as_bytes()));
    }
    said
}

fn output(answer: &Incoming, text: &str, secrets: &[Secret]) -> Payload {
    let media_type = media_type(&answer.headers);
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    let with = |body: Value| -> Payload {
        let mut members = Map::with_capacity(4);
        members.insert("Headers", headers(&answer.headers, secrets));
        members.insert("ResponseBody", body);
        members.insert("StatusCode", i64::from(answer.status));
        members.insert("StatusText", status_text(answer.status));
        Value::from(members).into()
    };
    // An answer that only claims to be JSON stays text.
    let read = if is_json { document(text, secrets) } else { None };
    let read = read.map(with).filter(|output| output.depth() <= DEPTH_MAX);
    read.unwrap_or_else(|| with(without(text, secrets).into()))
}

fn headers(headers: &HeaderMap, secrets: &[Secret]) -> Map {
    let shown = |value: &HeaderValue| without(&String::from_utf8_lossy(value.as_bytes()), secrets);
    let values = |name| headers.get_all(name).iter().map(shown).collect::<Value>();
    headers.keys().map(|name| (name.as_str(), values(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn answer(status: u16, media_type: &'static str, body: impl Into<Bytes>) -> Incoming {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        Incoming { status, headers, body: body.into() }
    }

    fn body_of(answer: &Incoming) -> Value {
        match of_answer(answer, &BTreeMap::new(), &[]) {
            Outcome::Succeeded { output } => output.value().get("ResponseBody").expect("a body").clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_is_read_and_everything_else_stays_text() {
        let table = [
            ("application/json", r#"{"a": 1.0}"#, r#"{"a":1.0}"#),
            ("Application/JSON; charset=utf-8", "[1]", "[1]"),
            ("application/problem+json", "{}", "{}"),
            ("application/json", "{broken", r#""{broken""#),
            ("application/json", "\u{feff}{\"a\":1}", r#"{"a":1}"#),
            ("application/json", "[NaN]", r#""[NaN]""#),
            ("application/json", "1e400", r#""1e400""#),
            ("application/json", r#"{"\ud800":1}"#, r#""{\"\\ud800\":1}""#),
            ("application/json", "", r#""""#),
            ("text/plain", "{}", r#""{}""#),
            ("text/html; charset=utf-8", "<p>", r#""<p>""#),
        ];
        for (media_type, body, expected) in table {
            assert_eq!(body_of(&answer(200, media_type, body)).to_string(), expected, "{media_type} {body}");
        }
    }

    #[test]
    fn an_answer_nested_so_deep_that_it_could_not_be_read_back_stays_text() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let body = |depth| body_of(&answer(200, "application/json", deep(depth)));
        assert!(matches!(body(DEPTH_MAX - 1), Value::Array(_)));
        assert!(matches!(body(DEPTH_MAX), Value::String(_)));
        assert!(matches!(body(100_000), Value::String(_)));
    }

    #[test]
    fn a_secret_that_json_spells_otherwise_does_not_come_back() {
        let secrets = [Secret::new("a/b\"c&d\u{f1}")];
        for spelled in [r#"a\/b\"c&d\u00f1"#, r#"a/b\"c\u0026dñ"#, r"\u0061/b\u0022c&dñ"] {
            for body in
                [format!(r#"{{"sent": ["x {spelled}"], "n": 1.0}}"#), format!(r#"{{"{spelled}": null}}"#)]
            {
                for status in [200, 400] {
                    let said = of_answer(
                        &answer(status, "application/json", body.clone()),
                        &BTreeMap::new(),
                        &secrets,
                    );
                    let said = format!("{said:?}");
                    assert!(said.contains('…') && !said.contains("a/b") && !said.contains(spelled), "{said}");
                }
            }
        }
        let innocent = answer(200, "application/json", r#"{"a":"\u0061\/"}"#);
        let Outcome::Succeeded { output } = of_answer(&innocent, &BTreeMap::new(), &secrets) else {
            panic!()
        };
        assert_eq!(output.value().get("ResponseBody").unwrap().to_string(), r#"{"a":"a/"}"#);
    }

    #[test]
    fn what_is_no_text_is_no_output() {
        for (media_type, body) in [
            ("application/octet-stream", &b"x"[..]),
            ("image/png", b"x"),
            ("VIDEO/mp4", b"x"),
            ("audio/ogg; codecs=opus", b"x"),
            ("text/plain", b"\xff\xfe"),
        ] {
            let outcome = of_answer(&answer(200, media_type, body), &BTreeMap::new(), &[]);
            let Outcome::Failed { fault, certainty } = outcome else { panic!("{media_type}") };
            assert_eq!((fault.error.as_deref(), certainty), (Some("States.Runtime"), Certainty::Ambiguous));
        }
    }

    #[test]
    fn a_cause_is_what_was_answered_up_to_a_bound() {
        let cause = |answer: &Incoming| match of_answer(answer, &BTreeMap::new(), &[]) {
            Outcome::Failed { fault, .. } => fault.cause.expect("a cause").to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(cause(&answer(500, "text/plain", "oops")), "oops");
        assert_eq!(cause(&answer(503, "text/plain", "")), "503 Service Unavailable");
        assert_eq!(cause(&answer(500, "text/plain", "ñ".repeat(40_000))), "ñ".repeat(CAUSE_CHARS_MAX));
        let mut redirect = answer(302, "text/plain", "");
        redirect.headers.insert(LOCATION, HeaderValue::from_static("/other"));
        assert_eq!(cause(&redirect), "302 Found; redirects are not followed, this one leads to /other");
    }
}
