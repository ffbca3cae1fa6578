//! Where executions are played. Every Turn, of a story or of a random run, is taken under the same laws.
//!
//! The stage stands for the runtime: it commits what was decided, keeps what is under way, and knows which
//! timer is set. Whatever the runtime may rely on is asserted here, so that a story shows more than its text.

pub(crate) mod laws;

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::machine::{Machine, MachineType};
use perdura_engine::asl::read::{ReadOptions, read};
use perdura_engine::asl::resource::{Resource, Target};
use perdura_engine::asl::source::Source;
use perdura_engine::{
    Arns, Call, Decision, Destinations, Effect, EffectKey, Execution, ExecutionId, Identity, Input, Lateness,
    LedgerStatus, Limits, Moment, Note, Policy, Record, Resolved, Secret, Status, StrandId, Timestamp, Turn,
    Uncertain, Wake, decide,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// When every execution on the stage begins: 2026-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp(1_767_225_600_000);

/// Reads a definition that must be valid.
pub(crate) fn machine(name: &str, text: &str, machine_type: MachineType) -> Arc<Machine> {
    let source = Source::new(name, text);
    let reading = read(&source, &ReadOptions { machine_type, strict: false });
    match reading.machine {
        Some(machine) => Arc::new(machine),
        None => panic!("{name} is not a valid definition: {:#?}\n{text}", reading.diagnostics),
    }
}

/// Who an execution on the stage is.
pub(crate) fn identity(machine: &Machine, input: &str, limits: Limits) -> Identity {
    let arns = Arns::default();
    Identity {
        id: ExecutionId::from_random(1),
        arn: arns.execution("story", "one", machine.machine_type, "unique").into(),
        name: "one".into(),
        machine_arn: arns.machine("story").into(),
        machine_name: "story".into(),
        role_arn: "arn:aws:iam::123456789012:role/story".into(),
        version_arn: None,
        alias_arn: None,
        trace_header: None,
        labels: perdura_engine::Labels::default(),
        root_key: None,
        kind: machine.machine_type,
        flow: Machine::TOP,
        input: Payload::from_text(input).expect("the input is JSON"),
        limits,
    }
}

/// Policies by a part of the resource's ARN; the first one that is in it counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies(pub(crate) Vec<(String, Policy)>);

impl Destinations for Policies {
    fn policy(&self, resource: &Resource, _: &Payload) -> Policy {
        let known = self.0.iter().find(|(part, _)| resource.arn.contains(part));
        known.map_or_else(Policy::default, |(_, policy)| policy.clone())
    }
}

/// How a Turn is decided: as ever, or by a process that is about to end.
pub(crate) type Decide = fn(&Execution, &Input, &Moment) -> Decision;

/// One execution, played Turn by Turn.
pub(crate) struct Stage {
    execution: Execution,
    turns: Vec<Turn>,
    /// Every call that ever left, the newest last.
    calls: Vec<Call>,
    /// Every Map Run that ever left, the newest last.
    map_runs: Vec<(StrandId, EffectKey)>,
    /// What is under way, as the runtime would know it.
    under_way: BTreeMap<EffectKey, StrandId>,
    /// What was sent under each key.
    sent: BTreeMap<EffectKey, (String, Option<Secret>)>,
    /// When each key was first sent.
    first_sent_at: BTreeMap<EffectKey, Timestamp>,
    /// What was last said of each key.
    ledger: BTreeMap<EffectKey, LedgerStatus>,
    /// Keys that had failed, and under which a success came late.
    contradicted: BTreeSet<EffectKey>,
    /// Keys under which somebody said too late that it was done.
    said_done: BTreeSet<EffectKey>,
    policies: Policies,
    timer: Wake,
    /// The time of the newest event.
    latest: Timestamp,
}

/// What is the same each time that a call goes out under its key: the bytes, and the secret in them. A worker does not
/// get its token with the bytes.
fn sent(call: &Call) -> (String, Option<Secret>) {
    let is_activity = matches!(call.resource.target, Target::Activity { .. });
    (call.input.text().to_string(), call.token.filter(|_| !is_activity).map(|token| token.secret))
}

/// What one Turn brought.
pub(crate) struct Taken {
    /// What was committed.
    pub(crate) turn: Turn,
    /// What left after it.
    pub(crate) effects: Vec<Effect>,
    /// Why it changed nothing, where that is not recorded.
    #[allow(dead_code, reason = "stories alone show it")]
    pub(crate) ignored: Option<Arc<str>>,
}

impl Stage {
    /// With an execution that has not begun.
    pub(crate) fn new(machine: Arc<Machine>, identity: Identity) -> Self {
        Self {
            execution: Execution::new(machine, identity),
            turns: Vec::new(),
            calls: Vec::new(),
            map_runs: Vec::new(),
            under_way: BTreeMap::new(),
            sent: BTreeMap::new(),
            first_sent_at: BTreeMap::new(),
            ledger: BTreeMap::new(),
            contradicted: BTreeSet::new(),
            said_done: BTreeSet::new(),
            policies: Policies::default(),
            timer: Wake::default(),
            latest: START,
        }
    }

    /// With policies for those who are called.
    pub(crate) fn with_policies(mut self, policies: Policies) -> Self {
        self.execution = self.execution.with_destinations(Arc::new(policies.clone()));
        self.policies = policies;
        self
    }

    /// The execution as it stands.
    pub(crate) fn execution(&self) -> &Execution {
        &self.execution
    }

    /// Every call that ever left, the newest last.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Every Map Run that ever left, the newest last.
    pub(crate) fn map_runs(&self) -> &[(StrandId, EffectKey)] {
        &self.map_runs
    }

    /// Takes one Turn under the laws.
    pub(crate) fn take(&mut self, input: &Input, moment: &Moment) -> Taken {
        self.take_by(decide, input, moment)
    }

    /// The same, decided in another way.
    pub(crate) fn take_by(&mut self, decide: Decide, input: &Input, moment: &Moment) -> Taken {
        let decision = decide(&self.execution, input, moment);
        let (turn, ignored) = (decision.turn.clone(), decision.ignored.clone());
        laws::decided_alike(decide, &self.execution, &self.policies, input, moment, &decision);
        let before = self.execution.clone();
        let effects = self.execution.commit(decision);
        laws::commit_is_apply(&before, &turn, &self.execution);
        self.latest = if turn.events().next().is_some() { self.latest.max(moment.now) } else { self.latest };
        laws::history_is_in_order(&before, input, (self.latest, moment.steady), &turn);
        laws::the_end_is_quiet(&before, input, &effects);
        laws::the_end_does_not_grow(&before, &self.execution, &turn);
        laws::turn_is_bounded(&before, &turn);
        laws::ledger_marks_are_complete(&turn, &self.said_done);
        if *input == Input::Resume {
            laws::a_resume_tells_all(&before, &self.execution, moment, &turn, &effects);
            // The calls of the process that is gone are not under way; those whose token is out are.
            for effect in &effects {
                if let Effect::CallTask(Call { key, .. }) = effect {
                    self.under_way.remove(key);
                } else if let Effect::StartMapRun(order) = effect {
                    self.under_way.remove(&order.key);
                }
            }
        }
        if *input == Input::Timer {
            self.timer = Wake::default();
        }
        self.learn(&turn);
        self.repeats_are_allowed(input, moment, &effects);
        let held = turn.notes().filter_map(|note| match note {
            Note::Held { strand, key, .. } => Some((key.clone(), *strand)),
            _ => None,
        });
        // What a Parallel or Map waits for stays held through an end and a redrive.
        let held_before = before.held().map(|(strand, key, _)| (key, strand));
        let before = self.under_way.clone().into_iter().chain(held).chain(held_before).collect();
        // A call whose end is certain is over; one that took too long is also cancelled.
        self.settle(&turn, |status| status != LedgerStatus::Uncertain);
        for effect in &effects {
            self.perform(effect, &before);
        }
        self.settle(&turn, |status| status == LedgerStatus::Uncertain);
        // What is held may still be answered.
        if self.execution.status() == Status::Running {
            self.under_way.extend(self.execution.held().map(|(strand, key, _)| (key, strand)));
        }
        laws::all_calls_are_accounted_for(&self.execution, &self.under_way);
        laws::nobody_waits_in_vain(&self.execution, self.timer, &effects);
        self.turns.push(turn.clone());
        Taken { turn, effects, ignored }
    }

    /// The process dies and comes back: the execution is read from what was stored, and taken up.
    pub(crate) fn restart(&mut self, moment: &Moment) -> Taken {
        let text = laws::stored(&self.execution);
        let machine = self.execution.machine().clone();
        self.execution = laws::restored(machine, &text, &self.policies);
        self.timer = Wake::default();
        self.take(&Input::Resume, moment)
    }

    /// The end of the play: all Turns folded from nothing give what stands here, and so do those that were erased but for
    /// the data.
    pub(crate) fn finish(&self) {
        laws::an_erased_execution_reads_on(&self.execution, &self.turns);
        let machine = self.execution.machine().clone();
        // Without its policies: what follows from them is on record.
        let mut replayed = Execution::new(machine, self.execution.identity().clone());
        for turn in &self.turns {
            replayed.apply(turn);
        }
        laws::same_but_for_heartbeats(&replayed, &self.execution, "the fold of all Turns is the state");
    }

    /// None of these is left when it is erased.
    #[allow(dead_code, reason = "only random fates have data that is known")]
    pub(crate) fn is_erased_without(&self, data: &[&str]) {
        let (identity, turns, state) = laws::erased(&self.execution, &self.turns);
        let left = serde_json::to_string(&(identity, turns)).expect("Turns can be stored") + &state;
        for text in data {
            assert!(!left.contains(text), "{text} is left in {left}");
        }
    }

    /// What the Turn says of keys. What was certainly not done, or may be done again because a person says so, is no
    /// repetition when it goes out.
    fn learn(&mut self, turn: &Turn) {
        for pair in turn.records.windows(2) {
            if let [Record::Note(Note::LateOutcome { .. }), Record::Note(Note::Ledger { key, .. })] = pair {
                self.contradicted.insert(key.clone());
            }
        }
        for note in turn.notes() {
            match note {
                Note::Ledger { key, status, .. } => {
                    self.ledger.insert(key.clone(), *status);
                    if *status == LedgerStatus::Failed {
                        self.first_sent_at.remove(key);
                    }
                }
                Note::LateOutcome {
                    key: Some(key), succeeded: true, lateness: Lateness::GivenUp, ..
                } => {
                    self.said_done.insert(key.clone());
                }
                Note::Resolved { key, resolution: Resolved::Failed, .. } => {
                    self.said_done.remove(key);
                }
                Note::Resolved { key, resolution: Resolved::Again, .. } => {
                    self.first_sent_at.remove(key);
                }
                _ => {}
            }
        }
    }

    /// A step gets another key only when what was sent under its earlier ones was certainly not done. Where that is
    /// contradicted once a Parallel or Map is about to be run again, its next run has moved on already.
    fn earlier_rounds_are_out_of_doubt(&self, key: &EffectKey) {
        let same_step = |(other, _): &(&EffectKey, &LedgerStatus)| {
            other.step() == key.step() && other.round() < key.round()
        };
        for (earlier, status) in self.ledger.iter().filter(same_step) {
            if earlier.step().contains('[') && self.contradicted.contains(earlier) {
                continue;
            }
            assert_eq!(*status, LedgerStatus::Failed, "{key} goes out while {earlier} is in doubt");
        }
    }

    /// A call that may have been performed goes out again only where its destination allows it, and in time.
    fn repeats_are_allowed(&mut self, input: &Input, moment: &Moment, effects: &[Effect]) {
        let now = moment.now.max(moment.steady);
        for effect in effects {
            let Effect::CallTask(call) = effect else { continue };
            let Some(first) = self.first_sent_at.get(&call.key) else {
                self.first_sent_at.insert(call.key.clone(), self.latest.max(moment.now));
                continue;
            };
            if matches!(input, Input::Resolve { .. }) {
                continue;
            }
            let Policy { uncertain, key_memory_ms, refused: _ } =
                self.policies.policy(&call.resource, &call.input);
            assert_eq!(uncertain, Uncertain::Retry, "{} is repeated though it is to be held", call.key);
            assert!(now <= first.after_ms(key_memory_ms), "{} is repeated too late", call.key);
        }
    }

    fn perform(&mut self, effect: &Effect, before: &BTreeMap<EffectKey, StrandId>) {
        match effect {
            Effect::CallTask(call) => {
                let sent = sent(call);
                if !self.sent.contains_key(&call.key) {
                    self.earlier_rounds_are_out_of_doubt(&call.key);
                }
                let first = self.sent.entry(call.key.clone()).or_insert_with(|| sent.clone());
                assert_eq!(*first, sent, "the same key always carries the same bytes: {}", call.key);
                let known = self.under_way.insert(call.key.clone(), call.strand);
                assert_eq!(known, None, "{} is called while it is under way", call.key);
                self.calls.push(call.clone());
            }
            Effect::AwaitTask(call) => {
                let sent = sent(call);
                assert_eq!(self.sent.get(&call.key), Some(&sent), "what is awaited was sent: {}", call.key);
                self.under_way.insert(call.key.clone(), call.strand);
            }
            Effect::StartMapRun(order) => {
                let known = self.under_way.insert(order.key.clone(), order.strand);
                assert_eq!(known, None, "{} is started while it is under way", order.key);
                self.map_runs.push((order.strand, order.key.clone()));
            }
            Effect::CancelTask { key, .. } | Effect::StopMapRun { key, .. } => {
                let known = self.under_way.remove(key).is_some() || before.contains_key(key);
                assert!(known, "{key} is cancelled though it is not under way");
            }
            Effect::SetTimer { wake } => self.timer = *wake,
            Effect::Continue | Effect::Publish { .. } => {}
        }
    }

    /// What was answered is no longer under way.
    fn settle(&mut self, turn: &Turn, which: impl Fn(LedgerStatus) -> bool) {
        for key in laws::settled_by(turn, &self.under_way, which) {
            self.under_way.remove(&key);
        }
    }
}
