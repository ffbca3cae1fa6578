//! The 18 intrinsic functions.
//!
//! Their rules are those of the service, where it was seen to differ from its documentation: numbers are truncated, not
//! rounded (but `MathAdd` rounds), `Format` writes objects the way Java prints a map, and every failure is
//! `States.Runtime`. `docs/intrinsics.md` has one line on each function.
//!
//! A call is parsed once, with its arguments and nested calls; evaluating it needs only a scope. The result of a
//! function that prints is limited by [`TEXT_MAX`], so that no expression can make more of its input than memory holds.

mod array;
mod digest;
mod function;
mod java;
mod math;
mod parse;
mod text;

pub use parse::{ARGUMENTS_MAX, NESTING_MAX};
pub use text::TEXT_MAX;

use crate::json::{SyntaxError, Value};
use crate::path::{Path, Root};
use crate::scope::{Failure, Scope};
use function::Function;
use std::sync::Arc;

/// The error of a failed call. The specification calls it `States.IntrinsicFailure`; the service never uses that name.
const FAILED: &str = "States.Runtime";

/// A parsed call, such as `States.Format('{}', $.name)`.
#[derive(Clone, Debug)]
pub struct Intrinsic {
    text: Arc<str>,
    call: Call,
}

/// A function with its arguments.
#[derive(Clone, Debug)]
struct Call {
    function: Function,
    arguments: Arc<[Argument]>,
}

/// An argument of a call.
#[derive(Clone, Debug)]
enum Argument {
    /// A string, a number, `true`, `false` or `null`.
    Literal(Value),
    /// The string that is the template of `States.Format`, with its escapes.
    Template(Arc<str>),
    Path(Path),
    Call(Call),
}

/// Why a call failed.
enum Problem<'c> {
    /// A path among the arguments leads nowhere.
    Missing(&'c Path),
    /// The function cannot use its arguments; a sentence of AWS.
    Invalid(String),
}

impl Intrinsic {
    /// Reads a call.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { text: text.into(), call: parse::whole(text)? })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The paths among its arguments and those of the calls in them, in the order of the text.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let mut open = vec![self.call.arguments.iter()];
        std::iter::from_fn(move || {
            loop {
                match open.last_mut()?.next() {
                    None => drop(open.pop()),
                    Some(Argument::Path(path)) => return Some(path),
                    Some(Argument::Call(call)) => open.push(call.arguments.iter()),
                    Some(Argument::Literal(_) | Argument::Template(_)) => {}
                }
            }
        })
    }

    /// The first call with more or fewer arguments than its function takes, in words. AWS accepts such a call; it fails
    /// when it is evaluated.
    pub fn miscount(&self) -> Option<String> {
        self.call.miscount()
    }

    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, Failure> {
        self.call.evaluate(scope).map_err(|problem| {
            let text = &self.text;
            Failure::new(
                FAILED,
                match problem {
                    Problem::Missing(path) => format!(
                        "The function '{text}' had the following error: The JsonPath argument for the field \
                         '{}' could not be found in the input '{}'",
                        as_reported(path),
                        scope.input
                    ),
                    Problem::Invalid(reason) => format!(
                        "There was an error while evaluating the intrinsic function: {text}. {reason}"
                    ),
                },
            )
        })
    }
}

/// A path as in AWS's messages: one of the context object loses its first `$`.
fn as_reported(path: &Path) -> &str {
    match path.root() {
        Root::Context => path.text().strip_prefix('$').unwrap_or_default(),
        Root::Input | Root::Variable(_) => path.text(),
    }
}

/// Fails if more work was done than is allowed.
fn affordable<'c>(scope: &Scope<'_>) -> Result<(), Problem<'c>> {
    scope.dice.check().map_err(|failure| Problem::Invalid(failure.cause))
}

impl Call {
    fn miscount(&self) -> Option<String> {
        self.function.miscount(self.arguments.len()).or_else(|| {
            self.arguments.iter().find_map(|argument| match argument {
                Argument::Call(call) => call.miscount(),
                Argument::Literal(_) | Argument::Template(_) | Argument::Path(_) => None,
            })
        })
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, Problem<'_>> {
        let mut values = Vec::with_capacity(self.arguments.len());
        for argument in self.arguments.iter() {
            values.push(match argument {
                Argument::Literal(value) => value.clone(),
                Argument::Template(raw) => Value::String(raw.clone()),
                Argument::Path(path) => {
                    let found = path.select(scope);
                    affordable(scope)?;
                    found.ok_or(Problem::Missing(path))?
                }
                Argument::Call(call) => call.evaluate(scope)?,
            });
        }
        scope.dice.spend(self.function.cost(&values));
        affordable(scope)?;
        self.function.apply(&values, scope.dice).map_err(Problem::Invalid)
    }
}
