//! A request that was checked against the model: its members by name.

use super::error::{ApiError, Code};
use crate::places::Place;
use perdura_engine::asl::json::{Map, Value};
use std::sync::Arc;

/// The default size of a page.
const PAGE: u32 = 100;

/// A request, and its share of the memory for requests. An action that waits drops it first.
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

    /// Drops the request and keeps its share, for data of it that lives on elsewhere.
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

    /// The same, shared.
    pub(super) fn shared(self, name: &str) -> Option<Arc<str>> {
        match self.value(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A member that the model requires, so that it is there.
    pub(super) fn required(self, name: &str) -> &'a str {
        self.text(name).unwrap_or_default()
    }

    pub(super) fn flag(self, name: &str) -> Option<bool> {
        self.value(name)?.as_bool()
    }

    pub(super) fn number(self, name: &str) -> Option<i64> {
        self.value(name)?.as_i64()
    }

    pub(super) fn list(self, name: &str) -> Option<&'a [Value]> {
        self.value(name)?.as_array()
    }

    /// `maxResults`; 0 means the default.
    pub(super) fn page(self) -> u32 {
        match self.number("maxResults") {
            None | Some(0) => PAGE,
            Some(most) => u32::try_from(most).unwrap_or(PAGE),
        }
    }

    /// Whether `includedData` asks for more than metadata.
    pub(super) fn wants_data(self) -> bool {
        self.text("includedData") != Some("METADATA_ONLY")
    }
}
