//! Machines that are paused.
//!
//! What arrives for an execution of such a machine is taken and recorded, but no state is carried out: it stands, and sleeps
//! on disk like all that wait. The catalog says what is paused, so it outlives the process; the node knows it too, because it is
//! asked in every Turn. When a machine is resumed, those in memory go on at once, and sleepers are looked for in the store.

use super::errands::{Errand, Hearing};
use super::slot::{Body, Slot};
use super::{Node, Queued, ReplyTo};
use crate::message::{Reply, Underway};
use crate::pause::Pause;
use crate::running::Running;
use perdura_engine::asl::machine::MachineType;
use perdura_engine::{ExecutionId, Input, Moment, Seq};
use perdura_store::{Failure, MachineId, Reader, Registry};
use std::collections::{BTreeMap, BTreeSet};

/// What is paused, for deciding. The store has it too.
#[derive(Default)]
pub(super) struct Pauses {
    /// `None`: all machines.
    paused: BTreeMap<Option<MachineId>, Pause>,
    /// Callers of a pause, each with the executions whose earlier Turns are still on their way to disk.
    settling: Vec<(BTreeSet<ExecutionId>, Reply<()>)>,
}

impl Pauses {
    /// As the store knows them.
    pub(super) fn read(reader: &mut dyn Reader) -> Result<Self, Failure> {
        let mut paused = BTreeMap::new();
        for entry in reader.registered(Registry::Pause, None, u32::MAX)? {
            match Pause::read(&entry) {
                Ok(pause) => drop(paused.insert(pause.machine, pause)),
                // Better to hold too much than to run what somebody wanted to stand.
                Err(error) => {
                    tracing::error!(name = &*entry.name, %error, "a pause cannot be read: all machines are held");
                    paused.insert(None, Pause { machine: None, now: true });
                }
            }
        }
        Ok(Self { paused, settling: Vec::new() })
    }

    fn of(&self, machine: MachineId) -> impl Iterator<Item = &Pause> {
        [self.paused.get(&None), self.paused.get(&Some(machine))].into_iter().flatten()
    }

    /// Whether an execution stands where it is. One that runs is held only where everything is to stop; a child of a Map Run
    /// belongs to an execution that runs.
    pub(super) fn hold(&self, running: &Running) -> bool {
        // The first event is the start, and the second enters a state.
        let begins = running.execution.last_event() <= Seq(1) && running.child.is_none();
        !self.paused.is_empty() && self.of(running.machine).any(|pause| pause.now || begins)
    }

    /// Whether all of this machine is held.
    pub(super) fn stops(&self, machine: MachineId) -> bool {
        self.of(machine).any(|pause| pause.now)
    }

    fn set(&mut self, machine: Option<MachineId>, pause: Option<Pause>) {
        match pause {
            Some(pause) => drop(self.paused.insert(machine, pause)),
            None => drop(self.paused.remove(&machine)),
        }
    }

    /// What was decided of this one is on disk.
    pub(super) fn settled(&mut self, id: ExecutionId) {
        if self.settling.is_empty() {
            return;
        }
        for (ids, reply) in std::mem::take(&mut self.settling) {
            let ids: BTreeSet<ExecutionId> = ids.into_iter().filter(|waited| *waited != id).collect();
            if ids.is_empty() {
                reply.send(());
            } else {
                self.settling.push((ids, reply));
            }
        }
    }
}

impl Node {
    /// A machine, or all of them, is paused or resumed from now on; that is on disk. Whoever asked is told when nothing that
    /// was decided before is still on its way to disk.
    pub(super) fn pace(&mut self, machine: Option<MachineId>, pause: Option<Pause>, reply: Reply<()>) {
        self.pauses.set(machine, pause);
        let is_away = |slot: &Slot| matches!(slot.body, Body::Away(_));
        let away = self.executions.iter().filter(|(_, slot)| is_away(slot)).map(|(id, _)| id);
        let away: BTreeSet<ExecutionId> = away.collect();
        if away.is_empty() {
            reply.send(());
        } else {
            self.pauses.settling.push((away, reply));
        }
        let mut held: Vec<ExecutionId> =
            self.executions.iter().filter(|(_, slot)| slot.is_held).map(|(id, _)| id).collect();
        held.sort_unstable();
        for id in held {
            self.go_on_unless_held(id);
        }
        if self.performs.begins() {
            self.sleepers.resuming.look_for_held(self.shards.held());
        }
    }

    /// One that was held goes on if nothing holds it any more.
    pub(super) fn go_on_unless_held(&mut self, id: ExecutionId) {
        let Some(slot) = self.executions.get_mut(id).filter(|slot| slot.is_held) else { return };
        let Some(running) = slot.running() else { return };
        if self.pauses.hold(running) {
            return;
        }
        let goes_on = running.execution.goes_on();
        slot.is_held = false;
        if goes_on {
            slot.inbox.push_back(Queued { input: Input::Continue, reply: ReplyTo::Nobody });
            self.make_ready(id);
        }
    }

    /// Whether a sleeper stays where it is although it could go on: nothing else of it is to be seen to.
    pub(super) fn sleeps_on(&self, running: &Running) -> bool {
        let execution = &running.execution;
        let only_goes_on =
            execution.goes_on() && execution.calls().next().is_none() && !execution.is_attended();
        only_goes_on && self.pauses.hold(running)
    }

    /// A sleeper that was held goes on, unless it is in memory, or held again.
    pub(super) fn release(&mut self, id: ExecutionId, hearing: &mut Hearing, moment: &Moment) {
        if self.executions.has(id) || !self.performs_for(id) {
            return;
        }
        match hearing.as_ref().and_then(|heard| heard.stored(id)) {
            None => return self.errands.wait_for(id, Errand::Release(id)),
            Some(Ok(running)) if running.execution.goes_on() && !self.pauses.hold(running) => {}
            Some(Ok(_) | Err(_)) => return,
        }
        if self.awake(id, hearing, moment).is_ok() {
            let slot = self.executions.get_mut(id).expect("it is awake");
            slot.inbox.push_back(Queued { input: Input::Continue, reply: ReplyTo::Nobody });
            self.make_ready(id);
        }
    }

    /// Somebody waits for the end of an execution that would not begin.
    pub(super) fn would_wait_in_vain(&self, machine: MachineId, kind: MachineType) -> bool {
        kind == MachineType::Express && self.pauses.of(machine).next().is_some()
    }

    /// How much is paused, and whether all machines together are.
    pub fn pauses(&self) -> (usize, bool) {
        (self.pauses.paused.len(), self.pauses.paused.contains_key(&None))
    }

    /// What is under way: calls that this process makes, and executions that move.
    pub(super) fn underway(&self, most: usize) -> Underway {
        let mut underway = Underway::default();
        for (id, slot) in self.executions.iter() {
            let calls = slot.calls.live();
            underway.calls += calls.len();
            let room = most.saturating_sub(underway.shown.len());
            underway.shown.extend(calls.iter().take(room).map(|(_, key, _)| (id, key.clone())));
            let moves = matches!(slot.body, Body::Away(_)) || !slot.inbox.is_empty() && slot.parked.is_none();
            underway.moving += usize::from(moves);
        }
        underway.moving += self.outgoing.items.len() + self.errands.len();
        underway.shown.sort_unstable();
        underway
    }
}
