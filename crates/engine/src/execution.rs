//! An execution: where each line of control stands.

use crate::deadlines::Deadlines;
use crate::destination::{Destinations, Policies};
use crate::event::Fault;
use crate::id::{
    EffectKey, ExecutionId, Round, Secret, Seq, StepPlace, StrandId, TaskToken, Timestamp, Wake,
};
use crate::input::Certainty;
use crate::turn::is_false;
use perdura_asl::json::Payload;
use perdura_asl::machine::{FlowIx, Machine, MachineType, StateIx};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who an execution is; fixed when it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Its id, from which all its keys follow.
    pub id: ExecutionId,
    /// Its ARN.
    pub arn: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its machine's ARN.
    pub machine_arn: Arc<str>,
    /// Its machine's name.
    pub machine_name: Arc<str>,
    /// The role it would run under on AWS.
    pub role_arn: Arc<str>,
    /// The version of its machine that it was started under, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_arn: Option<Arc<str>>,
    /// The alias that it was started by, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_arn: Option<Arc<str>>,
    /// What whoever started it calls the trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_header: Option<Arc<str>>,
    /// Standard or Express.
    pub kind: MachineType,
    /// Where it starts: the machine itself, or the processor of a Distributed Map.
    pub flow: FlowIx,
    /// Its input.
    pub input: Payload,
    /// Its bounds.
    pub limits: Limits,
}

impl Identity {
    /// The version that it was started under.
    pub fn version(&self) -> Option<u32> {
        qualifier(self.version_arn.as_deref()?)?.parse().ok()
    }

    /// The name of the alias that it was started by.
    pub fn alias(&self) -> Option<&str> {
        qualifier(self.alias_arn.as_deref()?)
    }

    /// It is a child of a Map Run, which runs a part of a machine.
    pub fn is_child_of_map_run(&self) -> bool {
        self.flow != Machine::TOP
    }
}

/// The version or the alias that an ARN ends with.
fn qualifier(arn: &str) -> Option<&str> {
    arn.rsplit_once(':').map(|(_, qualifier)| qualifier)
}

/// Bounds on what one execution may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest input, output or result.
    pub payload_bytes_max: usize,
    /// All variables together.
    pub variables_bytes_max: usize,
    /// The longest history; `None` for no end.
    pub events_max: Option<u64>,
    /// How long it may run; `None` for no end but the machine's own.
    pub duration_seconds_max: Option<u64>,
    /// How many states one Turn may enter.
    pub turn_states_max: u32,
    /// How many bytes of payload one Turn may record, roughly.
    pub turn_bytes_max: usize,
}

impl Limits {
    /// AWS's own limits, which fail as AWS fails: a Standard execution has a year and 25,000 events, an Express one
    /// five minutes and no end of its history.
    pub const fn strict(kind: MachineType) -> Self {
        let (seconds, events_max) = match kind {
            MachineType::Standard => (31_536_000, Some(25_000)),
            MachineType::Express => (300, None),
        };
        Self {
            payload_bytes_max: 262_144,
            variables_bytes_max: 10 * 1024 * 1024,
            events_max,
            duration_seconds_max: Some(seconds),
            ..Self::GENEROUS
        }
    }

    /// No 256 KiB wall, no end of the history; bounds that only a mistake reaches.
    pub const GENEROUS: Self = Self {
        payload_bytes_max: 64 * 1024 * 1024,
        variables_bytes_max: 256 * 1024 * 1024,
        events_max: None,
        duration_seconds_max: None,
        turn_states_max: 1_000,
        turn_bytes_max: 256 * 1024,
    };
}

/// Whether it runs, and how it ended.
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
    /// As the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created | Self::Running => "RUNNING",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Aborted => "ABORTED",
            Self::TimedOut => "TIMED_OUT",
        }
    }

    /// Whether nothing more happens, unless somebody redrives it.
    pub fn is_ended(self) -> bool {
        match self {
            Self::Created | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Aborted | Self::TimedOut => true,
        }
    }
}

/// Why an execution is not redriven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRedrivable {
    /// It has not begun.
    NotBegun,
    /// It runs.
    Running,
    /// There is nothing left to do.
    Succeeded,
    /// Express executions are not.
    Express,
}

impl NotRedrivable {
    /// As a Turn notes it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotBegun => "the execution has not begun",
            Self::Running => "the execution is running",
            Self::Succeeded => "the execution succeeded",
            Self::Express => "an Express execution is not redriven",
        }
    }
}

/// How many tokens of redrives are remembered.
pub(crate) const REDRIVE_TOKENS_MAX: usize = 16;

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
    /// Strands that can go on without waiting for anything.
    pub(crate) ready: BTreeSet<StrandId>,
    pub(crate) output: Option<Payload>,
    pub(crate) fault: Fault,
    pub(crate) redrives: u32,
    pub(crate) redriven_at: Option<Timestamp>,
    /// Under which tokens it was redriven, and when; the last ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redrive_tokens: Vec<(Arc<str>, Timestamp)>,
    /// The timer that was last asked for.
    #[serde(default)]
    pub(crate) timer: Wake,
}

/// One line of control: the machine itself, a branch of a Parallel, an iteration of a Map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strand {
    /// Whose branch it is, and which.
    pub parent: Option<(StrandId, u32)>,
    /// What it runs.
    pub flow: FlowIx,
    /// Its place in Map and Parallel, for keys: `[3]`, `[2:3][0]`.
    pub place: Arc<str>,
    /// What its first state receives.
    pub input: Payload,
    /// Its variables; outer ones are its parents'. Shared until one is set.
    pub variables: Arc<BTreeMap<Arc<str>, Payload>>,
    /// Its last event, from which the next one follows.
    pub last: Seq,
    /// Where it stands; `None` before the first state and after the last.
    pub step: Option<Step>,
}

/// One visit of a strand to a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Which state.
    pub state: StateIx,
    /// Its raw input.
    pub input: Payload,
    /// The event that entered it, and the one before.
    pub entered: Seq,
    /// What that event followed from.
    pub entered_after: Seq,
    /// When it was entered.
    pub entered_at: Timestamp,
    /// The same instant by the steady clock, where that says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered_steady: Option<Timestamp>,
    /// How often its branches or iterations were begun.
    pub runs: u32,
    /// Retries so far, by retrier.
    pub retries: BTreeMap<u32, u64>,
    /// Which key generation.
    pub round: Round,
    /// What was last sent, under which round: the same round sends the same again.
    pub sent: Option<Sent>,
    /// What the task gave, if only the use of it failed: then it is used again, and the task not called.
    pub result: Option<Payload>,
    /// Where it stands.
    pub standing: Standing,
}

impl Step {
    /// All retries so far: `$$.State.RetryCount`.
    pub fn retry_count(&self) -> u64 {
        self.retries.values().sum()
    }
}

/// The last attempt of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Under which round.
    pub round: Round,
    /// When it was first sent in this round.
    pub at: Timestamp,
    /// The bytes.
    pub input: Payload,
    /// The secret of its token.
    pub secret: Option<Secret>,
    /// `Credentials`, evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Payload>,
    /// How it ended, if it failed.
    pub failed: Option<Certainty>,
}

/// Where a Step stands. Each variant holds what is true there, and nothing that is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Standing {
    /// Entered, or about to be tried again.
    Ready,
    /// A call is on its way.
    Calling {
        /// It left; an activity: a worker has taken it.
        started: bool,
        /// A job or callback was handed over: its token is out, and it is not made again.
        #[serde(default, skip_serializing_if = "is_false")]
        submitted: bool,
        /// How long it may take.
        timeout: Option<Clock>,
        /// How long it may be silent.
        heartbeat: Option<Clock>,
    },
    /// A Wait, or a pause before a retry.
    Resting {
        /// Until when, by the steady clock unless `wall` is set.
        until: Timestamp,
        /// It is a retry.
        retry: bool,
        /// It waits for a timestamp, and so for the wall clock.
        #[serde(default, skip_serializing_if = "is_false")]
        wall: bool,
    },
    /// Nobody knows whether its call was performed: a person decides, or a late answer.
    Held {
        /// What happened to the call.
        fault: Fault,
        /// The history has an attempt that has not ended.
        open: bool,
    },
    /// Branches or iterations run.
    Fanning(Run),
    /// Children of a Distributed Map run.
    MapRunning {
        /// The run's ARN.
        arn: Arc<str>,
        /// When it began.
        #[serde(default)]
        began_at: Timestamp,
        /// Its children do not run: it has ended, or was stopped; a redrive takes it up again.
        over: bool,
        /// A redrive has taken it up: only the children that did not succeed run.
        #[serde(default, skip_serializing_if = "is_false")]
        redriven: bool,
    },
}

/// One run of a Distributed Map. What is drawn by chance for it follows from these two, so that the same run is
/// ordered alike however often.
#[derive(Clone, Debug)]
pub(crate) struct MapRunId {
    pub(crate) arn: Arc<str>,
    pub(crate) began_at: Timestamp,
}

/// A time that may pass, by the steady clock. An activity's begins when a worker takes it, every other as the call leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// How long.
    pub seconds: u64,
    /// Until when, once it runs.
    pub until: Option<Timestamp>,
}

impl Clock {
    pub(crate) fn start(&mut self, now: Timestamp) {
        self.until = Some(now.after_seconds(self.seconds));
    }
}

/// A running Parallel or inline Map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How many branches or items in all.
    pub total: u32,
    /// How many at once.
    pub at_once: u32,
    /// The next to start.
    pub next: u32,
    /// How many ended well.
    pub done: u32,
    /// Those under way, by index.
    pub live: BTreeMap<u32, StrandId>,
    /// The items of a Map; the common input of a Parallel.
    pub items: Payload,
}

/// Many entries for each strand, kept apart so that touching one does not copy them all.
pub(crate) type PerStrand<K, V> = BTreeMap<StrandId, BTreeMap<K, V>>;

/// One run of one machine. Its state is the fold of its Turns.
#[derive(Clone, Debug)]
pub struct Execution {
    pub(crate) machine: Arc<Machine>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) core: Core,
    pub(crate) strands: BTreeMap<StrandId, Strand>,
    /// What ended branches and iterations gave, by index.
    pub(crate) results: PerStrand<u32, Payload>,
    /// How often each state was visited; for a Parallel or Map, how often it was run.
    pub(crate) visits: PerStrand<StateIx, u32>,
    /// Who wants to be woken when; follows from the strands.
    pub(crate) deadlines: Deadlines,
    /// What may be done to those who are called; asked in deciding only.
    pub(crate) policies: Policies,
}

/// What of an execution is stored; the machine is stored once for all its executions.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    identity: Arc<Identity>,
    core: Core,
    strands: BTreeMap<StrandId, Strand>,
    results: PerStrand<u32, Payload>,
    visits: PerStrand<StateIx, u32>,
}

impl Execution {
    /// One that has not begun.
    pub fn new(machine: Arc<Machine>, identity: Identity) -> Self {
        Self {
            machine,
            identity: Arc::new(identity),
            core: Core::default(),
            strands: BTreeMap::new(),
            results: BTreeMap::new(),
            visits: BTreeMap::new(),
            deadlines: Deadlines::default(),
            policies: Policies::default(),
        }
    }

    /// With the policies of those whom it calls. They are not stored with it.
    #[must_use]
    pub fn with_destinations(mut self, destinations: Arc<dyn Destinations>) -> Self {
        self.policies = Policies(Some(destinations));
        self
    }

    /// Its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether it runs, and how it ended.
    pub fn status(&self) -> Status {
        self.core.status
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        !matches!(self.core.status, Status::Created | Status::Running)
    }

    /// Its output, once it succeeded.
    pub fn output(&self) -> Option<&Payload> {
        self.core.output.as_ref()
    }

    /// Error and cause, once it ended badly.
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

    /// How often it was redriven.
    pub fn redrives(&self) -> u32 {
        self.core.redrives
    }

    /// When it was last redriven.
    pub fn redriven_at(&self) -> Option<Timestamp> {
        self.core.redriven_at
    }

    /// When it was redriven under this token, if it was lately.
    pub fn redriven_under(&self, token: &str) -> Option<Timestamp> {
        let mut known = self.core.redrive_tokens.iter();
        known.find(|(known, _)| **known == *token).map(|(_, at)| *at)
    }

    /// Whether it could be redriven now. Whether a child of a Map Run should be is for its run to say.
    pub fn redrivable(&self) -> Result<(), NotRedrivable> {
        match self.core.status {
            Status::Created => Err(NotRedrivable::NotBegun),
            Status::Running => Err(NotRedrivable::Running),
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

    /// One line of control, while it lasts.
    pub fn strand(&self, id: StrandId) -> Option<&Strand> {
        self.strands.get(&id)
    }

    /// When it wants to be woken next.
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

    /// The name of the state in which a strand stands.
    pub fn state_name(&self, strand: StrandId) -> Option<&Arc<str>> {
        let step = self.strands.get(&strand)?.step.as_ref()?;
        Some(&self.machine.state(step.state).name)
    }

    /// The calls under way.
    pub fn calls(&self) -> impl Iterator<Item = (StrandId, EffectKey)> {
        self.standing(|standing| matches!(standing, Standing::Calling { .. }))
    }

    /// The calls of which nobody knows whether they were performed, and which a person has to resolve.
    pub fn held(&self) -> impl Iterator<Item = (StrandId, EffectKey)> {
        self.standing(|standing| matches!(standing, Standing::Held { .. }))
    }

    /// What was sent to the one who holds this token, while their answer is waited for.
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

    /// Everything about it but its machine and its destinations, for storage.
    pub fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { machine: _, identity, core, strands, results, visits, deadlines: _, policies: _ } = self;
        let snapshot = Snapshot {
            identity: identity.clone(),
            core: core.clone(),
            strands: strands.clone(),
            results: results.clone(),
            visits: visits.clone(),
        };
        snapshot.serialize(serializer)
    }

    /// From storage, with its machine.
    pub fn deserialize<'de, D: serde::Deserializer<'de>>(
        machine: Arc<Machine>,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        let Snapshot { identity, core, strands, results, visits } = Snapshot::deserialize(deserializer)?;
        let mut deadlines = Deadlines::default();
        for (id, strand) in &strands {
            deadlines.replace(*id, Wake::default(), strand.wakes());
        }
        let policies = Policies::default();
        Ok(Self { machine, identity, core, strands, results, visits, deadlines, policies })
    }
}

/// Two executions are the same if they would decide the same.
impl PartialEq for Execution {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.core == other.core
            && self.strands == other.strands
            && self.results == other.results
            && self.visits == other.visits
            && self.deadlines == other.deadlines
    }
}

impl Strand {
    /// When it wants to be woken.
    pub(crate) fn wakes(&self) -> Wake {
        let Some(step) = &self.step else { return Wake::default() };
        match &step.standing {
            Standing::Resting { until, wall: true, .. } => Wake { steady: None, wall: Some(*until) },
            Standing::Resting { until, wall: false, .. } => Wake { steady: Some(*until), wall: None },
            Standing::Calling { timeout, heartbeat, .. } => {
                let clocks = [timeout, heartbeat].into_iter().flatten();
                Wake { steady: clocks.filter_map(|clock| clock.until).min(), wall: None }
            }
            Standing::Ready | Standing::Held { .. } | Standing::Fanning(_) | Standing::MapRunning { .. } => {
                Wake::default()
            }
        }
    }

    pub(crate) fn key(&self, execution: ExecutionId, machine: &Machine, visit: u32) -> Option<EffectKey> {
        let step = self.step.as_ref()?;
        let state = &machine.state(step.state).name;
        Some(EffectKey::new(execution, &StepPlace { state, place: &self.place, visit }, step.round))
    }

    pub(crate) fn token(&self, execution: ExecutionId, strand: StrandId) -> Option<TaskToken> {
        let secret = self.step.as_ref()?.sent.as_ref()?.secret?;
        Some(TaskToken { execution, strand, secret })
    }
}
