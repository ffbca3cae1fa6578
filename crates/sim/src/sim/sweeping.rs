//! Sweeps of ended executions, by a server's chores or a person, while everything else goes on.

use super::process::State;
use super::{Happening, Sim};
use crate::history::{History, read_one};
use crate::observed::Life;
use crate::sabotage::Sabotage;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_runtime::{Message, Reply, Slice};
use perdura_store::{Catalog, Retention};

/// How many executions go at once.
const SLICE: u32 = 3;
/// How many slices one sweep takes at most.
const SLICES: usize = 20;

impl Sim {
    /// Looks for executions that ended so long ago; a process is asked a little later to delete them.
    pub(super) fn look_for_old(&mut self, age_ms: i64) {
        let serving: Vec<usize> =
            (0..self.processes.len()).filter(|process| self.processes[*process].serves()).collect();
        if serving.is_empty() {
            return;
        }
        let process = *self.dice.pick(&serving);
        let life = Life { process, boot: self.processes[process].boot };
        let State::Up(up) = &self.processes[process].state else { return };
        match up.core.open() {
            Some((node, _)) if node.is_resuming() => {
                self.facts.count("sweeps right after a restart");
            }
            Some(_) => {}
            None => return,
        }
        self.facts.count("sweeps");
        let retention = Retention {
            ended_before: self.clock.wall().after_ms(1 - age_ms),
            ledger_before: Timestamp(i64::MIN),
            bytes_max: self.dice.in_thousand(200).then_some(0),
        };
        let mut reader = self.home.reader();
        if self.sabotage == Some(Sabotage::SweepsBlindly) {
            let slice =
                Slice { going: self.ended_rows(), ledger_before: Timestamp(i64::MIN), ledger_most: 0 };
            return self.after(0, Happening::Sweep(life, slice));
        }
        let mut place = None;
        for _ in 0..SLICES {
            let found = reader.sweepable(&retention, place, SLICE).expect("what was written can be read");
            let slice =
                Slice { going: found.going, ledger_before: retention.ledger_before, ledger_most: SLICE };
            let later = self.dice.between(0..=1_500);
            self.after(later, Happening::Sweep(life, slice));
            place = found.next;
            if place.is_none() {
                break;
            }
        }
    }

    /// Asks a process to delete the found executions.
    pub(super) fn sweep(&mut self, life: Life, slice: Slice) {
        if !self.lives(life, || Happening::Sweep(life, slice.clone())) {
            return;
        }
        if self.sabotage != Some(Sabotage::SweepsBlindly) {
            // A failed sweep has deleted nothing.
            return self.post(life, Message::Sweep { slice, reply: Reply::new(drop) });
        }
        let before = self.look_at(&slice);
        let State::Up(up) = &mut self.processes[life.process].state else { return };
        if let Some(store) = &mut up.store {
            let _ = store.sweep(&slice.going, slice.ledger_before, slice.ledger_most, None);
        }
        self.look_again(before);
    }

    /// The executions that may be deleted, as they are.
    pub(super) fn look_at(&self, slice: &Slice) -> Vec<History> {
        let mut reader = self.home.reader();
        let there = slice.going.iter().filter(|(id, _)| !self.swept.contains_key(id));
        there.map(|(id, _)| read_one(*id, &mut *reader)).collect()
    }

    /// Checks which of them were deleted.
    pub(super) fn look_again(&mut self, before: Vec<History>) {
        let mut reader = self.home.reader();
        for history in before.into_iter().filter(|history| history.row.is_some()) {
            let is_gone = reader.row(history.id).expect("what was written can be read").is_none();
            if is_gone {
                self.see_swept(history);
            }
        }
    }

    /// For sabotage: executions that have ended according to their rows, whatever the journal and the memory say.
    fn ended_rows(&self) -> Vec<(ExecutionId, Timestamp)> {
        let mut reader = self.home.reader();
        let executions = self.disk().observed.executions();
        let mut row = |id| reader.row(id).expect("what was written can be read");
        executions.into_iter().filter_map(|id| Some((id, row(id)?.0.ended_at?))).collect()
    }

    fn see_swept(&mut self, history: History) {
        let id = history.id;
        self.facts.count("executions swept");
        self.facts.swept_at.insert(id, self.clock.now());
        self.say(|| format!("{id} is swept"));
        if self.disk().observed.is_running(id) {
            self.facts.swept_running.push(format!("{id} was swept while it ran"));
        }
        self.swept.insert(id, History { is_swept: true, ..history });
    }
}
