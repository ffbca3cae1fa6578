//! The disk that all processes share: what it is like at the moment, and what it promised.

use crate::dice::Dice;
use crate::observed::Observed;
use crate::sabotage::Sabotage;
use perdura_engine::ExecutionId;
use perdura_store::{Group, Incarnation, Lease, Position, Shard};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often something goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Nothing is written, and an error says so.
    pub(crate) fails_before: u32,
    /// All is written, and an error says otherwise.
    pub(crate) fails_after: u32,
    /// Nothing is written; it is to be offered again.
    pub(crate) busy: u32,
    pub(crate) read_fails: u32,
}

/// What the disk is like at the moment.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Rates while faults are on.
    pub(crate) rates: Rates,
    /// Faults are on.
    pub(crate) fails: bool,
    /// No room until then.
    pub(crate) full_until: i64,
    /// True time.
    pub(crate) now: i64,
    /// The truth.
    pub(crate) observed: Observed,
    /// How often each kind of fault happened.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Commits that were promised and are not written yet.
    pub(super) lazy: Vec<Group>,
    pub(super) dice: Dice,
    pub(super) sabotage: Option<Sabotage>,
    /// For sabotage: who holds what, and up to where each of them has written.
    pub(super) owners: BTreeMap<Shard, Incarnation>,
    pub(super) leases: BTreeMap<Incarnation, (Lease, Position)>,
    /// For sabotage: whose a name is said to be.
    pub(crate) lies: BTreeMap<Arc<str>, ExecutionId>,
    /// For sabotage: who held what at first.
    pub(super) first_holders: Option<BTreeMap<Shard, Arc<str>>>,
}

impl Disk {
    /// A disk that works until told otherwise.
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

    /// The power fails: what was promised and not written is gone.
    pub(crate) fn lose_promises(&mut self) {
        self.lazy.clear();
    }

    /// Whether something was promised and is not written.
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

/// What all handles share.
pub(crate) type SharedDisk = Arc<Mutex<Disk>>;

pub(super) fn lock(disk: &SharedDisk) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}
