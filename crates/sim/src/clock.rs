//! Two clocks and the dice of the engine. True time only goes forward; the clock on the wall may be stepped, and each
//! process counts its own steady time from what the wall said when it began.

use crate::dice::Dice;
use perdura_engine::{Moment, Timestamp};

/// When every simulation begins: 2026-01-01, noon.
const BEGINS_AT_MS: i64 = 1_767_268_800_000;

/// Time for all processes of a simulation.
#[derive(Debug)]
pub(crate) struct Clock {
    now: i64,
    wall_ahead: i64,
    entropy: Dice,
}

/// How far a process's steady clock is ahead of true time; fixed when the process begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady(i64);

impl Steady {
    /// What this clock would have said at the beginning of the simulation.
    pub(crate) fn at_zero(self) -> Timestamp {
        Timestamp(self.0)
    }
}

impl Clock {
    /// At the beginning.
    pub(crate) fn new(seed: u64) -> Self {
        Self { now: 0, wall_ahead: 0, entropy: Dice::new(seed, "entropy") }
    }

    /// Milliseconds of true time since the beginning.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// True time goes on.
    pub(crate) fn advance_to(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    /// Somebody sets the clock on the wall: so far ahead of true time.
    pub(crate) fn set_wall(&mut self, ahead_ms: i64) {
        self.wall_ahead = ahead_ms;
    }

    /// What the wall says.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(BEGINS_AT_MS + self.now + self.wall_ahead)
    }

    /// A process that begins now takes its steady time from the wall.
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

    /// How long until a process's steady clock says this.
    pub(crate) fn until_steady(&self, of: Steady, at: Timestamp) -> i64 {
        at.0.saturating_sub(self.steady(of).0)
    }

    /// How long until the wall says this, if nobody steps it.
    pub(crate) fn until_wall(&self, at: Timestamp) -> i64 {
        at.0.saturating_sub(self.wall().0)
    }

    /// What the wall would say at a time of the simulation if nobody had stepped it.
    pub(crate) fn unstepped(at: i64) -> Timestamp {
        Timestamp(BEGINS_AT_MS + at)
    }
}
