//! Numbers by size, exactly: no amount is rounded into a range.

use std::cmp::Ordering;

/// A number: its sign, and `0.digits` times ten to the power of `magnitude`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    is_negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: Box<[u8]>,
    magnitude: i64,
}

impl Decimal {
    /// From the canonical form, such as `+12e-1`.
    pub(super) fn read(form: &[u8]) -> Self {
        let (sign, rest) = form.split_first().expect("a canonical number has a sign");
        let end = rest.iter().position(|byte| *byte == b'e').unwrap_or(rest.len());
        let power = std::str::from_utf8(&rest[end..])
            .expect("ASCII")
            .strip_prefix('e')
            .map_or(0, |power| power.parse::<i64>().expect("a canonical number has an exponent of 64 bits"));
        let digits = &rest[..end];
        if digits == b"0" {
            return Self { is_negative: false, digits: Box::default(), magnitude: 0 };
        }
        let magnitude = power.saturating_add(digits.len() as i64);
        Self { is_negative: *sign == b'-', digits: digits.into(), magnitude }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || self.magnitude.cmp(&other.magnitude).then_with(|| self.digits.cmp(&other.digits));
        self.sign().cmp(&other.sign()).then_with(|| if self.is_negative { size().reverse() } else { size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bound {
    pub(super) number: Decimal,
    /// Whether the number itself is in the range.
    pub(super) is_in: bool,
}

/// Numbers between two bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub(super) low: Option<Bound>,
    pub(super) high: Option<Bound>,
}

impl Range {
    pub(super) fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Some(low), Some(high)) => match low.number.cmp(&high.number) {
                Ordering::Less => false,
                Ordering::Equal => !(low.is_in && high.is_in),
                Ordering::Greater => true,
            },
            _ => false,
        }
    }
}

/// Finds the ranges that a number is in. The bounds cut the numbers into slots, alternately one number and all between two;
/// a tree over the slots has each range at a few nodes, and a number meets them on the way from its slot to the root.
#[derive(Default)]
pub(super) struct Ranges {
    bounds: Vec<Decimal>,
    tree: Vec<Vec<u32>>,
}

impl Ranges {
    pub(super) fn new(ranges: &[(Range, u32)]) -> Self {
        let mut bounds: Vec<Decimal> = ranges
            .iter()
            .flat_map(|(range, _)| [&range.low, &range.high].into_iter().flatten())
            .map(|bound| bound.number.clone())
            .collect();
        bounds.sort();
        bounds.dedup();
        let slots = 2 * bounds.len() + 1;
        let mut index =
            Self { bounds, tree: vec![Vec::new(); if ranges.is_empty() { 0 } else { 2 * slots }] };
        for (range, atom) in ranges {
            let slot_of = |bound: &Bound| index.slot(&bound.number);
            let mut from = slots + range.low.as_ref().map_or(0, |low| slot_of(low) + usize::from(!low.is_in));
            let high = range.high.as_ref().map_or(slots, |high| slot_of(high) + usize::from(high.is_in));
            let mut to = slots + high;
            while from < to {
                if from % 2 == 1 {
                    index.tree[from].push(*atom);
                    from += 1;
                }
                if to % 2 == 1 {
                    to -= 1;
                    index.tree[to].push(*atom);
                }
                from /= 2;
                to /= 2;
            }
        }
        index
    }

    fn slot(&self, number: &Decimal) -> usize {
        match self.bounds.binary_search(number) {
            Ok(at) => 2 * at + 1,
            Err(at) => 2 * at,
        }
    }

    pub(super) fn find(&self, form: &[u8], hits: &mut Vec<u32>) {
        if self.tree.is_empty() {
            return;
        }
        let mut node = self.slot(&Decimal::read(form)) + self.tree.len() / 2;
        while node > 0 {
            hits.extend(&self.tree[node]);
            node /= 2;
        }
    }
}
