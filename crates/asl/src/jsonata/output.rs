//! The result of an expression as JSON.

use super::error::{Error, Fallible};
use super::evaluate::Evaluator;
use super::meter::ELEMENT_BYTES;
use super::number;
use super::value::{Object, Val};
use crate::json::{DEPTH_MAX, Map, Value};
use std::sync::Arc;

impl Evaluator<'_> {
    /// The value as JSON; `None` if there is none. Values from outside are returned unchanged.
    pub(super) fn output(&self, value: &Val) -> Fallible<Option<Value>> {
        self.json(value, 0)
    }

    fn json(&self, value: &Val, depth: usize) -> Fallible<Option<Value>> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        // Parts may be shared, so a small value may be large as text: it is counted as it is written.
        self.meter.work(2)?;
        Ok(Some(match value {
            // JSON has no functions.
            Val::Undefined | Val::Function(_) => return Ok(None),
            Val::Null => Value::Null,
            Val::Bool(truth) => Value::Bool(*truth),
            Val::Exact(number) => Value::Number(number.clone()),
            // AWS writes a number that JSON does not have by its name.
            Val::Number(number) => {
                number::to_json(*number).map_or_else(|| Value::from(number::display(*number)), Value::Number)
            }
            Val::String(text) => Value::String(text.shared()),
            Val::Array(array) => {
                if let Some(items) = array.json() {
                    return shared(Value::Array(items.clone()), depth).map(Some);
                }
                self.meter.keep(array.len() * ELEMENT_BYTES)?;
                let mut items = Vec::with_capacity(array.len());
                for item in array.iter() {
                    items.push(self.json(&item, depth + 1)?.unwrap_or(Value::Null));
                }
                Value::Array(Arc::new(items))
            }
            Val::Object(Object::Json(map)) => shared(Value::Object(map.clone()), depth)?,
            Val::Object(Object::Own(record)) => {
                self.meter.keep(record.entries().len() * 2 * ELEMENT_BYTES)?;
                let mut map = Map::with_capacity(record.entries().len());
                for (key, value) in record.entries() {
                    if let Some(value) = self.json(value, depth + 1)? {
                        map.insert(key.clone(), value);
                    }
                }
                Value::Object(Arc::new(map))
            }
        }))
    }
}

/// A value from outside at this depth. It was parsed once, but together with the values around it may be too deep.
fn shared(value: Value, depth: usize) -> Fallible<Value> {
    if depth > 0 && is_deeper(&value, DEPTH_MAX - depth) { Err(too_deep()) } else { Ok(value) }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_over = |part: &Value| levels == 0 || is_deeper(part, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(is_over),
        Value::Object(map) => map.values().any(is_over),
        _ => false,
    }
}

fn too_deep() -> Error {
    Error::plain(format!("The result nests more than {DEPTH_MAX} levels deep"))
}
