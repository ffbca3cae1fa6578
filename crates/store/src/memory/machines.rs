//! Definitions, and which of them counts.

use super::Memory;
use crate::group::{MachineId, RevisionId};
use crate::machine::{BLANK, Head, MachineChange, MachineRecord, NewMachine, NewRevision, Revised};
use perdura_engine::Timestamp;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The record of a name.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) machine: MachineId,
    /// The definition that counts; `None`: the machine is deleted.
    revision: Option<RevisionId>,
    created_at: Timestamp,
    changed: u64,
    card: Arc<str>,
}

impl Memory {
    /// The machine's definition that counts.
    pub(super) fn counting(&self, known: &Known) -> Option<&MachineRecord> {
        known.revision.map(|revision| &self.revisions[&revision])
    }

    /// The machine's head, if the machine exists.
    pub(super) fn head(&self, name: &Arc<str>, known: &Known) -> Option<Head> {
        let record = self.counting(known)?;
        Some(Head {
            machine: known.machine,
            name: name.clone(),
            kind: record.kind,
            revision: record.revision,
            created_at: known.created_at,
            changed: known.changed,
            card: known.card.clone(),
        })
    }

    pub(super) fn head_of(&self, name: &str) -> Option<Head> {
        self.machines.get_key_value(name).and_then(|(name, known)| self.head(name, known))
    }

    pub(super) fn deploy(&mut self, new: &NewMachine) -> MachineRecord {
        let revision = new.revision();
        let counts = self.machines.get(&new.name).and_then(|known| self.counting(known));
        if let Some(same) = counts.filter(|counts| counts.says(&revision)) {
            return same.clone();
        }
        let record = self.keep_revision(&new.name, &revision);
        self.count(&new.name, record.revision, record.created_at);
        record
    }

    pub(super) fn revise(&mut self, change: &MachineChange<'_>) -> Revised {
        let before = self.head_of(&change.name);
        if before.as_ref().map(|head| head.changed) != change.seen {
            return Revised::Otherwise(before);
        }
        let (revision, at) = match (&change.revision, &before) {
            (Some(new), _) => (self.keep_revision(&change.name, new).revision, new.at),
            (None, Some(head)) => (head.revision, head.created_at),
            (None, None) => return Revised::Gone,
        };
        if let Some(card) = (change.card)(revision) {
            self.count(&change.name, revision, at).card = card;
        } else if let Some(known) = self.machines.get_mut(&change.name) {
            *known = Known { revision: None, changed: known.changed + 1, card: BLANK.into(), ..*known };
        }
        self.head_of(&change.name).map_or(Revised::Gone, Revised::Stands)
    }

    /// Stores a definition; it does not count yet.
    fn keep_revision(&mut self, name: &Arc<str>, new: &NewRevision) -> MachineRecord {
        let next = MachineId(self.machines.len() as u64 + 1);
        let machine = match self.machines.entry(name.clone()) {
            Entry::Occupied(known) => known.get().machine,
            Entry::Vacant(entry) => {
                let nothing = Timestamp::default();
                let unknown = Known {
                    machine: next,
                    revision: None,
                    created_at: nothing,
                    changed: 0,
                    card: BLANK.into(),
                };
                entry.insert(unknown).machine
            }
        };
        let record = MachineRecord {
            machine,
            revision: RevisionId(self.revisions.len() as u64 + 1),
            name: name.clone(),
            kind: new.kind,
            definition: new.definition.clone(),
            role_arn: new.role_arn.clone(),
            settings: new.settings.clone(),
            created_at: new.at,
        };
        self.revisions.insert(record.revision, record.clone());
        record
    }

    /// Makes this definition count from now on. Creates the machine if it does not exist.
    fn count(&mut self, name: &str, revision: RevisionId, now: Timestamp) -> &mut Known {
        let known = self.machines.get_mut(name).expect("a definition of it was kept");
        if known.revision.is_none() {
            known.created_at = now;
        }
        known.revision = Some(revision);
        known.changed += 1;
        known
    }
}
