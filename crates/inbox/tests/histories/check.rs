//! Whether a history can be explained.

use crate::spec::{Call, Ending, Register, Reply, Stand};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// One call of one client, about one row or, where it is a jump of the clock, about all.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) row: Option<usize>,
    pub(crate) call: Call,
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) reply: Reply,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, call, invoked, returned, reply } = self;
        write!(f, "[{invoked}, {returned}] {row:?}: {call:?} -> {reply:?}")
    }
}

/// The ordering key of a row, of which there are a few: two rows have one, the others have none.
pub(crate) fn is_keyed(row: usize) -> bool {
    row < 2
}

/// What is wrong with a history, if anything.
pub(crate) fn check(entries: &[Entry]) -> Result<(), String> {
    epochs_are_given_once(entries)?;
    one_row_of_a_key_at_a_time(entries)?;
    let rows: std::collections::BTreeSet<usize> = entries.iter().filter_map(|entry| entry.row).collect();
    for row in rows {
        let of_row: Vec<&Entry> =
            entries.iter().filter(|entry| entry.row.is_none_or(|of| of == row)).collect();
        if !is_linearizable(&of_row, is_keyed(row)) {
            let told: Vec<String> = of_row.iter().map(|entry| format!("  {entry:?}")).collect();
            return Err(format!("no order explains row {row}:\n{}", told.join("\n")));
        }
    }
    Ok(())
}

fn epochs_are_given_once(entries: &[Entry]) -> Result<(), String> {
    let mut given = BTreeMap::new();
    for entry in entries {
        let Reply::Claimed { epoch, .. } = entry.reply else { continue };
        if given.insert(epoch, entry.row).is_some() {
            return Err(format!("epoch {epoch} was given twice: {entry:?}"));
        }
    }
    Ok(())
}

/// A claim that was ended as held was held all the while: no other row of the key was claimed in between.
fn one_row_of_a_key_at_a_time(entries: &[Entry]) -> Result<(), String> {
    let claims = || entries.iter().filter(|entry| matches!(entry.reply, Reply::Claimed { .. }));
    for claim in claims().filter(|entry| entry.row.is_some_and(is_keyed)) {
        let Reply::Claimed { epoch, .. } = claim.reply else { continue };
        let is_end = |entry: &&Entry| match entry.call {
            Call::End { epoch: of, .. } => of == epoch && entry.reply == Reply::Held(true),
            _ => false,
        };
        let Some(end) = entries.iter().find(is_end) else { continue };
        let another = claims().find(|other| {
            let is_within = other.invoked > claim.returned && other.returned < end.invoked;
            other.row != claim.row && other.row.is_some_and(is_keyed) && is_within
        });
        if let Some(another) = another {
            return Err(format!("two rows of one key at once: {claim:?}, {another:?}, {end:?}"));
        }
    }
    Ok(())
}

fn is_linearizable(entries: &[&Entry], is_keyed: bool) -> bool {
    assert!(entries.len() <= 128, "one bit for each call");
    let mut tried = HashSet::new();
    let mut open = vec![(0_u128, Register::new(is_keyed))];
    while let Some((done, register)) = open.pop() {
        let left = || (0..entries.len()).filter(|n| done & (1 << n) == 0);
        let Some(first_end) = left().map(|n| entries[n].returned).min() else { return true };
        for n in left().filter(|n| entries[*n].invoked < first_end) {
            for next in register.after(&entries[n].call, &entries[n].reply) {
                let state = (done | 1 << n, next);
                if tried.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

/// What there is in histories, to know that they are about something.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<&'static str, u32>);

impl Counts {
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        for (n, entry) in entries.iter().enumerate() {
            let overlaps = |earlier: &Entry| earlier.row == entry.row && earlier.returned > entry.invoked;
            let mut kinds = Vec::new();
            if entry.row.is_some() && entries[..n].iter().any(overlaps) {
                kinds.push("overlapping");
            }
            kinds.push(match (&entry.call, &entry.reply) {
                (_, Reply::Claimed { attempts, .. }) if *attempts > 1 => "claimed again",
                (_, Reply::Claimed { .. }) => "claimed",
                (_, Reply::Duplicate(_)) => "a duplicate",
                (_, Reply::Conflict(_)) => "a conflict",
                (Call::End { ending: Ending::Done, .. }, Reply::Held(true)) => "done",
                (Call::End { .. }, Reply::Held(false)) => "ended late",
                (_, Reply::Lapsed(Some(Stand::Dead))) => "dead by a lapse",
                (_, Reply::Lapsed(Some(_))) => "lapsed",
                (_, Reply::Redriven) => "redriven",
                _ => "something else",
            });
            for kind in kinds {
                *self.0.entry(kind).or_default() += 1;
            }
        }
    }

    pub(crate) fn assert_each_at_least(&self, least: u32) {
        for kind in [
            "overlapping",
            "claimed",
            "claimed again",
            "a duplicate",
            "a conflict",
            "done",
            "ended late",
            "dead by a lapse",
            "lapsed",
            "redriven",
        ] {
            let count = self.0.get(kind).copied().unwrap_or_default();
            assert!(count >= least, "only {count} calls are {kind}: {:?}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_row(calls: &[(u64, Call, u64, Reply)]) -> bool {
        let entries: Vec<Entry> = calls
            .iter()
            .map(|(invoked, call, returned, reply)| Entry {
                row: Some(5),
                call: call.clone(),
                invoked: *invoked,
                returned: *returned,
                reply: reply.clone(),
            })
            .collect();
        is_linearizable(&entries.iter().collect::<Vec<_>>(), false)
    }

    const PUT: Call = Call::Put { payload: 1 };
    const CLAIM: Call = Call::Claim { owner: 1, lease_for: 30, by_name: true };

    #[test]
    fn two_claims_at_once_have_no_order() {
        let story = |second| {
            check_row(&[
                (1, PUT, 2, Reply::Accepted),
                (3, CLAIM, 6, Reply::Claimed { epoch: 1, attempts: 1 }),
                (4, CLAIM, 5, second),
            ])
        };
        assert!(story(Reply::Taken(Stand::Doing)));
        assert!(!story(Reply::Claimed { epoch: 2, attempts: 1 }));
        assert!(!story(Reply::Claimed { epoch: 2, attempts: 2 }));
    }

    #[test]
    fn a_late_end_counts_only_while_nobody_took_the_row() {
        let story = |held| {
            check_row(&[
                (1, PUT, 2, Reply::Accepted),
                (3, CLAIM, 4, Reply::Claimed { epoch: 1, attempts: 1 }),
                (5, Call::Jump { by: 40 }, 6, Reply::Jumped),
                (7, Call::Lapse { attempts_max: 3 }, 8, Reply::Lapsed(Some(Stand::Pending))),
                (9, Call::End { owner: 1, epoch: 1, ending: Ending::Done }, 10, Reply::Held(held)),
            ])
        };
        assert!(story(false) && !story(true));
    }
}
