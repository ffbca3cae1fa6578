//! Objects: unique keys in their order.

use super::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Up to this many keys a scan is faster than an index.
const SCANNED_MAX: usize = 12;

/// An ordered set of members. Small ones are scanned, large ones indexed, so no object makes a lookup slow.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Arc<str>, Value)>,
    index: Option<BTreeMap<Arc<str>, usize>>,
}

impl Map {
    /// No members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `count` members.
    pub fn with_capacity(count: usize) -> Self {
        Self { entries: Vec::with_capacity(count), index: None }
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| &**known == key),
        }
    }

    /// The member of this name.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// The member of this name, to be changed in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|at| &mut self.entries[at].1)
    }

    /// Whether there is a member of this name.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets a member: a known key keeps its place, a new one goes to the end. Returns the old value.
    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(at) = self.position(&key) {
            return Some(std::mem::replace(&mut self.entries[at].1, value));
        }
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > SCANNED_MAX {
            self.index =
                Some(self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect());
        }
        None
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let (_, value) = self.entries.remove(self.position(key)?);
        if self.index.is_some() {
            self.index =
                Some(self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect());
        }
        Some(value)
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.entries.iter().map(|(key, _)| key)
    }

    /// The values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, value)| value)
    }
}

/// The order of members does not matter for equality, as everywhere in JSON.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Into<Arc<str>>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut map = Self::new();
        for (key, value) in members {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_beyond_the_scanned_size() {
        let mut map: Map = (0..100).map(|i| (format!("k{}", 99 - i), i)).collect();
        assert_eq!(map.keys().next().map(|key| &**key), Some("k99"));
        assert_eq!(map.insert("k50", "again"), Some(Value::from(49)));
        assert_eq!(map.remove("k99"), Some(Value::from(0)));
        assert_eq!(map.get("k0"), Some(&Value::from(99)));
        assert_eq!(map.get("k50"), Some(&Value::from("again")));
        assert_eq!(map.len(), 99);
    }
}
