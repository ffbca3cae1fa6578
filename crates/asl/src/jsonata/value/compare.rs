//! Equality, truth, and the order of strings.

use super::Val;
use crate::jsonata::error::Fallible;
use crate::jsonata::meter::Meter;
use std::cmp::Ordering;
use std::rc::Rc;

/// The order of strings in JSONata: by UTF-16 unit, not by character.
pub(in crate::jsonata) fn compare_text(a: &str, b: &str, meter: &Meter) -> Fallible<Ordering> {
    let length = a.len().min(b.len());
    meter.text(length)?;
    if a.is_ascii() || b.is_ascii() {
        return Ok(a.cmp(b));
    }
    meter.work(length as u64)?;
    Ok(a.encode_utf16().cmp(b.encode_utf16()))
}

/// Deep equality. Shared structure may make a small value large to walk, so each comparison counts.
pub(in crate::jsonata) fn equal(a: &Val, b: &Val, meter: &Meter) -> Fallible<bool> {
    meter.work(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Exact(a), Val::Exact(b)) => a.compare(b) == Ordering::Equal,
        (Val::Number(_) | Val::Exact(_), Val::Number(_) | Val::Exact(_)) => a.number() == b.number(),
        (Val::String(a), Val::String(b)) => {
            meter.text(a.len().min(b.len()))?;
            **a == **b
        }
        (Val::Array(a), Val::Array(b)) => {
            if a.is(b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a, &b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Object(a), Val::Object(b)) => {
            if a.is(b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            meter.work(8 + 8 * a.len() as u64)?;
            for (key, value) in a.members() {
                if !equal(&value, &b.get(&key), meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Function(a), Val::Function(b)) => Rc::ptr_eq(a, b),
        _ => false,
    })
}

/// JSONata's test for true.
pub(in crate::jsonata) fn truth(value: &Val, meter: &Meter) -> Fallible<bool> {
    Ok(match value {
        Val::Undefined | Val::Null | Val::Function(_) => false,
        Val::Bool(truth) => *truth,
        Val::Number(_) | Val::Exact(_) => value.is_numeric()? && value.number() != Some(0.0),
        Val::String(text) => !text.is_empty(),
        Val::Object(object) => object.len() > 0,
        Val::Array(array) => {
            for item in array.iter() {
                meter.work(1)?;
                if truth(&item, meter)? {
                    return Ok(true);
                }
            }
            false
        }
    })
}
