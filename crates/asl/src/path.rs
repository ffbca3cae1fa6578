//! `JSONPath` as Step Functions speaks it, and Reference Paths for writing.

use crate::json::{SyntaxError, Value};
use crate::scope::{Failure, Scope};
use std::sync::Arc;

/// A parsed path: `$.a[0]`, `$$.Execution.Id`, `$variable.member`.
#[derive(Clone, Debug)]
pub struct Path {
    text: Arc<str>,
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// `$`
    Input,
    /// `$$`
    Context,
    /// `$name`
    Variable(Arc<str>),
}

impl Path {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { text: text.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it begins.
    pub fn root(&self) -> Root {
        Root::Input
    }

    /// Whether it is its root alone: `$`, `$$`, `$name`.
    pub fn is_root(&self) -> bool {
        false
    }

    /// In the bracket form that Step Functions shows in errors: `$['a'][0]`.
    pub fn normalized(&self) -> String {
        self.text.to_string()
    }

    /// What it selects. `None`: a definite path that leads nowhere, or a variable that is not set.
    pub fn select(&self, _scope: &Scope<'_>) -> Option<Value> {
        None
    }
}

/// A path of names and indices only, for writing.
#[derive(Clone, Debug)]
pub struct ReferencePath {
    text: Arc<str>,
}

impl ReferencePath {
    /// Reads a reference path.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { text: text.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `target` with `value` at this place; what is missing on the way is made.
    pub fn put(&self, target: Value, _value: Value) -> Result<Value, Failure> {
        Ok(target)
    }
}
