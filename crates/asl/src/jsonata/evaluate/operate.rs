//! Operators.

use super::{Evaluator, Fallible};
use crate::jsonata::ast::{NodeId, Operator};
use crate::jsonata::error::Error;
use crate::jsonata::function::Env;
use crate::jsonata::meter;
use crate::jsonata::text;
use crate::jsonata::value::{Flags, List, Text, Val, compare_text, equal, truth};
use std::cmp::Ordering;
use std::rc::Rc;

/// The reference's own limit of the range operator; the memory limit is lower.
const RANGE_MAX: f64 = 1e7;

impl Evaluator<'_> {
    pub(super) fn binary(
        &self,
        operator: Operator,
        lhs: NodeId,
        rhs: NodeId,
        input: &Val,
        env: &Env,
    ) -> Fallible<Val> {
        let left = self.evaluate(lhs, input, env)?;
        if let Operator::And | Operator::Or = operator {
            // The reference names the operator in every error of its right side.
            let blame = |error: Error| error.token(operator.symbol());
            let decided = truth(&left, &self.meter).map_err(blame)?;
            if decided == (operator == Operator::Or) {
                return Ok(Val::Bool(decided));
            }
            let right = self.evaluate(rhs, input, env).map_err(blame)?;
            return truth(&right, &self.meter).map(Val::Bool).map_err(blame);
        }
        let right = self.evaluate(rhs, input, env)?;
        self.operate(operator, &left, &right).map_err(|error| error.token(operator.symbol()))
    }

    fn operate(&self, operator: Operator, left: &Val, right: &Val) -> Fallible<Val> {
        match operator {
            Operator::Add => arithmetic(left, right, |a, b| a + b),
            Operator::Subtract => arithmetic(left, right, |a, b| a - b),
            Operator::Multiply => arithmetic(left, right, |a, b| a * b),
            Operator::Divide => arithmetic(left, right, |a, b| a / b),
            Operator::Remainder => arithmetic(left, right, |a, b| a % b),
            Operator::Equal | Operator::NotEqual => {
                if left.is_undefined() || right.is_undefined() {
                    return Ok(Val::Bool(false));
                }
                Ok(Val::Bool(equal(left, right, &self.meter)? == (operator == Operator::Equal)))
            }
            Operator::Less => self.compare(left, right, |order| order == Ordering::Less),
            Operator::LessEqual => self.compare(left, right, |order| order != Ordering::Greater),
            Operator::Greater => self.compare(left, right, |order| order == Ordering::Greater),
            Operator::GreaterEqual => self.compare(left, right, |order| order != Ordering::Less),
            Operator::Concat => self.concat(left, right),
            Operator::Range => self.range(left, right),
            Operator::In => self.is_in(left, right),
            Operator::And | Operator::Or => truth(right, &self.meter).map(Val::Bool),
        }
    }

    pub(super) fn negate(&self, inner: NodeId, input: &Val, env: &Env) -> Fallible<Val> {
        let value = self.evaluate(inner, input, env)?;
        match value.number() {
            _ if value.is_undefined() => Ok(value),
            Some(number) if value.is_numeric()? => Ok(Val::Number(-number)),
            _ => Err(Error::new("D1002").value(text::render(&value))),
        }
    }

    fn concat(&self, left: &Val, right: &Val) -> Fallible<Val> {
        let mut out = Text::new(&self.meter)?;
        for side in [left, right] {
            match side {
                Val::Undefined => {}
                Val::String(text) => out.push(text)?,
                other => text::write(other, false, &mut out)?,
            }
        }
        Ok(out.finish())
    }

    fn range(&self, left: &Val, right: &Val) -> Fallible<Val> {
        let integer = |value: &Val, code| match value.number() {
            _ if value.is_undefined() => Ok(None),
            Some(number) if number.fract() == 0.0 => Ok(Some(number)),
            _ => Err(Error::new(code).value(text::render(value))),
        };
        let (first, last) = (integer(left, "T2003")?, integer(right, "T2004")?);
        let (Some(first), Some(last)) = (first, last) else { return Ok(Val::Undefined) };
        if first > last {
            return Ok(Val::Undefined);
        }
        let size = last - first + 1.0;
        if size > RANGE_MAX {
            return Err(Error::new("D2014").value(crate::jsonata::number::display(size)));
        }
        let size = size as usize;
        // Refused before anything is allocated.
        if size > meter::RANGE_MAX {
            return Err(Error::memory());
        }
        drop(self.meter.hold(size * meter::ELEMENT_BYTES)?);
        let mut numbers = List::new(&self.meter)?;
        for offset in 0..size {
            numbers.push(Val::Number(first + offset as f64))?;
        }
        Ok(numbers.finish(Flags::SEQUENCE))
    }

    fn is_in(&self, left: &Val, right: &Val) -> Fallible<Val> {
        if left.is_undefined() || right.is_undefined() {
            return Ok(Val::Bool(false));
        }
        let found = match right {
            Val::Array(array) => {
                let length = left.str().map_or(0, |text| text.len());
                self.meter.work((array.len() * (1 + length / 64)) as u64)?;
                array.iter().any(|item| is_same(left, &item))
            }
            single => is_same(left, single),
        };
        Ok(Val::Bool(found))
    }
}

/// Whether two values are identical: scalars by value, others by identity.
fn is_same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::String(a), Val::String(b)) => **a == **b,
        (Val::Array(a), Val::Array(b)) => a.is(b),
        (Val::Object(a), Val::Object(b)) => a.is(b),
        (Val::Function(a), Val::Function(b)) => Rc::ptr_eq(a, b),
        (Val::Exact(a), Val::Exact(b)) => a.compare(b) == Ordering::Equal,
        _ => a.number().is_some() && a.number() == b.number(),
    }
}

fn arithmetic(left: &Val, right: &Val, operation: impl Fn(f64, f64) -> f64) -> Fallible<Val> {
    for (value, code) in [(left, "T2001"), (right, "T2002")] {
        if !value.is_undefined() && !value.is_numeric()? {
            return Err(Error::new(code).value(text::render(value)));
        }
    }
    Ok(match (left.number(), right.number()) {
        (Some(left), Some(right)) => Val::Number(operation(left, right)),
        _ => Val::Undefined,
    })
}

fn is_comparable(value: &Val) -> bool {
    matches!(value, Val::Undefined | Val::String(_) | Val::Number(_) | Val::Exact(_))
}

impl Evaluator<'_> {
    fn compare(&self, left: &Val, right: &Val, holds: impl Fn(Ordering) -> bool) -> Fallible<Val> {
        if !is_comparable(left) || !is_comparable(right) {
            return Err(Error::new("T2010"));
        }
        Ok(match (left, right) {
            (Val::Undefined, _) | (_, Val::Undefined) => Val::Undefined,
            (Val::String(left), Val::String(right)) => {
                Val::Bool(holds(compare_text(left, right, &self.meter)?))
            }
            (Val::Exact(left), Val::Exact(right)) => Val::Bool(holds(left.compare(right))),
            _ => {
                let (Some(a), Some(b)) = (left.number(), right.number()) else {
                    let error = Error::new("T2009").value(text::render(left));
                    return Err(error.value2(text::render(right)));
                };
                Val::Bool(a.partial_cmp(&b).is_some_and(holds))
            }
        })
    }
}
