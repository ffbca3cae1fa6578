//! The definitions that are in use, read; the others are in the store.

use crate::running::Unreadable;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_store::record::Damage;
use perdura_store::{MachineRecord, Reader, RevisionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Definitions by revision.
#[derive(Debug, Default)]
pub(crate) struct Library {
    machines: BTreeMap<RevisionId, (MachineRecord, Arc<Machine>)>,
}

impl Library {
    pub(crate) fn put(&mut self, record: MachineRecord, machine: Arc<Machine>) {
        self.machines.insert(record.revision, (record, machine));
    }

    /// One of them, looked up in the store where it is not known yet.
    pub(crate) fn find(
        &mut self,
        revision: RevisionId,
        reader: &mut dyn Reader,
    ) -> Result<&(MachineRecord, Arc<Machine>), Unreadable> {
        if !self.machines.contains_key(&revision) {
            let record = reader
                .revision(revision)?
                .ok_or_else(|| Damage(format!("the definition {} is not stored", revision.0)))?;
            let machine = read_definition(&record)
                .ok_or_else(|| Damage(format!("the definition of {} cannot be read", record.name)))?;
            self.put(record, Arc::new(machine));
        }
        Ok(&self.machines[&revision])
    }
}

/// A definition that was found valid when it was stored.
pub fn read_definition(record: &MachineRecord) -> Option<Machine> {
    let options = ReadOptions { machine_type: record.kind, strict: false };
    read(&Source::new(&*record.name, &*record.definition), &options).machine
}
