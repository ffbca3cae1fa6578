//! One message, whatever form it came in.
//!
//! It is a CloudEvent but that it may have no id. All attributes are text, as in HTTP headers: so a message that came in
//! headers and one that came as JSON are equal, and match the same patterns. The data is the bytes that were sent; JSON
//! loses the white space around it.

use crate::time;
use perdura_canonical::MediaType;
use std::collections::BTreeMap;

/// How long the name of an attribute may be; CloudEvents advises 20.
const NAME_BYTES_MAX: usize = 64;
/// How many attributes a message may have beside its type and source.
const ATTRIBUTES_MAX: usize = 128;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    kind: String,
    source: String,
    attributes: BTreeMap<String, String>,
    data: Option<Vec<u8>>,
}

/// Why an attribute is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// The name is none.
    #[error("`{name}` cannot be the name of an attribute: {why}")]
    Name { name: String, why: &'static str },
    /// The value is not what this attribute holds.
    #[error("the attribute `{name}` {why}")]
    Value { name: String, why: &'static str },
    /// There are too many.
    #[error("there are more than {ATTRIBUTES_MAX} attributes")]
    TooMany,
}

impl Event {
    /// A message of this type from this source, with nothing else.
    ///
    /// ```
    /// use perdura_events::Event;
    ///
    /// let mut event = Event::new("order.placed", "/shop").unwrap();
    /// event.set("id", "A-1").unwrap();
    /// event.set("idempotencykey", "8e03978e-40d5-43e8-bc93-6894a57f9324").unwrap();
    /// event.set_json(r#"{"total": 12.50}"#);
    /// assert_eq!(event.attribute("datacontenttype"), Some("application/json"));
    /// assert!(event.set("Id", "A-2").is_err());
    /// ```
    pub fn new(kind: &str, source: &str) -> Result<Self, AttributeError> {
        check_value("type", kind)?;
        check_value("source", source)?;
        let (kind, source) = (kind.to_owned(), source.to_owned());
        Ok(Self { kind, source, attributes: BTreeMap::new(), data: None })
    }

    /// Its type, such as `order.placed`; EventBridge's `detail-type`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Where it comes from. CloudEvents wants a URI reference; it is only compared, so others are taken too.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// An attribute by its name in CloudEvents, be it of the core or an extension.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        match name {
            "type" => Some(&self.kind),
            "source" => Some(&self.source),
            _ => self.attributes.get(name).map(String::as_str),
        }
    }

    /// All attributes but type and source, by name.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (&**name, &**value))
    }

    /// What only tells this message from others of its type and source.
    pub fn id(&self) -> Option<&str> {
        self.attribute("id")
    }

    /// Sets an attribute. `datacontenttype` is set with the data.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), AttributeError> {
        check_name(name)?;
        check_value(name, value)?;
        match name {
            "type" => value.clone_into(&mut self.kind),
            "source" => value.clone_into(&mut self.source),
            "datacontenttype" => {
                let data = self.data.take();
                self.put(name, value)?;
                self.set_data(data);
            }
            _ => self.put(name, value)?,
        }
        Ok(())
    }

    fn put(&mut self, name: &str, value: &str) -> Result<(), AttributeError> {
        if self.attributes.len() == ATTRIBUTES_MAX && !self.attributes.contains_key(name) {
            return Err(AttributeError::TooMany);
        }
        self.attributes.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The data.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Sets data that is JSON.
    pub fn set_json(&mut self, text: &str) {
        self.attributes.insert("datacontenttype".to_owned(), "application/json".to_owned());
        self.set_data(Some(text.as_bytes().to_vec()));
    }

    /// Sets data, which is of the type that `datacontenttype` says. No bytes are no data: an HTTP body cannot tell
    /// them apart.
    pub fn set_data(&mut self, data: Option<Vec<u8>>) {
        let data = match data {
            Some(bytes) if self.says_json() => Some(trimmed(&bytes).to_vec()),
            other => other,
        };
        self.data = data.filter(|bytes| !bytes.is_empty());
    }

    /// The media type of the data.
    pub(crate) fn media(&self) -> Option<MediaType> {
        self.attribute("datacontenttype").map(MediaType::parse)
    }

    fn says_json(&self) -> bool {
        self.media().is_some_and(|media| is_json(&media))
    }

    /// The data where it is declared to be JSON; whether it is, nobody has looked.
    pub(crate) fn json(&self) -> Option<&[u8]> {
        self.data().filter(|_| self.says_json())
    }
}

/// JSON in UTF-8. In another charset it is compared byte for byte, as other data is.
pub(crate) fn is_json(media: &MediaType) -> bool {
    (media.is_json() || media.essence.ends_with("/json")) && media.is_utf8()
}

/// JSON without the byte order mark and the white space around it, which say nothing.
pub(crate) fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn check_name(name: &str) -> Result<(), AttributeError> {
    let fault = |why| Err(AttributeError::Name { name: name.chars().take(NAME_BYTES_MAX).collect(), why });
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return fault("names are of the letters a to z and of digits");
    }
    if name.len() > NAME_BYTES_MAX {
        return fault("it is longer than 64 bytes");
    }
    match name {
        "data" => fault("it is the message's data"),
        "specversion" => fault("it is the version of CloudEvents, 1.0"),
        _ => Ok(()),
    }
}

fn check_value(name: &str, value: &str) -> Result<(), AttributeError> {
    let fault = |why| Err(AttributeError::Value { name: name.to_owned(), why });
    let is_noncharacter = |c: char| (c as u32) & 0xFFFE == 0xFFFE || ('\u{fdd0}'..='\u{fdef}').contains(&c);
    if value.chars().any(|c| c.is_control() || is_noncharacter(c)) {
        return fault("holds a control character or a Unicode noncharacter");
    }
    let is_core =
        matches!(name, "type" | "source" | "id" | "subject" | "time" | "dataschema" | "datacontenttype");
    if value.is_empty() && (is_core || name == "idempotencykey") {
        return fault("is empty");
    }
    match name {
        "time" if !time::is_rfc3339(value) => fault("is not a time like 2026-11-19T21:30:00Z (RFC 3339)"),
        "datacontenttype" if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => {
            fault("holds characters that no Content-Type can")
        }
        "datacontenttype" if value.trim() != value => fault("has white space around it"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
