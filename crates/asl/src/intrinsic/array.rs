//! Arrays.

use super::math::cut;
use super::{java, text};
use crate::json::{Number, Value};
use std::collections::BTreeSet;

/// How many elements `ArrayRange` may make.
pub(super) const RANGE_MAX: i128 = 1_000;

pub(super) fn partition(items: &[Value], size: &Value) -> Option<Value> {
    let size = usize::try_from(cut(size)?).ok().filter(|size| *size > 0)?;
    Some(items.chunks(size).map(|chunk| chunk.iter().cloned().collect::<Value>()).collect())
}

/// The service compares Java's printed forms, so `"1"` contains 1, and the order of members counts.
pub(super) fn contains(items: &[Value], wanted: &Value) -> Option<Value> {
    let mut left = text::TEXT_MAX;
    if !text::fits(wanted, &mut left) || !items.iter().all(|item| text::fits(item, &mut left)) {
        return None;
    }
    let mut wanted_text = String::new();
    java::print(wanted, &mut wanted_text);
    let mut item_text = String::new();
    let found = items.iter().any(|item| {
        item_text.clear();
        java::print(item, &mut item_text);
        item_text == wanted_text
    });
    Some(found.into())
}

pub(super) fn range(first: &Value, last: &Value, step: &Value) -> Option<Value> {
    let (first, last, step) = (cut(first)?, cut(last)?, cut(step)?);
    if step == 0 {
        return None;
    }
    // How many steps lead from the first to the last; below zero when they lead away from it.
    let (way, step) = (i128::from(last) - i128::from(first), i128::from(step));
    let count = if way.signum() * step.signum() < 0 { 0 } else { way / step + 1 };
    (count <= RANGE_MAX).then(|| (0..count).map(|at| (i128::from(first) + at * step) as i64).collect())
}

/// An index outside of the array fails, but in an empty array everything is `null`.
pub(super) fn item(items: &[Value], index: &Value) -> Option<Value> {
    let index = cut(index)?;
    if items.is_empty() {
        return Some(Value::Null);
    }
    items.get(usize::try_from(index).ok()?).cloned()
}

/// Each value once, in the order of first appearance.
pub(super) fn unique(items: &[Value]) -> Option<Value> {
    let mut left = text::TEXT_MAX;
    if !items.iter().all(|item| text::fits(item, &mut left)) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut fresh = Vec::new();
    for item in items {
        let mut key = String::new();
        canonical(item, &mut key);
        if seen.insert(key) {
            fresh.push(item.clone());
        }
    }
    Some(fresh.into())
}

/// Prints equal values equally: members in the order of their names.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for item in items.iter() {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (name, member) in members {
                Value::String(name.clone()).write_to(out);
                out.push(':');
                canonical(member, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Number(Number::Written(float, _)) => canonical(&Value::Number(Number::Float(*float)), out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.write_to(out);
        }
    }
}
