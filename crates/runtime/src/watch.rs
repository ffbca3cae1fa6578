//! What can be seen of a node from outside, at any moment and without asking it.

use crate::node::Node;
use perdura_store::Totals;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Commit times are counted by powers of two of microseconds: under 1, 2, 4, … and up to about 33 s.
pub const BUCKETS: usize = 26;

/// Counters and gauges of a node.
#[derive(Debug, Default)]
pub struct Gauges {
    commits: AtomicU64,
    commit_us: AtomicU64,
    turns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    in_memory: AtomicU64,
    parked: AtomicU64,
    totals: Mutex<Totals>,
}

/// The same, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Commits since the start.
    pub commits: u64,
    /// Microseconds spent in them.
    pub commit_us: u64,
    /// Turns in them.
    pub turns: u64,
    /// Commits by how long they took; see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
    /// Executions in memory.
    pub in_memory: u64,
    /// Executions that were set aside.
    pub parked: u64,
    /// What has happened on all Shards of this node since they were made.
    pub totals: Totals,
}

impl Gauges {
    pub(crate) fn committed(&self, turns: u64, took: Duration, totals: &[Totals]) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
        self.turns.fetch_add(turns, Ordering::Relaxed);
        let bucket = (64 - us.leading_zeros() as usize).min(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let mut values = Totals::default().values();
        for totals in totals {
            for (sum, value) in values.iter_mut().zip(totals.values()) {
                *sum += value;
            }
        }
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = Totals::from_values(&values);
    }

    pub(crate) fn set_node(&self, node: &Node) {
        self.in_memory.store(node.in_memory() as u64, Ordering::Relaxed);
        self.parked.store(node.parked() as u64, Ordering::Relaxed);
    }

    /// All of them, as they are.
    pub fn read(&self) -> Reading {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Reading {
            commits: load(&self.commits),
            commit_us: load(&self.commit_us),
            turns: load(&self.turns),
            buckets: std::array::from_fn(|at| load(&self.buckets[at])),
            in_memory: load(&self.in_memory),
            parked: load(&self.parked),
            totals: *self.totals.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}
