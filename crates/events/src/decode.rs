//! Reading a message, whatever form it comes in.
//!
//! The mode of a CloudEvent is told by the beginning of `Content-Type`, as its HTTP binding says. JSON that says nothing
//! of CloudEvents is told by its members. In a batch each message is read by itself, so one that is wrong says so and the
//! others count.

use crate::event::{AttributeError, Event, is_json};
use crate::{aws, http, json};
use perdura_canonical::{Fault, MediaType};

/// The limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body and of the headers that are attributes, together. CloudEvents wants 64 KiB to be taken.
    pub bytes_max: usize,
    /// Messages in one batch.
    pub batch_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 1 << 20, batch_max: 1_000 }
    }
}

/// The messages of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// One message.
    One(Event),
    /// A batch, which may be empty. It is answered with a result for each.
    Batch(Vec<Result<Event, DecodeError>>),
}

/// Why there is no message. The text says which part is wrong, and quotes names but no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Send less at once.
    #[error("the message takes {bytes} bytes, and {bytes_max} are allowed")]
    TooLarge { bytes: usize, bytes_max: usize },
    /// Send smaller batches.
    #[error("the batch has more than {batch_max} messages")]
    TooMany { batch_max: usize },
    /// Send it in another format.
    #[error("{0}")]
    Format(String),
    /// Correct it before it is sent again.
    #[error("{0}")]
    Malformed(String),
}

impl DecodeError {
    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

impl From<AttributeError> for DecodeError {
    fn from(error: AttributeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        Self::Malformed(fault.to_string())
    }
}

/// Reads the headers and the body of a request, or of an answer.
///
/// ```
/// use perdura_events::{Limits, Received, decode};
///
/// let headers = [
///     ("Content-Type", "text/plain"),
///     ("ce-specversion", "1.0"),
///     ("ce-type", "note"),
///     ("ce-source", "/desk"),
///     ("ce-id", "1"),
///     ("ce-subject", "Euro%20%E2%82%AC"),
/// ];
/// let Ok(Received::One(event)) = decode(&headers, b"paid", &Limits::default()) else { panic!("one event") };
/// assert_eq!(event.attribute("subject"), Some("Euro €"));
/// ```
pub fn decode<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    headers: &[(N, V)],
    body: &[u8],
    limits: &Limits,
) -> Result<Received, DecodeError> {
    let headers = http::Headers::read(headers.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))?;
    let bytes = body.len().saturating_add(headers.attribute_bytes);
    if bytes > limits.bytes_max {
        return Err(DecodeError::TooLarge { bytes, bytes_max: limits.bytes_max });
    }
    let media = headers.content_type.map(MediaType::parse);
    let essence = media.as_ref().map_or("", |media| media.essence.as_str());
    if let Some(format) = essence.strip_prefix("application/cloudevents-batch") {
        check_format(format, media.as_ref())?;
        return batch(body, limits, json::cloud_event);
    }
    if let Some(format) = essence.strip_prefix("application/cloudevents") {
        check_format(format, media.as_ref())?;
        return json::cloud_event(&json::members(body)?).map(Received::One);
    }
    if headers.is_cloud_event() {
        return headers.event(body).map(Received::One);
    }
    match media {
        Some(media) if is_json(&media) => plain(body, limits),
        None => plain(body, limits),
        Some(_) => Err(DecodeError::Format(format!(
            "there are no `ce-` headers, and the Content-Type is {}: send a CloudEvent, or JSON",
            if essence.is_ascii() && essence.len() < 80 { essence } else { "something else" }
        ))),
    }
}

fn check_format(format: &str, media: Option<&MediaType>) -> Result<(), DecodeError> {
    if format != "+json" {
        return Err(DecodeError::Format(
            "of the formats of CloudEvents only JSON is read: application/cloudevents+json, or -batch+json"
                .to_owned(),
        ));
    }
    if media.is_some_and(|media| !media.is_utf8()) {
        return Err(DecodeError::Format("JSON is read in UTF-8, and in no other charset".to_owned()));
    }
    Ok(())
}

/// The messages of a list, each read by itself.
fn batch(
    list: &[u8],
    limits: &Limits,
    read: fn(&json::Members<'_>) -> Result<Event, DecodeError>,
) -> Result<Received, DecodeError> {
    let texts = json::elements(list, limits.batch_max)?;
    Ok(Received::Batch(texts.into_iter().map(|text| read(&json::members(text)?)).collect()))
}

/// JSON by itself: one message or a list of them, or the request of EventBridge's PutEvents.
fn plain(body: &[u8], limits: &Limits) -> Result<Received, DecodeError> {
    if json::is_list(body) {
        return batch(body, limits, object);
    }
    let members = json::members(body)?;
    match members.get("Entries") {
        Some(entries) => batch(entries, limits, object),
        None => object(&members).map(Received::One),
    }
}

fn object(members: &json::Members<'_>) -> Result<Event, DecodeError> {
    let has = |name: &str| members.contains_key(name);
    if has("specversion") {
        json::cloud_event(members)
    } else if has("detail-type") {
        aws::envelope(members)
    } else if has("DetailType") || has("Detail") {
        aws::entry(members)
    } else if has("type") || has("source") {
        json::plain(members)
    } else {
        Err(DecodeError::malformed(
            "this is no message: it has neither `type` and `source`, nor `specversion`, nor `detail-type`, \
             nor `DetailType`",
        ))
    }
}

#[cfg(test)]
mod tests;
