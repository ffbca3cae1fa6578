//! Whether a value passes a filter.
//!
//! The rules are Jayway's. A path that leads nowhere equals nothing, not even another such path, so it always differs.
//! An operator with an invalid operand (`in` without a list) refuses the value, whatever else is in the filter: that is
//! [`Halt::Refused`].

use super::filter::{Filter, Membership, Operand, Operator, Query};
use super::walk::{Halt, Walk};
use crate::json::{Lexer, Number, Token, Value};
use regex::Regex;
use std::borrow::Cow;
use std::cmp::Ordering;

/// So many bytes of text count as one value looked at.
const TEXT_BYTES: usize = 32;

/// One side of a comparison, looked up.
enum Side<'a> {
    Nothing,
    Value(Cow<'a, Value>),
    Pattern(&'a Regex),
}

impl Filter {
    /// Whether `item` passes.
    pub(super) fn passes<'a>(&'a self, walk: &Walk<'a>, item: &'a Value) -> Result<bool, Halt> {
        match self.judge(walk, item) {
            Err(Halt::Refused) => Ok(false),
            other => other,
        }
    }

    fn judge<'a>(&'a self, walk: &Walk<'a>, item: &'a Value) -> Result<bool, Halt> {
        walk.step_in(|walk| match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.judge(walk, item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.judge(walk, item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(denied) => denied.judge(walk, item).map(|truth| !truth),
            Self::Exists(query) => exists(walk, item, query),
            Self::Compare { left, operator, right } => {
                let left = look_up(walk, item, left)?;
                if let Operator::Of(membership) = operator
                    && let Some(list) = walk.members(right)?
                {
                    return stands(&left, *membership, |wanted| {
                        walk.burn_many(list.cost(wanted))?;
                        Ok(list.contains(wanted))
                    });
                }
                let right = look_up(walk, item, right)?;
                compare(walk, &left, *operator, &right)
            }
        })
    }
}

fn exists<'a>(walk: &Walk<'a>, item: &'a Value, query: &'a Query) -> Result<bool, Halt> {
    Ok(match walk.query(item, query)? {
        None => false,
        Some(list) if !query.definite => list.as_array().is_some_and(|found| !found.is_empty()),
        Some(_) => true,
    })
}

fn look_up<'a>(walk: &Walk<'a>, item: &'a Value, operand: &'a Operand) -> Result<Side<'a>, Halt> {
    Ok(match operand {
        Operand::Literal(value) => Side::Value(Cow::Borrowed(value)),
        Operand::Pattern(regex) => Side::Pattern(regex),
        Operand::Query(query) => walk.query(item, query)?.map_or(Side::Nothing, Side::Value),
    })
}

fn compare(walk: &Walk<'_>, left: &Side<'_>, operator: Operator, right: &Side<'_>) -> Result<bool, Halt> {
    if let (Side::Value(left), Side::Value(right)) = (left, right) {
        walk.burn_many(effort(left, right))?;
    }
    Ok(match operator {
        Operator::Equal => sides_equal(left, right),
        Operator::NotEqual => !sides_equal(left, right),
        Operator::Same => same_type(left, right) && sides_equal(left, right),
        Operator::NotSame => !(same_type(left, right) && sides_equal(left, right)),
        Operator::Less => order(left, right).is_some_and(Ordering::is_lt),
        Operator::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
        Operator::Greater => order(left, right).is_some_and(Ordering::is_gt),
        Operator::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
        Operator::Matches => matches(walk, left, right)?,
        Operator::Of(membership) => match list(right)? {
            Some(right) => stands(left, membership, |wanted| has(walk, right, wanted))?,
            None => membership == Membership::NotIn,
        },
        Operator::All => match (list(left), list(right)?) {
            (Ok(Some(left)), Some(right)) => every(right, |wanted| has(walk, left, wanted))?,
            _ => false,
        },
        Operator::Size => match (left, right) {
            (Side::Value(left), Side::Value(right)) => {
                walk.burn_many(left.as_str().map_or(0, str::len) / TEXT_BYTES)?;
                size(left).is_some_and(|size| Some(size) == right.as_i64())
            }
            _ => false,
        },
        Operator::Empty => match (left, right) {
            (Side::Value(left), Side::Value(right)) => match (is_empty(left), right.as_bool()) {
                (_, None) => return Err(Halt::Refused),
                (empty, wanted) => empty == wanted,
            },
            (_, Side::Value(right)) if right.as_bool().is_some() => false,
            _ => return Err(Halt::Refused),
        },
        Operator::Contains => match (left, right) {
            (Side::Value(left), Side::Value(right)) => match (&**left, &**right) {
                (Value::String(text), Value::String(part)) => {
                    walk.burn_many(text.len() / TEXT_BYTES)?;
                    text.contains(&**part)
                }
                (Value::Array(items), wanted) => has(walk, items, wanted)?,
                _ => false,
            },
            _ => false,
        },
    })
}

fn sides_equal(left: &Side<'_>, right: &Side<'_>) -> bool {
    match (left, right) {
        (Side::Value(left), Side::Value(right)) => equal(left, right),
        _ => false,
    }
}

/// The work of comparing two values, beyond having looked at them: texts and lists from the root may be long, and a
/// filter compares them with every item.
pub(super) fn effort(left: &Value, right: &Value) -> usize {
    match (left, right) {
        (Value::String(left), Value::String(right)) => left.len().min(right.len()) / TEXT_BYTES,
        (Value::String(text), Value::Number(_)) | (Value::Number(_), Value::String(text)) => {
            text.len() / TEXT_BYTES
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => weight(left),
        (Value::Object(map), Value::Object(other)) if map.len() == other.len() => weight(left),
        _ => 0,
    }
}

/// How many values are in a value, with long texts counted by their length.
fn weight(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / TEXT_BYTES,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.values().map(weight).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Jayway's `==`: a text equals a number with that notation, and a number equals a text that parses as it.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.compare(right).is_eq(),
        (Value::String(left), Value::Number(right)) => **left == *right.to_string(),
        (Value::Number(left), Value::String(right)) => {
            read_number(right).is_some_and(|right| left.compare(&right).is_eq())
        }
        _ => left == right,
    }
}

pub(super) fn read_number(text: &str) -> Option<Number> {
    match Lexer::new(text).token() {
        Ok((Token::Number(digits), _)) if digits.len() == text.len() => Number::from_literal(digits),
        _ => None,
    }
}

fn same_type(left: &Side<'_>, right: &Side<'_>) -> bool {
    match (left, right) {
        (Side::Value(left), Side::Value(right)) => left.type_name() == right.type_name(),
        _ => false,
    }
}

fn order(left: &Side<'_>, right: &Side<'_>) -> Option<Ordering> {
    let (Side::Value(left), Side::Value(right)) = (left, right) else { return None };
    match (&**left, &**right) {
        (Value::Number(left), Value::Number(right)) => Some(left.compare(right)),
        (Value::String(left), Value::String(right)) => Some(order_texts(left, right)),
        (Value::String(left), Value::Number(right)) => Some(order_texts(left, &right.to_string())),
        (Value::Number(left), Value::String(right)) => Some(order_texts(&left.to_string(), right)),
        _ => None,
    }
}

/// Java's order: by UTF-16 units, which puts what lies beyond U+FFFF before the end of the first plane.
fn order_texts(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

fn matches(walk: &Walk<'_>, left: &Side<'_>, right: &Side<'_>) -> Result<bool, Halt> {
    let ((Side::Pattern(regex), side) | (side, Side::Pattern(regex))) = (left, right) else {
        return Ok(false);
    };
    let is_match = |value: &Value| {
        let text = subject(value);
        walk.burn_many(1 + text.len() / TEXT_BYTES)?;
        Ok(regex.is_match(&text))
    };
    match side {
        Side::Value(value) => match value.as_array() {
            Some(items) => every(items, |item| is_match(item).map(|found| !found)).map(|none| !none),
            None => is_match(value),
        },
        Side::Nothing => Ok(regex.is_match("")),
        Side::Pattern(_) => Ok(false),
    }
}

/// The text of a value for a pattern: the text of a scalar, nothing for any other value.
fn subject(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(&**text),
        Value::Number(_) | Value::Bool(_) => Cow::Owned(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Cow::Borrowed(""),
    }
}

/// The list that an operator needs. `None`: an object, which has no list in it.
fn list<'s>(side: &'s Side<'_>) -> Result<Option<&'s [Value]>, Halt> {
    match side {
        Side::Value(value) => match &**value {
            Value::Array(items) => Ok(Some(items)),
            Value::Object(_) => Ok(None),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(Halt::Refused),
        },
        Side::Nothing | Side::Pattern(_) => Err(Halt::Refused),
    }
}

/// The relation of the left side to a list, given a search function.
fn stands(
    left: &Side<'_>,
    membership: Membership,
    has: impl Fn(&Value) -> Result<bool, Halt>,
) -> Result<bool, Halt> {
    let lacks = |wanted: &Value| has(wanted).map(|found| !found);
    let is_in = || match left {
        Side::Value(wanted) => has(wanted),
        Side::Nothing | Side::Pattern(_) => Ok(false),
    };
    let each = |test: &dyn Fn(&Value) -> Result<bool, Halt>| match list(left)? {
        Some(left) => every(left, test).map(Some),
        None => Ok(None),
    };
    Ok(match membership {
        Membership::In => is_in()?,
        Membership::NotIn => !is_in()?,
        Membership::Subset => each(&has)? == Some(true),
        Membership::Any => each(&lacks)? == Some(false),
        Membership::NoneOf => each(&lacks)? == Some(true),
    })
}

fn every(items: &[Value], test: impl Fn(&Value) -> Result<bool, Halt>) -> Result<bool, Halt> {
    for item in items {
        if !test(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has(walk: &Walk<'_>, items: &[Value], wanted: &Value) -> Result<bool, Halt> {
    for item in items {
        walk.burn_many(1 + effort(wanted, item))?;
        if equal(wanted, item) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The size as Java counts it: UTF-16 units of a text, elements of a list.
fn size(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => Some(text.encode_utf16().count() as i64),
        Value::Array(items) => Some(items.len() as i64),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn is_empty(value: &Value) -> Option<bool> {
    match value {
        Value::String(text) => Some(text.is_empty()),
        Value::Array(items) => Some(items.is_empty()),
        Value::Object(map) => Some(map.is_empty()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
