//! Collects items into batches: large enough to be efficient, small enough to hold in memory.

use super::ITEMS_MAX;
use super::parse::{Item, Items, ParseError};
use perdura_engine::asl::json::Value;

/// The most items in a batch.
const BATCH_ITEMS: usize = 1_000;

/// A batch is full when its items came from this much text.
const BATCH_BYTES: usize = 256 * 1024;

/// A batch under construction.
#[derive(Default)]
pub(super) struct Batch {
    items: Vec<Value>,
    bytes: usize,
}

impl Batch {
    /// Adds an item; returns the batch when it is full.
    pub(super) fn add(&mut self, item: Item) -> Option<Vec<Value>> {
        self.items.push(item.value);
        self.bytes += item.bytes;
        let is_full = self.items.len() >= BATCH_ITEMS || self.bytes >= BATCH_BYTES;
        is_full.then(|| self.take())
    }

    /// Takes the items so far.
    pub(super) fn take(&mut self) -> Vec<Value> {
        self.bytes = 0;
        std::mem::take(&mut self.items)
    }
}

/// How many more items may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    left: u64,
    /// Whether `MaxItems` says so; otherwise more items are an error.
    is_chosen: bool,
}

/// The source has more items than one run may have.
#[derive(Debug, thiserror::Error)]
#[error("it has more than {ITEMS_MAX} items, the most that one Map Run may have")]
pub(super) struct TooMany;

impl Quota {
    /// From `MaxItems`: 0 is all.
    pub(super) fn of(max_items: Option<i64>) -> Self {
        match max_items.and_then(|most| u64::try_from(most).ok()).filter(|most| *most > 0) {
            Some(most) => Self { left: most.min(ITEMS_MAX), is_chosen: true },
            None => Self { left: ITEMS_MAX, is_chosen: false },
        }
    }

    /// Whether no more items are wanted.
    pub(super) fn is_used_up(self) -> bool {
        self.is_chosen && self.left == 0
    }

    /// How many more items to read.
    pub(super) fn left(self) -> u64 {
        // One more than allowed shows that there are too many.
        if self.is_chosen { self.left } else { self.left.saturating_add(1) }
    }

    /// Counts one item.
    pub(super) fn take_one(&mut self) -> Result<(), TooMany> {
        self.left = self.left.checked_sub(1).ok_or(TooMany)?;
        Ok(())
    }
}

/// Why the items of a file stop before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

/// Sends all items in batches, while the receiver takes them. Returns the rest of the quota.
pub(super) fn in_batches(
    items: Items,
    mut quota: Quota,
    mut give: impl FnMut(Vec<Value>) -> bool,
) -> Result<Quota, Trouble> {
    let mut batch = Batch::default();
    if quota.is_used_up() {
        return Ok(quota);
    }
    for item in items {
        quota.take_one()?;
        if let Some(full) = batch.add(item?)
            && !give(full)
        {
            return Ok(quota);
        }
        if quota.is_used_up() {
            break;
        }
    }
    let rest = batch.take();
    if !rest.is_empty() {
        give(rest);
    }
    Ok(quota)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(count: usize, bytes: usize, max_items: Option<i64>) -> Vec<usize> {
        let items = (0..count).map(move |index| Ok(Item { value: Value::from(index as u64), bytes }));
        let mut sizes = Vec::new();
        in_batches(Box::new(items), Quota::of(max_items), |batch| {
            sizes.push(batch.len());
            true
        })
        .expect("no trouble");
        sizes
    }

    #[test]
    fn a_batch_is_bounded_by_count_and_by_size() {
        assert_eq!(batches(2_500, 10, None), [1_000, 1_000, 500]);
        assert_eq!(batches(5, 100 * 1024, None), [3, 2]);
        assert_eq!(batches(2, 8 * 1024 * 1024, None), [1, 1]);
        assert_eq!(batches(0, 1, None), [] as [usize; 0]);
    }

    #[test]
    fn max_items_ends_the_reading_and_zero_is_all() {
        assert_eq!(batches(2_500, 10, Some(1_200)), [1_000, 200]);
        assert_eq!(batches(2_500, 10, Some(1_000)), [1_000]);
        assert_eq!(batches(1_500, 10, Some(0)), [1_000, 500]);
    }

    #[test]
    fn more_than_a_run_may_have_is_an_error_and_not_cut_off() {
        let mut quota = Quota { left: 1, is_chosen: false };
        assert!(quota.take_one().is_ok());
        assert!(!quota.is_used_up());
        assert!(quota.take_one().is_err());
    }

    #[test]
    fn nobody_reads_on_when_nobody_takes() {
        let items = (0..5_000u64).map(|index| Ok(Item { value: Value::from(index), bytes: 1 }));
        let mut given = 0;
        in_batches(Box::new(items), Quota::of(None), |_| {
            given += 1;
            false
        })
        .expect("no trouble");
        assert_eq!(given, 1);
    }
}
