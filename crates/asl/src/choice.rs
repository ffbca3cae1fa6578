//! Evaluates the rules of a Choice.

use crate::evaluate::{query, runtime, unexpected_type};
use crate::json::Value;
use crate::machine::{Comparison, Condition, Operand, Operator, Scalar};
use crate::path::Path;
use crate::scope::{Failure, Scope};
use crate::timestamp;
use std::cmp::Ordering;

impl Condition {
    /// Whether the rule is true. `field` is its place, such as `Choices[0]/Condition`.
    pub fn holds(&self, scope: &Scope<'_>, field: &str) -> Result<bool, Failure> {
        match self {
            Self::And(all) => {
                for condition in all {
                    if !condition.holds(scope, field)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(any) => {
                for condition in any {
                    if condition.holds(scope, field)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(inner) => inner.holds(scope, field).map(|truth| !truth),
            Self::Test { variable, operator, operand } => test(variable, *operator, operand, scope),
            Self::Jsonata(scalar) => {
                let value = scalar.evaluate(scope, field)?;
                value.as_bool().ok_or_else(|| match scalar {
                    Scalar::Jsonata(expression) => unexpected_type(expression, field, "boolean", &value),
                    Scalar::Literal(_) | Scalar::Path(_) | Scalar::Intrinsic(_) => {
                        query(field, format!("The condition must be true or false, but was: {value}"))
                    }
                })
            }
        }
    }
}

fn test(variable: &Path, operator: Operator, operand: &Operand, scope: &Scope<'_>) -> Result<bool, Failure> {
    let found = variable.look(scope)?;
    if operator == Operator::IsPresent {
        let wanted = matches!(operand, Operand::Literal(Value::Bool(true)));
        return Ok(found.is_some() == wanted);
    }
    let left = found.ok_or_else(|| unresolved(variable))?;
    let right = match operand {
        Operand::Literal(value) => value.clone(),
        Operand::Path(path) => path.look(scope)?.ok_or_else(|| unresolved(path))?,
    };
    let text = |side: &Value| side.as_str().map_or(0, str::len) as u64;
    scope.dice.spend((text(&left) + text(&right)) / 16);
    scope.dice.check()?;
    let is = |truth: bool| right.as_bool() == Some(truth);
    Ok(match operator {
        Operator::IsPresent => unreachable!("answered above"),
        Operator::IsNull => is(left.is_null()),
        Operator::IsNumeric => is(left.as_number().is_some()),
        Operator::IsString => is(left.as_str().is_some()),
        Operator::IsBoolean => is(left.as_bool().is_some()),
        Operator::IsTimestamp => is(left.as_str().is_some_and(|text| timestamp::parse_ms(text).is_some())),
        Operator::BooleanEquals => left.as_bool().is_some() && left.as_bool() == right.as_bool(),
        Operator::Numeric(how) => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => how.accepts(left.compare(right)),
            _ => false,
        },
        Operator::String(how) => match (left.as_str(), right.as_str()) {
            (Some(left), Some(right)) => how.accepts(left.encode_utf16().cmp(right.encode_utf16())),
            _ => false,
        },
        Operator::StringMatches => match (left.as_str(), right.as_str()) {
            (Some(text), Some(pattern)) => matches_pattern(text, pattern),
            _ => false,
        },
        Operator::Timestamp(how) => {
            match (
                left.as_str().and_then(timestamp::parse_nanos),
                right.as_str().and_then(timestamp::parse_nanos),
            ) {
                (Some(left), Some(right)) => how.accepts(left.cmp(&right)),
                _ => false,
            }
        }
    })
}

fn unresolved(path: &Path) -> Failure {
    runtime(format!(
        "Invalid path '{}': The choice state's condition path references an invalid value.",
        path.text()
    ))
}

impl Comparison {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equals => order.is_eq(),
            Self::LessThan => order.is_lt(),
            Self::LessThanEquals => order.is_le(),
            Self::GreaterThan => order.is_gt(),
            Self::GreaterThanEquals => order.is_ge(),
        }
    }
}

/// `*` matches any characters; `\*` and `\\` match themselves. Linear in the text: between two stars, the first match
/// leaves the most text for the rest, so no place is tried twice.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let mut pieces = vec![String::new()];
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        let literal = match char {
            '*' => {
                pieces.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            _ => char,
        };
        pieces.last_mut().expect("there is a first piece").push(literal);
    }
    let (first, others) = pieces.split_first().expect("there is a first piece");
    let Some((last, middle)) = others.split_last() else { return text == first };
    let Some(mut rest) = text.strip_prefix(&**first).and_then(|rest| rest.strip_suffix(&**last)) else {
        return false;
    };
    middle.iter().all(|piece| match rest.find(&**piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_with_stars_and_escapes() {
        for (text, pattern, expected) in [
            ("log-2020.txt", "log-*.txt", true),
            ("log-.txt", "log-*.txt", true),
            ("log-2020.csv", "log-*.txt", false),
            ("a*b", r"a\*b", true),
            ("axb", r"a\*b", false),
            (r"a\b", r"a\\b", true),
            ("", "*", true),
            ("", "", true),
            ("x", "", false),
            ("mississippi", "m*iss*ppi", true),
            ("aba", "ab*ba", false),
            ("abba", "ab*ba", true),
            ("a-b-c", "*-*-*", true),
            ("a-b", "*-*-*", false),
            ("a\\", "a\\", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "*a*a*a*a*a*a*a*c", false),
        ] {
            assert_eq!(matches_pattern(text, pattern), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn a_long_text_against_a_long_pattern_is_looked_at_once() {
        let (text, pattern) = ("a".repeat(1_000_000), format!("*{}b*", "a".repeat(200_000)));
        assert!(!matches_pattern(&text, &pattern));
    }
}
