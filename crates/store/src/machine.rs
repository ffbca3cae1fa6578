//! Machines as they are kept: their definitions, which of them counts, and what is kept by name beside machines.
//!
//! A definition never changes once it is kept; what changes is the [`Head`], which says which one counts. A change of a
//! head is decided on what was seen of it and is refused when somebody else was faster, so that several doors can
//! change machines without a lock.

use crate::group::{MachineId, RevisionId};
use perdura_engine::Timestamp;
use perdura_engine::asl::machine::MachineType;
use std::sync::Arc;

/// A definition to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMachine {
    pub name: Arc<str>,
    /// Standard or Express.
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// What else was said of it, as JSON that the store does not look into.
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

/// A definition to keep under a name that is said elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRevision {
    /// Standard or Express.
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// What else was said of it, as JSON that the store does not look into.
    pub settings: Option<Arc<str>>,
    pub at: Timestamp,
}

impl NewRevision {
    /// As it is kept, where it is the one that counts for this machine.
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

/// A definition that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRecord {
    pub machine: MachineId,
    /// Which definition of it.
    pub revision: RevisionId,
    pub name: Arc<str>,
    /// Standard or Express.
    pub kind: MachineType,
    /// The definition as it was given.
    pub definition: Arc<str>,
    /// The role that it would run under on AWS; `None`: a default.
    pub role_arn: Option<Arc<str>>,
    /// What else was said of it, as JSON that the store does not look into.
    pub settings: Option<Arc<str>>,
    /// When it was given.
    pub created_at: Timestamp,
}

impl MachineRecord {
    /// Whether it is what is to be kept, whenever that was given.
    pub fn says(&self, new: &NewRevision) -> bool {
        self.kind == new.kind
            && self.definition == new.definition
            && self.role_arn == new.role_arn
            && self.settings == new.settings
    }
}

/// What a card says that nothing was written on.
pub const BLANK: &str = "{}";

/// A machine as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which machine. A name keeps it, also when the machine goes and comes again.
    pub machine: MachineId,
    pub name: Arc<str>,
    /// Standard or Express.
    pub kind: MachineType,
    /// The definition that counts.
    pub revision: RevisionId,
    /// When the machine was made.
    pub created_at: Timestamp,
    /// Grows with every change, also when the machine goes and comes again.
    pub changed: u64,
    /// What is kept beside its definitions, as JSON that the store does not look into; `{}` at first.
    pub card: Arc<str>,
}

/// A change of a machine, decided on what was seen of it.
pub struct MachineChange<'a> {
    /// Which machine.
    pub name: Arc<str>,
    /// [`Head::changed`] as it was seen; `None`: there was no such machine.
    pub seen: Option<u64>,
    /// A definition that counts from now on; `None`: the one that counts stays.
    pub revision: Option<NewRevision>,
    /// What the card says from now on, given the definition that counts then; `None` from it: the machine goes. Its
    /// definitions and executions stay.
    pub card: &'a (dyn Fn(RevisionId) -> Option<Arc<str>> + 'a),
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revised {
    /// It was made, and the machine stands so.
    Stands(Head),
    /// The machine is gone, or is still not there, as nothing defines it.
    Gone,
    /// The machine stands otherwise than it was seen, or is not there. Nothing was changed: look again.
    Otherwise(Option<Head>),
}

/// What is kept by name and is no machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registry {
    /// How to authenticate at a destination, sealed.
    Connection,
    /// A kind of work that workers ask for.
    Activity,
    /// An activity that was deleted, and not made again.
    DeletedActivity,
    /// A bearer token: its role, and the hash of its secret.
    Token,
    /// A machine that is paused, or all of them.
    Pause,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// What it is.
    pub kind: Registry,
    /// Its name, of which there is one of each kind.
    pub name: Arc<str>,
    /// When it was given.
    pub created_at: Timestamp,
    /// What it says; the store does not look into it.
    pub body: Vec<u8>,
}
