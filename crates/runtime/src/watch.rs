//! What can be seen of a node from outside, at any moment and without asking it.

use crate::committer::Committer;
use crate::node::Node;
use perdura_store::Totals;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Commit times are counted in buckets, eight for each power of two of microseconds, up to about 33 s.
pub const BUCKETS: usize = 8 * 26;

/// In which bucket a time lies.
fn bucket(us: u64) -> usize {
    let power = 63 - (us | 1).leading_zeros() as usize;
    let eighth = if power >= 3 { (us >> (power - 3)) as usize & 7 } else { (us << (3 - power)) as usize & 7 };
    (power * 8 + eighth).min(BUCKETS - 1)
}

/// The time at which a bucket ends, in microseconds.
pub fn bucket_end_us(bucket: usize) -> f64 {
    let (power, eighth) = (bucket / 8, bucket % 8);
    (1u64 << power) as f64 * (1.0 + (eighth + 1) as f64 / 8.0)
}

/// Whether the node's thread moves: since when it has not taken in what arrived, though it has something to do.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// Milliseconds after the beginning, and 1; 0 while there is nothing to do.
    busy_since: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), busy_since: AtomicU64::new(0) }
    }
}

impl Pulse {
    /// All that arrived is being taken in.
    pub(crate) fn beat(&self) {
        self.busy_since.store(self.now(), Ordering::Relaxed);
    }

    /// There is nothing to do.
    pub(crate) fn rest(&self) {
        self.busy_since.store(0, Ordering::Relaxed);
    }

    /// How long work has waited without being looked at; zero while there is none.
    pub(crate) fn stalled_for(&self) -> Duration {
        match self.busy_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis(self.now().saturating_sub(since)),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Counters and gauges of a node.
#[derive(Debug)]
pub struct Gauges {
    commits: AtomicU64,
    commit_us: AtomicU64,
    turns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
    in_memory: AtomicU64,
    parked: AtomicU64,
    resuming: AtomicBool,
    tasks: AtomicU64,
    polls: AtomicU64,
    pauses: AtomicU64,
    pauses_all: AtomicBool,
    totals: Mutex<Totals>,
}

/// The same, read.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Tasks of activities that wait for a worker.
    pub tasks: u64,
    /// Workers that wait for a task.
    pub polls: u64,
    /// What is paused: machines, and all of them together as one.
    pub pauses: u64,
    /// All machines together are.
    pub pauses_all: bool,
    /// What has happened on all Shards of this node since they were made.
    pub totals: Totals,
}

impl Default for Gauges {
    fn default() -> Self {
        Self {
            commits: AtomicU64::new(0),
            commit_us: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            in_memory: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            resuming: AtomicBool::new(true),
            tasks: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            pauses_all: AtomicBool::new(false),
            totals: Mutex::default(),
        }
    }
}

impl Reading {
    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            commit_us: self.commit_us - earlier.commit_us,
            turns: self.turns - earlier.turns,
            buckets: std::array::from_fn(|at| self.buckets[at] - earlier.buckets[at]),
            ..self.clone()
        }
    }

    /// The time below which this share of the commits took, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = (self.commits as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        found.map_or(0.0, |bucket| bucket_end_us(bucket) / 1000.0)
    }
}

impl Gauges {
    /// Whether executions of an earlier process may still ask for what ended before.
    pub(crate) fn is_resuming(&self) -> bool {
        self.resuming.load(Ordering::Relaxed)
    }

    pub(crate) fn committed(&self, turns: u64, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
        self.turns.fetch_add(turns, Ordering::Relaxed);
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_node(&self, node: &Node, committer: &Committer) {
        self.in_memory.store(node.in_memory() as u64, Ordering::Relaxed);
        self.parked.store(node.parked() as u64, Ordering::Relaxed);
        self.resuming.store(node.is_resuming(), Ordering::Relaxed);
        let (tasks, polls) = node.activities();
        self.tasks.store(tasks as u64, Ordering::Relaxed);
        self.polls.store(polls as u64, Ordering::Relaxed);
        let (pauses, all) = node.pauses();
        self.pauses.store(pauses as u64, Ordering::Relaxed);
        self.pauses_all.store(all, Ordering::Relaxed);
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = committer.totals();
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
            tasks: load(&self.tasks),
            polls: load(&self.polls),
            pauses: load(&self.pauses),
            pauses_all: self.pauses_all.load(Ordering::Relaxed),
            totals: *self.totals.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_the_bucket_that_ends_after_it() {
        for us in [0, 1, 2, 3, 7, 8, 9, 100, 1000, 1023, 1024, 123_456, 30_000_000] {
            let end = bucket_end_us(bucket(us));
            assert!(end > us as f64 && end <= (us as f64 * 1.25).max(1.2), "{us} -> {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn only_work_that_waits_counts_as_a_stall() {
        let later = |pulse: Pulse| {
            let began = pulse.began.checked_sub(Duration::from_secs(5)).expect("the machine runs for longer");
            Pulse { began, ..pulse }
        };
        let pulse = later(Pulse::default());
        assert_eq!(pulse.stalled_for(), Duration::ZERO);
        pulse.beat();
        assert!(pulse.stalled_for() < Duration::from_secs(4));
        let pulse = later(pulse);
        assert!(pulse.stalled_for() >= Duration::from_secs(5));
        pulse.rest();
        assert_eq!(later(pulse).stalled_for(), Duration::ZERO);
    }

    #[test]
    fn percentiles_are_those_of_the_commits() {
        let gauges = Gauges::default();
        let before = gauges.read();
        for ms in 1..=100 {
            gauges.committed(1, Duration::from_millis(ms));
        }
        let read = gauges.read().since(&before);
        assert!((50.0..57.0).contains(&read.percentile_ms(0.5)), "{}", read.percentile_ms(0.5));
        assert!((99.0..112.0).contains(&read.percentile_ms(0.99)), "{}", read.percentile_ms(0.99));
    }
}
