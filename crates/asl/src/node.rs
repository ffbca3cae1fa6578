//! A document as a tree with the place of each part.
//!
//! JSON and YAML become the same tree, so that later code does not depend on the format. Documents that cannot become
//! JSON are refused here, and so are those that would cost too much: there are limits on depth, on the number of
//! values, and on copies by YAML aliases.

mod json;
mod yaml;

use crate::diagnostic::{Diagnostic, code};
use crate::json::{Map, Number, Value};
use crate::source::{Format, Source, Span, looks_like_yaml};
use std::sync::Arc;

/// How many values a document may have: forty times as many as fit a definition on AWS.
pub const VALUES_MAX: usize = 2_000_000;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its place.
    pub span: Span,
    /// Its content.
    pub kind: NodeKind,
}

/// The content of a [`Node`].
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Arc<str>),
    /// An array.
    Array(Vec<Node>),
    /// An object, in the order in which it is written; one name may come twice.
    Object(Vec<Member>),
}

/// A member of an object.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub key: Arc<str>,
    /// Where the name stands.
    pub key_span: Span,
    pub value: Node,
}

impl Node {
    /// Parses a text. The error is a single diagnostic.
    pub fn parse(source: &Source) -> Result<Self, Box<Diagnostic>> {
        Self::parse_tagged(source, |_| None)
    }

    /// The same, for a language that gives YAML tags a meaning: `!Name value` becomes an object with one member, whose
    /// name `named` returns for the tag.
    pub fn parse_tagged(source: &Source, named: fn(&str) -> Option<String>) -> Result<Self, Box<Diagnostic>> {
        match source.format() {
            Format::Json => json::parse(&source.text).map_err(|mut error| {
                if looks_like_yaml(&source.text) {
                    error.hint("this looks like YAML; call the file `.yaml`");
                }
                error
            }),
            Format::Yaml => yaml::parse(&source.text, named),
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&Arc<str>> {
        if let NodeKind::String(text) = &self.kind { Some(text) } else { None }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Node]> {
        if let NodeKind::Array(items) = &self.kind { Some(items) } else { None }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&[Member]> {
        if let NodeKind::Object(members) = &self.kind { Some(members) } else { None }
    }

    /// A member's value, if it is an object that has one of this name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        find(self.as_object()?, name).map(|member| &member.value)
    }

    /// Its kind, for a sentence: `a string`, `null`.
    pub fn described(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::String(_) => "a string",
            NodeKind::Array(_) => "an array",
            NodeKind::Object(_) => "an object",
        }
    }

    /// The value without its places.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(truth) => Value::Bool(*truth),
            NodeKind::Number(number) => Value::Number(number.clone()),
            NodeKind::String(text) => Value::String(text.clone()),
            NodeKind::Array(items) => items.iter().map(Node::to_value).collect(),
            NodeKind::Object(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.value.to_value()));
                Value::from(members.collect::<Map>())
            }
        }
    }
}

/// The first member of this name.
pub fn find<'n>(members: &'n [Member], name: &str) -> Option<&'n Member> {
    members.iter().find(|member| &*member.key == name)
}

fn too_many_values(span: Span) -> Box<Diagnostic> {
    let message = format!("the document holds more than {VALUES_MAX} values");
    Box::new(Diagnostic::error(code::DEFINITION_TOO_LARGE, message).at("", span))
}
