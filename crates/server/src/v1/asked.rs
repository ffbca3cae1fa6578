//! A request as an operation reads it: what its path names, its query, its headers and its body.

use super::problem::{Code, Problem};
use super::raw;
use super::shape::{Field, Is, Shape};
use super::table::Operation;
use crate::places::Room;
use crate::who::token::Known;
use axum::body::Bytes;
use axum::http::{HeaderMap, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use perdura_engine::asl::json::{Map, Payload, Value, parse, without_mark};
use perdura_engine::asl::timestamp::parse_ms;
use perdura_engine::{Status, Timestamp};
use perdura_idempotency::IdempotencyContext;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The longest that somebody may wait for something.
pub(super) const WAIT_MAX: Duration = Duration::from_mins(1);

/// A request of one operation, with a query that the operation knows.
#[derive(Debug)]
pub(super) struct Asked {
    /// In the order of the path.
    params: Vec<String>,
    query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The run under the key of the request, where it has one.
    context: Option<IdempotencyContext>,
    /// What the body takes of the memory for bodies.
    _room: Option<Room>,
    /// The tokens that the caller was admitted by; `None`: it came by the control socket.
    known: Option<Arc<Known>>,
}

impl Asked {
    pub(super) fn new(
        operation: &Operation,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Self, Problem> {
        let named = operation.path.split('/').zip(uri.path().split('/'));
        let params = named.filter(|(part, _)| part.starts_with('{')).map(|(_, given)| decode(given, false));
        let params = params.collect::<Option<Vec<_>>>();
        let params = params.ok_or_else(|| Problem::invalid("the path is not percent-encoded UTF-8"))?;
        let query = query(operation.query, uri.query().unwrap_or_default())?;
        Ok(Self { params, query, headers, body, context: None, _room: None, known: None })
    }

    pub(super) fn under(self, context: Option<IdempotencyContext>) -> Self {
        Self { context, ..self }
    }

    pub(super) fn holding(self, room: Option<Room>) -> Self {
        Self { _room: room, ..self }
    }

    pub(super) fn admitted_by(self, known: Option<Arc<Known>>) -> Self {
        Self { known, ..self }
    }

    /// What the caller was admitted by: the tokens, and the headers that show one.
    pub(super) fn showing(&self) -> Option<(Arc<Known>, HeaderMap)> {
        Some((self.known.clone()?, self.headers.clone()))
    }

    pub(super) fn context(&self) -> Option<&IdempotencyContext> {
        self.context.as_ref()
    }

    /// What the path names first.
    pub(super) fn first(&self) -> String {
        self.params.first().cloned().unwrap_or_default()
    }

    /// What the path names second.
    pub(super) fn second(&self) -> String {
        self.params.get(1).cloned().unwrap_or_default()
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    pub(super) fn limit(&self, usual: u32) -> Result<u32, Problem> {
        let Some(text) = self.query("limit") else { return Ok(usual) };
        text.parse().map_err(|_| Problem::invalid("limit is to be a number of items"))
    }

    /// An instant that the query was checked to have.
    pub(super) fn instant(&self, name: &str) -> Option<Timestamp> {
        self.query(name).and_then(parse_ms).map(Timestamp)
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.query("status").and_then(status)
    }

    /// Where an earlier page ended.
    pub(super) fn cursor<T: DeserializeOwned>(&self) -> Result<Option<T>, Problem> {
        let Some(text) = self.query("cursor") else { return Ok(None) };
        let place = URL_SAFE_NO_PAD.decode(text).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let wrong = || Problem::invalid("this is no cursor of this list").but("give it back as it was given");
        place.ok_or_else(wrong).map(Some)
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        wait(&self.headers)
    }

    pub(super) fn header(&self, name: &header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body's members, which have this shape. No body is as good as an empty object.
    pub(super) fn members(&self, shape: &Shape) -> Result<Members, Problem> {
        let text = self.text()?;
        let value = if text.trim().is_empty() {
            Value::empty_object()
        } else {
            parse(without_mark(text))
                .map_err(|error| Problem::new(Code::NotJson, format!("the body is no JSON: {error}")))?
        };
        let Some(members) = value.as_object() else {
            return Err(Problem::invalid("the body is to be a JSON object"));
        };
        shape.check("", members)?;
        let text = without_mark(text).to_owned();
        Ok(Members { value, text })
    }

    pub(super) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.body).map_err(|_| Problem::new(Code::NotJson, "the body is not UTF-8"))
    }
}

/// `Prefer: wait=30`, at most [`WAIT_MAX`].
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let seconds = values.flat_map(|value| value.split(',')).find_map(|one| one.trim().strip_prefix("wait="));
    Some(Duration::from_secs(seconds?.trim().parse().ok()?).min(WAIT_MAX))
}

/// A body that was checked against its shape.
pub(super) struct Members {
    value: Value,
    /// As it is written.
    text: String,
}

impl Members {
    fn get(&self, name: &str) -> Option<&Value> {
        self.value.get(name).filter(|value| !matches!(value, Value::Null))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(str::to_owned)
    }

    /// A text that the shape needs.
    pub(super) fn needed(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn whole(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    /// Texts by name.
    pub(super) fn pairs(&self, name: &str) -> Vec<(&str, &str)> {
        let members = self.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        members.filter_map(|(name, value)| Some((&**name, value.as_str()?))).collect()
    }

    pub(super) fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).unwrap_or_default()
    }

    /// The objects of a list.
    pub(super) fn each(&self, name: &str) -> Vec<Self> {
        let texts = raw::member(&self.text, name).map(raw::parts).unwrap_or_default();
        let pairs = self.list(name).iter().zip(texts);
        pairs.map(|(value, (_, text))| Self { value: value.clone(), text: text.to_owned() }).collect()
    }

    pub(super) fn inner(&self, name: &str) -> Option<Self> {
        let text = raw::member(&self.text, name)?.to_owned();
        self.get(name).map(|value| Self { value: value.clone(), text })
    }

    /// Any JSON, as it is written; here `null` is a value like others.
    pub(super) fn document(&self, name: &str) -> Result<Option<Payload>, Problem> {
        let payload = raw::member(&self.text, name).map(Payload::from_text).transpose();
        payload.map_err(|error| Problem::invalid(format!("{name}: {error}")))
    }
}

/// Reads a query, all of whose names the operation knows.
fn query(known: &[Field], text: &str) -> Result<Vec<(String, String)>, Problem> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decode(name, true), decode(value, true)) else {
            return Err(Problem::invalid("the query is not percent-encoded UTF-8"));
        };
        let Some(field) = known.iter().find(|field| field.name == name) else {
            let names: Vec<&str> = known.iter().map(|field| field.name).collect();
            let remedy = if names.is_empty() { "it takes no query".to_owned() } else { names.join(", ") };
            return Err(Problem::invalid(format!("{name:?} is not known in this query")).but(remedy));
        };
        if found.iter().any(|(other, _)| *other == name) {
            return Err(Problem::invalid(format!("{name} is given twice")));
        }
        let fits = match field.is {
            Is::OneOf(words) => words.contains(&&*value),
            Is::Flag => matches!(&*value, "true" | "false"),
            Is::Whole => value.parse::<u32>().is_ok(),
            Is::Instant => value.is_empty() || parse_ms(&value).is_some(),
            Is::Text
            | Is::Number
            | Is::Document
            | Is::A(_)
            | Is::ListOf(_)
            | Is::Texts
            | Is::Counts
            | Is::Pairs => true,
        };
        if !fits {
            return Err(Problem::invalid(format!("{name} is to be: {}", field.is.words())));
        }
        // An empty value is as good as none, so that a form can be sent as it is.
        if !value.is_empty() {
            found.push((name, value));
        }
    }
    Ok(found)
}

/// The words of [`Status`].
pub(super) const STATUSES: &[&str] = &["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"];

fn status(word: &str) -> Option<Status> {
    [Status::Running, Status::Succeeded, Status::Failed, Status::TimedOut, Status::Aborted]
        .into_iter()
        .find(|status| status.name() == word)
}

/// Undoes percent-encoding; in a query `+` is a space.
fn decode(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes for a path or a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            byte => write!(encoded, "%{byte:02X}").expect("a text takes all"),
        }
    }
    encoded
}

/// A place as a cursor.
pub(super) fn cursor(place: &serde_json::Value) -> String {
    URL_SAFE_NO_PAD.encode(place.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for text in ["order/A-1", "é %+&=", "arn:aws:states:r:1:execution:m:n", "", "a\u{7}b"] {
            assert_eq!(decode(&encode(text), false).as_deref(), Some(text));
            assert_eq!(decode(&encode(text), true).as_deref(), Some(text));
        }
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decode(bad, false), None, "{bad}");
        }
    }
}
