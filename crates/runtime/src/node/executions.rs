//! The executions in memory, found by id and by name, and what they weigh together.

use super::Slot;
use perdura_engine::ExecutionId;
use perdura_store::MachineId;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Ids are random: they need no further mixing, and the order of a map must not differ between two runs.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

pub(crate) type ById<V> = HashMap<ExecutionId, V, BuildHasherDefault<IdHasher>>;

/// The executions that have a place in memory.
#[derive(Default)]
pub(super) struct Executions {
    slots: ById<Slot>,
    /// Those whose names were given.
    names: BTreeMap<(MachineId, Arc<str>), ExecutionId>,
    bytes: u64,
    parked: usize,
}

impl Executions {
    pub(super) fn has(&self, id: ExecutionId) -> bool {
        self.slots.contains_key(&id)
    }

    pub(super) fn get(&self, id: ExecutionId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ExecutionId) -> Option<&mut Slot> {
        self.slots.get_mut(&id)
    }

    /// All of them, in the order of their hashes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExecutionId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The one that has this name.
    pub(super) fn named(&self, machine: MachineId, name: Arc<str>) -> Option<ExecutionId> {
        self.names.get(&(machine, name)).copied()
    }

    /// What all of them weigh.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many were set aside.
    pub(super) fn parked(&self) -> usize {
        self.parked
    }

    /// Gives one its place. It weighs nothing yet.
    pub(super) fn insert(&mut self, id: ExecutionId, slot: Slot) {
        if let Some(running) = slot.running().filter(|running| running.named) {
            self.names.insert((running.machine, running.execution.identity().name.clone()), id);
        }
        self.slots.insert(id, slot);
    }

    /// Takes one out, and its name with it.
    pub(super) fn remove(&mut self, id: ExecutionId) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        self.bytes -= slot.weight.bytes;
        self.parked -= usize::from(slot.parked.is_some());
        if let Some(running) = slot.running().filter(|running| running.named) {
            self.names.remove(&(running.machine, running.execution.identity().name.clone()));
        }
        Some(slot)
    }

    /// Sets one aside.
    pub(super) fn park(&mut self, id: ExecutionId, reason: Arc<str>) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        self.parked += usize::from(slot.parked.replace(reason).is_none());
    }

    /// Counts what one weighs now; `None`: it is not here, or being committed.
    pub(super) fn weigh(&mut self, id: ExecutionId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(&id)?;
        let bytes = slot.running()?.weight();
        self.bytes = self.bytes - std::mem::replace(&mut slot.weight.bytes, bytes) + bytes;
        Some(slot)
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = (ExecutionId, Slot)> {
        self.slots.into_iter()
    }
}
