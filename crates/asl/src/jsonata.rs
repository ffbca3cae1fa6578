//! JSONata as Step Functions runs it: version 2.0.6 without `$eval`, with six functions of its own.
//!
//! The evaluator is our own, after the reference implementation (jsonata-js 2.0.6, MIT; see `jsonata/LICENSE`), because
//! decisions are replayed, and a library that reads clocks, draws random numbers and grows without limit cannot be used
//! for that. Here time and randomness come from [`crate::scope::Dice`]; work, memory and depth are counted, so an
//! expression that would never end fails at the same point on every machine; and values from outside are shared instead
//! of converted, so a path through a large input costs only its steps.

mod ast;
mod error;
mod evaluate;
mod facts;
mod function;
mod library;
mod meter;
mod number;
mod output;
mod plain;
mod process;
mod regex;
mod signature;
mod syntax;
mod text;
mod token;
mod value;
mod whole;

pub use whole::Matching;

use crate::json::{SyntaxError, Value};
use crate::scope::Scope;
use ast::Ast;
use evaluate::Evaluator;
use facts::Facts;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use value::Val;

/// A parsed expression, without its `{% %}`. Cloning shares.
#[derive(Clone)]
pub struct Expression(Arc<Parsed>);

struct Parsed {
    text: Box<str>,
    ast: Ast,
    facts: Facts,
}

impl Expression {
    /// Reads an expression. The error's message is what AWS gives after `INVALID_JSONATA_EXPRESSION: `.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let text = text.trim();
        let ast = process::parse(text)
            .map_err(|error| SyntaxError { at: error.place().min(text.len()), message: error.message() })?;
        let facts = Facts::of(&ast);
        Ok(Self(Arc::new(Parsed { text: text.into(), ast, facts })))
    }

    /// As it was written, without the delimiters and the space inside them.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Its value; `None` is JSONata's undefined. The error is JSONata's own, such as `T1006: Attempted to invoke a
    /// non-function`; for a limit, it is AWS's sentence, which has no code.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Option<Value>, String> {
        let evaluator = Evaluator::new(&self.0.ast, scope);
        let result = evaluator.run(&Val::Undefined).and_then(|value| evaluator.output(&value));
        scope.dice.spend(evaluator.meter.spent());
        result.map_err(|error| error.sentence())
    }

    /// The variables that it takes from the workflow: neither bound inside, nor in the library, nor `$states`.
    pub fn variables(&self) -> &BTreeSet<Arc<str>> {
        &self.0.facts.variables
    }

    /// Whether it mentions this member of `$states`, such as `result` in `$states.result.id`.
    pub fn reads_states(&self, member: &str) -> bool {
        self.0.facts.states.contains(member)
    }

    /// Why AWS refuses a definition with this expression: each is AWS's text after `UNSUPPORTED_JSONATA_EXPRESSION: `.
    /// At its top level an expression has no context to read from.
    pub fn unsupported(&self) -> &[String] {
        &self.0.facts.unsupported
    }

    /// AWS's sentence about an error of [`Expression::evaluate`], for a field such as `Output/total`.
    pub fn threw(&self, field: &str, error: &str) -> String {
        let has_code = error.split_once(": ").is_some_and(|(code, _)| {
            code.len() == 5
                && code.starts_with(|first: char| first.is_ascii_uppercase())
                && code[1..].bytes().all(|byte| byte.is_ascii_digit())
        });
        let separator = if has_code { "." } else { ":" };
        format!("{} threw an error during evaluation{separator} {error}", self.subject(field))
    }

    /// AWS's sentence about an expression that gave undefined.
    pub fn returned_nothing(&self, field: &str) -> String {
        format!("{} returned nothing (undefined).", self.subject(field))
    }

    fn subject(&self, field: &str) -> String {
        format!("The JSONata expression '{}' specified for the field '{field}'", self.text())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Expression").field(&self.text()).finish()
    }
}
