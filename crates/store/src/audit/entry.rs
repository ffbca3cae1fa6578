//! Entries: who did what, to what, and with which result.

use super::{Chain, ChainState, hex};
use crate::machine::{Head, MachineRecord, Registered, Registry, Revised};
use crate::words;
use perdura_engine::asl::timestamp::format_ms;
use perdura_engine::{ExecutionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// The longest card of a machine that an entry contains; of a longer one it has the SHA-256.
const CARD_BYTES_MAX: usize = 4_096;

/// The requester, and the way of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The time of the request, by the wall clock.
    #[serde(with = "instant")]
    pub at: Timestamp,
    /// The name of a token or the id of an access key; `owner` for the owner of the data directory, `perdura` for the
    /// server.
    pub principal: Arc<str>,
    pub tenant: Arc<str>,
    pub role: Arc<str>,
    pub door: DoorKind,
    /// The address of the peer, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
    /// The requested operation, as the API or command names it.
    pub operation: Arc<str>,
    /// The client's key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
}

/// The way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoorKind {
    /// The Step Functions API.
    Aws,
    /// `/v1` on TCP.
    V1,
    /// `/v1` on the control socket.
    Socket,
    /// A command on data that no server holds.
    Command,
    /// A task of an execution calls this server.
    Task,
    /// The server, by itself.
    Chore,
    /// A program that embeds the engine.
    Program,
}

/// The change, done or tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Start,
    Stop,
    Redrive,
    Resolve,
    /// A worker's answer for its task.
    Answer,
    /// The bounds of a Map Run were changed.
    Adjust,
    GiveUp,
    /// The data of executions was erased; the executions stay.
    Erase,
    /// A machine was changed: its definition, versions, aliases or tags, or it was deleted.
    Change,
    /// A connection, an activity or a token was stored.
    Put,
    /// One of them was deleted.
    Delete,
    /// Old data was deleted.
    Sweep,
    /// The oldest entries were deleted.
    Cut,
    /// A stored input, output, error or history was returned.
    Read,
    /// A request was refused before any of these.
    Try,
}

impl Verb {
    pub const ALL: [Self; 15] = [
        Self::Start,
        Self::Stop,
        Self::Redrive,
        Self::Resolve,
        Self::Answer,
        Self::Adjust,
        Self::GiveUp,
        Self::Erase,
        Self::Change,
        Self::Put,
        Self::Delete,
        Self::Sweep,
        Self::Cut,
        Self::Read,
        Self::Try,
    ];

    /// The name in entries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Redrive => "redrive",
            Self::Resolve => "resolve",
            Self::Answer => "answer",
            Self::Adjust => "adjust",
            Self::GiveUp => "give-up",
            Self::Erase => "erase",
            Self::Change => "change",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Sweep => "sweep",
            Self::Cut => "cut",
            Self::Read => "read",
            Self::Try => "try",
        }
    }
}

/// The changed thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Subject {
    Execution {
        execution: ExecutionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<Arc<str>>,
    },
    /// The executions that a sweep deleted.
    Executions {
        executions: Vec<ExecutionId>,
    },
    MapRun {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution: Option<ExecutionId>,
        #[serde(rename = "mapRun")]
        map_run: Uuid,
    },
    Machine {
        machine: Arc<str>,
    },
    /// A connection, an activity or a token.
    Registered {
        kind: Arc<str>,
        name: Arc<str>,
    },
    /// Everything under a key.
    Key {
        key: Arc<str>,
    },
    /// A chain of the audit.
    Audit {
        chain: Chain,
    },
    /// Nothing with a name.
    Installation,
}

impl Subject {
    pub fn execution(execution: ExecutionId) -> Self {
        Self::Execution { execution, machine: None }
    }

    /// Whether it is about this execution.
    pub fn has(&self, wanted: ExecutionId) -> bool {
        match self {
            Self::Execution { execution, .. } => *execution == wanted,
            Self::MapRun { execution, .. } => *execution == Some(wanted),
            Self::Executions { executions } => executions.contains(&wanted),
            Self::Machine { .. }
            | Self::Registered { .. }
            | Self::Key { .. }
            | Self::Audit { .. }
            | Self::Installation => false,
        }
    }

    pub fn machine(&self) -> Option<&str> {
        match self {
            Self::Execution { machine, .. } => machine.as_deref(),
            Self::Machine { machine } => Some(machine),
            Self::Executions { .. }
            | Self::MapRun { .. }
            | Self::Registered { .. }
            | Self::Key { .. }
            | Self::Audit { .. }
            | Self::Installation => None,
        }
    }

    /// The execution whose Shard's chain has the entry.
    pub fn of_shard(&self) -> Option<ExecutionId> {
        match self {
            Self::Execution { execution, .. } => Some(*execution),
            Self::MapRun { execution, .. } => *execution,
            Self::Executions { .. }
            | Self::Machine { .. }
            | Self::Registered { .. }
            | Self::Key { .. }
            | Self::Audit { .. }
            | Self::Installation => None,
        }
    }
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditResult {
    Done,
    /// It was in that state already, or the request came too late.
    Unchanged,
    Refused,
}

/// One action of a requester: done, tried, or a read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(flatten)]
    pub origin: Arc<Origin>,
    pub verb: Verb,
    #[serde(flatten)]
    pub subject: Subject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The Turn of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    pub result: AuditResult,
    /// Why it was refused, or changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Arc<str>>,
}

impl Entry {
    /// It was done.
    pub fn done(origin: &Arc<Origin>, verb: Verb, subject: Subject) -> Self {
        let (before, after, turn, why) = (None, None, None, None);
        Self { origin: origin.clone(), verb, subject, before, after, turn, result: AuditResult::Done, why }
    }

    /// It was refused.
    pub fn refused(origin: &Arc<Origin>, verb: Verb, subject: Subject, why: impl Into<Arc<str>>) -> Self {
        Self { result: AuditResult::Refused, why: Some(why.into()), ..Self::done(origin, verb, subject) }
    }

    /// It changed nothing.
    pub fn unchanged(origin: &Arc<Origin>, verb: Verb, subject: Subject, why: impl Into<Arc<str>>) -> Self {
        Self { result: AuditResult::Unchanged, why: Some(why.into()), ..Self::done(origin, verb, subject) }
    }

    /// A machine was revised, or is not as the caller saw it.
    pub(crate) fn revised(
        origin: &Arc<Origin>,
        name: &Arc<str>,
        before: Option<&Head>,
        told: &Revised,
    ) -> Self {
        let done = Self::done(origin, Verb::Change, Subject::Machine { machine: name.clone() });
        let before = before.map(stands);
        match told {
            Revised::Stands(head) => Self { before, after: Some(stands(head)), ..done },
            Revised::Gone => Self { before, ..done },
            Revised::Otherwise(_) => Self {
                before,
                result: AuditResult::Refused,
                why: Some("the machine was changed meanwhile".into()),
                ..done
            },
        }
    }

    /// A definition was deployed.
    pub(crate) fn deployed(
        origin: &Arc<Origin>,
        before: Option<&MachineRecord>,
        record: &MachineRecord,
    ) -> Self {
        let tell = |record: &MachineRecord| json!({"revision": record.revision.0});
        let done = Self::done(origin, Verb::Change, Subject::Machine { machine: record.name.clone() });
        Self { before: before.map(tell), after: Some(tell(record)), ..done }
    }

    /// A thing was stored by its name. Its content may be a secret, and is left out; that of a pause is not secret.
    pub(crate) fn registered(origin: &Arc<Origin>, entry: &Registered, was_there: bool) -> Self {
        let before = was_there.then(|| json!("kept"));
        let says = match entry.kind {
            Registry::Pause => serde_json::from_slice(&entry.body).ok(),
            Registry::Connection | Registry::Activity | Registry::DeletedActivity | Registry::Token => None,
        };
        let after = says.unwrap_or_else(|| json!("kept"));
        Self { before, after: Some(after), ..Self::done(origin, Verb::Put, named(entry.kind, &entry.name)) }
    }

    /// A thing was deleted.
    pub(crate) fn unregistered(origin: &Arc<Origin>, kind: Registry, name: &str, was_there: bool) -> Self {
        let subject = named(kind, name);
        if was_there {
            return Self { before: Some(json!("kept")), ..Self::done(origin, Verb::Delete, subject) };
        }
        Self::unchanged(origin, Verb::Delete, subject, "it was not there")
    }

    /// Executions and rows of the ledger were deleted.
    pub(crate) fn swept(origin: &Arc<Origin>, executions: Vec<ExecutionId>, ledger: u64) -> Self {
        let before = Some(json!({"executions": executions.len(), "ledgerRows": ledger}));
        Self { before, ..Self::done(origin, Verb::Sweep, Subject::Executions { executions }) }
    }

    /// The data of executions was erased.
    pub(crate) fn erased(origin: &Arc<Origin>, executions: Vec<ExecutionId>) -> Self {
        Self::done(origin, Verb::Erase, Subject::Executions { executions })
    }

    /// The oldest rows of a chain were deleted.
    pub(crate) fn cut(origin: &Arc<Origin>, stood: &ChainState, stands: &ChainState) -> Self {
        let tell = |state: &ChainState| Some(json!({"first": state.first, "hashBefore": hex(&state.before)}));
        let done = Self::done(origin, Verb::Cut, Subject::Audit { chain: stands.chain });
        Self { before: tell(stood), after: tell(stands), ..done }
    }
}

fn named(kind: Registry, name: &str) -> Subject {
    Subject::Registered { kind: words::registry_name(kind).into(), name: name.into() }
}

/// A machine's state in an entry.
fn stands(head: &Head) -> Value {
    let card = if head.card.len() > CARD_BYTES_MAX {
        json!({"sha256": hex(&Sha256::digest(head.card.as_bytes()).into())})
    } else {
        serde_json::from_str(&head.card).unwrap_or(Value::Null)
    };
    json!({"revision": head.revision.0, "changed": head.changed, "card": card})
}

/// Instants as text.
mod instant {
    use super::{Timestamp, format_ms};
    use perdura_engine::asl::timestamp::parse_ms;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_ms(at.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_ms(&text).map(Timestamp).ok_or_else(|| de::Error::custom("this is no instant"))
    }
}
