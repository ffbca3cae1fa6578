//! EventBridge's forms: the envelope in which events are delivered, and the entries of PutEvents.
//!
//! `detail-type` is the message's type and `detail` its data. `account` and `region` become attributes of that name;
//! `resources` too, as the text of a JSON list, because attributes are text. What belongs to a delivery (the bus, a trace
//! header, the name of a replay) is not part of the message.

use crate::decode::DecodeError;
use crate::event::Event;
use crate::json::{Members, attribute, elements, string, write_string};
use crate::time;
use perdura_canonical::{Kind, Scanner};

/// More than EventBridge allows in one event.
const RESOURCES_MAX: usize = 1_000;

/// An event as EventBridge delivers it.
pub(crate) fn envelope(members: &Members<'_>) -> Result<Event, DecodeError> {
    let mut event = begin(members, "detail-type", "source")?;
    for name in ["id", "time", "account", "region"] {
        if let Some(value) = optional(members, name)? {
            event.set(name, &value)?;
        }
    }
    set_resources(&mut event, members, "resources")?;
    if let Some(detail) = members.get("detail") {
        check_object("detail", detail)?;
        event.set_json(&String::from_utf8_lossy(detail));
    }
    Ok(event)
}

/// An entry of PutEvents, whose detail is JSON as text.
pub(crate) fn entry(members: &Members<'_>) -> Result<Event, DecodeError> {
    let mut event = begin(members, "DetailType", "Source")?;
    if let Some(time) = members.get("Time") {
        let value = if time.first().is_some_and(u8::is_ascii_digit) {
            let seconds = String::from_utf8_lossy(time);
            let refused = || DecodeError::malformed("`Time` is not a number of seconds since 1970");
            Some(time::from_seconds(&seconds).ok_or_else(refused)?)
        } else {
            optional(members, "Time")?
        };
        if let Some(value) = value {
            event.set("time", &value)?;
        }
    }
    set_resources(&mut event, members, "Resources")?;
    let detail = string("Detail", members.get("Detail").ok_or_else(|| missing("Detail"))?)?;
    check_object("Detail", detail.as_bytes())?;
    event.set_json(&detail);
    Ok(event)
}

fn begin(members: &Members<'_>, kind: &str, source: &str) -> Result<Event, DecodeError> {
    let required = |name| optional(members, name)?.ok_or_else(|| missing(name));
    Ok(Event::new(&required(kind)?, &required(source)?)?)
}

fn missing(name: &str) -> DecodeError {
    DecodeError::malformed(format!("`{name}` is missing"))
}

fn optional(members: &Members<'_>, name: &str) -> Result<Option<String>, DecodeError> {
    Ok(members.get(name).map(|value| attribute(name, value)).transpose()?.flatten())
}

fn set_resources(event: &mut Event, members: &Members<'_>, name: &str) -> Result<(), DecodeError> {
    let Some(list) = members.get(name).filter(|value| **value != b"null") else { return Ok(()) };
    let mut out = String::from("[");
    for (at, element) in elements(list, RESOURCES_MAX)?.into_iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        write_string(&mut out, &string(name, element)?);
    }
    out.push(']');
    if out.len() > 2 {
        event.set("resources", &out)?;
    }
    Ok(())
}

fn check_object(name: &str, text: &[u8]) -> Result<(), DecodeError> {
    let refused = |what: &str| DecodeError::malformed(format!("`{name}` {what}"));
    let read = || {
        let mut scan = Scanner::new(text)?;
        let kind = scan.kind()?;
        scan.skip()?;
        scan.finish().map(|()| kind)
    };
    match read() {
        Ok(Kind::Object) => Ok(()),
        Ok(_) => Err(refused("is not a JSON object")),
        Err(fault) => Err(refused(&format!("is not a JSON object: at byte {}: {}", fault.at, fault.what))),
    }
}
