//! A request whose members were held to the model: what is in it, by name.

use super::error::{ApiError, Code};
use crate::places::Place;
use perdura_engine::asl::json::{Map, Value};
use std::sync::Arc;

/// How many results there are in a page where nobody says otherwise.
const PAGE: u32 = 100;

/// A request, and the memory that was set aside for it. An action that waits drops it first.
pub(super) struct Asked {
    value: Value,
    room: Option<Place>,
}

impl Asked {
    pub(super) fn new(value: Value, room: Option<Place>) -> Result<Self, ApiError> {
        Requested::new(&value)?;
        Ok(Self { value, room })
    }

    pub(super) fn requested(&self) -> Requested<'_> {
        Requested::new(&self.value).expect("it was found to be an object")
    }

    /// What it said is no longer wanted, and the rest of it goes on elsewhere; the room for that is still needed.
    pub(super) fn into_room(self) -> Option<Place> {
        self.room
    }
}

/// The members of a request.
#[derive(Clone, Copy)]
pub(super) struct Requested<'a>(&'a Map);

impl<'a> Requested<'a> {
    pub(super) fn new(request: &'a Value) -> Result<Self, ApiError> {
        match request {
            Value::Object(members) => Ok(Self(members)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(ApiError::new(Code::SerializationException, "the body is no JSON object"))
            }
        }
    }

    pub(super) fn members(self) -> &'a Map {
        self.0
    }

    pub(super) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.value(name)?.as_str()
    }

    /// The same, which may go elsewhere.
    pub(super) fn shared(self, name: &str) -> Option<Arc<str>> {
        match self.value(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A member that the model requires; without it nothing gets here.
    pub(super) fn required(self, name: &str) -> &'a str {
        self.text(name).unwrap_or_default()
    }

    pub(super) fn flag(self, name: &str) -> Option<bool> {
        self.value(name)?.as_bool()
    }

    pub(super) fn number(self, name: &str) -> Option<i64> {
        self.value(name)?.as_i64()
    }

    /// A list of structures, or of texts.
    pub(super) fn list(self, name: &str) -> Option<&'a [Value]> {
        self.value(name)?.as_array()
    }

    /// `maxResults`, where 0 stands for the default.
    pub(super) fn page(self) -> u32 {
        match self.number("maxResults") {
            None | Some(0) => PAGE,
            Some(most) => u32::try_from(most).unwrap_or(PAGE),
        }
    }

    /// Whether more than names and times is wanted.
    pub(super) fn wants_data(self) -> bool {
        self.text("includedData") != Some("METADATA_ONLY")
    }
}
