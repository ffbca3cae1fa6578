//! Numbers: adding, and random ones.

use crate::java_random::Random;
use crate::json::{Number, Value};
use crate::scope::Dice;

/// A number truncated to an integer.
pub(super) fn cut(value: &Value) -> Option<i64> {
    match value.as_number()? {
        Number::Int(int) => Some(*int),
        Number::Float(float) | Number::Written(float, _) => Number::Float(float.trunc()).as_i64(),
        big @ Number::Big(_) => big.as_i64(),
    }
}

/// The service uses only numbers of 32 bits here.
fn cut_small(value: &Value) -> Option<i32> {
    cut(value)?.try_into().ok()
}

/// A number to the nearest integer, halves upwards.
fn round(value: &Value) -> Option<i64> {
    if let Some(Number::Float(float) | Number::Written(float, _)) = value.as_number() {
        let floor = float.floor();
        return Number::Float(if float - floor >= 0.5 { floor + 1.0 } else { floor }).as_i64();
    }
    cut(value)
}

pub(super) fn add(left: &Value, right: &Value) -> Option<Value> {
    let small = |int: i64| i32::try_from(int).ok();
    let (left, right) = (small(round(left)?)?, small(round(right)?)?);
    left.checked_add(right).map(Value::from)
}

fn bounds(start: &Value, end: &Value) -> Option<(i32, i32)> {
    Some((cut_small(start)?, cut_small(end)?)).filter(|(start, end)| start < end)
}

pub(super) fn random(start: &Value, end: &Value, dice: &Dice) -> Option<Value> {
    let (start, end) = bounds(start, end)?;
    let width = (i64::from(end) - i64::from(start)) as u128;
    let drawn = (dice.throw() % width) as i64;
    Some((i64::from(start) + drawn).into())
}

pub(super) fn random_seeded(start: &Value, end: &Value, seed: &Value) -> Option<Value> {
    let (start, end) = bounds(start, end)?;
    Some(Random::new(cut(seed)?).between(start, end).into())
}
