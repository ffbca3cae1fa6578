//! The limits of one evaluation.
//!
//! There is no clock here: a replayed decision must fail at the same point on every machine. So work is counted in
//! units (a node evaluated, an element copied, a few bytes of text written), and so is the memory of the evaluation.
//! Dropped values are given back, so a loop may run as long as it does not grow.

use super::error::{Error, Fallible};
use std::cell::Cell;
use std::rc::Rc;

/// Units for evaluating one node.
pub(super) const NODE: u64 = 16;

/// Units for a random number.
pub(super) const DICE: u64 = 96;

/// The work limit of one evaluation: two and a half million nodes, or equivalent. AWS gives an expression a second, in
/// which the reference evaluates well under a million.
pub(super) const WORK_MAX: u64 = 2_500_000 * NODE;

/// The counted size of an array's element.
pub(super) const ELEMENT_BYTES: usize = 24;

/// The longest range: AWS accepts `[1..873782]` and refuses one element more.
pub(super) const RANGE_MAX: usize = 873_782;

/// The memory limit of one evaluation: such a range, and a little more.
pub(super) const HELD_BYTES_MAX: usize = RANGE_MAX * ELEMENT_BYTES + 64 * 1024;

/// Texts up to this long are not counted; the place that holds them is.
pub(super) const TEXT_FREE_BYTES: usize = 32;

/// The counters of one evaluation.
#[derive(Debug)]
pub(super) struct Meter {
    work: Cell<u64>,
    work_max: u64,
    held: Cell<usize>,
}

impl Meter {
    /// For an evaluation of a state whose expressions may do so much more work together.
    pub(super) fn within(left: u64) -> Rc<Self> {
        Rc::new(Self { work: Cell::new(0), work_max: left.min(WORK_MAX), held: Cell::new(0) })
    }

    /// Counts work; an error over the limit.
    pub(super) fn work(&self, units: u64) -> Fallible<()> {
        let work = self.work.get().saturating_add(units);
        self.work.set(work);
        match work > self.work_max {
            true if self.work_max < WORK_MAX => Err(Error::timeout_of_all()),
            true => Err(Error::timeout()),
            false => Ok(()),
        }
    }

    /// All work counted so far.
    pub(super) fn spent(&self) -> u64 {
        self.work.get()
    }

    /// Counts reading or writing that much text.
    pub(super) fn text(&self, bytes: usize) -> Fallible<()> {
        self.work(1 + bytes as u64 / 16)
    }

    /// Counts bytes that are used until the end of the evaluation.
    pub(super) fn keep(&self, bytes: usize) -> Fallible<()> {
        let held = self.held.get().saturating_add(bytes);
        if held > HELD_BYTES_MAX {
            return Err(Error::memory());
        }
        self.held.set(held);
        Ok(())
    }

    /// Counts bytes that are used as long as the [`Charge`] lives.
    pub(super) fn hold(self: &Rc<Self>, bytes: usize) -> Fallible<Charge> {
        self.keep(bytes)?;
        Ok(Charge { meter: self.clone(), bytes })
    }
}

/// Bytes that the owner of this value uses.
#[derive(Debug)]
pub(super) struct Charge {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Charge {
    pub(super) fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }

    pub(super) fn grow(&mut self, bytes: usize) -> Fallible<()> {
        self.meter.keep(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get().saturating_sub(self.bytes));
    }
}
