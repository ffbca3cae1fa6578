//! Attempts under way, for the ledger. A Map may have tens of thousands of them, so none is looked for one by one.

use perdura_engine::{EffectKey, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The attempts of one execution that are under way.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    began: BTreeMap<EffectKey, Timestamp>,
    /// Those for which this process has written no row.
    unwritten: BTreeSet<(Timestamp, EffectKey)>,
}

impl Marks {
    /// One more, unless it is under way already.
    pub(crate) fn begin(&mut self, key: EffectKey, at: Timestamp) {
        if !self.began.contains_key(&key) {
            self.unwritten.insert((at, key.clone()));
            self.began.insert(key, at);
        }
    }

    /// One less; when it began.
    pub(crate) fn end(&mut self, key: &EffectKey) -> Option<Timestamp> {
        let at = self.began.remove(key)?;
        self.unwritten.remove(&(at, key.clone()));
        Some(at)
    }

    /// Whether one that began so early has no row.
    pub(crate) fn has_unwritten(&self, until: Timestamp) -> bool {
        self.unwritten.first().is_some_and(|(at, _)| *at <= until)
    }

    /// Takes those without a row that began so early, the earliest first: they get one now.
    pub(crate) fn take_unwritten(&mut self, until: Option<Timestamp>) -> Vec<(Timestamp, EffectKey)> {
        let mut taken = Vec::new();
        while let Some(first) = self.unwritten.pop_first() {
            if until.is_some_and(|until| first.0 > until) {
                self.unwritten.insert(first);
                break;
            }
            taken.push(first);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_attempt_is_written_once_and_not_after_its_end() {
        let key = |visit: i32| -> EffectKey { serde_json::from_str(&format!("\"x:A#{visit}:1\"")).unwrap() };
        let mut marks = Marks::default();
        for visit in 1..=3 {
            marks.begin(key(visit), Timestamp(i64::from(visit)));
        }
        marks.begin(key(1), Timestamp(9));
        assert_eq!(marks.end(&key(2)), Some(Timestamp(2)));
        assert!(marks.has_unwritten(Timestamp(1)) && !marks.has_unwritten(Timestamp(0)));
        assert_eq!(marks.take_unwritten(Some(Timestamp(2))), [(Timestamp(1), key(1))]);
        assert_eq!(marks.take_unwritten(None), [(Timestamp(3), key(3))]);
        assert_eq!((marks.end(&key(1)), marks.end(&key(1))), (Some(Timestamp(1)), None));
    }
}
