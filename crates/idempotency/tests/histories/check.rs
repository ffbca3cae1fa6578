//! Is there an order? A search in the manner of Wing and Gong: of the calls that had begun before any call that is left
//! had ended, one is next. What was tried before, the same calls with the same register after them, is not tried again.
//!
//! A store in memory looks at its clock at the moment when it does something. A store that commits looks a little before:
//! its call goes by any time that the clock said since it was made.

use crate::spec::Register;
use crate::tape::{Call, Entry, Reply};
use std::collections::{BTreeMap, HashSet};

/// When a call looks at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    AtThatMoment,
    DuringTheCall,
}

/// Says what is wrong with a history, if anything.
pub(crate) fn check(entries: &[Entry], looks: Looks) -> Result<(), String> {
    epochs_are_given_once(entries)?;
    let keys: std::collections::BTreeSet<usize> = entries.iter().filter_map(|entry| entry.key).collect();
    for key in keys {
        let of_key: Vec<&Entry> =
            entries.iter().filter(|entry| entry.key.is_none_or(|of| of == key)).collect();
        if !is_linearizable(&of_key, looks) {
            let told: Vec<String> = of_key.iter().map(|entry| format!("  {entry:?}")).collect();
            return Err(format!("no order explains key {key}:\n{}", told.join("\n")));
        }
    }
    Ok(())
}

/// The one promise that spans keys: an epoch is one key's.
fn epochs_are_given_once(entries: &[Entry]) -> Result<(), String> {
    let mut given = BTreeMap::new();
    for entry in entries {
        let (Some((_, Reply::Granted { epoch, .. })), Some(key)) = (&entry.returned, entry.key) else {
            continue;
        };
        if *given.entry(*epoch).or_insert(key) != key {
            return Err(format!("epoch {epoch} was given for two keys: {entry:?}"));
        }
    }
    Ok(())
}

/// Whether the calls on one key can be put in an order in which each gets the answer it got.
pub(crate) fn is_linearizable(entries: &[&Entry], looks: Looks) -> bool {
    assert!(entries.len() <= 128, "one bit for each call");
    let jumps = jumps(entries);
    let mut tried = HashSet::new();
    let mut open = vec![(0_u128, Register::new(0))];
    while let Some((done, register)) = open.pop() {
        let is_done = |n: usize| done & (1 << n) != 0;
        let left = || (0..entries.len()).filter(|n| !is_done(*n));
        let ends = left().filter_map(|n| entries[n].returned.as_ref().map(|(at, _)| *at));
        // What nobody heard the answer of need not have happened.
        let Some(first_end) = ends.min() else { return true };
        for n in left().filter(|n| entries[*n].invoked < first_end) {
            let Entry { call, invoked, returned, .. } = entries[n];
            let reply = returned.as_ref().map(|(_, reply)| reply);
            let earlier = jumps.iter().filter(|jump| is_done(jump.entry) && jump.at > *invoked);
            let mut nexts = vec![register.after(call, reply)];
            match (looks, call) {
                (Looks::AtThatMoment, _) | (Looks::DuringTheCall, Call::Jump { .. }) => {}
                (Looks::DuringTheCall, _) => {
                    nexts.extend(earlier.map(|jump| register.after_at(jump.from, call, reply)));
                }
            }
            for next in nexts.into_iter().flatten() {
                let state = (done | 1 << n, next);
                if tried.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

/// A jump of the clock: which call it was, when, and what the clock said before.
struct Jump {
    entry: usize,
    at: u64,
    from: i64,
}

/// In the order in which they were made, which is theirs in every order: no two of them overlap.
fn jumps(entries: &[&Entry]) -> Vec<Jump> {
    let mut now = Register::new(0).now();
    let mut jumps = Vec::new();
    for (entry, Entry { call, invoked, .. }) in entries.iter().enumerate() {
        if let Call::Jump { by } = call {
            jumps.push(Jump { entry, at: *invoked, from: now });
            now += by;
        }
    }
    jumps
}

#[cfg(test)]
mod tests {
    use super::{Looks, is_linearizable};
    use crate::tape::{Call, Entry, Kept, Place, Reply, Seen};

    const KEPT: Kept = Kept { answer_for: 100, tombstone_for: 0 };

    fn claim(claimant: u64, takes_over: bool) -> Call {
        Call::Claim { claimant, request: 1, takes_over, lease_for: 30, kept: KEPT }
    }

    fn granted(epoch: u64, taken_over: bool) -> Reply {
        Reply::Granted { epoch, taken_over }
    }

    fn found(epoch: u64, place: Place) -> Reply {
        Reply::Found(Some(Seen { request: 1, epoch, place }))
    }

    fn complete(epoch: u64, answer: u32) -> Call {
        Call::Complete { epoch, answer: Some(answer), kept: KEPT }
    }

    /// A call with when it was invoked and answered.
    type Told = (u64, Call, Option<(u64, Reply)>);

    fn check(calls: &[Told]) -> bool {
        check_that(calls, Looks::AtThatMoment)
    }

    fn check_that(calls: &[Told], looks: Looks) -> bool {
        let entries: Vec<Entry> = calls
            .iter()
            .map(|(invoked, call, returned)| Entry {
                key: Some(0),
                call: call.clone(),
                invoked: *invoked,
                returned: returned.clone(),
            })
            .collect();
        is_linearizable(&entries.iter().collect::<Vec<_>>(), looks)
    }

    #[test]
    fn two_grants_at_once_have_no_order() {
        assert!(!check(&[
            (1, claim(1, false), Some((3, granted(1, false)))),
            (2, claim(2, false), Some((4, granted(2, false)))),
        ]));
        assert!(check(&[
            (1, claim(1, false), Some((3, granted(1, false)))),
            (2, claim(2, false), Some((4, found(1, Place::Running { lapsed: false })))),
        ]));
    }

    #[test]
    fn overlapping_calls_may_take_effect_in_either_order() {
        for seen in [Place::Running { lapsed: false }, Place::Answered(7)] {
            assert!(check(&[
                (1, claim(1, false), Some((2, granted(1, false)))),
                (3, complete(1, 7), Some((6, Reply::Held(true)))),
                (4, claim(2, false), Some((5, found(1, seen)))),
            ]));
        }
    }

    #[test]
    fn what_was_answered_before_is_seen_after() {
        let after = |seen| {
            check(&[
                (1, claim(1, false), Some((2, granted(1, false)))),
                (3, complete(1, 7), Some((4, Reply::Held(true)))),
                (5, claim(2, false), Some((6, seen))),
            ])
        };
        assert!(after(found(1, Place::Answered(7))));
        assert!(!after(found(1, Place::Running { lapsed: false })));
        assert!(!after(found(1, Place::Answered(8))));
        assert!(!after(granted(2, false)));
    }

    #[test]
    fn what_nobody_heard_of_may_have_happened_or_not() {
        for seen in [granted(2, false), found(1, Place::Running { lapsed: false })] {
            assert!(check(&[(1, claim(1, false), None), (2, claim(2, false), Some((3, seen)))]));
        }
    }

    #[test]
    fn a_late_end_counts_only_while_nobody_took_over() {
        let story = |holds| {
            check(&[
                (1, claim(1, true), Some((2, granted(1, false)))),
                (3, Call::Jump { by: 40 }, Some((4, Reply::Jumped))),
                (5, claim(2, true), Some((6, granted(2, true)))),
                (7, complete(1, 7), Some((8, Reply::Held(holds)))),
            ])
        };
        assert!(story(false));
        assert!(!story(true));
    }

    #[test]
    fn time_alone_never_grants_twice_where_nobody_may_take_over() {
        let story = |reply| {
            check(&[
                (1, claim(1, false), Some((2, granted(1, false)))),
                (3, Call::Jump { by: 40 }, Some((4, Reply::Jumped))),
                (5, claim(2, false), Some((6, reply))),
            ])
        };
        assert!(story(found(1, Place::Unknown)));
        assert!(!story(granted(2, true)));
    }

    #[test]
    fn a_call_goes_by_the_time_within_it_and_by_no_other() {
        let story = |claimed_at, looks| {
            check_that(
                &[
                    (1, claim(1, true), Some((2, granted(1, false)))),
                    (claimed_at, claim(2, true), Some((9, found(1, Place::Running { lapsed: false })))),
                    (4, Call::Jump { by: 40 }, Some((5, Reply::Jumped))),
                    (6, Call::Look, Some((7, found(1, Place::Running { lapsed: true })))),
                    (10, Call::Renew { epoch: 1, lease_for: 30 }, Some((11, Reply::Held(true)))),
                ],
                looks,
            )
        };
        assert!(story(3, Looks::AtThatMoment) && story(3, Looks::DuringTheCall), "it began before the jump");
        assert!(!story(8, Looks::AtThatMoment) && !story(8, Looks::DuringTheCall), "it began after it");
        let commits_late = |looks| {
            check_that(
                &[
                    (1, claim(1, false), Some((2, granted(1, false)))),
                    (3, Call::Jump { by: 40 }, Some((4, Reply::Jumped))),
                    (5, claim(2, false), Some((10, found(1, Place::Unknown)))),
                    (6, Call::Jump { by: 60 }, Some((7, Reply::Jumped))),
                    (8, Call::Look, Some((9, found(1, Place::Running { lapsed: true })))),
                    (11, Call::Jump { by: 60 }, Some((12, Reply::Jumped))),
                    (13, Call::Look, Some((14, Reply::Found(None)))),
                ],
                looks,
            )
        };
        assert!(commits_late(Looks::DuringTheCall), "it looked at 40 and was committed at 100");
        assert!(!commits_late(Looks::AtThatMoment));
    }
}
