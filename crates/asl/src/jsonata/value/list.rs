//! Arrays, of the input or built.

use super::{Val, deeper};
use crate::json::Value;
use crate::jsonata::error::Fallible;
use crate::jsonata::meter::{Charge, ELEMENT_BYTES, Meter};
use std::rc::Rc;
use std::sync::Arc;

/// The properties of an array besides its elements. They belong to the handle, not to the elements.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::jsonata) struct Flags(u8);

impl Flags {
    /// An array as such: of the input, or written with brackets.
    pub(in crate::jsonata) const PLAIN: Self = Self(0);
    /// The result of a query: one element stands for itself, none for undefined.
    pub(in crate::jsonata) const SEQUENCE: Self = Self(1);
    /// A sequence of one that stays an array (`[]`).
    pub(in crate::jsonata) const KEEP: Self = Self(2);
    /// Written with brackets as a step: it is not flattened into the sequence.
    pub(in crate::jsonata) const CONS: Self = Self(4);
    /// Elements are tuples of bindings (`@`, `#`, `%`).
    pub(in crate::jsonata) const TUPLES: Self = Self(8);

    pub(in crate::jsonata) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(in crate::jsonata) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// An array with its flags.
#[derive(Clone)]
pub(in crate::jsonata) struct Array {
    items: Items,
    pub(in crate::jsonata) flags: Flags,
}

#[derive(Clone)]
enum Items {
    Json(Arc<Vec<Value>>),
    Own(Rc<List>),
}

impl Array {
    /// An array of the input.
    pub(in crate::jsonata) fn given(items: &Arc<Vec<Value>>) -> Self {
        Self { items: Items::Json(items.clone()), flags: Flags::PLAIN }
    }

    /// The depth of a built array.
    pub(in crate::jsonata) fn depth(&self) -> u16 {
        if let Items::Own(list) = &self.items { list.depth } else { 0 }
    }

    pub(in crate::jsonata) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items) => items.len(),
            Items::Own(list) => list.items.len(),
        }
    }

    pub(in crate::jsonata) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element; undefined beyond the end.
    pub(in crate::jsonata) fn get(&self, at: usize) -> Val {
        match &self.items {
            Items::Json(items) => items.get(at).map_or(Val::Undefined, Val::from),
            Items::Own(list) => list.items.get(at).cloned().unwrap_or(Val::Undefined),
        }
    }

    pub(in crate::jsonata) fn iter(&self) -> impl DoubleEndedIterator<Item = Val> + ExactSizeIterator + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    pub(in crate::jsonata) fn is_sequence(&self) -> bool {
        self.flags.has(Flags::SEQUENCE)
    }

    /// The same elements with other flags.
    pub(in crate::jsonata) fn with(&self, flags: Flags) -> Self {
        Self { items: self.items.clone(), flags }
    }

    /// The elements in the input, if they are from there.
    pub(in crate::jsonata) fn json(&self) -> Option<&Arc<Vec<Value>>> {
        if let Items::Json(items) = &self.items { Some(items) } else { None }
    }

    /// Whether two handles refer to the same elements.
    pub(in crate::jsonata) fn is(&self, other: &Self) -> bool {
        match (&self.items, &other.items) {
            (Items::Json(a), Items::Json(b)) => Arc::ptr_eq(a, b),
            (Items::Own(a), Items::Own(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// Elements that an expression collects.
pub(in crate::jsonata) struct List {
    items: Vec<Val>,
    charge: Charge,
    depth: u16,
}

impl List {
    pub(in crate::jsonata) fn new(meter: &Rc<Meter>) -> Fallible<Self> {
        Ok(Self { items: Vec::new(), charge: meter.hold(0)?, depth: 1 })
    }

    /// A list of one.
    pub(in crate::jsonata) fn of(meter: &Rc<Meter>, item: Val) -> Fallible<Self> {
        let mut list = Self::new(meter)?;
        list.push(item)?;
        Ok(list)
    }

    pub(in crate::jsonata) fn push(&mut self, item: Val) -> Fallible<()> {
        self.charge.grow(ELEMENT_BYTES)?;
        self.charge.meter().work(1)?;
        self.depth = self.depth.max(deeper(&item)?);
        self.items.push(item);
        Ok(())
    }

    /// Appends the elements of an array, or the one value.
    pub(in crate::jsonata) fn append(&mut self, value: Val) -> Fallible<()> {
        match value {
            Val::Array(array) => self.extend(&array),
            other => self.push(other),
        }
    }

    pub(in crate::jsonata) fn extend(&mut self, array: &Array) -> Fallible<()> {
        for item in array.iter() {
            self.push(item)?;
        }
        Ok(())
    }

    pub(in crate::jsonata) fn len(&self) -> usize {
        self.items.len()
    }

    /// A list of elements that were counted before or are about to be counted once.
    pub(in crate::jsonata) fn arranged(meter: &Rc<Meter>, items: Vec<Val>) -> Fallible<Self> {
        let mut depth = 1;
        for item in &items {
            depth = depth.max(deeper(item)?);
        }
        meter.work(items.len() as u64)?;
        Ok(Self { charge: meter.hold(items.len() * ELEMENT_BYTES)?, items, depth })
    }

    pub(in crate::jsonata) fn array(self, flags: Flags) -> Array {
        Array { items: Items::Own(Rc::new(self)), flags }
    }

    pub(in crate::jsonata) fn finish(self, flags: Flags) -> Val {
        Val::Array(self.array(flags))
    }
}
