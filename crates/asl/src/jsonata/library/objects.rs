//! Objects.

use super::Arguments;
use crate::jsonata::error::Fallible;
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::value::{Flags, List, Object, Record, Val, truth};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Evaluator<'_> {
    pub(super) fn keys(&self, value: &Val) -> Fallible<Val> {
        let mut known = BTreeSet::new();
        let mut result = List::new(&self.meter)?;
        self.collect_keys(value, &mut known, &mut result)?;
        Ok(result.finish(Flags::SEQUENCE))
    }

    fn collect_keys(&self, value: &Val, known: &mut BTreeSet<Arc<str>>, result: &mut List) -> Fallible<()> {
        self.meter.work(1)?;
        match value {
            Val::Array(array) => array.iter().try_for_each(|item| self.collect_keys(&item, known, result)),
            Val::Object(object) => {
                for (key, _) in object.members() {
                    self.meter.work(16)?;
                    if known.insert(key.clone()) {
                        result.push(Val::text(key))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Each member as an object of its own; of an array, those of its elements.
    pub(super) fn spread(&self, value: &Val) -> Fallible<Val> {
        match value {
            Val::Array(array) => {
                let mut result = List::new(&self.meter)?;
                let mut flags = Flags::SEQUENCE;
                for item in array.iter() {
                    let part = self.spread(&item)?;
                    if !part.is_undefined() {
                        flags = Flags::PLAIN;
                        result.append(part)?;
                    }
                }
                Ok(result.finish(flags))
            }
            Val::Object(object) => {
                let mut result = List::new(&self.meter)?;
                for (key, value) in object.members() {
                    let mut single = Record::new(&self.meter)?;
                    single.set(key, value)?;
                    result.push(single.finish())?;
                }
                Ok(result.finish(Flags::SEQUENCE))
            }
            other => Ok(other.clone()),
        }
    }

    pub(super) fn merge_objects(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        let mut result = Record::new(&self.meter)?;
        for item in array.iter() {
            for (key, value) in members(&item) {
                result.set(key, value)?;
            }
        }
        Ok(result.finish())
    }

    pub(super) fn each(&self, args: Arguments<'_>) -> Fallible<Val> {
        let mut result = List::new(&self.meter)?;
        for (key, value) in members(args.get(0)) {
            let function = args.function(1)?;
            let value = self.invoke_with(function, value, Val::text(key), args.get(0).clone())?;
            if !value.is_undefined() {
                result.push(value)?;
            }
        }
        Ok(result.finish(Flags::SEQUENCE))
    }

    pub(super) fn sift(&self, args: Arguments<'_>) -> Fallible<Val> {
        let mut result = Record::new(&self.meter)?;
        for (key, value) in members(args.get(0)) {
            let function = args.function(1)?;
            let answer =
                self.invoke_with(function, value.clone(), Val::text(key.clone()), args.get(0).clone())?;
            if truth(&answer, &self.meter)? {
                result.set(key, value)?;
            }
        }
        Ok(if result.entries().is_empty() { Val::Undefined } else { result.finish() })
    }
}

fn members(value: &Val) -> Vec<(Arc<str>, Val)> {
    if let Val::Object(object) = value { Object::members(object) } else { Vec::new() }
}
