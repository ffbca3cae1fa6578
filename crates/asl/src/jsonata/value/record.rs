//! Objects, of the input or built.

use super::{Val, deeper};
use crate::json::Map;
use crate::jsonata::error::Fallible;
use crate::jsonata::meter::{Charge, ELEMENT_BYTES, Meter};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// An object.
#[derive(Clone)]
pub(in crate::jsonata) enum Object {
    Json(Arc<Map>),
    Own(Rc<Record>),
}

impl Object {
    /// The depth of a built object.
    pub(in crate::jsonata) fn depth(&self) -> u16 {
        if let Self::Own(record) = self { record.depth } else { 0 }
    }

    pub(in crate::jsonata) fn len(&self) -> usize {
        match self {
            Self::Json(map) => map.len(),
            Self::Own(record) => record.entries.len(),
        }
    }

    pub(in crate::jsonata) fn get(&self, key: &str) -> Val {
        match self {
            Self::Json(map) => map.get(key).map_or(Val::Undefined, Val::from),
            Self::Own(record) => record.get(key).cloned().unwrap_or(Val::Undefined),
        }
    }

    /// The members in the order of JavaScript: keys that are numbers first and ascending, then as they came.
    pub(in crate::jsonata) fn members(&self) -> Vec<(Arc<str>, Val)> {
        let mut members: Vec<(Arc<str>, Val)> = match self {
            Self::Json(map) => map.iter().map(|(key, value)| (key.clone(), Val::from(value))).collect(),
            Self::Own(record) => record.entries.clone(),
        };
        if members.iter().any(|(key, _)| array_index(key).is_some()) {
            members.sort_by_key(|(key, _)| array_index(key).unwrap_or(u32::MAX));
        }
        members
    }

    pub(in crate::jsonata) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(a), Self::Json(b)) => Arc::ptr_eq(a, b),
            (Self::Own(a), Self::Own(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The number in a key, if JavaScript would take it for an array index.
fn array_index(key: &str) -> Option<u32> {
    let is_canonical = key.bytes().all(|byte| byte.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
    if is_canonical { key.parse().ok().filter(|index| *index != u32::MAX) } else { None }
}

/// Members that an expression collects; keys in the order in which they came.
pub(in crate::jsonata) struct Record {
    entries: Vec<(Arc<str>, Val)>,
    index: Option<BTreeMap<Arc<str>, usize>>,
    charge: Charge,
    depth: u16,
}

/// Up to this many keys a scan is faster than an index.
const SCANNED_MAX: usize = 12;

impl Record {
    pub(in crate::jsonata) fn new(meter: &Rc<Meter>) -> Fallible<Self> {
        Ok(Self { entries: Vec::new(), index: None, charge: meter.hold(0)?, depth: 1 })
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| &**known == key),
        }
    }

    pub(in crate::jsonata) fn get(&self, key: &str) -> Option<&Val> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    pub(in crate::jsonata) fn entries(&self) -> &[(Arc<str>, Val)] {
        &self.entries
    }

    /// Sets a member: a known key keeps its place.
    pub(in crate::jsonata) fn set(&mut self, key: Arc<str>, value: Val) -> Fallible<()> {
        self.charge.meter().work(8 + key.len() as u64 / 16)?;
        self.depth = self.depth.max(deeper(&value)?);
        if let Some(at) = self.position(&key) {
            self.entries[at].1 = value;
            return Ok(());
        }
        self.charge.grow(2 * ELEMENT_BYTES + key.len())?;
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SCANNED_MAX {
            self.reindex();
        }
        Ok(())
    }

    pub(in crate::jsonata) fn remove(&mut self, key: &str) {
        if let Some(at) = self.position(key) {
            self.entries.remove(at);
            if self.index.is_some() {
                self.reindex();
            }
        }
    }

    fn reindex(&mut self) {
        let places = self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at));
        self.index = Some(places.collect());
    }

    pub(in crate::jsonata) fn finish(self) -> Val {
        Val::Object(Object::Own(Rc::new(self)))
    }
}
