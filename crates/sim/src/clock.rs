//! Two clocks and the random numbers of the engine. True time only goes forward; the wall clock may be stepped, and
//! each process counts its own steady time from the wall clock at its start.

use crate::dice::Dice;
use perdura_engine::{Moment, Timestamp};

/// The beginning of every simulation: 2026-01-01, noon.
const BEGINS_AT_MS: i64 = 1_767_268_800_000;

/// Time for all processes of a simulation.
#[derive(Debug)]
pub(crate) struct Clock {
    now: i64,
    wall_ahead: i64,
    entropy: Dice,
}

/// The difference between a process's steady clock and true time; fixed when the process begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady(i64);

impl Steady {
    /// The reading of this clock at the beginning of the simulation.
    pub(crate) fn at_zero(self) -> Timestamp {
        Timestamp(self.0)
    }
}

impl Clock {
    pub(crate) fn new(seed: u64) -> Self {
        Self { now: 0, wall_ahead: 0, entropy: Dice::new(seed, "entropy") }
    }

    /// Milliseconds of true time since the beginning.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Advances true time.
    pub(crate) fn advance_to(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    /// Sets the wall clock so far ahead of true time.
    pub(crate) fn set_wall(&mut self, ahead_ms: i64) {
        self.wall_ahead = ahead_ms;
    }

    /// The reading of the wall clock.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(BEGINS_AT_MS + self.now + self.wall_ahead)
    }

    /// The steady clock of a process that begins now, from the wall clock.
    pub(crate) fn boot(&self) -> Steady {
        Steady(BEGINS_AT_MS + self.wall_ahead)
    }

    /// The moment as a process sees it.
    pub(crate) fn moment(&mut self, steady: Steady) -> Moment {
        Moment { now: self.wall(), steady: self.steady(steady), entropy: self.entropy.entropy() }
    }

    /// A process's steady time.
    pub(crate) fn steady(&self, of: Steady) -> Timestamp {
        Timestamp(of.0 + self.now)
    }

    /// How long until a process's steady clock shows this time.
    pub(crate) fn until_steady(&self, of: Steady, at: Timestamp) -> i64 {
        at.0.saturating_sub(self.steady(of).0)
    }

    /// How long until the wall clock shows this time, without a step.
    pub(crate) fn until_wall(&self, at: Timestamp) -> i64 {
        at.0.saturating_sub(self.wall().0)
    }

    /// The unstepped wall clock at a time of the simulation.
    pub(crate) fn unstepped(at: i64) -> Timestamp {
        Timestamp(BEGINS_AT_MS + at)
    }
}
