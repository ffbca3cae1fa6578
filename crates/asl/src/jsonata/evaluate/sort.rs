//! Sorting: `^(…)` and `$sort`, both a stable merge as in the reference.

use super::{Evaluator, Fallible};
use crate::jsonata::ast::NodeId;
use crate::jsonata::error::Error;
use crate::jsonata::function::Env;
use crate::jsonata::meter::Meter;
use crate::jsonata::text;
use crate::jsonata::value::{Array, Flags, Val, compare_text};
use std::cmp::Ordering;

impl Evaluator<'_> {
    /// Sorts; `is_after` says whether the first of two comes after the second.
    pub(in crate::jsonata) fn merge_sort(
        &self,
        items: Vec<Val>,
        is_after: &dyn Fn(&Val, &Val) -> Fallible<bool>,
    ) -> Fallible<Vec<Val>> {
        self.meter.work(items.len() as u64)?;
        let mut runs: Vec<Vec<Val>> = Vec::new();
        // Split like the reference, so that comparators are called in the same order.
        let mut pending = vec![(items, false)];
        while let Some((mut left, is_split)) = pending.pop() {
            if is_split {
                let second = runs.pop().expect("both halves were sorted before they are merged");
                let first = runs.pop().expect("both halves were sorted before they are merged");
                runs.push(self.merge(first, second, is_after)?);
            } else if left.len() <= 1 {
                runs.push(left);
            } else {
                self.meter.work(left.len() as u64)?;
                let right = left.split_off(left.len() / 2);
                pending.push((Vec::new(), true));
                pending.push((right, false));
                pending.push((left, false));
            }
        }
        Ok(runs.pop().expect("what was split is merged again"))
    }

    fn merge(
        &self,
        left: Vec<Val>,
        right: Vec<Val>,
        is_after: &dyn Fn(&Val, &Val) -> Fallible<bool>,
    ) -> Fallible<Vec<Val>> {
        let mut merged = Vec::with_capacity(left.len() + right.len());
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            self.meter.work(2)?;
            let next = if is_after(a, b)? { right.next() } else { left.next() };
            merged.extend(next);
        }
        merged.extend(left);
        merged.extend(right);
        Ok(merged)
    }

    /// `^(…)`
    pub(super) fn sort_step(&self, terms: &[(NodeId, bool)], input: Array, env: &Env) -> Fallible<Array> {
        if input.len() <= 1 {
            return Ok(input);
        }
        let stream = input.flags.has(Flags::TUPLES);
        let evaluate = |term: NodeId, item: &Val| {
            if stream {
                self.evaluate(term, &Self::tuple_value(item), &Self::tuple_scope(env, item)?)
            } else {
                self.evaluate(term, item, env)
            }
        };
        let is_after = |a: &Val, b: &Val| {
            for (term, descending) in terms {
                let order = match (evaluate(*term, a)?, evaluate(*term, b)?) {
                    (Val::Undefined, Val::Undefined) => continue,
                    // In either direction, missing values go to the end.
                    (Val::Undefined, _) => return Ok(true),
                    (_, Val::Undefined) => return Ok(false),
                    (a, b) => order_of(&a, &b, &self.meter)?,
                };
                let order = if *descending { order.reverse() } else { order };
                if order != Ordering::Equal {
                    return Ok(order == Ordering::Greater);
                }
            }
            Ok(false)
        };
        let sorted = self.merge_sort(input.iter().collect(), &is_after)?;
        self.rearranged(sorted, if stream { input.flags } else { Flags::PLAIN })
    }
}

fn order_of(a: &Val, b: &Val, meter: &Meter) -> Fallible<Ordering> {
    let is_sortable = |value: &Val| value.str().is_some() || value.number().is_some();
    if !is_sortable(a) || !is_sortable(b) {
        return Err(Error::new("T2008"));
    }
    match (a, b) {
        (Val::String(a), Val::String(b)) => compare_text(a, b, meter),
        (Val::Exact(a), Val::Exact(b)) => Ok(a.compare(b)),
        _ => match (a.number(), b.number()) {
            // A value that is neither below nor equal comes after, including NaN.
            (Some(a), Some(b)) => Ok(a.partial_cmp(&b).unwrap_or(Ordering::Greater)),
            _ => Err(Error::new("T2007").value(text::render(a)).value2(text::render(b))),
        },
    }
}
