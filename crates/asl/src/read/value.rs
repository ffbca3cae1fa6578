//! Single values of known types.

use super::Reader;
use super::at::At;
use crate::json::{Number, Value};
use crate::machine::QueryLanguage;
use crate::node::{Member, Node, NodeKind};
use std::sync::Arc;

/// The remedy for an expression that is not evaluated.
pub(super) const USE_JSONATA: &str =
    "expressions are evaluated in JSONata states only: set `\"QueryLanguage\": \"JSONata\"`";

/// The allowed range of a number.
#[derive(Clone, Copy)]
pub(super) struct Range {
    min: f64,
    max: f64,
    is_integer: bool,
}

impl Range {
    /// The longest that AWS waits or counts.
    pub(super) const LONGEST: i64 = 99_999_999;

    pub(super) const fn integer(min: i64, max: i64) -> Self {
        Self { min: min as f64, max: max as f64, is_integer: true }
    }

    pub(super) const fn number(min: f64, max: f64) -> Self {
        Self { min, max, is_integer: false }
    }

    fn show(self, bound: f64) -> String {
        if self.is_integer { format!("{bound}") } else { format!("{bound:?}") }
    }
}

impl<'n> Reader<'n> {
    pub(super) fn wrong_type(&mut self, node: &Node, at: &At<'_>, wanted: &str) {
        let message = format!("Expected value of type {wanted}");
        let is_expression = node.as_str().is_some_and(|text| text.starts_with("{%"));
        let hint = match self.language {
            QueryLanguage::JsonPath if is_expression => USE_JSONATA.to_owned(),
            QueryLanguage::Jsonata if is_expression => "this field takes no expression".to_owned(),
            QueryLanguage::JsonPath | QueryLanguage::Jsonata => format!("this is {}", node.described()),
        };
        self.findings.shape(at, node.span, message).hint(hint);
    }

    pub(super) fn string(&mut self, node: &'n Node, at: &At<'_>) -> Option<&'n Arc<str>> {
        let text = node.as_str();
        if text.is_none() {
            self.wrong_type(node, at, "[STRING]");
        }
        text
    }

    pub(super) fn object(&mut self, node: &'n Node, at: &At<'_>) -> Option<&'n [Member]> {
        let members = node.as_object();
        if members.is_none() {
            self.wrong_type(node, at, "[OBJECT]");
        }
        members
    }

    pub(super) fn array(&mut self, node: &'n Node, at: &At<'_>) -> Option<&'n [Node]> {
        let items = node.as_array();
        if items.is_none() {
            self.wrong_type(node, at, "[ARRAY]");
        }
        items
    }

    /// An array with something in it.
    pub(super) fn filled_array(&mut self, node: &'n Node, at: &At<'_>) -> Option<&'n [Node]> {
        let items = self.array(node, at)?;
        if items.is_empty() {
            self.findings.shape(at, node.span, "Value cannot be empty");
            return None;
        }
        Some(items)
    }

    pub(super) fn boolean(&mut self, node: &Node, at: &At<'_>) -> Option<bool> {
        if let NodeKind::Bool(truth) = &node.kind {
            return Some(*truth);
        }
        self.wrong_type(node, at, "[BOOLEAN]");
        None
    }

    pub(super) fn comment(&mut self, node: &'n Node, at: &At<'_>) -> Option<String> {
        self.string(node, at).map(|text| (**text).to_owned())
    }

    /// One of a few words.
    pub(super) fn one_of(
        &mut self,
        node: &'n Node,
        at: &At<'_>,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let text = self.string(node, at)?;
        let known = words.iter().copied().find(|word| *word == &**text);
        if known.is_none() {
            let message = format!("Value should be one of the following: [{}]", words.join(", "));
            let hint = self.guess(text, words.iter().copied());
            self.findings.shape(at, node.span, message).hint = hint;
        }
        known
    }

    /// A number within a range, written out.
    pub(super) fn number(&mut self, node: &'n Node, at: &At<'_>, range: Range) -> Option<&'n Number> {
        let number = match &node.kind {
            NodeKind::Number(number) if number.is_integer() || !range.is_integer => number,
            _ => {
                self.wrong_type(node, at, if range.is_integer { "Integer" } else { "Number" });
                return None;
            }
        };
        let value = number.as_f64();
        if value < range.min {
            let message = format!("Minimum value is {}", range.show(range.min));
            self.findings.shape(at, node.span, message);
            return None;
        }
        if value > range.max {
            let message = format!("Maximum value is {}", range.show(range.max));
            self.findings.shape(at, node.span, message);
            return None;
        }
        Some(number)
    }

    /// A whole number within a range that starts at 0 or above.
    pub(super) fn count(&mut self, node: &'n Node, at: &At<'_>, range: Range) -> Option<u64> {
        self.number(node, at, range).and_then(Number::as_i64).and_then(|int| u64::try_from(int).ok())
    }

    pub(super) fn number_value(&mut self, node: &'n Node, at: &At<'_>, range: Range) -> Option<Value> {
        self.number(node, at, range).cloned().map(Value::Number)
    }
}
