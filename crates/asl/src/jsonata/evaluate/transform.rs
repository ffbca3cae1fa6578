//! `|pattern|update, delete|`: a copy of an object with parts of it changed.
//!
//! The reference clones the object and changes the clone in place, through the objects that the pattern selected.
//! Values here are immutable, so the copy is made of objects of its own, the new version of each selected one is
//! recorded under its identity, and the copy is rebuilt with the changes.

use super::{Evaluator, Fallible};
use crate::jsonata::ast::{Kind, NodeId};
use crate::jsonata::error::Error;
use crate::jsonata::function::Env;
use crate::jsonata::text;
use crate::jsonata::value::{DEPTH_MAX, List, Object, Record, Str, Val};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The new versions of selected objects, by their identity.
#[derive(Default)]
struct Changes {
    records: BTreeMap<usize, Val>,
    /// Objects that are being rebuilt: one that contains itself shows its old version.
    open: Vec<usize>,
}

fn identity(record: &Rc<Record>) -> usize {
    Rc::as_ptr(record).addr()
}

impl Evaluator<'_> {
    pub(super) fn transform(&self, node: NodeId, env: &Env, object: &Val) -> Fallible<Val> {
        let Kind::Transform { pattern, update, delete } = &self.ast.node(node).kind else {
            return Ok(Val::Undefined);
        };
        if object.is_undefined() {
            return Ok(Val::Undefined);
        }
        if env.lookup("clone").is_some_and(|clone| !clone.is_function()) {
            return Err(Error::new("T2013"));
        }
        let copy = self.copy(object)?;
        let matches = match self.evaluate(*pattern, &copy, env)? {
            Val::Undefined => return Ok(copy),
            Val::Array(array) => array.iter().collect(),
            single => vec![single],
        };
        let mut changes = Changes::default();
        for found in matches {
            self.meter.work(1)?;
            let current = self.rebuild(&found, &mut changes)?;
            let updated = match self.evaluate(*update, &current, env)? {
                Val::Undefined => Vec::new(),
                Val::Object(object) => object.members(),
                other => return Err(Error::new("T2011").value(text::render(&other))),
            };
            // Deletions are evaluated on the updated object.
            let mut record = self.record_of(&current)?;
            for (key, value) in updated {
                record.set(key, value)?;
            }
            let is_object = matches!(found, Val::Object(_));
            let mut outcome = if is_object { record.finish() } else { current };
            if let Some(delete) = delete {
                let deletions = self.evaluate(*delete, &outcome, env)?;
                let keys = keys_of(&deletions)?;
                if is_object && !keys.is_empty() {
                    let mut record = self.record_of(&outcome)?;
                    for key in keys {
                        record.remove(&key);
                    }
                    outcome = record.finish();
                }
            }
            if let Val::Object(Object::Own(record)) = &found {
                changes.records.insert(identity(record), outcome);
            }
        }
        self.rebuild(&copy, &mut changes)
    }

    /// A copy with objects of its own.
    pub(in crate::jsonata) fn copy(&self, value: &Val) -> Fallible<Val> {
        self.meter.work(8)?;
        match value {
            Val::Array(array) => {
                let mut list = List::new(&self.meter)?;
                for item in array.iter() {
                    list.push(self.copy(&item)?)?;
                }
                Ok(list.finish(array.flags))
            }
            Val::Object(object) => {
                let mut record = Record::new(&self.meter)?;
                for (key, value) in object.members() {
                    record.set(key, self.copy(&value)?)?;
                }
                Ok(record.finish())
            }
            // The reference copies through JSON text, in which a function is an empty string.
            Val::Function(_) => Ok(Val::text("")),
            other => Ok(other.clone()),
        }
    }

    /// The value with all changes applied. Unchanged parts stay the same allocation.
    fn rebuild(&self, value: &Val, changes: &mut Changes) -> Fallible<Val> {
        if changes.records.is_empty() {
            return Ok(value.clone());
        }
        self.meter.work(8)?;
        match value {
            Val::Array(array) if array.json().is_none() => {
                let mut list = List::new(&self.meter)?;
                let mut has_changed = false;
                for item in array.iter() {
                    let rebuilt = self.rebuild(&item, changes)?;
                    has_changed |= !is_same(&item, &rebuilt);
                    list.push(rebuilt)?;
                }
                Ok(if has_changed { list.finish(array.flags) } else { value.clone() })
            }
            Val::Object(Object::Own(record)) => {
                let key = identity(record);
                if changes.open.contains(&key) {
                    return Ok(value.clone());
                }
                if changes.open.len() > usize::from(DEPTH_MAX) {
                    return Err(Error::stack());
                }
                changes.open.push(key);
                let current = changes.records.get(&key).cloned().unwrap_or_else(|| value.clone());
                let rebuilt = self.rebuild_members(current, changes)?;
                changes.open.pop();
                Ok(rebuilt)
            }
            other => Ok(other.clone()),
        }
    }

    fn rebuild_members(&self, current: Val, changes: &mut Changes) -> Fallible<Val> {
        let Val::Object(Object::Own(record)) = &current else { return Ok(current) };
        let mut rebuilt = Record::new(&self.meter)?;
        let mut has_changed = false;
        for (key, member) in record.entries() {
            let value = self.rebuild(member, changes)?;
            has_changed |= !is_same(member, &value);
            rebuilt.set(key.clone(), value)?;
        }
        Ok(if has_changed { rebuilt.finish() } else { current })
    }
}

fn is_same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        (Val::Array(a), Val::Array(b)) => a.is(b),
        (Val::Object(a), Val::Object(b)) => a.is(b),
        _ => true,
    }
}

fn keys_of(deletions: &Val) -> Fallible<Vec<std::sync::Arc<str>>> {
    let misfit = || Error::new("T2012").value(text::render(deletions));
    match deletions {
        Val::Undefined => Ok(Vec::new()),
        Val::Array(array) => {
            array.iter().map(|item| item.str().map(Str::shared).ok_or_else(misfit)).collect()
        }
        single => single.str().map(|key| vec![key.shared()]).ok_or_else(misfit),
    }
}
