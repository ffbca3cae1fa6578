//! Taking up what slept in an earlier process: those who wait for a worker, a child or a Map Run are asked once what
//! they wait for.

use crate::librarian::Ask;
use perdura_engine::ExecutionId;
use perdura_store::Shard;
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
        !self.shards.is_empty() || !self.pending.is_empty()
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
