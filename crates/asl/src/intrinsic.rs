//! The 18 intrinsic functions.

use crate::json::{SyntaxError, Value};
use crate::scope::{Failure, Scope};
use std::sync::Arc;

/// A parsed call, such as `States.Format('{}', $.name)`.
#[derive(Clone, Debug)]
pub struct Intrinsic {
    text: Arc<str>,
}

impl Intrinsic {
    /// Reads a call.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { text: text.into() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it gives.
    pub fn evaluate(&self, _scope: &Scope<'_>) -> Result<Value, Failure> {
        Ok(Value::Null)
    }
}
