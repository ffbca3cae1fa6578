//! The definitions that are in use, read, and those that were used last; the others are in the store.
//!
//! Read, a definition takes many times its text. So what nobody uses goes when all weigh more than their share of what
//! may be in memory; what executions in memory use stays with them, and counts as they do.

use crate::fold::Unreadable;
use perdura_engine::asl::machine::Machine;
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::source::Source;
use perdura_store::record::Damage;
use perdura_store::{MachineRecord, Reader, RevisionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// What a definition that is read weighs in any case, for each byte of its text, and for each byte of JSONata in it: as
/// much as the densest take.
const WEIGHT: u64 = 4_096;
const WEIGHT_OF_BYTE: u64 = 40;
const WEIGHT_OF_EXPRESSION_BYTE: u64 = 120;

/// Definitions by revision.
#[derive(Debug)]
pub(crate) struct Library {
    machines: BTreeMap<RevisionId, Kept>,
    /// What all of them weigh.
    bytes: u64,
    /// With more than this, what nobody uses goes.
    bytes_max: u64,
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    definition: Arc<Definition>,
    last_used: u64,
}

/// A definition, stored and read.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) record: MachineRecord,
    pub(crate) machine: Arc<Machine>,
}

impl Library {
    pub(crate) fn within(bytes_max: u64) -> Self {
        Self { machines: BTreeMap::new(), bytes: 0, bytes_max, uses: 0 }
    }

    /// What the definitions weigh, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn put(&mut self, definition: Arc<Definition>) {
        self.uses += 1;
        let (revision, new) = (definition.record.revision, Kept { definition, last_used: self.uses });
        self.bytes += new.weight();
        let before = self.machines.insert(revision, new);
        self.bytes -= before.map_or(0, |before| before.weight());
        self.shrink();
    }

    /// One of them, if it is known.
    pub(crate) fn known(&mut self, revision: RevisionId) -> Option<&Arc<Definition>> {
        self.uses += 1;
        let found = self.machines.get_mut(&revision)?;
        found.last_used = self.uses;
        Some(&found.definition)
    }

    /// Where there is too much, what nobody uses goes, the longest unused first, until half of the share is free. The last
    /// one used stays.
    pub(crate) fn shrink(&mut self) {
        if self.bytes <= self.bytes_max {
            return;
        }
        let is_idle = |it: &Kept| Arc::strong_count(&it.definition.machine) == 1 && it.last_used < self.uses;
        let mut idle: Vec<_> = (self.machines.iter())
            .filter(|(_, it)| is_idle(it))
            .map(|(revision, it)| (it.last_used, *revision))
            .collect();
        idle.sort_unstable();
        for (_, revision) in idle {
            if self.bytes <= self.bytes_max / 2 {
                return;
            }
            let gone = self.machines.remove(&revision);
            self.bytes -= gone.map_or(0, |gone| gone.weight());
        }
    }
}

impl Kept {
    fn weight(&self) -> u64 {
        let Definition { record, machine } = &*self.definition;
        let (text, expressions) = (record.definition.len(), machine.expression_bytes);
        WEIGHT + WEIGHT_OF_BYTE * text as u64 + WEIGHT_OF_EXPRESSION_BYTE * expressions as u64
    }
}

/// How many definitions a reader remembers before it looks which of them are gone.
const SHELF_MAX: usize = 1_024;

/// The definitions that a reader has come across, for as long as somebody else keeps them.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    known: BTreeMap<RevisionId, Weak<Definition>>,
    /// Those that were read since somebody last took them.
    pub(crate) fresh: Vec<Arc<Definition>>,
}

impl Shelf {
    /// One of them, looked up in the store where it is not known.
    pub(crate) fn find(
        &mut self,
        revision: RevisionId,
        reader: &mut dyn Reader,
    ) -> Result<Arc<Definition>, Unreadable> {
        if let Some(known) = self.known.get(&revision).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let record = reader
            .revision(revision)?
            .ok_or_else(|| Damage(format!("the definition {} is not stored", revision.0)))?;
        let machine = read_definition(&record)
            .ok_or_else(|| Damage(format!("the definition of {} cannot be read", record.name)))?;
        let found = Arc::new(Definition { record, machine: Arc::new(machine) });
        if self.known.len() >= SHELF_MAX {
            self.known.retain(|_, known| known.strong_count() > 0);
        }
        self.known.insert(revision, Arc::downgrade(&found));
        self.fresh.push(found.clone());
        Ok(found)
    }
}

/// A definition that was found valid when it was stored.
pub fn read_definition(record: &MachineRecord) -> Option<Machine> {
    let options = ReadOptions { machine_type: record.kind, strict: false };
    read(&Source::new(&*record.name, &*record.definition), &options).machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Timestamp;
    use perdura_engine::asl::machine::MachineType;
    use perdura_store::{Catalog, MemoryStore, NewMachine};

    const PASS: &str = r#"{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}"#;

    #[test]
    fn what_was_used_last_or_is_in_use_stays_and_the_rest_is_read_again() {
        let mut store = MemoryStore::new(1);
        let mut deploy = |name: &str| {
            let (name, definition) = (name.into(), PASS.into());
            let kind = MachineType::Standard;
            let new = NewMachine { name, kind, definition, role_arn: None, settings: None, at: Timestamp(0) };
            store.deploy(&new, None).unwrap()
        };
        let records = ["a", "b", "c", "d"].map(&mut deploy);
        let [a, b, c, d] = records.each_ref().map(|record| record.revision);
        let mut reader = store.reader().unwrap();
        let weight = WEIGHT + WEIGHT_OF_BYTE * PASS.len() as u64;
        let mut library = Library::within(3 * weight);
        let mut shelf = Shelf::default();
        let mut find = |revision, library: &mut Library| {
            let found = shelf.find(revision, &mut *reader).unwrap();
            for read in shelf.fresh.drain(..) {
                library.put(read);
            }
            library.known(revision).expect("the last one that was put is not taken out");
            found.machine.clone()
        };
        let used = find(a, &mut library);
        for revision in [b, c, b, d] {
            find(revision, &mut library);
        }
        // Half of the share is free now, but for what is in use and what came last.
        assert_eq!(library.machines.keys().copied().collect::<Vec<_>>(), [a, d]);
        assert_eq!(library.bytes(), 2 * weight);
        assert!(Arc::ptr_eq(&used, &find(a, &mut library)));
        assert_eq!(shelf.find(c, &mut *reader).unwrap().record.revision, c);
    }
}
