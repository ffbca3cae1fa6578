//! What has ended goes, as a server's chores or a person want it, while everything else goes on.

use super::Sim;
use super::process::State;
use crate::history::{History, read_one};
use perdura_engine::{ExecutionId, Timestamp};
use perdura_runtime::Slice;
use perdura_store::{Retention, Store, Sweepable};

/// How many executions go at once.
const SLICE: u32 = 3;
/// How many slices one sweep takes at most.
const SLICES: usize = 20;

impl Sim {
    /// Sweeps what ended so long ago, by a process that serves. What goes is looked at before.
    pub(super) fn sweep(&mut self, age_ms: i64) {
        let serving: Vec<usize> =
            (0..self.processes.len()).filter(|process| self.processes[*process].serves()).collect();
        if serving.is_empty() {
            return;
        }
        let process = *self.dice.pick(&serving);
        let before = self.ended_rows();
        let retention = Retention {
            ended_before: self.clock.wall().after_ms(1 - age_ms),
            ledger_before: Timestamp(i64::MIN),
            bytes_max: self.dice.in_thousand(200).then_some(0),
        };
        let State::Up(up) = &mut self.processes[process].state else { return };
        if up.node.is_resuming() {
            return;
        }
        let mut place = None;
        for _ in 0..SLICES {
            let found = up.store.reader().and_then(|mut reader| reader.sweepable(&retention, place, SLICE));
            let Ok(Sweepable { going, next, .. }) = found else { break };
            place = next;
            let slice = Slice { going, ledger_before: retention.ledger_before, ledger_most: SLICE };
            match up.node.sweep(&mut up.store, &slice) {
                Ok(swept) if swept.more || place.is_some() => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.facts.count("sweeps");
        let mut reader = self.home.reader();
        for history in before {
            let is_gone = reader.row(history.id).expect("what was written can be read").is_none();
            if is_gone {
                self.see_swept(history);
            }
        }
    }

    /// Executions whose rows say that they have ended: nothing else may go.
    fn ended_rows(&self) -> Vec<History> {
        let mut reader = self.home.reader();
        let executions: Vec<ExecutionId> = self.disk().observed.executions();
        let there = executions.into_iter().filter(|id| !self.swept.contains_key(id));
        let is_ended = |history: &History| history.row.as_ref().is_some_and(|row| row.ended_at.is_some());
        there.map(|id| read_one(id, &mut *reader)).filter(is_ended).collect()
    }

    fn see_swept(&mut self, history: History) {
        let id = history.id;
        self.facts.count("executions swept");
        self.say(|| format!("{id} is swept"));
        if self.disk().observed.is_running(id) {
            self.facts.swept_running.push(format!("{id} was swept while it ran"));
        }
        self.swept.insert(id, History { is_swept: true, ..history });
    }
}
