//! An execution: the state of each line of control.

use crate::deadlines::Deadlines;
use crate::destination::{Destinations, Policies};
use crate::event::Fault;
use crate::id::{Attempt, EffectKey, Secret, Seq, StrandId, TaskToken, Timestamp, Wake};
use crate::identity::Identity;
use crate::input::{By, Outcome};
use crate::kept::Kept;
use crate::strand::{Sent, Standing, Strand};
use crate::turn::LedgerStatus;
use perdura_asl::json::Payload;
use perdura_asl::machine::{Machine, MachineType, StateIx};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Not begun.
    #[default]
    Created,
    /// On its way.
    Running,
    /// Ended well.
    Succeeded,
    /// Failed.
    Failed,
    /// Stopped.
    Aborted,
    /// Took too long.
    TimedOut,
}

impl Status {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created | Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Aborted => "ABORTED",
            Self::TimedOut => "TIMED_OUT",
        }
    }

    /// Whether nothing more happens, unless it is redriven.
    pub fn is_ended(self) -> bool {
        match self {
            Self::Created | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Aborted | Self::TimedOut => true,
        }
    }
}

/// Why an execution cannot be redriven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRedrivable {
    /// It has not begun.
    NotBegun,
    /// It runs.
    Running,
    /// There is nothing left to do.
    Succeeded,
    /// Express executions cannot be redriven.
    Express,
    /// Its data was erased, so it cannot continue.
    Erased,
}

impl NotRedrivable {
    /// The reason in a Turn's note.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotBegun => "the execution has not begun",
            Self::Running => "the execution is running",
            Self::Succeeded => "the execution succeeded",
            Self::Express => "an Express execution is not redriven",
            Self::Erased => "the execution was erased",
        }
    }
}

/// How many redrive tokens are remembered.
pub(crate) const REDRIVE_TOKENS_MAX: usize = 16;

/// How many successes after the end are recorded, each of another strand.
const LATE_MAX: usize = 16;

/// How many failed keys are remembered.
const FAILED_MAX: usize = 16;

/// The small part that every Turn may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Core {
    pub(crate) status: Status,
    pub(crate) last: Seq,
    pub(crate) at: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) timeout_at: Option<Timestamp>,
    pub(crate) next_strand: u32,
    /// Strands that can continue without waiting.
    pub(crate) ready: BTreeSet<StrandId>,
    pub(crate) output: Option<Payload>,
    pub(crate) fault: Fault,
    pub(crate) redrives: u32,
    pub(crate) redriven_at: Option<Timestamp>,
    /// The last redrive tokens, with their times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redrive_tokens: Vec<(Arc<str>, Timestamp)>,
    /// The bytes of completed calls kept for another run of a Parallel or Map.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) kept_bytes: usize,
    /// The timer that was last set.
    #[serde(default)]
    pub(crate) timer: Wake,
    /// Strands with a recorded success after the end, since the last end.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) late: BTreeSet<StrandId>,
    /// The last keys that the Ledger calls failed: a success may come late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<FailedKey>,
    /// When its data was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) erased_at: Option<Timestamp>,
}

/// A key that the Ledger calls failed, and the secret of the last token that went out with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailedKey {
    pub(crate) key: EffectKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Secret>,
}

impl Core {
    /// Records a new Ledger mark of a key.
    pub(crate) fn mark(&mut self, key: &EffectKey, status: LedgerStatus, secret: Option<Secret>) {
        self.failed.retain(|failed| failed.key != *key);
        if status == LedgerStatus::Failed {
            if self.failed.len() == FAILED_MAX {
                self.failed.remove(0);
            }
            self.failed.push(FailedKey { key: key.clone(), secret });
        }
    }

    /// The addressed key, if the Ledger calls it failed.
    pub(crate) fn failed_key(&self, by: &By) -> Option<&EffectKey> {
        let is_meant = |failed: &&FailedKey| match by {
            By::Key { key, .. } => failed.key == *key,
            By::Token(token) => failed.secret.is_some_and(|secret| secret.is_of_the_round_of(token.secret)),
        };
        self.failed.iter().find(is_meant).map(|failed| &failed.key)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Many entries for each strand, stored apart so that changing one does not copy them all.
pub(crate) type PerStrand<K, V> = BTreeMap<StrandId, BTreeMap<K, V>>;

/// One run of one machine. Its state is the fold of its Turns.
#[derive(Clone, Debug)]
pub struct Execution {
    pub(crate) machine: Arc<Machine>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) core: Core,
    pub(crate) strands: BTreeMap<StrandId, Strand>,
    /// The results of ended branches and iterations, by index.
    pub(crate) results: PerStrand<u32, Payload>,
    /// How often each state was visited; for a Parallel or Map, how often it was run.
    pub(crate) visits: PerStrand<StateIx, u32>,
    /// The records that a run of a Parallel or Map leaves to the next one, by the step's place.
    pub(crate) kept: PerStrand<Arc<str>, Kept>,
    /// The wake-up times of strands; derived from the strands.
    pub(crate) deadlines: Deadlines,
    /// The policies of its destinations; used in deciding only.
    pub(crate) policies: Policies,
}

/// The stored part of an execution; the machine is stored once for all its executions.
#[derive(Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) identity: Arc<Identity>,
    pub(crate) core: Core,
    pub(crate) strands: BTreeMap<StrandId, Strand>,
    pub(crate) results: PerStrand<u32, Payload>,
    pub(crate) visits: PerStrand<StateIx, u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kept: PerStrand<Arc<str>, Kept>,
}

impl Execution {
    /// An execution that has not begun.
    pub fn new(machine: Arc<Machine>, identity: Identity) -> Self {
        Self {
            machine,
            identity: Arc::new(identity),
            core: Core::default(),
            strands: BTreeMap::new(),
            results: BTreeMap::new(),
            visits: BTreeMap::new(),
            kept: BTreeMap::new(),
            deadlines: Deadlines::default(),
            policies: Policies::default(),
        }
    }

    /// Sets the policies of its destinations. They are not stored with it.
    #[must_use]
    pub fn with_destinations(mut self, destinations: Arc<dyn Destinations>) -> Self {
        self.policies = Policies(Some(destinations));
        self
    }

    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn status(&self) -> Status {
        self.core.status
    }

    pub fn is_ended(&self) -> bool {
        !matches!(self.core.status, Status::Created | Status::Running)
    }

    /// Whether an outcome after the end is recorded: a person should see a success, once, and repeated answers must not
    /// make an ended execution grow. An erased execution records nothing more.
    pub(crate) fn tells_of_late(&self, by: &By, outcome: &Outcome) -> bool {
        let is_new = !self.core.late.contains(&by.strand()) && self.core.late.len() < LATE_MAX;
        let is_wanted = is_new || self.core.failed_key(by).is_some();
        is_wanted && self.core.erased_at.is_none() && matches!(outcome, Outcome::Succeeded { .. })
    }

    /// Whether it continues by itself, without waiting.
    pub fn goes_on(&self) -> bool {
        !self.is_ended() && !self.core.ready.is_empty()
    }

    /// Its output, once it succeeded.
    pub fn output(&self) -> Option<&Payload> {
        self.core.output.as_ref()
    }

    /// Error and cause, once it failed.
    pub fn fault(&self) -> &Fault {
        &self.core.fault
    }

    /// When it began.
    pub fn started_at(&self) -> Timestamp {
        self.core.started_at
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.core.ended_at
    }

    /// When its data was erased.
    pub fn erased_at(&self) -> Option<Timestamp> {
        self.core.erased_at
    }

    /// How often it was redriven.
    pub fn redrives(&self) -> u32 {
        self.core.redrives
    }

    /// When it was last redriven.
    pub fn redriven_at(&self) -> Option<Timestamp> {
        self.core.redriven_at
    }

    /// When it was redriven under this token, if that was recently.
    pub fn redriven_under(&self, token: &str) -> Option<Timestamp> {
        let mut known = self.core.redrive_tokens.iter();
        known.find(|(known, _)| **known == *token).map(|(_, at)| *at)
    }

    /// Whether it can be redriven now. For a child of a Map Run, the run decides whether it should be.
    pub fn redrivable(&self) -> Result<(), NotRedrivable> {
        match self.core.status {
            Status::Created => Err(NotRedrivable::NotBegun),
            Status::Running => Err(NotRedrivable::Running),
            _ if self.core.erased_at.is_some() => Err(NotRedrivable::Erased),
            Status::Succeeded => Err(NotRedrivable::Succeeded),
            Status::Failed | Status::Aborted | Status::TimedOut => match self.identity.kind {
                MachineType::Express if !self.identity.is_child_of_map_run() => Err(NotRedrivable::Express),
                MachineType::Express | MachineType::Standard => Ok(()),
            },
        }
    }

    /// Its last event's number: the length of its history.
    pub fn last_event(&self) -> Seq {
        self.core.last
    }

    /// When its last event was written.
    pub fn last_at(&self) -> Timestamp {
        self.core.at
    }

    /// Its lines of control.
    pub fn strands(&self) -> impl ExactSizeIterator<Item = (StrandId, &Strand)> {
        self.strands.iter().map(|(id, strand)| (*id, strand))
    }

    /// One line of control, while it exists.
    pub fn strand(&self, id: StrandId) -> Option<&Strand> {
        self.strands.get(&id)
    }

    /// The next time when it must be woken.
    pub fn next_wake(&self) -> Wake {
        if self.core.status != Status::Running {
            return Wake::default();
        }
        self.deadlines.first(|_| true).or(Wake { steady: self.core.timeout_at, wall: None })
    }

    /// The key of a strand's step, in its current round.
    pub fn key(&self, strand: StrandId) -> Option<EffectKey> {
        let step = self.strands.get(&strand)?.step.as_ref()?;
        let visit = self.visits.get(&strand)?.get(&step.state).copied()?;
        self.strands.get(&strand)?.key(self.identity.id, &self.machine, visit)
    }

    /// The name of a strand's current state.
    pub fn state_name(&self, strand: StrandId) -> Option<&Arc<str>> {
        let step = self.strands.get(&strand)?.step.as_ref()?;
        Some(&self.machine.state(step.state).name)
    }

    /// The calls under way.
    pub fn calls(&self) -> impl Iterator<Item = (StrandId, EffectKey, Attempt)> {
        self.attempts(|standing| matches!(standing, Standing::Calling { .. }))
    }

    fn attempts(
        &self,
        which: impl Fn(&Standing) -> bool,
    ) -> impl Iterator<Item = (StrandId, EffectKey, Attempt)> {
        self.standing(which).filter_map(|(strand, key)| {
            let sent = self.strands.get(&strand)?.step.as_ref()?.sent.as_ref()?;
            Some((strand, key, sent.attempt))
        })
    }

    /// The calls with an unknown outcome that a person must resolve.
    pub fn held(&self) -> impl Iterator<Item = (StrandId, EffectKey, Attempt)> {
        self.attempts(|standing| matches!(standing, Standing::Held { .. }))
    }

    /// The call that waits for an answer by this token, of this very attempt.
    pub fn awaited(&self, token: &TaskToken) -> Option<&Sent> {
        let strand = self.strands.get(&token.strand)?;
        let step = strand.step.as_ref()?;
        let is_meant = self.core.status == Status::Running
            && matches!(step.standing, Standing::Calling { .. })
            && strand.token(self.identity.id, token.strand) == Some(*token);
        step.sent.as_ref().filter(|_| is_meant)
    }

    fn standing(&self, which: impl Fn(&Standing) -> bool) -> impl Iterator<Item = (StrandId, EffectKey)> {
        self.strands
            .iter()
            .filter(move |(_, strand)| strand.step.as_ref().is_some_and(|step| which(&step.standing)))
            .filter_map(|(id, _)| Some((*id, self.key(*id)?)))
    }

    /// Everything except its machine and its destinations, for storage.
    pub fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { machine: _, identity, core, strands, results, visits, kept, deadlines: _, policies: _ } =
            self;
        let snapshot = Snapshot {
            identity: identity.clone(),
            core: core.clone(),
            strands: strands.clone(),
            results: results.clone(),
            visits: visits.clone(),
            kept: kept.clone(),
        };
        snapshot.serialize(serializer)
    }

    /// From storage, with its machine.
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(
        machine: Arc<Machine>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let Snapshot { identity, core, strands, results, visits, kept } =
            Snapshot::deserialize(deserializer)?;
        let mut deadlines = Deadlines::default();
        for (id, strand) in &strands {
            deadlines.replace(*id, Wake::default(), strand.wakes());
        }
        let policies = Policies::default();
        Ok(Self { machine, identity, core, strands, results, visits, kept, deadlines, policies })
    }
}

/// Two executions are equal if they would decide the same.
impl PartialEq for Execution {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.core == other.core
            && self.strands == other.strands
            && self.results == other.results
            && self.visits == other.visits
            && self.kept == other.kept
            && self.deadlines == other.deadlines
    }
}
