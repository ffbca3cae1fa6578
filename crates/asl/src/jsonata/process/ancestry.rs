//! `%`: finds the step whose input it refers to.

use super::Process;
use crate::jsonata::ast::{Kind, NodeId};
use crate::jsonata::error::{Error, Fallible};

/// A `%` without its step yet.
pub(super) struct Slot {
    /// The label under which the step keeps its input. Two that refer to the same step share one.
    pub(super) label: usize,
    /// How many steps up it still has to go.
    pub(super) level: i32,
}

pub(super) type SlotId = usize;

impl Process {
    pub(super) fn parent(&mut self, at: usize) -> usize {
        let slot = self.slots.len();
        self.slots.push(Slot { label: slot, level: 1 });
        self.push(Kind::Parent(slot.to_string().into()), at)
    }

    /// Passes the open slots of a part to the whole.
    pub(super) fn inherit(&mut self, whole: usize, part: usize) {
        let mut slots = self.seeking[part].clone();
        if let Some(slot) = self.slot_of(part) {
            slots.push(slot);
        }
        self.seeking[whole].append(&mut slots);
    }

    /// The slot that a `%` is.
    pub(super) fn slot_of(&self, node: usize) -> Option<SlotId> {
        match &self.nodes[node].kind {
            Kind::Parent(label) => label.parse().ok(),
            _ => None,
        }
    }

    /// Searches the earlier steps for the open slots of the last step.
    pub(super) fn resolve(&mut self, path: usize, steps: &[NodeId]) -> Fallible<()> {
        let last = *steps.last().expect("a path has steps") as usize;
        let mut slots = self.seeking[last].clone();
        slots.extend(self.slot_of(last));
        for slot in slots {
            let mut index = steps.len() as i64 - 2;
            while self.slots[slot].level > 0 {
                if index < 0 {
                    self.seeking[path].push(slot);
                    break;
                }
                let mut step = steps[index as usize] as usize;
                index -= 1;
                // Steps that bind contexts side by side count as one.
                while index >= 0
                    && self.nodes[step].focus.is_some()
                    && self.nodes[steps[index as usize] as usize].focus.is_some()
                {
                    step = steps[index as usize] as usize;
                    index -= 1;
                }
                self.seek(step, slot)?;
            }
        }
        Ok(())
    }

    /// Goes up one step from a `%` towards its step.
    pub(super) fn seek(&mut self, node: usize, slot: SlotId) -> Fallible<()> {
        match &self.nodes[node].kind {
            Kind::Name(_) | Kind::Wildcard => {
                self.slots[slot].level -= 1;
                if self.slots[slot].level == 0 {
                    let label = *self.owners.entry(node).or_insert(self.slots[slot].label);
                    self.slots[slot].label = label;
                    self.nodes[node].tuple = true;
                }
            }
            Kind::Parent(_) => self.slots[slot].level += 1,
            Kind::Block(expressions) => {
                if let Some(last) = expressions.last().copied() {
                    self.nodes[node].tuple = true;
                    self.seek(last as usize, slot)?;
                }
            }
            Kind::Path { steps, .. } => {
                let steps = steps.clone();
                self.nodes[node].tuple = true;
                for (turn, step) in steps.iter().rev().enumerate() {
                    if turn > 0 && self.slots[slot].level <= 0 {
                        break;
                    }
                    self.seek(*step as usize, slot)?;
                }
            }
            _ => return Err(Error::new("S0217").at(self.nodes[node].at as usize)),
        }
        Ok(())
    }
}
