//! A cache of machines: head, card and current revision.
//!
//! A start needs its machine and must not wait for the disk. So machines that were read are cached until some machine
//! changes: all changes go through the runtime's door, which counts them.

use super::Api;
use super::error::{ApiError, Code};
use super::settings::Settings;
use perdura_engine::asl::machine::Machine;
use perdura_runtime::card::Card;
use perdura_store::{Head, MachineChange, MachineRecord, NewRevision, Revised, RevisionId};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use uuid::{Uuid, uuid};

const KNOWN_MAX: usize = 4_096;
/// The most bytes of their definitions and cards.
const KNOWN_BYTES_MAX: usize = 64 << 20;
/// How often a change is decided again because another change came first.
const TRIES_MAX: usize = 100;
/// The namespace of the ids of revisions.
const REVISIONS: Uuid = uuid!("5d0f2a0e-6c0b-4a52-9a86-6d6c3a1f7f0e");

/// A machine as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) head: Head,
    pub(super) card: Card,
    /// The current revision.
    pub(super) record: MachineRecord,
}

impl Entry {
    fn read(head: Head, record: MachineRecord) -> Result<Self, ApiError> {
        let card = Card::read(&head).map_err(|error| {
            ApiError::unavailable(format!("the card of {} cannot be read: {error}", head.name))
        })?;
        Ok(Self { head, card, record })
    }

    /// The id of a revision; the first one of a machine has none.
    pub(super) fn revision_id(&self, revision: RevisionId) -> Option<String> {
        if self.card.first == Some(revision) {
            return None;
        }
        let Head { name, created_at, .. } = &self.head;
        Some(Uuid::new_v5(&REVISIONS, format!("{name}:{created_at}:{}", revision.0).as_bytes()).to_string())
    }

    /// About how much memory it takes: the card is in it twice, as text and parsed.
    fn bytes(&self) -> usize {
        let settings = self.record.settings.as_ref().map_or(0, |settings| settings.len());
        self.record.definition.len() + settings + 2 * self.head.card.len()
    }

    pub(super) fn settings(&self) -> Result<Settings, ApiError> {
        Settings::kept(&self.record)
    }
}

/// Machines by name, and the number of changes before they were read.
#[derive(Default)]
struct Known {
    changes: u64,
    machines: HashMap<Arc<str>, Arc<Entry>>,
    bytes: usize,
}

/// The cache.
#[derive(Default)]
pub(super) struct Catalog {
    known: RwLock<Known>,
}

impl Catalog {
    fn get(&self, name: &str, changes: u64) -> Option<Arc<Entry>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.changes == changes { known.machines.get(name).cloned() } else { None }
    }

    fn put(&self, name: Arc<str>, entry: Arc<Entry>, changes: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let bytes = entry.bytes();
        let is_full = known.machines.len() >= KNOWN_MAX || known.bytes + bytes > KNOWN_BYTES_MAX;
        if known.changes != changes || is_full {
            *known = Known { changes, ..Known::default() };
        }
        let before = known.machines.insert(name, entry);
        known.bytes += bytes;
        known.bytes -= before.map_or(0, |entry| entry.bytes());
    }
}

/// A change of a machine.
pub(super) struct Change {
    /// A new current definition.
    pub(super) revision: Option<(NewRevision, Arc<Machine>)>,
    /// The new card, given the revision that is current then; `None`: the machine is deleted.
    pub(super) card: Box<dyn Fn(RevisionId) -> Option<Card>>,
}

impl Change {
    /// A change of the card alone.
    pub(super) fn card(card: Card) -> Self {
        Self { revision: None, card: Box::new(move |_| Some(card.clone())) }
    }
}

impl Api {
    /// A machine, from the cache or from the store.
    pub(super) async fn machine(&self, name: &str) -> Result<Option<Arc<Entry>>, ApiError> {
        // Read the counter first: a change during the read makes this entry out of date.
        let changes = self.door().machine_changes();
        if let Some(entry) = self.0.catalog.get(name, changes) {
            return Ok(Some(entry));
        }
        let name: Arc<str> = name.into();
        let asked = name.clone();
        let entry = self.reading(move |api| api.look(&asked)).await?.map(Arc::new);
        if let Some(entry) = &entry {
            self.0.catalog.put(name, entry.clone(), changes);
        }
        Ok(entry)
    }

    /// A machine from the store. Blocks on the disk.
    pub(super) fn look(&self, name: &str) -> Result<Option<Entry>, ApiError> {
        let found = self.door().read(|reader| {
            let Some(head) = reader.head(name)? else { return Ok(None) };
            let record = reader.revision(head.revision)?;
            Ok(record.map(|record| (head, record)))
        })?;
        found.map(|(head, record)| Entry::read(head, record)).transpose()
    }

    /// Changes a machine as `decide` says; if that returns `None`, nothing changes. Blocks on the disk, and
    /// returns the machine as this change left it, whatever other changes followed.
    pub(super) fn change(
        &self,
        name: &Arc<str>,
        decide: impl Fn(Option<&Entry>) -> Result<Option<Change>, ApiError>,
    ) -> Result<Option<Entry>, ApiError> {
        for _ in 0..TRIES_MAX {
            let seen = self.look(name)?;
            let Some(Change { revision, card }) = decide(seen.as_ref())? else { return Ok(seen) };
            let write = |revision| {
                let card = card(revision)?;
                Some(serde_json::to_string(&card).expect("a card is JSON").into())
            };
            let (revision, machine) = revision.unzip();
            let change = MachineChange {
                name: name.clone(),
                seen: seen.as_ref().map(|entry| entry.head.changed),
                revision,
                card: &write,
            };
            match self.door().revise(&change, machine)? {
                Revised::Stands(head) => {
                    let new = change.revision.map(|new| new.record(&head));
                    let record = new.or(seen.map(|entry| entry.record));
                    return record.map(|record| Entry::read(head, record)).transpose();
                }
                Revised::Gone => return Ok(None),
                Revised::Otherwise(_) => {}
            }
        }
        Err(ApiError::new(Code::ConflictException, format!("{name} is changed by others all the time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::Timestamp;
    use perdura_engine::asl::machine::MachineType;
    use perdura_store::MachineId;

    fn entry(name: &str, definition_bytes: usize) -> Arc<Entry> {
        let (machine, revision) = (MachineId(1), RevisionId(1));
        let (name, created_at): (Arc<str>, _) = (name.into(), Timestamp(0));
        let new = NewRevision {
            kind: MachineType::Standard,
            definition: "x".repeat(definition_bytes).into(),
            role_arn: None,
            settings: None,
            at: created_at,
        };
        let card = "{}".into();
        let head = Head { machine, name, kind: new.kind, revision, created_at, changed: 1, card };
        let record = new.record(&head);
        Arc::new(Entry::read(head, record).expect("the card is JSON"))
    }

    #[test]
    fn large_definitions_do_not_fill_the_memory() {
        let catalog = Catalog::default();
        for number in 0..200 {
            let name = number.to_string();
            catalog.put(name.as_str().into(), entry(&name, 1 << 20), 1);
            assert!(catalog.get(&name, 1).is_some(), "the newest is at hand");
        }
        let known = catalog.known.read().expect("nobody has panicked");
        let held: usize = known.machines.values().map(|entry| entry.bytes()).sum();
        assert!(held <= KNOWN_BYTES_MAX && held == known.bytes, "{held} {}", known.bytes);
    }

    #[test]
    fn what_was_read_before_a_change_is_not_given_after_it() {
        let catalog = Catalog::default();
        catalog.put("m".into(), entry("m", 1), 1);
        assert!(catalog.get("m", 1).is_some() && catalog.get("m", 2).is_none());
        catalog.put("n".into(), entry("n", 1), 2);
        // A slow reader puts what it read before the change.
        catalog.put("m".into(), entry("m", 1), 1);
        assert!(catalog.get("m", 2).is_none());
    }
}
