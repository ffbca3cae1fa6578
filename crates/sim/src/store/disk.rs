//! The disk that all processes share: its current state, and its promises.

use crate::dice::Dice;
use crate::observed::Observed;
use crate::sabotage::Sabotage;
use perdura_engine::ExecutionId;
use perdura_store::{Group, Incarnation, Lease, Position, Shard};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The rates of faults, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Nothing is written, and an error says so.
    pub(crate) fails_before: u32,
    /// Everything is written, and the answer is an error.
    pub(crate) fails_after: u32,
    /// Nothing is written; the caller must retry.
    pub(crate) busy: u32,
    pub(crate) read_fails: u32,
}

/// The current state of the disk.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Rates while faults are on.
    pub(crate) rates: Rates,
    /// Faults are on.
    pub(crate) fails: bool,
    /// Full until then.
    pub(crate) full_until: i64,
    /// True time.
    pub(crate) now: i64,
    /// The acknowledged Turns.
    pub(crate) observed: Observed,
    /// How often each kind of fault happened.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Commits that were acknowledged and are not written yet.
    pub(super) lazy: Vec<Group>,
    pub(super) dice: Dice,
    pub(super) sabotage: Option<Sabotage>,
    /// For sabotage: the holder of each Shard, and how far each has written.
    pub(super) owners: BTreeMap<Shard, Incarnation>,
    pub(super) leases: BTreeMap<Incarnation, (Lease, Position)>,
    /// For sabotage: the wrong owners of names.
    pub(crate) lies: BTreeMap<Arc<str>, ExecutionId>,
    /// For sabotage: the first holders.
    pub(super) first_holders: Option<BTreeMap<Shard, Arc<str>>>,
}

impl Disk {
    /// A disk without faults until told otherwise.
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self {
            rates: Rates::default(),
            fails: false,
            full_until: 0,
            now: 0,
            observed: Observed::default(),
            faults: BTreeMap::new(),
            lazy: Vec::new(),
            dice: Dice::new(seed, "disk"),
            sabotage,
            owners: BTreeMap::new(),
            leases: BTreeMap::new(),
            lies: BTreeMap::new(),
            first_holders: None,
        }
    }

    /// Counts a fault.
    pub(crate) fn fault(&mut self, what: &'static str) {
        *self.faults.entry(what).or_default() += 1;
    }

    /// A power failure: acknowledged commits that were not written are lost.
    pub(crate) fn lose_promises(&mut self) {
        self.lazy.clear();
    }

    /// Whether an acknowledged commit is not written.
    pub(crate) fn has_promises(&self) -> bool {
        !self.lazy.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.now < self.full_until
    }

    pub(super) fn strikes(&mut self, rate: u32, what: &'static str) -> bool {
        let strikes = self.fails && self.dice.in_thousand(rate);
        if strikes {
            self.fault(what);
        }
        strikes
    }

    pub(super) fn is_lazy(&self) -> bool {
        matches!(self.sabotage, Some(Sabotage::EffectsFirst | Sabotage::RepliesFirst))
    }
}

/// The state that all handles share.
pub(crate) type SharedDisk = Arc<Mutex<Disk>>;

pub(super) fn lock(disk: &SharedDisk) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
