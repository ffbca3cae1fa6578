//! The next state of an execution while its Turn is being decided.
//!
//! A draft reads from the execution and copies only the strands that it changes, so the cost of a Turn depends on its
//! changes, not on the size of the execution. Nobody sees it until the Turn is committed.

use crate::apply;
use crate::execution::{Core, Execution, PerStrand};
use crate::id::{StrandId, Wake};
use crate::kept::Kept;
use crate::strand::Strand;
use crate::turn::{Record, Turn};
use perdura_asl::json::Payload;
use perdura_asl::machine::StateIx;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An execution with changes on top.
pub(crate) struct Draft<'e> {
    pub(crate) base: &'e Execution,
    pub(crate) changes: Changes,
}

/// The changes of a Turn.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    pub(crate) core: Core,
    /// `None`: removed.
    strands: BTreeMap<StrandId, Option<Strand>>,
    results: Layer<u32, Payload>,
    visits: Layer<StateIx, u32>,
    kept: Layer<Arc<str>, Kept>,
}

impl<'e> Draft<'e> {
    pub(crate) fn new(base: &'e Execution) -> Self {
        let core = base.core.clone();
        let changes = Changes {
            core,
            strands: BTreeMap::new(),
            results: Layer::default(),
            visits: Layer::default(),
            kept: Layer::default(),
        };
        Self { base, changes }
    }

    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.changes.core
    }

    /// A strand to read.
    pub(crate) fn peek(&self, id: StrandId) -> Option<&Strand> {
        match self.changes.strands.get(&id) {
            Some(changed) => changed.as_ref(),
            None => self.base.strands.get(&id),
        }
    }

    /// A strand to change.
    pub(crate) fn strand(&mut self, id: StrandId) -> Option<&mut Strand> {
        let base = self.base;
        self.changes.strands.entry(id).or_insert_with(|| base.strands.get(&id).cloned()).as_mut()
    }

    pub(crate) fn strand_ids(&self) -> Vec<StrandId> {
        let untouched = self.base.strands.keys().filter(|id| !self.changes.strands.contains_key(id));
        let touched = self.changes.strands.iter().filter(|(_, strand)| strand.is_some()).map(|(id, _)| id);
        let mut ids: Vec<StrandId> = untouched.chain(touched).copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn put_strand(&mut self, id: StrandId, strand: Strand) {
        self.changes.strands.insert(id, Some(strand));
    }

    pub(crate) fn drop_strand(&mut self, id: StrandId) -> Option<Strand> {
        self.strand(id)?;
        self.drop_results(id);
        self.changes.visits.clear(&self.base.visits, id);
        self.changes.strands.insert(id, None).flatten()
    }

    pub(crate) fn put_result(&mut self, parent: StrandId, index: u32, output: Payload) {
        self.changes.results.put(parent, index, output);
    }

    pub(crate) fn drop_results(&mut self, parent: StrandId) {
        self.changes.results.clear(&self.base.results, parent);
    }

    /// The results of a Parallel or Map in the order of its branches or items.
    pub(crate) fn results(&self, parent: StrandId) -> Vec<Payload> {
        self.changes.results.all(&self.base.results, parent).into_values().cloned().collect()
    }

    /// How often a strand has visited a state.
    pub(crate) fn visits(&self, strand: StrandId, state: StateIx) -> u32 {
        self.changes.visits.get(&self.base.visits, strand, &state).copied().unwrap_or(0)
    }

    pub(crate) fn count_visit(&mut self, strand: StrandId, state: StateIx) {
        let count = self.visits(strand, state) + 1;
        self.changes.visits.put(strand, state, count);
    }

    /// The previous run's record of the step at a place.
    pub(crate) fn kept(&self, keeper: StrandId, place: &Arc<str>) -> Option<&Kept> {
        self.changes.kept.get(&self.base.kept, keeper, place)
    }

    /// The same, from any strand.
    pub(crate) fn kept_anywhere(&self, place: &Arc<str>) -> Option<(StrandId, &Kept)> {
        let keepers = self.base.kept.keys().chain(self.changes.kept.0.keys());
        keepers.copied().find_map(|keeper| Some((keeper, self.kept(keeper, place)?)))
    }

    /// Whether a strand keeps records of its branches' steps.
    pub(crate) fn keeps(&self, keeper: StrandId) -> bool {
        self.base.kept.contains_key(&keeper) || self.changes.kept.0.contains_key(&keeper)
    }

    /// Replaces the record of a place, and returns the old one.
    pub(crate) fn put_kept(&mut self, keeper: StrandId, place: Arc<str>, kept: Kept) -> Option<Kept> {
        let before = self.kept(keeper, &place).cloned();
        self.changes.kept.put(keeper, place, kept);
        before
    }

    /// Removes all records of a strand, and returns them.
    pub(crate) fn drop_kept(&mut self, keeper: StrandId) -> Vec<Kept> {
        let kept = self.changes.kept.all(&self.base.kept, keeper).into_values().cloned().collect();
        self.changes.kept.clear(&self.base.kept, keeper);
        kept
    }

    /// The earliest time at which a strand wants to be woken.
    pub(crate) fn next_wake(&self) -> Wake {
        let untouched = self.base.deadlines.first(|id| !self.changes.strands.contains_key(&id));
        let touched = self.changes.strands.values().flatten().map(Strand::wakes).fold(untouched, Wake::or);
        touched.or(Wake { steady: self.changes.core.timeout_at, wall: None })
    }

    pub(crate) fn record(&mut self, turn: &mut Turn, record: Record) {
        apply::apply(self, &record);
        turn.records.push(record);
    }
}

impl Execution {
    /// Applies a committed Turn to the state before it: this is how an execution is rebuilt.
    pub fn apply(&mut self, turn: &Turn) {
        let mut draft = Draft::new(self);
        for record in &turn.records {
            apply::apply(&mut draft, record);
        }
        let changes = draft.changes;
        self.install(changes);
        self.core.timer = self.next_wake();
    }

    pub(crate) fn install(&mut self, changes: Changes) {
        let Changes { core, strands, results, visits, kept } = changes;
        self.core = core;
        for (id, strand) in strands {
            let before = self.strands.get(&id).map(Strand::wakes).unwrap_or_default();
            let after = strand.as_ref().map(Strand::wakes).unwrap_or_default();
            self.deadlines.replace(id, before, after);
            match strand {
                Some(strand) => {
                    self.strands.insert(id, strand);
                }
                None => {
                    self.strands.remove(&id);
                }
            }
        }
        results.install(&mut self.results);
        visits.install(&mut self.visits);
        kept.install(&mut self.kept);
    }
}

/// Changes to a table of many entries per strand, of which a Turn touches few.
#[derive(Clone, Debug)]
struct Layer<K, V>(BTreeMap<StrandId, Changed<K, V>>);

#[derive(Clone, Debug)]
struct Changed<K, V> {
    /// The old entries are removed.
    cleared: bool,
    new: BTreeMap<K, V>,
}

impl<K, V> Default for Layer<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V> Layer<K, V> {
    fn put(&mut self, strand: StrandId, key: K, value: V) {
        let fresh = || Changed { cleared: false, new: BTreeMap::new() };
        self.0.entry(strand).or_insert_with(fresh).new.insert(key, value);
    }

    fn clear(&mut self, base: &PerStrand<K, V>, strand: StrandId) {
        if base.contains_key(&strand) {
            self.0.insert(strand, Changed { cleared: true, new: BTreeMap::new() });
        } else {
            self.0.remove(&strand);
        }
    }

    fn get<'a>(&'a self, base: &'a PerStrand<K, V>, strand: StrandId, key: &K) -> Option<&'a V> {
        match self.0.get(&strand) {
            Some(changed) if changed.cleared || changed.new.contains_key(key) => changed.new.get(key),
            _ => base.get(&strand).and_then(|old| old.get(key)),
        }
    }

    fn all<'a>(&'a self, base: &'a PerStrand<K, V>, strand: StrandId) -> BTreeMap<K, &'a V> {
        let changed = self.0.get(&strand);
        let old = if changed.is_some_and(|changed| changed.cleared) { None } else { base.get(&strand) };
        let new = changed.map(|changed| &changed.new);
        old.into_iter().chain(new).flatten().map(|(key, value)| (key.clone(), value)).collect()
    }

    fn install(self, base: &mut PerStrand<K, V>) {
        for (strand, Changed { cleared, new }) in self.0 {
            if cleared {
                base.remove(&strand);
            }
            if !new.is_empty() {
                base.entry(strand).or_default().extend(new);
            }
        }
    }
}
