//! Follows the steps of a path through a value.
//!
//! Overlapping steps (`..a..b`, `[0,-1]` again and again, filters within filters) multiply, so a walk counts the values
//! it looks at and stops at a limit; a walk by ordinary steps looks at each value about once and never comes near it.

use super::filter::{Operand, Query};
use super::members::Members;
use super::step::Step;
use crate::json::{Map, Value};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many values a path may look at before it gives up and leads nowhere.
pub const WORK_MAX: usize = 10_000_000;

/// How many values a path may give.
const FOUND_MAX: usize = 1_000_000;

/// How deep a walk may go: the depth of any parsed document, and as much again for filters.
const DEPTH_MAX: u32 = 2 * crate::json::DEPTH_MAX as u32;

/// Why a walk stopped early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Halt {
    /// It looked at too much.
    Exhausted,
    /// A filter's operator got an invalid operand.
    Refused,
}

/// Follows steps that lead to one place at most.
pub(super) fn definite<'a>(root: &'a Value, steps: &[Step]) -> Option<Cow<'a, Value>> {
    let mut here = root;
    for step in steps {
        here = match step {
            Step::Name(name) => here.get(name)?,
            Step::Index(index) => element(here.as_array()?, *index)?,
            Step::Names(names) => return Some(Cow::Owned(members(here.as_object()?, names))),
            Step::Indices(_) | Step::Slice { .. } | Step::Every | Step::Filter(_) | Step::Descend => {
                return None;
            }
        };
    }
    Some(Cow::Borrowed(here))
}

/// Follows steps that may lead to many places, and returns how many values it looked at. `None`: more than `most`.
pub(super) fn list(root: &Value, steps: &[Step], most: usize) -> (Option<Value>, usize) {
    let walk = Walk::new(root, most);
    let found = walk.list(root, steps).ok();
    (found, walk.spent.get())
}

/// The element at an index; a negative one counts from the end.
fn element(items: &[Value], index: i64) -> Option<&Value> {
    let index = if index < 0 { index.checked_add_unsigned(items.len() as u64)? } else { index };
    items.get(usize::try_from(index).ok()?)
}

/// The elements between two indices, as far as there are any.
fn slice(items: &[Value], from: Option<i64>, to: Option<i64>) -> &[Value] {
    let place = |index: i64| {
        let index = if index < 0 { index.saturating_add_unsigned(items.len() as u64).max(0) } else { index };
        usize::try_from(index).map_or(items.len(), |index| index.min(items.len()))
    };
    let (from, to) = (from.map_or(0, place), to.map_or(items.len(), place));
    items.get(from..to).unwrap_or_default()
}

fn members(map: &Map, names: &[std::sync::Arc<str>]) -> Value {
    let mut found = Map::new();
    for name in names {
        if let Some(value) = map.get(name) {
            found.insert(name.clone(), value.clone());
        }
    }
    found.into()
}

/// One walk from one root.
pub(super) struct Walk<'a> {
    root: &'a Value,
    spent: Cell<usize>,
    spent_max: usize,
    depth: Cell<u32>,
    /// The results of queries that begin at the root: the same for every item of a filter.
    known: RefCell<BTreeMap<*const Query, Option<Cow<'a, Value>>>>,
    /// Lists that every item of a filter is compared with.
    lists: RefCell<BTreeMap<*const Operand, Option<Rc<Members<'a>>>>>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Value, spent_max: usize) -> Self {
        Self {
            root,
            spent: Cell::new(0),
            spent_max,
            depth: Cell::new(0),
            known: RefCell::default(),
            lists: RefCell::default(),
        }
    }

    /// Counts one value looked at.
    pub(super) fn burn(&self) -> Result<(), Halt> {
        self.burn_many(1)
    }

    /// Counts several values looked at.
    pub(super) fn burn_many(&self, count: usize) -> Result<(), Halt> {
        let spent = self.spent.get().saturating_add(count);
        self.spent.set(spent);
        if spent > self.spent_max { Err(Halt::Exhausted) } else { Ok(()) }
    }

    /// Runs something one level deeper on the stack.
    pub(super) fn step_in<T>(&self, run: impl FnOnce(&Self) -> Result<T, Halt>) -> Result<T, Halt> {
        let depth = self.depth.get();
        if depth >= DEPTH_MAX {
            return Err(Halt::Exhausted);
        }
        self.depth.set(depth + 1);
        let outcome = run(self);
        self.depth.set(depth);
        outcome
    }

    fn list(&self, from: &'a Value, steps: &'a [Step]) -> Result<Value, Halt> {
        let mut found = Vec::new();
        self.visit(from, steps, &mut found)?;
        Ok(found.into_iter().map(Cow::into_owned).collect())
    }

    /// The value of a path inside of a filter.
    pub(super) fn query(&self, item: &'a Value, query: &'a Query) -> Result<Option<Cow<'a, Value>>, Halt> {
        if query.from_root
            && let Some(known) = self.known.borrow().get(&std::ptr::from_ref(query))
        {
            return Ok(known.clone());
        }
        self.burn()?;
        let from = if query.from_root { self.root } else { item };
        let answer = if query.definite {
            definite(from, &query.steps)
        } else {
            Some(Cow::Owned(self.list(from, &query.steps)?))
        };
        if query.from_root {
            self.known.borrow_mut().insert(std::ptr::from_ref(query), answer.clone());
        }
        Ok(answer)
    }

    /// The list of an operand, if it is the same for every item.
    pub(super) fn members(&self, operand: &'a Operand) -> Result<Option<Rc<Members<'a>>>, Halt> {
        if let Some(known) = self.lists.borrow().get(&std::ptr::from_ref(operand)) {
            return Ok(known.clone());
        }
        let list = match operand {
            Operand::Literal(value) => Some(Cow::Borrowed(value)),
            Operand::Query(query) if query.from_root => self.query(self.root, query)?,
            Operand::Query(_) | Operand::Pattern(_) => None,
        };
        let members = list.and_then(Members::new).map(Rc::new);
        self.burn_many(members.as_ref().map_or(0, |members| members.len()))?;
        self.lists.borrow_mut().insert(operand, members.clone());
        Ok(members)
    }

    /// Follows `steps` from `here`. It loops for a single next value and recurses for several, so the stack grows with
    /// the data, never with the path.
    fn visit(
        &self,
        mut here: &'a Value,
        mut steps: &'a [Step],
        found: &mut Vec<Cow<'a, Value>>,
    ) -> Result<(), Halt> {
        loop {
            self.burn()?;
            let Some((step, rest)) = steps.split_first() else {
                return Self::keep(Cow::Borrowed(here), found);
            };
            let next = match (step, here) {
                (Step::Descend, _) => return self.descend(here, rest, found),
                (Step::Name(name), Value::Object(map)) => map.get(name),
                (Step::Index(index), Value::Array(items)) => element(items, *index),
                (Step::Filter(filter), Value::Object(_)) => filter.passes(self, here)?.then_some(here),
                (Step::Filter(filter), Value::Array(items)) => {
                    for item in items.iter() {
                        if filter.passes(self, item)? {
                            self.deeper(item, rest, found)?;
                        }
                    }
                    None
                }
                (Step::Names(names), Value::Object(map)) if rest.is_empty() => {
                    return Self::keep(Cow::Owned(members(map, names)), found);
                }
                (Step::Names(names), Value::Object(map)) => {
                    self.each(names.iter().filter_map(|name| map.get(name)), rest, found)?
                }
                (Step::Indices(indices), Value::Array(items)) => {
                    self.each(indices.iter().filter_map(|index| element(items, *index)), rest, found)?
                }
                (Step::Slice { from, to }, Value::Array(items)) => {
                    self.each(slice(items, *from, *to).iter(), rest, found)?
                }
                (Step::Every, Value::Array(items)) => self.each(items.iter(), rest, found)?,
                (Step::Every, Value::Object(map)) => self.each(map.values(), rest, found)?,
                _ => None,
            };
            match next {
                Some(next) => (here, steps) = (next, rest),
                None => return Ok(()),
            }
        }
    }

    fn keep(value: Cow<'a, Value>, found: &mut Vec<Cow<'a, Value>>) -> Result<(), Halt> {
        if found.len() >= FOUND_MAX {
            return Err(Halt::Exhausted);
        }
        found.push(value);
        Ok(())
    }

    /// Visits several values; there is then no single next one.
    fn each(
        &self,
        values: impl Iterator<Item = &'a Value>,
        steps: &'a [Step],
        found: &mut Vec<Cow<'a, Value>>,
    ) -> Result<Option<&'a Value>, Halt> {
        for value in values {
            self.deeper(value, steps, found)?;
        }
        Ok(None)
    }

    fn deeper(
        &self,
        here: &'a Value,
        steps: &'a [Step],
        found: &mut Vec<Cow<'a, Value>>,
    ) -> Result<(), Halt> {
        self.step_in(|walk| walk.visit(here, steps, found))
    }

    /// Applies `steps` here and everywhere below: first to a value, then to the values in it, in order.
    fn descend(
        &self,
        here: &'a Value,
        steps: &'a [Step],
        found: &mut Vec<Cow<'a, Value>>,
    ) -> Result<(), Halt> {
        self.burn()?;
        let target = steps.first();
        match here {
            Value::Object(map) => {
                // Several names at the end are one object, which only makes sense if all of them exist.
                let applies = match target {
                    Some(Step::Names(names)) if steps.len() == 1 => {
                        names.iter().all(|name| map.contains_key(name))
                    }
                    _ => true,
                };
                if applies {
                    self.deeper(here, steps, found)?;
                }
                for value in map.values() {
                    self.step_in(|walk| walk.descend(value, steps, found))?;
                }
            }
            Value::Array(items) => {
                // A filter takes objects through their parents, so here it takes only other values.
                let filter = if let Some(Step::Filter(filter)) = target { Some(filter) } else { None };
                if filter.is_none() {
                    self.deeper(here, steps, found)?;
                }
                for item in items.iter() {
                    if let Some(filter) = filter
                        && item.as_object().is_none()
                        && filter.passes(self, item)?
                    {
                        self.deeper(item, &steps[1..], found)?;
                    }
                    self.step_in(|walk| walk.descend(item, steps, found))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }
}
