//! Evaluates templates, selections and scalars of a definition.

use crate::error::{QUERY_EVALUATION, RUNTIME};
use crate::json::{Map, Payload, Value};
use crate::jsonata::Expression;
use crate::machine::{Assign, Placement, Scalar, Selection, Template};
use crate::path::{Path, Root};
use crate::scope::{Failure, Scope};
use std::sync::Arc;

/// A failure of States.Runtime.
pub fn runtime(cause: impl Into<String>) -> Failure {
    Failure::new(RUNTIME, cause)
}

/// A failure of States.QueryEvaluationError at a field.
pub fn query(field: &str, cause: impl Into<String>) -> Failure {
    Failure { error: QUERY_EVALUATION, cause: cause.into(), location: Some(field.to_owned()) }
}

impl Template {
    /// The value, with every expression in it evaluated. `field` is the template's place, such as `Output`.
    pub fn evaluate(&self, scope: &Scope<'_>, field: &str) -> Result<Value, Failure> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Path(path) => select_for_field(path, scope, field),
            Self::Intrinsic(intrinsic) => intrinsic.evaluate(scope),
            Self::Jsonata(expression) => evaluate_jsonata(expression, scope, field),
            Self::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| item.evaluate(scope, &format!("{field}[{at}]")))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::from),
            Self::Object(members) => {
                let mut map = Map::with_capacity(members.len());
                for (name, member) in members {
                    let value = match member {
                        Self::Literal(value) => value.clone(),
                        Self::Path(path) => select_for_field(path, scope, name)?,
                        _ => member.evaluate(scope, &format!("{field}/{name}"))?,
                    };
                    map.insert(name.clone(), value);
                }
                Ok(map.into())
            }
        }
    }
}

/// The value of `name.$` in a payload template.
fn select_for_field(path: &Path, scope: &Scope<'_>, name: &str) -> Result<Value, Failure> {
    select_for(path, scope, &format!("{name}.$"))
}

/// The value of the path in this field.
fn select_for(path: &Path, scope: &Scope<'_>, field: &str) -> Result<Value, Failure> {
    path.look_in_template(scope)?.ok_or_else(|| {
        let looked_in = match path.root() {
            Root::Variable(variable) if scope.variables.get(&variable).is_none() => {
                return runtime(format!(
                    "The variable '${variable}' referenced by the field '{field}' has no value"
                ));
            }
            Root::Context => scope.context.whole(),
            Root::Input | Root::Variable(_) => scope.input.clone(),
        };
        runtime(format!(
            "The JSONPath '{}' specified for the field '{field}' could not be found in the input '{looked_in}'",
            path.text()
        ))
    })
}

/// The value of an expression; undefined is an error.
pub fn evaluate_jsonata(expression: &Expression, scope: &Scope<'_>, field: &str) -> Result<Value, Failure> {
    match expression.evaluate(scope) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(query(field, expression.returned_nothing(field))),
        Err(error) => Err(query(field, expression.threw(field, &error))),
    }
}

/// A JSONata result that is not of the type a field needs.
pub fn unexpected_type(expression: &Expression, field: &str, expected: &str, value: &Value) -> Failure {
    query(
        field,
        format!(
            "The JSONata expression '{}' specified for the field '{field}' returned an unexpected result type. \
             Expected '{expected}', but was '{}' for value: {value}",
            expression.text(),
            value.type_name(),
        ),
    )
}

impl Selection {
    /// The selected part of `input`; the whole keeps its text.
    pub fn select(&self, input: &Payload, scope: &Scope<'_>) -> Result<Payload, Failure> {
        match self {
            Self::Whole => Ok(input.clone()),
            Self::Nothing => Ok(Payload::default()),
            Self::Path(path) if path.is_root() && path.root() == Root::Input => Ok(input.clone()),
            Self::Path(path) => {
                path.look(scope)?.map(Payload::from).ok_or_else(|| runtime(path.not_found(scope)))
            }
        }
    }
}

impl Placement {
    /// `input` with `result` at the place of `ResultPath`.
    pub fn place(&self, input: &Payload, result: Payload) -> Result<Payload, Failure> {
        match self {
            Self::Replace => Ok(result),
            Self::Discard => Ok(input.clone()),
            Self::At(path) => path.put(input.value().clone(), result.value().clone()).map(Payload::from),
        }
    }
}

impl Scalar {
    /// The value, whatever its type. `field` is the name without `Path`.
    pub fn evaluate(&self, scope: &Scope<'_>, field: &str) -> Result<Value, Failure> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Path(path) => path.look(scope)?.ok_or_else(|| runtime(path.not_found(scope))),
            Self::Intrinsic(intrinsic) => intrinsic.evaluate(scope),
            Self::Jsonata(expression) => evaluate_jsonata(expression, scope, field),
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, scope: &Scope<'_>, field: &str, range: (i64, i64)) -> Result<i64, Failure> {
        let value = self.evaluate(scope, field)?;
        let number = match (&value, self) {
            // Paths may lead to digits in a string (recorded: MaxConcurrencyPath takes "1").
            (Value::String(text), Self::Path(_) | Self::Intrinsic(_)) => text.trim().parse().ok(),
            _ => value.as_i64(),
        };
        match (number, self) {
            (Some(number), _) if (range.0..=range.1).contains(&number) => Ok(number),
            (Some(number), _) => Err(self.refuse(
                field,
                format!("{field} must be between {} and {} but was: {number}", range.0, range.1),
            )),
            (None, Self::Path(path)) => {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                Err(runtime(format!(
                    "The {field}Path field refers to value \"{shown}\" which is not a valid integer: {}",
                    path.text()
                )))
            }
            (None, Self::Jsonata(_)) if matches!(value, Value::Number(_)) => {
                Err(query(field, format!("The {field} field cannot be parsed as an integer: {value}")))
            }
            (None, Self::Jsonata(expression)) => Err(unexpected_type(expression, field, "number", &value)),
            (None, Self::Literal(_) | Self::Intrinsic(_)) => {
                Err(runtime(format!("The value {value} of the field '{field}' is not a valid integer")))
            }
        }
    }

    /// A whole number that is not negative.
    pub fn count(&self, scope: &Scope<'_>, field: &str) -> Result<u64, Failure> {
        let number = self.integer(scope, field, (i64::MIN, i64::MAX))?;
        u64::try_from(number).map_err(|_| self.refuse(field, format!("{field} cannot be negative.")))
    }

    /// A whole number from 1 on.
    pub fn positive(&self, scope: &Scope<'_>, field: &str) -> Result<u64, Failure> {
        let number = self.integer(scope, field, (i64::MIN, i64::MAX))?;
        let positive = u64::try_from(number).ok().filter(|number| *number > 0);
        positive.ok_or_else(|| self.refuse(field, format!("field {field} must be positive")))
    }

    /// A percentage between 0 and 100.
    pub fn percentage(&self, scope: &Scope<'_>, field: &str) -> Result<f64, Failure> {
        let value = self.evaluate(scope, field)?;
        let number = match (&value, self) {
            (Value::String(text), Self::Path(_) | Self::Intrinsic(_)) => text.trim().parse().ok(),
            _ => value.as_f64(),
        };
        match number {
            Some(number) if (0.0..=100.0).contains(&number) => Ok(number),
            Some(_) => Err(self.refuse(field, format!("{field} must be between 0 and 100."))),
            None => Err(match self {
                Self::Jsonata(expression) => unexpected_type(expression, field, "number", &value),
                Self::Path(path) => {
                    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    runtime(format!(
                        "The {field}Path field refers to value \"{shown}\" which is not a valid float: {}",
                        path.text()
                    ))
                }
                Self::Literal(_) | Self::Intrinsic(_) => {
                    runtime(format!("The value {value} of the field '{field}' is not a valid number"))
                }
            }),
        }
    }

    /// A string.
    pub fn string(&self, scope: &Scope<'_>, field: &str) -> Result<Arc<str>, Failure> {
        let value = match self {
            Self::Path(path) => select_for(path, scope, &format!("{field}Path"))?,
            Self::Literal(_) | Self::Intrinsic(_) | Self::Jsonata(_) => self.evaluate(scope, field)?,
        };
        match (&value, self) {
            (Value::String(text), _) => Ok(text.clone()),
            (_, Self::Jsonata(expression)) => Err(unexpected_type(expression, field, "string", &value)),
            (_, Self::Path(path)) => Err(runtime(format!(
                "The {field}Path field refers to value {value} which is not a string: {}",
                path.text()
            ))),
            (_, Self::Literal(_) | Self::Intrinsic(_)) => {
                Err(runtime(format!("The value {value} of the field '{field}' is not a string")))
            }
        }
    }

    fn refuse(&self, field: &str, cause: String) -> Failure {
        match self {
            Self::Jsonata(_) => query(field, cause),
            Self::Literal(_) | Self::Path(_) | Self::Intrinsic(_) => runtime(cause),
        }
    }
}

/// Evaluates every right-hand side of an `Assign` with the earlier values.
pub fn assign(assign: &Assign, scope: &Scope<'_>, field: &str) -> Result<Vec<(Arc<str>, Payload)>, Failure> {
    assign
        .iter()
        .map(|(name, template)| {
            let value = match template {
                Template::Path(path) => select_for_field(path, scope, name)?,
                _ => template.evaluate(scope, &format!("{field}/{name}"))?,
            };
            Ok((name.clone(), Payload::from(value)))
        })
        .collect()
}
