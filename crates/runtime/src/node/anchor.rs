//! Steady time across processes.
//!
//! Deadlines are recorded as times, but they last so and so long: they follow a clock that is never stepped. Each
//! process has such a clock, and takes its beginning from the wall. The wall may be wrong just then, and be set right
//! seconds later. So steady time never begins before the newest time on record; while the process is young, it follows
//! a wall that is set forward; and a jump that is too large to be believed at once is believed after a while, so that a
//! wall that was ahead for a moment ends no timeout. Deadlines that were set meanwhile keep the time they were set by.
//!
//! While a jump is doubted, new deadlines are set as if it were believed. Most jumps are what they seem: nobody was there
//! for hours. Then these deadlines are right in every later process too, which knows nothing of the doubt. Where the wall
//! was wrong, they are right in this process, and late in the next by as much as the wall was ahead.

use perdura_engine::{ExecutionId, Moment, Timestamp, Wake};
use std::collections::BTreeMap;

/// A smaller difference between the clocks is drift.
const STEP_MS: i64 = 500;
/// For how long after its beginning a process follows a wall that is set forward.
const YOUNG_FOR_MS: i64 = 120_000;
/// A larger jump than this is not believed at once.
const PLAUSIBLE_MS: i64 = 600_000;
/// After so long it is.
const BELIEVED_AFTER_MS: i64 = 60_000;
/// So many deadlines are kept apart.
const OWN_MAX: usize = 262_144;

/// How steady time follows from a process's own clock. A node that is opened again in its process goes on with it.
#[derive(Clone, Debug, Default)]
pub struct Anchor {
    /// What is added to the process's clock.
    ahead_ms: i64,
    /// At least so much: with it, the process began at the newest time on record.
    least_ms: i64,
    /// Until when the process is young; `None`: it is not.
    young_until: Option<Timestamp>,
    /// A jump that was seen and is doubted.
    doubted: Option<Jump>,
    /// Executions whose deadlines were set by this process while it was young, and what was added then.
    own: BTreeMap<ExecutionId, i64>,
}

/// A jump of the wall.
#[derive(Clone, Copy, Debug)]
struct Jump {
    believed_at: Timestamp,
    /// What is added to the process's clock then.
    ahead_ms: i64,
}

impl Anchor {
    /// Of a process that begins, on a store with this newest time on record.
    pub(super) fn begin(moment: &Moment, newest: Option<Timestamp>) -> Self {
        let Some(newest) = newest else { return Self::default() };
        let least_ms = newest.0 - moment.steady.0;
        let young_until = Some(moment.steady.after_ms(YOUNG_FOR_MS));
        let mut anchor = Self { ahead_ms: least_ms, least_ms, young_until, ..Self::default() };
        anchor.look(moment);
        anchor
    }

    /// How far steady time is ahead of the process's clock.
    pub(super) fn ahead_ms(&self) -> i64 {
        self.ahead_ms
    }

    /// This moment, in steady time.
    pub(super) fn see(&mut self, moment: &Moment) -> Moment {
        if let Some(until) = self.young_until {
            self.look(moment);
            if moment.steady >= until && self.doubted.is_none() {
                self.grow_up();
            }
        }
        Moment { steady: moment.steady.after_ms(self.ahead_ms), ..*moment }
    }

    fn look(&mut self, moment: &Moment) {
        let wanted = (moment.now.0 - moment.steady.0).max(self.least_ms);
        let jump = wanted - self.ahead_ms;
        // A wall that is set back is no reason to wait longer.
        if jump < STEP_MS {
            self.doubted = None;
            return;
        }
        if jump > PLAUSIBLE_MS {
            let believed_at = moment.steady.after_ms(BELIEVED_AFTER_MS);
            let fresh = Jump { believed_at, ahead_ms: wanted };
            // Another step of the wall is another jump.
            let seen = self.doubted.filter(|seen| (seen.ahead_ms - wanted).abs() < STEP_MS);
            let seen = *self.doubted.insert(seen.unwrap_or(fresh));
            if moment.steady < seen.believed_at {
                return;
            }
        }
        self.doubted = None;
        self.ahead_ms = wanted;
        tracing::info!(
            by_ms = jump,
            "timeouts and waits follow the wall clock, which is ahead of what is on record"
        );
    }

    fn grow_up(&mut self) {
        self.young_until = None;
        let ahead_ms = self.ahead_ms;
        self.own.retain(|_, ahead| *ahead != ahead_ms);
    }

    /// What is added for an execution that waits for nothing.
    pub(super) fn ahead_of_new_ms(&self) -> i64 {
        self.doubted.map_or(self.ahead_ms, |jump| jump.ahead_ms)
    }

    /// A moment in steady time as one execution sees it, before it decides; `wake` is what it waits for.
    pub(super) fn moment_of(&mut self, id: ExecutionId, wake: Wake, moment: &Moment) -> Moment {
        if self.own.is_empty() && self.doubted.is_none() {
            return *moment;
        }
        let further_ms = if wake.steady.is_none() {
            // It has no reason to keep another time.
            self.own.remove(&id);
            self.ahead_of_new_ms() - self.ahead_ms
        } else {
            -self.behind_ms(id)
        };
        Moment { steady: moment.steady.after_ms(further_ms), ..*moment }
    }

    /// An execution set a deadline that it did not have before. Where there are too many to keep apart, a process whose
    /// clock is right is not young any more. While a jump is doubted, believing it could end every timeout: so what is not
    /// kept apart waits until the jump is believed, and is late by it if it never is.
    pub(super) fn sets_deadline(&mut self, id: ExecutionId) {
        if self.young_until.is_none() {
            return;
        }
        let ahead_ms = self.ahead_of_new_ms();
        if self.own.len() < OWN_MAX || self.own.contains_key(&id) {
            self.own.entry(id).or_insert(ahead_ms);
        } else if self.doubted.is_none() {
            self.grow_up();
        }
    }

    pub(super) fn forget(&mut self, id: ExecutionId) {
        if !self.own.is_empty() {
            self.own.remove(&id);
        }
    }

    /// When steady time says so what an execution waits for by its own.
    pub(super) fn due(&self, id: ExecutionId, wake: Wake) -> Wake {
        Wake { steady: wake.steady.map(|at| at.after_ms(self.behind_ms(id))), ..wake }
    }

    fn behind_ms(&self, id: ExecutionId) -> i64 {
        self.own.get(&id).map_or(0, |ahead| self.ahead_ms - ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    /// When the process before last wrote something.
    const NEWEST: i64 = 1_000 * HOUR;

    /// A process that began when the wall said `begun`, `ms` later, by when the wall was set forward by `stepped`.
    fn at(begun: i64, ms: i64, stepped: i64) -> Moment {
        let steady = Timestamp(begun + ms);
        Moment { now: steady.after_ms(stepped), steady, entropy: 0 }
    }

    fn id(number: u128) -> ExecutionId {
        ExecutionId::from_random(number)
    }

    #[test]
    fn a_short_time_without_a_process_has_passed() {
        let begun = NEWEST + 20_000;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        assert_eq!(anchor.see(&at(begun, 5, 0)).steady.0, NEWEST + 20_005);
    }

    #[test]
    fn a_wall_that_is_behind_at_first_delays_nothing_by_more_than_its_correction() {
        let begun = NEWEST - HOUR + 20_000;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        assert_eq!(
            anchor.see(&at(begun, 1_000, 0)).steady.0,
            NEWEST + 1_000,
            "it never begins before what is on record"
        );
        assert_eq!(
            anchor.see(&at(begun, 5_000, HOUR)).steady.0,
            NEWEST + 25_000,
            "and is right once the wall is"
        );
    }

    #[test]
    fn a_wall_that_is_ahead_at_first_ends_no_timeout() {
        let begun = NEWEST + HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        assert_eq!(anchor.see(&at(begun, 5_000, 0)).steady.0, NEWEST + 5_000);
        for ms in [6_000, 20_000, 200_000] {
            assert_eq!(anchor.see(&at(begun, ms, -HOUR)).steady.0, NEWEST + ms);
        }
    }

    #[test]
    fn a_long_time_without_a_process_is_believed_after_a_while() {
        let begun = NEWEST + HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        assert_eq!(anchor.see(&at(begun, 59_999, 0)).steady.0, NEWEST + 59_999);
        assert_eq!(anchor.see(&at(begun, 60_000, 0)).steady.0, begun + 60_000);
    }

    #[test]
    fn a_deadline_that_is_set_while_a_jump_is_doubted_is_right_in_the_next_process_too() {
        let begun = NEWEST + 8 * HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        let seen = anchor.see(&at(begun, 5_000, 0));
        let set = anchor.moment_of(id(1), Wake::default(), &seen);
        anchor.sets_deadline(id(1));
        let wake = Wake { steady: Some(set.steady.after_ms(HOUR)), wall: None };
        for (ms, is_due) in [(6_000, false), (70_000, false), (5_000 + HOUR, true)] {
            let seen = anchor.see(&at(begun, ms, 0));
            let own = anchor.moment_of(id(1), wake, &seen);
            assert_eq!(wake.is_due(&own), is_due, "{ms} ms after the process began");
            assert_eq!(anchor.due(id(1), wake).steady.unwrap() <= seen.steady, is_due, "its timer, {ms} ms");
        }
        let again = begun + HOUR / 2;
        let mut next = Anchor::begin(&at(again, 0, 0), Some(Timestamp(again - 1_000)));
        let seen = next.see(&at(again, 100, 0));
        assert!(!wake.is_due(&next.moment_of(id(1), wake, &seen)), "half an hour is left");
        let seen = next.see(&at(again, HOUR / 2 + 5_000, 0));
        assert!(wake.is_due(&next.moment_of(id(1), wake, &seen)));
    }

    #[test]
    fn a_deadline_that_is_set_by_a_wall_that_was_ahead_lasts_as_long_as_it_should() {
        let begun = NEWEST + HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        let seen = anchor.see(&at(begun, 5_000, 0));
        let set = anchor.moment_of(id(1), Wake::default(), &seen);
        anchor.sets_deadline(id(1));
        let wake = Wake { steady: Some(set.steady.after_ms(15_000)), wall: None };
        for (ms, is_due) in [(19_999, false), (20_000, true)] {
            let seen = anchor.see(&at(begun, ms, -HOUR));
            assert_eq!(seen.steady.0, NEWEST + ms);
            assert_eq!(wake.is_due(&anchor.moment_of(id(1), wake, &seen)), is_due);
            assert_eq!(anchor.due(id(1), wake).steady.unwrap() <= seen.steady, is_due);
        }
    }

    #[test]
    fn a_crowd_that_begins_while_a_jump_is_doubted_ends_nobodys_timeout() {
        let begun = NEWEST + HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        for number in 0..OWN_MAX as u128 {
            anchor.sets_deadline(id(number));
        }
        let last = id(OWN_MAX as u128);
        let seen = anchor.see(&at(begun, 1, 0));
        assert_eq!(seen.steady.0, NEWEST + 1, "the jump is still doubted");
        let set = anchor.moment_of(last, Wake::default(), &seen);
        anchor.sets_deadline(last);
        assert_eq!(anchor.own.len(), OWN_MAX);
        let wake = Wake { steady: Some(set.steady.after_ms(15_000)), wall: None };
        for (ms, is_due) in [(20_000, false), (60_001, true)] {
            let seen = anchor.see(&at(begun, ms, 0));
            assert_eq!(wake.is_due(&anchor.moment_of(last, wake, &seen)), is_due, "{ms} ms");
        }
    }

    #[test]
    fn a_crowd_that_begins_on_a_clock_that_is_right_makes_the_process_old() {
        let mut anchor = Anchor::begin(&at(NEWEST, 0, 0), Some(Timestamp(NEWEST)));
        for number in 0..=OWN_MAX as u128 {
            anchor.sets_deadline(id(number));
        }
        assert_eq!(anchor.see(&at(NEWEST, 1, HOUR)).steady.0, NEWEST + 1);
        assert!(anchor.own.is_empty());
    }

    #[test]
    fn what_a_young_process_sets_itself_lasts_as_long_as_it_should() {
        let begun = NEWEST - HOUR;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        let before = anchor.see(&at(begun, 1_000, 0));
        anchor.sets_deadline(id(1));
        let wake = Wake { steady: Some(before.steady.after_ms(100_000)), wall: None };
        anchor.see(&at(begun, 3_000, 2 * HOUR + 1));
        let after = anchor.see(&at(begun, 63_000, 2 * HOUR + 1));
        assert!(after.steady.0 >= NEWEST + HOUR, "{after:?}");
        let own = anchor.moment_of(id(1), wake, &after);
        assert!(!wake.is_due(&own), "{own:?}");
        let due = anchor.due(id(1), wake).steady.unwrap();
        assert_eq!(due.0 - after.steady.0, wake.steady.unwrap().0 - own.steady.0);
        assert_eq!(anchor.moment_of(id(2), wake, &after).steady, after.steady);
        // Once it waits for nothing, it has the time of the others.
        assert_eq!(anchor.moment_of(id(1), Wake::default(), &after).steady, after.steady);
    }

    #[test]
    fn a_process_that_is_not_young_any_more_leaves_the_wall_alone() {
        let begun = NEWEST + 1_000;
        let mut anchor = Anchor::begin(&at(begun, 0, 0), Some(Timestamp(NEWEST)));
        anchor.see(&at(begun, YOUNG_FOR_MS, 0));
        assert_eq!(
            anchor.see(&at(begun, YOUNG_FOR_MS + 60_000, HOUR)).steady,
            at(begun, YOUNG_FOR_MS + 60_000, 0).steady
        );
        let mut fresh = Anchor::begin(&at(begun, 0, 0), None);
        assert_eq!(fresh.see(&at(begun, 60_000, HOUR)).steady.0, begun + 60_000);
    }
}
