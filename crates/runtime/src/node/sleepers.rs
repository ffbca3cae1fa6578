//! Executions that wait: for their time, or to be asked what they wait for.

use super::resuming::Resuming;
use crate::timers::Timers;
use perdura_engine::{ExecutionId, Timestamp, Wake};
use perdura_store::Shard;
use std::collections::VecDeque;

pub(super) struct Sleepers {
    /// Also of those in memory.
    pub(super) timers: Timers,
    /// Sleepers whose time has come and that are not in memory yet.
    pub(super) late: VecDeque<ExecutionId>,
    /// Those that slept in an earlier process.
    pub(super) resuming: Resuming,
}

impl Sleepers {
    /// Of a node that was opened at this time.
    pub(super) fn on(shards: &[Shard], opened_at: Timestamp) -> Self {
        Self { timers: Timers::new(shards), late: VecDeque::new(), resuming: Resuming::of_before(opened_at) }
    }

    /// An execution left memory.
    pub(super) fn fell_asleep(&mut self, id: ExecutionId, shard: Shard, wake: Wake) {
        self.resuming.fell_asleep(id);
        self.timers.fell_asleep(id, shard, wake);
    }
}
