//! The Shards that a node holds.

use crate::message::Unavailable;
use perdura_engine::{ExecutionId, Moment};
use perdura_store::Shard;

/// Those that are held, of all that there are.
pub(super) struct Shards {
    held: Vec<Shard>,
    count: u16,
    /// How many ids were drawn.
    drawn: u64,
}

impl Shards {
    pub(super) fn held_of(held: Vec<Shard>, count: u16) -> Self {
        Self { held, count, drawn: 0 }
    }

    pub(super) fn held(&self) -> &[Shard] {
        &self.held
    }

    pub(super) fn of(&self, id: ExecutionId) -> Shard {
        Shard::of(id, self.count)
    }

    /// Whether this node takes the Turns of an execution.
    pub(super) fn hold(&self, id: ExecutionId) -> Result<(), Unavailable> {
        let shard = self.of(id);
        if self.held.contains(&shard) { Ok(()) } else { Err(Unavailable::Elsewhere(shard)) }
    }

    /// A new id, on a Shard that is held here if one is. Several are drawn at the same moment, by starts that waited for the
    /// same, and one that a name is being reserved for is nowhere to be seen yet: so no two are drawn alike.
    pub(super) fn draw_id(&mut self, moment: &Moment) -> ExecutionId {
        self.drawn = self.drawn.wrapping_add(1);
        let bits = ((moment.entropy >> 64) as u64).wrapping_add(self.drawn);
        let here = self.held.get(moment.entropy as usize % self.held.len().max(1));
        let shard = here.copied().unwrap_or(Shard(moment.entropy as u16 % self.count.max(1)));
        ExecutionId::beginning(moment.now, shard, bits)
    }
}
