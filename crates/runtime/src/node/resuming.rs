//! Taking up what slept in an earlier process: those who wait for a worker, a child or a Map Run are asked once what
//! they wait for. And those that were held, when their machine is resumed.

use crate::librarian::Ask;
use perdura_engine::ExecutionId;
use perdura_store::{MachineId, Shard};
use std::collections::{BTreeSet, VecDeque};

/// How many of those that wait are read at once.
const PAGE: u32 = 256;

/// How far that is.
#[derive(Default)]
pub(super) struct Resuming {
    /// Up to whom they were read, for each Shard where there may be more.
    shards: Vec<(Shard, Option<ExecutionId>)>,
    is_reading: bool,
    /// Those that were read and are next.
    page: VecDeque<ExecutionId>,
    /// Those of the page, and those that are being looked at.
    pending: BTreeSet<ExecutionId>,
    /// Up to whom those that were held were read, for each Shard where there may be more.
    held: Vec<(Shard, Option<ExecutionId>)>,
    is_reading_held: bool,
    /// Those that were held, and are next.
    released: VecDeque<ExecutionId>,
    /// Who fell asleep here meanwhile.
    slept: BTreeSet<ExecutionId>,
    /// Everybody who ran or waited in an earlier process was resumed.
    pub(super) took_all_up: bool,
}

impl Resuming {
    /// There may be some on these Shards.
    pub(super) fn on(shards: impl Iterator<Item = Shard>) -> Self {
        Self { shards: shards.map(|shard| (shard, None)).collect(), ..Self::default() }
    }

    /// Sleepers of an earlier process are still to be asked what they wait for.
    pub(super) fn is_under_way(&self) -> bool {
        !self.shards.is_empty() || !self.pending.is_empty() || self.is_releasing()
    }

    fn is_releasing(&self) -> bool {
        !self.held.is_empty() || !self.released.is_empty()
    }

    /// Something is no longer paused, or less of it: those that were held on these Shards are looked at again.
    pub(super) fn look_for_held(&mut self, shards: &[Shard]) {
        self.held = shards.iter().map(|shard| (*shard, None)).collect();
    }

    /// The next page of those that were held.
    pub(super) fn look_for_more_held(&mut self) -> Option<Ask> {
        let (shard, after) = *self.held.last()?;
        if self.is_reading_held || !self.released.is_empty() {
            return None;
        }
        self.is_reading_held = true;
        Some(Ask::Held { shard, after, most: PAGE })
    }

    /// Those that were held up to here; only some of them are meant.
    pub(super) fn told_held(
        &mut self,
        (shard, asked_after): (Shard, Option<ExecutionId>),
        page: &[(ExecutionId, MachineId)],
        is_meant: impl Fn(MachineId) -> bool,
    ) {
        self.is_reading_held = false;
        self.released.extend(page.iter().filter(|(_, machine)| is_meant(*machine)).map(|(id, _)| *id));
        let place = self.held.iter_mut().find(|(of, after)| (*of, *after) == (shard, asked_after));
        match (place, page.last()) {
            (Some(place), Some((last, _))) => place.1 = Some(*last),
            (Some(_), None) => self.held.retain(|(of, _)| *of != shard),
            // Meanwhile it was asked for from the beginning again.
            (None, _) => {}
        }
        self.forget_if_over();
    }

    /// The next that was held.
    pub(super) fn next_released(&mut self) -> Option<ExecutionId> {
        self.released.pop_front()
    }

    /// Whether this one may be such a sleeper.
    pub(super) fn may_mean(&self, id: ExecutionId) -> bool {
        !self.shards.is_empty() && !self.slept.contains(&id) || self.pending.contains(&id)
    }

    /// The next page, unless it is being read or the last one is not worked off.
    pub(super) fn look_ahead(&mut self) -> Option<Ask> {
        let (shard, after) = *self.shards.last()?;
        if self.is_reading || !self.page.is_empty() {
            return None;
        }
        self.is_reading = true;
        Some(Ask::Waiting { shard, after, most: PAGE })
    }

    pub(super) fn told(&mut self, shard: Shard, page: Vec<ExecutionId>) {
        self.is_reading = false;
        match page.last() {
            None => self.shards.retain(|(of, _)| *of != shard),
            Some(last) => {
                self.shards.iter_mut().filter(|(of, _)| *of == shard).for_each(|it| it.1 = Some(*last));
            }
        }
        self.pending.extend(&page);
        self.page.extend(page);
        self.forget_if_over();
    }

    pub(super) fn next(&mut self) -> Option<ExecutionId> {
        self.page.pop_front()
    }

    /// It was asked what it waits for.
    pub(super) fn is_done(&mut self, id: ExecutionId) {
        if self.pending.remove(&id) {
            self.forget_if_over();
        }
    }

    pub(super) fn fell_asleep(&mut self, id: ExecutionId) {
        if self.is_under_way() {
            self.slept.insert(id);
        }
    }

    fn forget_if_over(&mut self) {
        if !self.is_under_way() {
            self.slept.clear();
        }
    }
}
