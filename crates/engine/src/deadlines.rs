//! The wake-up times of strands, by each of the two clocks.

use crate::id::{Moment, StrandId, Timestamp, Wake};
use std::collections::BTreeSet;

/// The deadlines of all strands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Deadlines {
    steady: BTreeSet<(Timestamp, StrandId)>,
    wall: BTreeSet<(Timestamp, StrandId)>,
}

impl Deadlines {
    /// Replaces a strand's wake-up time.
    pub(crate) fn replace(&mut self, id: StrandId, before: Wake, after: Wake) {
        if before == after {
            return;
        }
        for (set, before, after) in
            [(&mut self.steady, before.steady, after.steady), (&mut self.wall, before.wall, after.wall)]
        {
            if let Some(at) = before {
                set.remove(&(at, id));
            }
            set.extend(after.map(|at| (at, id)));
        }
    }

    /// The earliest time of the selected strands.
    pub(crate) fn first(&self, which: impl Fn(StrandId) -> bool) -> Wake {
        let first =
            |set: &BTreeSet<(Timestamp, StrandId)>| set.iter().find(|(_, id)| which(*id)).map(|(at, _)| *at);
        Wake { steady: first(&self.steady), wall: first(&self.wall) }
    }

    /// The strands whose time has come, in the order of their times.
    pub(crate) fn due(&self, moment: &Moment) -> Vec<StrandId> {
        let until = |set: &BTreeSet<(Timestamp, StrandId)>, now: Timestamp| {
            set.iter().take_while(|(at, _)| *at <= now).copied().collect::<Vec<_>>()
        };
        let mut due = until(&self.steady, moment.steady);
        due.extend(until(&self.wall, moment.now));
        due.sort_unstable();
        due.into_iter().map(|(_, id)| id).collect()
    }
}
