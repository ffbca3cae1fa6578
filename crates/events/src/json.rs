//! CloudEvents as JSON, and plain JSON with the same members.

use crate::decode::DecodeError;
use crate::event::{Event, is_json, trimmed};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use perdura_canonical::{Fault, Kind, MediaType, Scanner};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The members of an object, with the text of each value.
pub(crate) type Members<'a> = BTreeMap<String, &'a [u8]>;

/// More than any message has, as its attributes are bounded.
const MEMBERS_MAX: usize = 256;

/// Some senders leave the padding out.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(crate) fn is_list(body: &[u8]) -> bool {
    trimmed(body).first() == Some(&b'[')
}

/// The members of the object that a text is.
pub(crate) fn members(text: &[u8]) -> Result<Members<'_>, DecodeError> {
    let mut scan = Scanner::new(trimmed(text))?;
    if scan.kind()? != Kind::Object {
        return Err(DecodeError::malformed("a message is a JSON object, and this is another value"));
    }
    let mut members = Members::new();
    scan.members(|scan, name| {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = scan.skip()?;
        if members.len() == MEMBERS_MAX {
            return Err(DecodeError::malformed("a message has no more than 256 members"));
        }
        match members.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(scan.fault("before this is a member that the message has twice").into()),
        }
    })?;
    scan.finish()?;
    Ok(members)
}

/// The texts of the elements of the list that a text is.
pub(crate) fn elements(text: &[u8], batch_max: usize) -> Result<Vec<&[u8]>, DecodeError> {
    let mut scan = Scanner::new(trimmed(text))?;
    if scan.kind()? != Kind::List {
        return Err(DecodeError::malformed("a batch is a JSON list, and this is another value"));
    }
    let mut elements = Vec::new();
    scan.elements(|scan| {
        if elements.len() == batch_max {
            return Err(DecodeError::TooMany { batch_max });
        }
        elements.push(scan.skip()?);
        Ok(())
    })?;
    scan.finish()?;
    Ok(elements)
}

/// A CloudEvent in the JSON format.
pub(crate) fn cloud_event(members: &Members<'_>) -> Result<Event, DecodeError> {
    let version =
        members.get("specversion").map(|value| attribute("specversion", value)).transpose()?.flatten();
    match version.as_deref() {
        Some("1.0") => {}
        Some(_) => return Err(DecodeError::malformed("`specversion` is not \"1.0\"")),
        None => return Err(missing("specversion")),
    }
    let event = plain(members)?;
    if event.id().is_none() { Err(missing("id")) } else { Ok(event) }
}

/// The same, but `specversion` and `id` may be missing.
pub(crate) fn plain(members: &Members<'_>) -> Result<Event, DecodeError> {
    let data = members.get("data");
    let base64 = members.get("data_base64").filter(|value| **value != b"null");
    let mut attributes = BTreeMap::new();
    for (name, value) in members {
        if !matches!(name.as_str(), "specversion" | "data" | "data_base64")
            && let Some(value) = attribute(name, value)?
        {
            attributes.insert(name.as_str(), value);
        }
    }
    let mut required = |name| attributes.remove(name).ok_or_else(|| missing(name));
    let mut event = Event::new(&required("type")?, &required("source")?)?;
    for (name, value) in &attributes {
        event.set(name, value)?;
    }
    match (data, base64) {
        (Some(_), Some(_)) => {
            return Err(DecodeError::malformed("there are both `data` and `data_base64`: send one of them"));
        }
        (Some(data), None) => set_data(&mut event, data)?,
        (None, Some(base64)) => {
            let text = string("data_base64", base64)?;
            let bytes =
                BASE64.decode(text).map_err(|_| DecodeError::malformed("`data_base64` is not Base64"))?;
            event.set_data(Some(bytes));
        }
        (None, None) => {}
    }
    Ok(event)
}

fn set_data(event: &mut Event, data: &[u8]) -> Result<(), DecodeError> {
    if event.attribute("datacontenttype").is_none() {
        event.set("datacontenttype", "application/json")?;
    }
    let media = event.media().unwrap_or_else(|| MediaType::parse("application/json"));
    let bytes = if is_json(&media) {
        data.to_vec()
    } else if media.is_utf8() || media.charset.as_deref() == Some("us-ascii") {
        string("data", data)?.into_bytes()
    } else {
        return Err(DecodeError::malformed(
            "`data` is text in another charset than UTF-8: send its bytes as `data_base64`",
        ));
    };
    event.set_data(Some(bytes));
    Ok(())
}

fn missing(name: &str) -> DecodeError {
    DecodeError::malformed(format!("`{name}` is missing"))
}

/// The value of an attribute as text; `null` is none.
pub(crate) fn attribute(name: &str, value: &[u8]) -> Result<Option<String>, DecodeError> {
    match value.first() {
        Some(b'n') => Ok(None),
        Some(b'"') => string(name, value).map(Some),
        Some(b't' | b'f') => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        Some(b'-' | b'0'..=b'9') if !value.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
            Ok(Some(String::from_utf8_lossy(value).into_owned()))
        }
        _ => Err(DecodeError::malformed(format!(
            "`{}` is neither text, nor an integer, nor true or false; what is more belongs into the data",
            shown(name)
        ))),
    }
}

/// The characters of a value that is a string.
pub(crate) fn string(name: &str, value: &[u8]) -> Result<String, DecodeError> {
    let refused = |what: &str| DecodeError::malformed(format!("`{}` {what}", shown(name)));
    let read = || -> Result<Option<String>, Fault> {
        let mut scan = Scanner::new(value)?;
        if scan.kind()? == Kind::Text { scan.text().map(Some) } else { Ok(None) }
    };
    match read() {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(refused("is not a string")),
        Err(fault) => Err(refused(&format!("cannot be read: {}", fault.what))),
    }
}

fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_default).collect()
}

/// Writes a JSON string.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", character as u32).expect("a String takes all"),
            other => out.push(other),
        }
    }
    out.push('"');
}
