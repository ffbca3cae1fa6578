//! Shards move: a beginning node takes some of those without a holder, and if some stay without one for a while, a node
//! ends and begins again to take them. Only the nodes themselves look up the holders.

use super::process::State;
use super::{Happening, Sim};
use perdura_store::Shard;
use std::collections::BTreeSet;

/// How often to look for Shards without a holder.
pub(crate) const LOOK_EVERY_MS: i64 = 6_000;

impl Sim {
    /// The most Shards that a node takes that begins now.
    pub(super) fn shards_wanted(&mut self) -> u16 {
        if !self.plan.is_cluster {
            return u16::MAX;
        }
        if !self.is_rough() {
            return self.plan.shards;
        }
        let share = self.plan.shards.div_ceil(self.plan.processes as u16);
        if self.dice.in_thousand(300) {
            self.dice.between(0..=i64::from(self.plan.shards)) as u16
        } else {
            share
        }
    }

    /// If a Shard had no holder at two checks in a row, a node takes it over.
    pub(super) fn balance(&mut self) {
        self.after(LOOK_EVERY_MS, Happening::Balance);
        let idle = self.unserved();
        let is_still: bool = idle.intersection(&self.unserved).next().is_some();
        self.unserved = idle;
        if !is_still {
            return;
        }
        let serving: Vec<usize> = (0..self.processes.len())
            .filter(|process| self.processes[*process].serves() && !self.is_paused(*process))
            .collect();
        if serving.is_empty() {
            return;
        }
        let process = *self.dice.pick(&serving);
        self.facts.count("nodes that took Shards over");
        self.say(|| format!("process {process} begins again to take what is nobody's"));
        self.processes[process].wants_all = true;
        self.ask_to_end(process, 1_000);
    }

    fn unserved(&self) -> BTreeSet<Shard> {
        let mut unserved: BTreeSet<Shard> = (0..self.plan.shards).map(Shard).collect();
        for (number, process) in self.processes.iter().enumerate() {
            let State::Up(up) = &process.state else { continue };
            if let Some((_, committer)) = up.core.open().filter(|_| !self.is_paused(number)) {
                committer.lease().shards().iter().for_each(|shard| {
                    unserved.remove(shard);
                });
            }
        }
        unserved
    }

    fn is_paused(&self, process: usize) -> bool {
        self.processes[process].paused_until > self.clock.now()
    }
}
