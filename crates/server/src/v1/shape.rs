//! The shapes of bodies and answers: which members there are, and what each holds.
//!
//! A body is checked against its shape before it is read, and the OpenAPI document and the page of the API are made of
//! the same shapes, so that they cannot say different things.

use super::problem::Problem;
use perdura_engine::asl::json::{Map, Value};
use serde_json::json;

/// What a member holds.
#[derive(Clone, Copy, Debug)]
pub enum Is {
    Text,
    Whole,
    Number,
    Flag,
    /// RFC 3339.
    Instant,
    /// Any JSON.
    Document,
    OneOf(&'static [&'static str]),
    A(&'static Shape),
    ListOf(&'static Shape),
    Texts,
    /// Numbers by name.
    Counts,
    /// Texts by name.
    Pairs,
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub is: Is,
    pub is_needed: bool,
    pub about: &'static str,
}

/// An object with these members and no others.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// A member that is always there.
pub(super) const fn need(name: &'static str, is: Is, about: &'static str) -> Field {
    Field { name, is, is_needed: true, about }
}

/// A member that may be absent.
pub(super) const fn may(name: &'static str, is: Is, about: &'static str) -> Field {
    Field { name, is, is_needed: false, about }
}

impl Is {
    /// The JSON Schema of it.
    pub(super) fn schema(self) -> serde_json::Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Whole => json!({"type": "integer"}),
            Self::Number => json!({"type": "number"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Instant => json!({"type": "string", "format": "date-time"}),
            Self::Document => json!({}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::A(shape) => json!({"$ref": format!("#/components/schemas/{}", shape.name)}),
            Self::ListOf(shape) => json!({"type": "array", "items": Self::A(shape).schema()}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Self::Counts => json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            Self::Pairs => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        }
    }

    /// In a few words, for the page.
    pub(super) fn words(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Whole => "integer".into(),
            Self::Number => "number".into(),
            Self::Flag => "boolean".into(),
            Self::Instant => "instant".into(),
            Self::Document => "any JSON".into(),
            Self::OneOf(words) => words.join(", "),
            Self::A(shape) => shape.name.into(),
            Self::ListOf(shape) => format!("list of {}", shape.name),
            Self::Texts => "list of texts".into(),
            Self::Counts => "integers by name".into(),
            Self::Pairs => "texts by name".into(),
        }
    }

    /// Whether a value is such a one.
    fn check(self, at: &str, value: &Value) -> Result<(), Problem> {
        let fits = match self {
            Self::Text | Self::Instant => value.as_str().is_some(),
            Self::Whole => value.as_i64().is_some(),
            Self::Number => value.as_f64().is_some(),
            Self::Flag => value.as_bool().is_some(),
            Self::Document => true,
            Self::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::A(shape) => match value.as_object() {
                Some(members) => return shape.check(at, members),
                None => false,
            },
            Self::ListOf(shape) => match value.as_array() {
                Some(items) => return items.iter().try_for_each(|item| Self::A(shape).check(at, item)),
                None => false,
            },
            Self::Texts => {
                value.as_array().is_some_and(|items| items.iter().all(|item| item.as_str().is_some()))
            }
            Self::Counts => value.as_object().is_some(),
            Self::Pairs => value
                .as_object()
                .is_some_and(|members| members.iter().all(|(_, value)| value.as_str().is_some())),
        };
        if fits { Ok(()) } else { Err(Problem::invalid(format!("{at} is to be: {}", self.words()))) }
    }
}

impl Shape {
    /// Refuses members that are unknown, missing or of another kind. `null` is as good as absent.
    pub(super) fn check(&self, at: &str, members: &Map) -> Result<(), Problem> {
        let place = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        for (name, value) in members.iter() {
            let name = &**name;
            let Some(field) = self.fields.iter().find(|field| field.name == name) else {
                let known: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
                return Err(Problem::invalid(format!("{} is not known here", place(name)))
                    .but(format!("the members are {}", known.join(", "))));
            };
            let is_absent = matches!(value, Value::Null) && !matches!(field.is, Is::Document);
            if !is_absent {
                field.is.check(&place(name), value)?;
            } else if field.is_needed {
                return Err(Problem::invalid(format!("{} is missing", place(name))));
            }
        }
        match self.fields.iter().find(|field| field.is_needed && members.get(field.name).is_none()) {
            Some(field) => Err(Problem::invalid(format!("{} is missing", place(field.name)))),
            None => Ok(()),
        }
    }

    pub(super) fn schema(&self) -> serde_json::Value {
        let property = |field: &Field| {
            let mut schema = field.is.schema();
            schema["description"] = field.about.into();
            (field.name.to_owned(), schema)
        };
        let properties: serde_json::Map<String, serde_json::Value> =
            self.fields.iter().map(property).collect();
        let needed: Vec<&str> =
            self.fields.iter().filter(|field| field.is_needed).map(|field| field.name).collect();
        json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false})
    }

    /// This shape and all that it names.
    pub(super) fn all(&'static self, found: &mut std::collections::BTreeMap<&'static str, &'static Self>) {
        if found.insert(self.name, self).is_none() {
            for field in self.fields {
                if let Is::A(inner) | Is::ListOf(inner) = field.is {
                    inner.all(found);
                }
            }
        }
    }
}
