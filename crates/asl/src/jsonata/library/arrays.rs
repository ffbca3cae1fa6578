//! Arrays, and the functions that take functions.

use super::Arguments;
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::function::Function;
use crate::jsonata::meter::DICE;
use crate::jsonata::value::{Array, Flags, List, Val, compare_text, equal, truth};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

impl Evaluator<'_> {
    /// Calls a function with as many of the three as it names, the first in any case.
    pub(super) fn invoke_with(
        &self,
        function: &Rc<Function>,
        item: Val,
        key: Val,
        whole: Val,
    ) -> Fallible<Val> {
        let arguments = match function.arity() {
            0 | 1 => vec![item],
            2 => vec![item, key],
            _ => vec![item, key, whole],
        };
        self.invoke(function, arguments)
    }

    pub(super) fn map(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        let function = args.function(1)?;
        let mut result = List::new(&self.meter)?;
        for (at, item) in array.iter().enumerate() {
            let value = self.invoke_with(function, item, Val::count(at), args.get(0).clone())?;
            if !value.is_undefined() {
                result.push(value)?;
            }
        }
        Ok(result.finish(Flags::SEQUENCE))
    }

    pub(super) fn filter_items(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        let function = args.function(1)?;
        let mut result = List::new(&self.meter)?;
        for (at, item) in array.iter().enumerate() {
            let answer = self.invoke_with(function, item.clone(), Val::count(at), args.get(0).clone())?;
            if truth(&answer, &self.meter)? {
                result.push(item)?;
            }
        }
        Ok(result.finish(Flags::SEQUENCE))
    }

    pub(super) fn single(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        let mut found = None;
        for (at, item) in array.iter().enumerate() {
            if !args.is_missing(1) {
                let function = args.function(1)?;
                let answer = self.invoke_with(function, item.clone(), Val::count(at), args.get(0).clone())?;
                if !truth(&answer, &self.meter)? {
                    continue;
                }
            }
            if found.replace(item).is_some() {
                return Err(Error::new("D3138"));
            }
        }
        found.ok_or_else(|| Error::new("D3139"))
    }

    pub(super) fn reduce_items(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        let function = args.function(1)?;
        let arity = function.arity();
        if arity < 2 {
            return Err(Error::new("D3050"));
        }
        let starts_with_first = args.is_missing(2) && !array.is_empty();
        let mut result = if starts_with_first { array.get(0) } else { args.get(2).clone() };
        for at in usize::from(starts_with_first)..array.len() {
            let mut arguments = vec![result, array.get(at)];
            if arity >= 3 {
                arguments.push(Val::count(at));
            }
            if arity >= 4 {
                arguments.push(args.get(0).clone());
            }
            result = self.invoke(function, arguments)?;
        }
        Ok(result)
    }

    pub(super) fn zip(&self, args: Arguments<'_>) -> Fallible<Val> {
        let length = args.0.iter().map(|arg| arg.array().map_or(0, Array::len)).min().unwrap_or(0);
        let mut result = List::new(&self.meter)?;
        for at in 0..length {
            let mut tuple = List::new(&self.meter)?;
            for array in args.0.iter().filter_map(Val::array) {
                tuple.push(array.get(at))?;
            }
            result.push(tuple.finish(Flags::PLAIN))?;
        }
        Ok(result.finish(Flags::PLAIN))
    }

    pub(super) fn reverse(&self, args: Arguments<'_>) -> Fallible<Val> {
        match args.array(0)? {
            Some(array) if array.len() > 1 => {
                Ok(Val::Array(self.rearranged(array.iter().rev().collect(), Flags::PLAIN)?))
            }
            _ => Ok(args.get(0).clone()),
        }
    }

    pub(super) fn sort(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        if array.len() <= 1 {
            return Ok(args.get(0).clone());
        }
        let items: Vec<Val> = array.iter().collect();
        let sorted = if args.is_missing(1) {
            let mut all_numbers = true;
            for item in &items {
                all_numbers &= item.is_numeric()?;
            }
            if !all_numbers && !items.iter().all(|item| item.str().is_some()) {
                return Err(Error::new("D3070"));
            }
            self.merge_sort(items, &|a, b| {
                Ok(match (a, b) {
                    (Val::String(a), Val::String(b)) => compare_text(a, b, &self.meter)?.is_gt(),
                    (Val::Exact(a), Val::Exact(b)) => a.compare(b).is_gt(),
                    _ => a.number() > b.number(),
                })
            })?
        } else {
            let function = args.function(1)?;
            self.merge_sort(items, &|a, b| {
                self.invoke(function, vec![a.clone(), b.clone()]).map(|answer| is_truthy(&answer))
            })?
        };
        Ok(Val::Array(self.rearranged(sorted, Flags::PLAIN)?))
    }

    /// A random order, drawn from the dice of the Turn.
    pub(super) fn shuffle(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(array) = args.array(0)? else { return Ok(Val::Undefined) };
        if array.len() <= 1 {
            return Ok(args.get(0).clone());
        }
        self.meter.work(DICE * array.len() as u64)?;
        let mut shuffled: Vec<Val> = Vec::with_capacity(array.len());
        for (at, item) in array.iter().enumerate() {
            let place = (self.scope.dice.fraction() * (at + 1) as f64) as usize;
            shuffled.push(item);
            shuffled.swap(at, place.min(at));
        }
        Ok(Val::Array(self.rearranged(shuffled, Flags::PLAIN)?))
    }

    pub(super) fn distinct(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Val::Array(array) = args.get(0) else { return Ok(args.get(0).clone()) };
        if array.len() <= 1 {
            return Ok(args.get(0).clone());
        }
        let mut texts: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut numbers: BTreeSet<u64> = BTreeSet::new();
        let mut others: Vec<Val> = Vec::new();
        let mut result = List::new(&self.meter)?;
        for item in array.iter() {
            let is_new = match &item {
                Val::String(text) => {
                    self.meter.text(text.len())?;
                    texts.insert(text.shared())
                }
                Val::Number(number) if !number.is_nan() => numbers.insert((number + 0.0).to_bits()),
                _ => {
                    let mut is_new = true;
                    for known in &others {
                        if equal(&item, known, &self.meter)? {
                            is_new = false;
                            break;
                        }
                    }
                    if is_new {
                        others.push(item.clone());
                    }
                    is_new
                }
            };
            self.meter.work(4)?;
            if is_new {
                result.push(item)?;
            }
        }
        Ok(result.finish(if array.is_sequence() { Flags::SEQUENCE } else { Flags::PLAIN }))
    }
}

/// JavaScript's test for true, which the reference applies to a comparator's result.
fn is_truthy(value: &Val) -> bool {
    match value {
        Val::Undefined | Val::Null => false,
        Val::Bool(truth) => *truth,
        Val::Number(number) => *number != 0.0 && !number.is_nan(),
        Val::Exact(number) => number.as_f64() != 0.0,
        Val::String(text) => !text.is_empty(),
        Val::Array(_) | Val::Object(_) | Val::Function(_) => true,
    }
}
