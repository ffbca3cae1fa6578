//! Writing messages as CloudEvents. What is written is read again as the same message.

use crate::event::{Event, is_json};
use crate::http::encode_value;
use crate::json::{BASE64, write_string};
use base64::Engine;
use perdura_canonical::Scanner;

/// The data of a message in a batch stands in an object in a list.
const LEVELS_ABOVE_DATA: usize = 2;

/// Headers and body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Names in lower case. Values are visible ASCII characters and spaces.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Give it one.
    #[error("a CloudEvent has an id, and this message has none")]
    NoId,
    /// Write it in structured mode.
    #[error(
        "data that is itself a CloudEvent cannot be sent in binary mode, where Content-Type would say so"
    )]
    Nested,
}

/// In binary mode: attributes in headers, data in the body.
pub fn binary(event: &Event) -> Result<Encoded, EncodeError> {
    event.id().ok_or(EncodeError::NoId)?;
    let mut headers = vec![("ce-specversion".to_owned(), "1.0".to_owned())];
    for (name, value) in all(event) {
        if name != "datacontenttype" {
            headers.push((format!("ce-{name}"), encode_value(value)));
        } else if value.get(..23).is_some_and(|start| start.eq_ignore_ascii_case("application/cloudevents")) {
            return Err(EncodeError::Nested);
        } else {
            headers.push(("content-type".to_owned(), value.to_owned()));
        }
    }
    Ok(Encoded { headers, body: event.data().unwrap_or_default().to_vec() })
}

/// In structured mode: all of it as JSON.
pub fn structured(event: &Event) -> Result<Encoded, EncodeError> {
    let mut out = String::new();
    write(&mut out, event)?;
    Ok(encoded("application/cloudevents+json", out))
}

/// Several in one body. To be sent only where it is asked for.
pub fn batch<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Encoded, EncodeError> {
    let mut out = String::from("[");
    for (at, event) in events.into_iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        write(&mut out, event)?;
    }
    out.push(']');
    Ok(encoded("application/cloudevents-batch+json", out))
}

fn encoded(media: &str, body: String) -> Encoded {
    Encoded { headers: vec![("content-type".to_owned(), media.to_owned())], body: body.into_bytes() }
}

fn all(event: &Event) -> impl Iterator<Item = (&str, &str)> {
    [("type", event.kind()), ("source", event.source())].into_iter().chain(event.attributes())
}

fn write(out: &mut String, event: &Event) -> Result<(), EncodeError> {
    event.id().ok_or(EncodeError::NoId)?;
    out.push_str(r#"{"specversion":"1.0""#);
    for (name, value) in all(event) {
        out.push(',');
        write_string(out, name);
        out.push(':');
        write_string(out, value);
    }
    match event.data() {
        None => {}
        Some(data) => match as_json(event, data) {
            Some(Json::Value(text)) => {
                out.push_str(r#","data":"#);
                out.push_str(text);
            }
            Some(Json::Text(text)) => {
                out.push_str(r#","data":"#);
                write_string(out, text);
            }
            None => {
                out.push_str(r#","data_base64":""#);
                BASE64.encode_string(data, out);
                out.push('"');
            }
        },
    }
    out.push('}');
    Ok(())
}

enum Json<'a> {
    Value(&'a str),
    Text(&'a str),
}

/// The data as a member of JSON, where it can be one: a value that is JSON, or text of a type that is read by people.
fn as_json<'a>(event: &Event, data: &'a [u8]) -> Option<Json<'a>> {
    let media = event.media()?;
    let text = std::str::from_utf8(data).ok().filter(|_| media.is_utf8())?;
    if is_json(&media) {
        let mut scan = Scanner::new(data).ok()?.below(LEVELS_ABOVE_DATA);
        scan.skip().ok()?;
        scan.finish().ok()?;
        return Some(Json::Value(text));
    }
    let essence = media.essence.as_str();
    let is_text = essence.starts_with("text/") || essence.ends_with("+xml") || essence == "application/xml";
    is_text.then_some(Json::Text(text))
}
