//! Who did what: entries, and the chains of hashes that they stand in.
//!
//! An [`Entry`] is made where somebody asks, and is written in the transaction of what was asked for: a change without its
//! entry does not happen, and an entry of a change that was rolled back does not stay. There is a [`Chain`] for each Shard,
//! written by whoever holds it, and one for the Catalog. A commit adds one [`AuditRow`] to a chain, with all entries that
//! the commit has for it as lines of JSON, and with the SHA-256 of the row before. So whoever changes, drops or inserts a
//! row has to make all later rows anew; that the newest end was not cut off is known to whoever noted a hash elsewhere.

use crate::lease::Shard;
use crate::machine::{Head, MachineRecord, Registered, Registry, Revised};
use crate::store::Erased;
use crate::words;
use perdura_engine::asl::timestamp::format_ms;
use perdura_engine::{ExecutionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use uuid::Uuid;

/// The longest card of a machine that an entry has as it is; of a longer one it has the SHA-256.
const CARD_BYTES_MAX: usize = 4_096;

/// Where a request comes from, and who sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// When it was asked, by the wall clock.
    #[serde(with = "instant")]
    pub at: Timestamp,
    /// The name of a token or the id of an access key; `owner` is whoever has the data directory, `perdura` the server.
    pub principal: Arc<str>,
    pub tenant: Arc<str>,
    pub role: Arc<str>,
    pub door: DoorKind,
    /// The address of the peer, where the door has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
    /// What was asked for, as the door calls it.
    pub operation: Arc<str>,
    /// The client's key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
}

/// By which way a request came in.
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
    /// A task of an execution that calls this server.
    Task,
    /// The server, by itself.
    Chore,
    /// A program that has the engine in it.
    Program,
}

/// What was done, or tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    Start,
    Stop,
    Redrive,
    Resolve,
    /// A worker says how its task went.
    Answer,
    /// The bounds of a Map Run.
    Adjust,
    GiveUp,
    /// What executions held goes, and they stay.
    Erase,
    /// A machine: its definition, versions, aliases, tags, or that it goes.
    Change,
    /// A connection, an activity or a token is kept.
    Put,
    /// One of them goes.
    Delete,
    /// What is too old goes.
    Sweep,
    /// The oldest entries go.
    Cut,
    /// A stored input, output, error or history was given out.
    Read,
    /// A request was refused before it came to any of these.
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

    /// As entries spell it.
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

/// What it was done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Subject {
    Execution {
        execution: ExecutionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<Arc<str>>,
    },
    /// Those that a sweep took away.
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
    /// Whatever is known under a key.
    Key {
        key: Arc<str>,
    },
    /// A chain of the audit.
    Audit {
        chain: Chain,
    },
    /// Nothing that is known by a name.
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

    /// The execution whose Shard's chain it belongs to.
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

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditResult {
    Done,
    /// It was as it should be already, or came too late.
    Unchanged,
    Refused,
}

/// One thing that somebody did, tried, or was given.
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
    /// The execution's Turn that did it.
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

    /// A machine was revised, or stands otherwise than the caller saw it.
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

    /// Something was kept by its name. What it says may be a secret, and is not told; that of a pause is none.
    pub(crate) fn registered(origin: &Arc<Origin>, entry: &Registered, was_there: bool) -> Self {
        let before = was_there.then(|| json!("kept"));
        let says = match entry.kind {
            Registry::Pause => serde_json::from_slice(&entry.body).ok(),
            Registry::Connection | Registry::Activity | Registry::DeletedActivity | Registry::Token => None,
        };
        let after = says.unwrap_or_else(|| json!("kept"));
        Self { before, after: Some(after), ..Self::done(origin, Verb::Put, named(entry.kind, &entry.name)) }
    }

    /// Something was forgotten.
    pub(crate) fn unregistered(origin: &Arc<Origin>, kind: Registry, name: &str, was_there: bool) -> Self {
        let subject = named(kind, name);
        if was_there {
            return Self { before: Some(json!("kept")), ..Self::done(origin, Verb::Delete, subject) };
        }
        Self::unchanged(origin, Verb::Delete, subject, "it was not there")
    }

    /// Executions and rows of the ledger were taken away.
    pub(crate) fn swept(origin: &Arc<Origin>, executions: Vec<ExecutionId>, ledger: u64) -> Self {
        let before = Some(json!({"executions": executions.len(), "ledgerRows": ledger}));
        Self { before, ..Self::done(origin, Verb::Sweep, Subject::Executions { executions }) }
    }

    /// The data of executions was erased.
    pub(crate) fn erased(origin: &Arc<Origin>, executions: Vec<ExecutionId>) -> Self {
        Self::done(origin, Verb::Erase, Subject::Executions { executions })
    }

    /// The oldest rows of a chain were taken away.
    pub(crate) fn cut(origin: &Arc<Origin>, stood: &ChainState, stands: &ChainState) -> Self {
        let tell = |state: &ChainState| Some(json!({"first": state.first, "hashBefore": hex(&state.before)}));
        let done = Self::done(origin, Verb::Cut, Subject::Audit { chain: stands.chain });
        Self { before: tell(stood), after: tell(stands), ..done }
    }
}

fn named(kind: Registry, name: &str) -> Subject {
    Subject::Registered { kind: words::registry_name(kind).into(), name: name.into() }
}

/// A machine as an entry tells it.
fn stands(head: &Head) -> Value {
    let card = if head.card.len() > CARD_BYTES_MAX {
        json!({"sha256": hex(&Sha256::digest(head.card.as_bytes()).into())})
    } else {
        serde_json::from_str(&head.card).unwrap_or(Value::Null)
    };
    json!({"revision": head.revision.0, "changed": head.changed, "card": card})
}

/// Which chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    /// What is changed by everybody: machines, what is registered, sweeps.
    Catalog,
    Shard(Shard),
}

impl Chain {
    /// As it stands in the table.
    pub fn number(self) -> i64 {
        match self {
            Self::Catalog => -1,
            Self::Shard(shard) => i64::from(shard.0),
        }
    }

    pub fn of_number(number: i64) -> Option<Self> {
        match number {
            -1 => Some(Self::Catalog),
            number => u16::try_from(number).ok().map(|shard| Self::Shard(Shard(shard))),
        }
    }

    /// The chain of that name.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "catalog" => Some(Self::Catalog),
            name => name.strip_prefix("shard-")?.parse().ok().map(|shard| Self::Shard(Shard(shard))),
        }
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalog => formatter.write_str("catalog"),
            Self::Shard(shard) => write!(formatter, "shard-{}", shard.0),
        }
    }
}

impl Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::read(&name).ok_or_else(|| serde::de::Error::custom("no chain has this name"))
    }
}

/// The entries of one commit for one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Each on a line, without an end after the last.
    pub(crate) text: String,
    pub(crate) count: u64,
    /// The first and the last moment of them.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

impl Entries {
    pub fn push(&mut self, entry: &Entry) {
        if self.count > 0 {
            self.text.push('\n');
        }
        self.text.push_str(&serde_json::to_string(entry).expect("an entry is JSON"));
        self.count += 1;
        let at = entry.origin.at;
        self.span = Some(self.span.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
    }

    /// How large they are.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }
}

impl From<&Entry> for Entries {
    fn from(entry: &Entry) -> Self {
        let mut entries = Self::default();
        entries.push(entry);
        entries
    }
}

/// What the chains have of executions that were erased, each of them in that of its Shard.
pub(crate) fn erasing(
    erased: &Erased,
    ended: &[(ExecutionId, Timestamp)],
    shards: u16,
    by: Option<&Arc<Origin>>,
) -> Vec<(Chain, Entries)> {
    let Some(by) = by.filter(|_| matches!(erased, Erased::Done { executions: 1.., .. })) else {
        return Vec::new();
    };
    let mut chains: BTreeMap<Shard, Vec<ExecutionId>> = BTreeMap::new();
    for (execution, _) in ended {
        chains.entry(Shard::of(*execution, shards)).or_default().push(*execution);
    }
    let entries = |executions| Entries::from(&Entry::erased(by, executions));
    chains.into_iter().map(|(shard, executions)| (Chain::Shard(shard), entries(executions))).collect()
}

/// A SHA-256.
pub type Hash = [u8; 32];

/// What one commit added to a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Grows with every row, of whichever chain.
    pub id: i64,
    pub chain: Chain,
    /// The number of its first entry in its chain, from 1.
    pub first: u64,
    pub count: u64,
    /// The first moment of its entries.
    pub from_at: Timestamp,
    /// The last one.
    pub to_at: Timestamp,
    /// The entries, one on each line.
    pub entries: String,
    /// The hash of the row before in its chain; zeros before the first.
    pub previous: Hash,
    pub hash: Hash,
}

impl AuditRow {
    /// The row that follows in its chain.
    pub(crate) fn after(state: &ChainState, id: i64, entries: &Entries) -> Option<Self> {
        let (from_at, to_at) = entries.span?;
        let mut row = Self {
            id,
            chain: state.chain,
            first: state.next,
            count: entries.count,
            from_at,
            to_at,
            entries: entries.text.clone(),
            previous: state.head,
            hash: [0; 32],
        };
        row.hash = row.digest();
        Some(row)
    }

    /// The SHA-256 of a line with the other columns, and the entries as they stand, each with the end of its line.
    pub fn digest(&self) -> Hash {
        let Self { id, chain, first, count, from_at, to_at, entries, previous, hash: _ } = self;
        let (chain, from_at, to_at) = (chain.number(), from_at.0, to_at.0);
        let mut head = hex(previous);
        writeln!(head, " {id} {chain} {first} {count} {from_at} {to_at}").expect("a text takes all");
        let mut digest = Sha256::new();
        digest.update(head);
        digest.update(entries);
        digest.update("\n");
        digest.finalize().into()
    }

    /// The entries, each with its number in its chain.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = (u64, &str)> {
        let lines: Vec<&str> = self.entries.split('\n').collect();
        lines.into_iter().enumerate().map(|(at, line)| (self.first + at as u64, line))
    }
}

/// A chain as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainState {
    pub chain: Chain,
    /// The number of the first entry that is kept.
    pub first: u64,
    /// The hash of the row before that.
    pub before: Hash,
    /// The number of the next entry.
    pub next: u64,
    /// The hash of the newest row.
    pub head: Hash,
}

impl ChainState {
    /// A chain without rows.
    pub fn empty(chain: Chain) -> Self {
        Self { chain, first: 1, before: [0; 32], next: 1, head: [0; 32] }
    }

    /// With this row as its newest.
    pub(crate) fn with(&self, row: &AuditRow) -> Self {
        Self { next: row.first + row.count, head: row.hash, ..self.clone() }
    }

    /// Without its rows up to this one, which is its oldest.
    pub(crate) fn without(&self, row: &AuditRow) -> Self {
        Self { first: row.first + row.count, before: row.hash, ..self.clone() }
    }
}

/// Which rows are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Behind this row, in the order asked for.
    pub after: Option<i64>,
    /// The newest row first.
    pub newest_first: bool,
    /// Only rows with an entry at or after this.
    pub since: Option<Timestamp>,
    /// Only rows with an entry at or before this.
    pub until: Option<Timestamp>,
    /// About how many bytes at most; one row is always told.
    pub bytes_max: usize,
}

/// What does not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which row; `None`: it is about a chain as a whole.
    pub row: Option<i64>,
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(formatter, "audit row {row}: {}", self.what),
            None => formatter.write_str(&self.what),
        }
    }
}

/// A chain that was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub chain: Chain,
    pub rows: u64,
    pub entries: u64,
    /// The number of the first entry that is kept.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The hash of the newest row, in hexadecimal.
    pub head: String,
}

/// Follows all chains from their oldest row to the newest.
#[derive(Debug)]
pub struct Verifier {
    chains: BTreeMap<Chain, (ChainState, Followed)>,
    /// Heads that somebody noted, and that are still to be found.
    noted: Vec<(Chain, Hash)>,
    last: Option<i64>,
}

/// How far a chain was followed.
#[derive(Debug)]
struct Followed {
    next: u64,
    head: Hash,
    rows: u64,
}

impl Verifier {
    /// For chains that stand so, in which these hashes are to be found.
    pub fn new(chains: Vec<ChainState>, noted: &[(Chain, Hash)]) -> Self {
        let follow = |state: ChainState| {
            let followed = Followed { next: state.first, head: state.before, rows: 0 };
            (state.chain, (state, followed))
        };
        let noted = noted.to_vec();
        let chains: BTreeMap<_, _> = chains.into_iter().map(follow).collect();
        let mut verifier = Self { chains, noted, last: None };
        let ends: Vec<(Chain, Hash)> =
            verifier.chains.values().map(|(state, _)| (state.chain, state.before)).collect();
        verifier.noted.retain(|noted| !ends.contains(noted));
        verifier
    }

    /// Takes the next row, in the order of their ids.
    pub fn take(&mut self, row: &AuditRow) -> Result<(), Broken> {
        let broken = |what: String| Err(Broken { row: Some(row.id), what });
        if self.last.is_some_and(|last| last >= row.id) {
            return broken("it is out of order".into());
        }
        self.last = Some(row.id);
        let Some((_, followed)) = self.chains.get_mut(&row.chain) else {
            return broken(format!("there is no chain {}", row.chain));
        };
        if row.previous != followed.head || row.first != followed.next {
            let Followed { next, .. } = *followed;
            return broken(format!(
                "it does not follow the row before it in {}, after entry {}",
                row.chain,
                next - 1
            ));
        }
        if row.digest() != row.hash {
            return broken("its hash is not that of what stands in it".into());
        }
        if row.entries.split('\n').count() as u64 != row.count {
            return broken(format!("it says that it has {} entries", row.count));
        }
        *followed = Followed { next: row.first + row.count, head: row.hash, rows: followed.rows + 1 };
        self.noted.retain(|noted| *noted != (row.chain, row.hash));
        Ok(())
    }

    /// All rows were taken.
    pub fn finish(self) -> Result<Vec<Verified>, Broken> {
        let broken = |what: String| Err(Broken { row: None, what });
        let mut verified = Vec::new();
        for (chain, (state, followed)) in self.chains {
            if state.next != followed.next || state.head != followed.head {
                let (has, says) = (followed.next - 1, state.next.saturating_sub(1));
                return broken(format!("{chain} ends with entry {has}, and is to end with entry {says}"));
            }
            verified.push(Verified {
                chain,
                rows: followed.rows,
                entries: followed.next - state.first,
                first: state.first,
                last: followed.next - 1,
                head: hex(&followed.head),
            });
        }
        match self.noted.first() {
            Some((chain, hash)) => broken(format!("{chain} has no row with the hash {}", hex(hash))),
            None => Ok(verified),
        }
    }
}

/// Lower-case hexadecimal.
pub fn hex(hash: &Hash) -> String {
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes all");
        text
    })
}

/// A hash as [`hex`] writes it.
pub fn read_hex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
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
