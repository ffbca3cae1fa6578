//! Stored machines: their definitions, which of them counts, and the registry of other named things.
//!
//! A stored definition never changes; the [`Head`] changes, which says which one counts. A change of a head is decided
//! on the head that was seen, and is refused if another change was faster, so that several APIs can change machines
//! without a lock.

use crate::group::{MachineId, RevisionId};
use perdura_engine::Timestamp;
use perdura_engine::asl::machine::MachineType;
use std::sync::Arc;

/// A definition to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMachine {
    pub name: Arc<str>,
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// Other settings, as JSON that the store does not parse.
    pub settings: Option<Arc<str>>,
    pub at: Timestamp,
}

impl NewMachine {
    /// Without its name.
    pub(crate) fn revision(&self) -> NewRevision {
        NewRevision {
            kind: self.kind,
            definition: self.definition.clone(),
            role_arn: self.role_arn.clone(),
            settings: self.settings.clone(),
            at: self.at,
        }
    }
}

/// A definition to store for a machine that is named elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// Other settings, as JSON that the store does not parse.
    pub settings: Option<Arc<str>>,
    pub at: Timestamp,
}

impl NewRevision {
    /// The record, if this definition counts for this machine.
    pub fn record(&self, head: &Head) -> MachineRecord {
        MachineRecord {
            machine: head.machine,
            revision: head.revision,
            name: head.name.clone(),
            kind: self.kind,
            definition: self.definition.clone(),
            role_arn: self.role_arn.clone(),
            settings: self.settings.clone(),
            created_at: self.at,
        }
    }
}

/// A stored definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRecord {
    pub machine: MachineId,
    pub revision: RevisionId,
    pub name: Arc<str>,
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// Other settings, as JSON that the store does not parse.
    pub settings: Option<Arc<str>>,
    pub created_at: Timestamp,
}

impl MachineRecord {
    /// Whether it equals a definition to store, except for the time.
    pub fn says(&self, new: &NewRevision) -> bool {
        self.kind == new.kind
            && self.definition == new.definition
            && self.role_arn == new.role_arn
            && self.settings == new.settings
    }
}

/// The content of an empty card.
pub const BLANK: &str = "{}";

/// The current state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The machine's id. A name keeps it, even if the machine is deleted and created again.
    pub machine: MachineId,
    pub name: Arc<str>,
    pub kind: MachineType,
    /// The definition that counts.
    pub revision: RevisionId,
    pub created_at: Timestamp,
    /// Grows with every change, also when the machine is deleted and created again.
    pub changed: u64,
    /// The data beside its definitions, as JSON that the store does not parse; `{}` at first.
    pub card: Arc<str>,
}

/// A change of a machine, decided on the state that was seen.
pub struct MachineChange<'a> {
    pub name: Arc<str>,
    /// The seen [`Head::changed`]; `None`: there was no such machine.
    pub seen: Option<u64>,
    /// The definition that counts from now on; `None`: the current one stays.
    pub revision: Option<NewRevision>,
    /// The new card, given the definition that counts then; if it returns `None`, the machine is deleted. Its
    /// definitions and executions stay.
    pub card: &'a (dyn Fn(RevisionId) -> Option<Arc<str>> + 'a),
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revised {
    /// The change was made; this is the new state.
    Stands(Head),
    /// The machine was deleted, or still does not exist, as nothing defines it.
    Gone,
    /// The machine is not as it was seen, or does not exist. Nothing was changed: look again.
    Otherwise(Option<Head>),
}

/// The kinds of named things that are not machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registry {
    /// Credentials for a destination, encrypted.
    Connection,
    /// A kind of work that workers ask for.
    Activity,
    /// An activity that was deleted, and not created again.
    DeletedActivity,
    /// A bearer token: its role, and the hash of its secret.
    Token,
    /// A machine that is paused, or all of them.
    Pause,
}

/// A registered thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub kind: Registry,
    /// Its name, unique among its kind.
    pub name: Arc<str>,
    pub created_at: Timestamp,
    /// Its content; the store does not parse it.
    pub body: Vec<u8>,
}
