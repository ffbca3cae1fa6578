//! A Task: its bytes and key, and its answers.

use super::{Seen, Turning};
use crate::effect::{Call, Effect};
use crate::event::{EventKind, Fault, Scheduled, TaskFamily};
use crate::id::{Attempt, EffectKey, Round, Secret, StrandId, TaskToken};
use crate::input::{By, Certainty, Outcome};
use crate::strand::{Sent, Standing, Step};
use crate::trial::Stage;
use crate::turn::{Lateness, LedgerStatus, Note};
use perdura_asl::error::RUNTIME;
use perdura_asl::json::Payload;
use perdura_asl::machine::{Kind, Machine, Scalar, State, Task};
use perdura_asl::resource::{Pattern, Target, TaskKind};
use perdura_asl::scope::{Failure, Scope};
use std::sync::Arc;

/// The longest timeout in the language.
const SECONDS_MAX: i64 = 99_999_999;

/// The parts of a call, before it is on record.
pub(super) struct Prepared {
    round: Round,
    pub(super) input: Payload,
    secret: Option<Secret>,
    credentials: Option<Payload>,
    timeout: Option<u64>,
    heartbeat: Option<u64>,
}

impl Turning<'_> {
    /// Takes the task: the first time, or again.
    pub(super) fn call(&mut self, strand: StrandId, state: &State, task: &Task) -> Result<(), Failure> {
        if let Some(result) = self.step(strand).result.clone() {
            // A completed Step never runs again.
            return self.finish(strand, state, &task.after, result);
        }
        let step = self.step(strand);
        let (holds, prepared) = if step.has_lost_bytes() {
            let prepared = self.prepare(strand, state, task, step.round)?;
            (self.holds_lost(strand, task, &prepared.input), Some(prepared))
        } else {
            (self.holds_again(strand), None)
        };
        // A child that has ended may be swept before its parent ends: requested again, it would begin anew.
        let is_child = task.resource.kind == TaskKind::Child;
        // An earlier run of the state around it got an answer.
        if let Some(result) = self.step(strand).done.clone().filter(|_| holds || is_child) {
            return self.finish(strand, state, &task.after, result);
        }
        match prepared {
            Some(_) if holds => self.hold_lost(strand),
            None if holds => self.hold_again(strand),
            Some(prepared) => self.send(strand, task, prepared)?,
            None => self.schedule(strand, state, task)?,
        }
        Ok(())
    }

    /// Schedules the task, whatever its destination's policy is.
    pub(super) fn schedule(&mut self, strand: StrandId, state: &State, task: &Task) -> Result<(), Failure> {
        let round = self.step(strand).round;
        self.schedule_in(strand, state, task, round)
    }

    /// The same in another round than the step's current one.
    pub(super) fn schedule_in(
        &mut self,
        strand: StrandId,
        state: &State,
        task: &Task,
        round: Round,
    ) -> Result<(), Failure> {
        let prepared = self.prepare(strand, state, task, round)?;
        self.send(strand, task, prepared)
    }

    /// The call that would go out if the strand's task were taken again in its round.
    pub(super) fn prepare_again(&self, strand: StrandId) -> Result<Prepared, Failure> {
        let machine = self.machine();
        let state = self.state(&machine, strand);
        match &state.kind {
            Kind::Task(task) => self.prepare(strand, state, task, self.step(strand).round),
            _ => unreachable!("only a Task is held"),
        }
    }

    /// The call that would go out in a round.
    fn prepare(
        &self,
        strand: StrandId,
        state: &State,
        task: &Task,
        round: Round,
    ) -> Result<Prepared, Failure> {
        let input = self.effective_input(strand, state)?;
        // The same round sends the same bytes, whatever the expressions would give now.
        let again = self.step(strand).sent_in(round).cloned();
        // A worker answers for the attempt that it took. A token that is part of the bytes is the same each time.
        let has_worker = task.resource.pattern == Pattern::Worker;
        let secret = match &again {
            Some(sent) if has_worker => sent.secret.map(Secret::next_attempt),
            Some(sent) => sent.secret,
            None => task.resource.pattern.has_token().then(|| Secret(self.dice.throw())),
        };
        let mut seen = Seen::input(input.value());
        seen.secret = secret;
        self.with_scope(strand, &seen, |scope| {
            let timeout = seconds(task.timeout.as_ref(), scope, "TimeoutSeconds")?;
            let heartbeat = seconds(task.heartbeat.as_ref(), scope, "HeartbeatSeconds")?;
            let credentials = task
                .credentials
                .as_ref()
                .map(|credentials| credentials.evaluate(scope, "Credentials"))
                .transpose()?;
            let kept = again.as_ref().filter(|sent| sent.lost.is_none());
            let input = match (kept, &task.arguments) {
                (Some(sent), _) => sent.input.clone(),
                (None, Some(arguments)) => arguments.evaluate(scope, arguments_field(state))?.into(),
                (None, None) => input.clone(),
            };
            Ok(Prepared {
                round,
                input,
                secret,
                credentials: credentials.map(Payload::from),
                timeout,
                heartbeat,
            })
        })
    }

    /// Records the call, and lets it leave.
    pub(super) fn send(&mut self, strand: StrandId, task: &Task, prepared: Prepared) -> Result<(), Failure> {
        let Prepared { round, input: sent, secret, credentials, timeout, heartbeat } = prepared;
        let has_worker = task.resource.pattern == Pattern::Worker;
        self.see(Stage::Arguments, &sent);
        if self.draft.base.policies.is_deleted(&task.resource) {
            let cause = format!("The activity {} does not exist.", task.resource.arn);
            return Err(Failure::new(RUNTIME, cause));
        }
        let family = family(task);
        self.check_size(task.resource.whose(), &sent)?;
        if let Some(credentials) = &credentials {
            self.check_size(task.resource.whose(), credentials)?;
        }
        self.bytes += sent.len();
        self.emit(
            strand,
            EventKind::TaskScheduled(Box::new(Scheduled {
                family: family.clone(),
                input: sent.clone(),
                timeout_seconds: timeout,
                heartbeat_seconds: heartbeat,
                credentials: credentials.clone(),
                round,
                secret,
            })),
        );
        // A worker says itself when it starts; every other call starts when it leaves.
        if !has_worker {
            self.emit(strand, EventKind::TaskStarted { family, worker: None });
        }
        let key = self.key(strand);
        self.note(Note::Ledger { strand, key: key.clone(), status: LedgerStatus::Pending });
        let token = secret.map(|secret| TaskToken { execution: self.draft.base.identity.id, strand, secret });
        self.called.insert(strand);
        let record = self.step(strand).sent.as_ref();
        let attempt = record.map_or(Attempt::FIRST, |sent| sent.attempt);
        let submitted = record.is_some_and(|sent| sent.submitted);
        self.effects.push(Effect::CallTask(Call {
            strand,
            key,
            attempt,
            resource: task.resource.clone(),
            input: sent,
            token,
            credentials,
            timeout_seconds: timeout,
            heartbeat_seconds: heartbeat,
            submitted,
        }));
        Ok(())
    }

    pub(super) fn family(&self, machine: &Machine, strand: StrandId) -> TaskFamily {
        match &self.state(machine, strand).kind {
            Kind::Task(task) => family(task),
            _ => unreachable!("only a Task has a call under way"),
        }
    }

    /// The addressed step, if it is still in that round.
    pub(super) fn addressed(&self, by: &By) -> Option<&Step> {
        let step = self.draft.peek(by.strand())?.step.as_ref()?;
        let named = match by {
            By::Key { key, .. } => *key == self.key(by.strand()),
            By::Token(token) => {
                let is_its = |sent: &Sent| {
                    let newest = sent.secret;
                    newest.is_some_and(|newest| token.secret.is_of_an_attempt_until(newest, sent.attempt))
                };
                token.execution == self.draft.base.identity.id && step.sent.as_ref().is_some_and(is_its)
            }
        };
        named.then_some(step)
    }

    /// The same call, at the strand that now has the step: after another run of a Parallel or Map it is another strand.
    pub(super) fn moved(&self, by: &By) -> By {
        if self.draft.peek(by.strand()).is_some() {
            return by.clone();
        }
        let at = |strand: StrandId| match by {
            By::Key { key, attempt, .. } => By::Key { strand, key: key.clone(), attempt: *attempt },
            By::Token(token) => By::Token(TaskToken { strand, ..*token }),
        };
        let mut strands = self.draft.strand_ids().into_iter().map(at);
        strands.find(|by| self.addressed(by).is_some()).unwrap_or_else(|| by.clone())
    }

    /// The same, for inputs that only the running attempt can send: taken, heartbeat, handed over, failed.
    pub(super) fn attempted(&self, by: &By) -> Option<&Step> {
        let step = self.addressed(by)?;
        let sent = step.sent.as_ref();
        let is_its = match by {
            By::Key { attempt: None, .. } => true,
            By::Key { attempt, .. } => sent.map(|sent| sent.attempt) == *attempt,
            By::Token(token) => sent.and_then(|sent| sent.secret) == Some(token.secret),
        };
        is_its.then_some(step)
    }

    /// Whether no worker has taken the strand's task.
    pub(super) fn is_unstarted(&self, strand: StrandId) -> bool {
        matches!(self.step(strand).standing, Standing::Calling { started: false, .. })
    }

    pub(super) fn task_started(&mut self, by: &By, worker: Option<Arc<str>>) {
        let strand = by.strand();
        match self.attempted(by).map(|step| &step.standing) {
            Some(Standing::Calling { started: false, .. }) => {
                let machine = self.machine();
                let family = self.family(&machine, strand);
                if matches!(family, TaskFamily::Activity { .. }) {
                    self.emit(strand, EventKind::TaskStarted { family, worker });
                } else {
                    self.ignore("only an activity is started by its worker");
                }
            }
            Some(Standing::Calling { started: true, .. }) => self.ignore("the task was started already"),
            _ => self.ignore("nobody waits for this task"),
        }
    }

    pub(super) fn heartbeat(&mut self, by: &By) {
        let strand = by.strand();
        match self.attempted(by).map(|step| &step.standing) {
            Some(Standing::Calling { started: true, .. }) => {}
            Some(Standing::Calling { started: false, .. }) => {
                return self.ignore("no worker has taken this task");
            }
            _ => return self.ignore("nobody waits for this task"),
        }
        let now = self.moment.steady;
        let step = self.draft.strand(strand).and_then(|strand| strand.step.as_mut());
        if let Some(Standing::Calling { heartbeat: Some(clock), .. }) = step.map(|step| &mut step.standing) {
            // Not recorded: heartbeat clocks are not durable.
            clock.start(now);
        }
    }

    /// An answer. A success counts for the step, from any attempt; every other answer counts only for its own attempt,
    /// because another one may be under way.
    pub(super) fn settle(&mut self, by: &By, outcome: &Outcome) {
        let by = &self.moved(by);
        let strand = by.strand();
        let succeeded = matches!(outcome, Outcome::Succeeded { .. });
        if succeeded && let Some((strand, round)) = self.goes_back_to(by) {
            self.take_back(strand);
            if self.reopen_in(strand, round) {
                self.answer(strand, outcome);
            }
            return;
        }
        let step = if succeeded { self.addressed(by) } else { self.attempted(by) };
        let Some(step) = step else { return self.late(by, outcome) };
        let sent = step.sent.as_ref().is_some_and(|sent| sent.round == step.round) && step.result.is_none();
        match &step.standing {
            Standing::Calling { .. } => self.answer(strand, &self.judged(strand, outcome)),
            Standing::Held { .. } => self.settle_held(strand, &self.judged(strand, outcome)),
            // It came before its retry was made: the retry is made, and answered at once.
            Standing::Ready | Standing::Resting { retry: true, .. } if sent && succeeded => {
                if self.reopen(strand) {
                    self.answer(strand, outcome);
                }
            }
            Standing::Ready
            | Standing::Resting { .. }
            | Standing::Fanning(_)
            | Standing::MapRunning { .. } => self.late(by, outcome),
        }
    }

    /// The outcome with the certainty at this destination: a listed error is a refusal, and without keys no refusal
    /// counts for an earlier attempt.
    fn judged(&self, strand: StrandId, outcome: &Outcome) -> Outcome {
        let mut judged = outcome.clone();
        let (Outcome::Failed { fault, certainty } | Outcome::SubmitFailed { fault, certainty }) = &mut judged
        else {
            return judged;
        };
        let policy = self.policy(strand);
        if *certainty == Certainty::Ambiguous && policy.refuses(fault.error.as_deref()) {
            *certainty = Certainty::Refused;
        }
        if *certainty == Certainty::Refused && self.is_doubted(strand) && !policy.honours_keys() {
            *certainty = Certainty::Ambiguous;
        }
        judged
    }

    /// Whether an earlier attempt of the strand's round may have been performed.
    pub(super) fn is_doubted(&self, strand: StrandId) -> bool {
        self.step(strand).sent.as_ref().is_some_and(|sent| sent.doubt)
    }

    /// Whether the round is in doubt after this answer.
    pub(super) fn leaves_doubt(&self, strand: StrandId, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Failed { certainty, .. } | Outcome::SubmitFailed { certainty, .. } => match certainty {
                Certainty::Refused => false,
                Certainty::NotSent => self.is_doubted(strand),
                Certainty::Ambiguous => true,
            },
            Outcome::NotStarted { .. } => self.is_doubted(strand),
            Outcome::Submitted { .. } => true,
            Outcome::Succeeded { .. } => false,
        }
    }

    /// The strand that now has the step of this key, if there is one.
    fn strand_of(&self, key: &EffectKey) -> Option<StrandId> {
        let takes_it = |strand: &StrandId| {
            let has_step = self.draft.peek(*strand).is_some_and(|strand| strand.step.is_some());
            has_step && self.key(*strand).step() == key.step()
        };
        self.draft.strand_ids().into_iter().find(takes_it)
    }

    /// A success under a refused key: the step has moved on, but nothing was begun under its next key. So it returns to
    /// the round that was performed after all.
    fn goes_back_to(&self, by: &By) -> Option<(StrandId, Round)> {
        let key = self.draft.changes.core.failed_key(by)?;
        let strand = self.strand_of(key)?;
        self.step(strand).can_go_back_to(key.round()).then(|| (strand, key.round()))
    }

    /// Takes a task back from the workers' queue: it was certainly not performed.
    fn take_back(&mut self, strand: StrandId) {
        if self.is_unstarted(strand) {
            let key = self.key(strand);
            self.effects.push(Effect::CancelTask { strand, key: key.clone(), stops_job: false });
            self.note(Note::Ledger { strand, key, status: LedgerStatus::Failed });
        }
    }

    /// An answer that no step waits for. If it says that something was done under a key that the Ledger calls failed,
    /// the key becomes uncertain.
    pub(super) fn late(&mut self, by: &By, outcome: &Outcome) {
        let strand = by.strand();
        let succeeded = matches!(outcome, Outcome::Succeeded { .. });
        let contradicted = self.draft.changes.core.failed_key(by).filter(|_| succeeded).cloned();
        let told = match by {
            By::Key { key, .. } => Some(key.clone()),
            // After the end, the step of the token is unchanged.
            By::Token(_) => {
                let ended = succeeded && self.draft.changes.core.status.is_ended();
                let own = ended.then(|| self.addressed(by).map(|_| self.key(strand))).flatten();
                contradicted.clone().or(own)
            }
        };
        let lateness = if contradicted.is_some() { Lateness::GivenUp } else { self.lateness(by) };
        self.note(Note::LateOutcome { strand, key: told, succeeded, lateness });
        if let Some(key) = contradicted {
            let strand = self.strand_of(&key).unwrap_or(strand);
            self.note(Note::Ledger { strand, key, status: LedgerStatus::Uncertain });
        }
    }

    /// The state of the addressed step, for the record of a late answer.
    fn lateness(&self, by: &By) -> Lateness {
        let step = self.draft.peek(by.strand()).and_then(|strand| strand.step.as_ref());
        let current = self.addressed(by).is_some();
        match (step, by) {
            (Some(step), _) if current && step.result.is_some() => Lateness::Duplicate,
            (Some(_), _) if current => Lateness::GivenUp,
            // An earlier round of the same step.
            (Some(_), By::Key { strand, key, .. }) if key.step() == self.key(*strand).step() => {
                Lateness::GivenUp
            }
            (Some(_) | None, _) => Lateness::Unknown,
        }
    }

    pub(super) fn answer(&mut self, strand: StrandId, outcome: &Outcome) {
        self.allow();
        let machine = self.machine();
        let state = self.state(&machine, strand);
        let Kind::Task(task) = &state.kind else { return };
        let family = family(task);
        let key = self.key(strand);
        // Only a job or a callback is handed over first and ends later; other families have no such events.
        let handed_over = task.resource.pattern.is_handed_over();
        if matches!(outcome, Outcome::Submitted { .. }) && !handed_over {
            return self.ignore("only a job or a callback is handed over");
        }
        let again = matches!(self.step(strand).standing, Standing::Calling { submitted: true, .. });
        if matches!(outcome, Outcome::Submitted { .. }) && again {
            return self.ignore("it was handed over already");
        }
        let unstarted = matches!(self.step(strand).standing, Standing::Calling { started: false, .. });
        if unstarted
            && matches!(family, TaskFamily::Activity { .. })
            && !matches!(outcome, Outcome::NotStarted { .. })
        {
            self.emit(strand, EventKind::TaskStarted { family: family.clone(), worker: None });
        }
        if let Outcome::Failed { fault, .. }
        | Outcome::SubmitFailed { fault, .. }
        | Outcome::NotStarted { fault, .. } = outcome
            && self.leaves_doubt(strand, outcome)
            && self.holds_after(strand, fault)
        {
            return self.hold(strand, fault.clone());
        }
        match outcome {
            Outcome::Submitted { output } => {
                self.emit(strand, EventKind::TaskSubmitted { family, output: output.clone() });
            }
            Outcome::SubmitFailed { fault, certainty } if !handed_over => {
                self.call_failed(strand, family, fault.clone(), *certainty);
            }
            Outcome::SubmitFailed { fault, certainty } => {
                let kind =
                    EventKind::TaskSubmitFailed { family, fault: fault.clone(), certainty: *certainty };
                self.emit(strand, kind);
                self.note(Note::Ledger { strand, key, status: self.failed_status(strand) });
                self.step_failed(strand, fault.clone());
            }
            Outcome::NotStarted { fault, scheduled } => {
                let kind = EventKind::TaskNotStarted { family, scheduled: *scheduled, fault: fault.clone() };
                self.emit(strand, kind);
                self.note(Note::Ledger { strand, key, status: self.failed_status(strand) });
                self.step_failed(strand, fault.clone());
            }
            Outcome::Failed { fault, certainty } => {
                self.call_failed(strand, family, fault.clone(), *certainty);
            }
            Outcome::Succeeded { output } => {
                if let Err(failure) = self.check_size(task.resource.whose(), output) {
                    // It was performed, only its answer is too large: a retry must not use another key.
                    let fault = Fault::new(failure.error, failure.cause);
                    let certainty = Certainty::Ambiguous;
                    self.emit(strand, EventKind::TaskFailed { family, fault: fault.clone(), certainty });
                    self.note(Note::Ledger { strand, key, status: LedgerStatus::Completed });
                    return self.task_failed(strand, fault);
                }
                self.bytes += output.len();
                self.see(Stage::Result, output);
                self.emit(strand, EventKind::TaskSucceeded { family, output: output.clone() });
                self.note(Note::Ledger { strand, key, status: LedgerStatus::Completed });
                if let Err(failure) = self.finish(strand, state, &task.after, output.clone()) {
                    self.evaluation_failed(strand, failure);
                }
            }
        }
    }

    fn call_failed(&mut self, strand: StrandId, family: TaskFamily, fault: Fault, certainty: Certainty) {
        let key = self.key(strand);
        self.emit(strand, EventKind::TaskFailed { family, fault: fault.clone(), certainty });
        self.note(Note::Ledger { strand, key, status: self.failed_status(strand) });
        self.task_failed(strand, fault);
    }

    /// The Ledger's status of a round whose attempt has failed.
    pub(super) fn failed_status(&self, strand: StrandId) -> LedgerStatus {
        match &self.step(strand).sent {
            Some(sent) if sent.is_in_doubt() => LedgerStatus::Uncertain,
            _ => LedgerStatus::Failed,
        }
    }
}

pub(super) fn arguments_field(state: &State) -> &'static str {
    match state.language {
        perdura_asl::machine::QueryLanguage::JsonPath => "Parameters",
        perdura_asl::machine::QueryLanguage::Jsonata => "Arguments",
    }
}

fn seconds(scalar: Option<&Scalar>, scope: &Scope<'_>, field: &str) -> Result<Option<u64>, Failure> {
    let Some(scalar) = scalar else { return Ok(None) };
    scalar.integer(scope, field, (1, SECONDS_MAX)).map(|seconds| Some(seconds.unsigned_abs()))
}

fn family(task: &Task) -> TaskFamily {
    let arn = &task.resource.arn;
    match &task.resource.target {
        Target::Function { .. } => TaskFamily::Lambda { resource: arn.clone() },
        Target::Activity { .. } => TaskFamily::Activity { resource: arn.clone() },
        Target::Service { service, action } => {
            TaskFamily::Task { resource_type: service.clone(), resource: action.clone() }
        }
        Target::Step { name } => TaskFamily::Task { resource_type: "step".into(), resource: name.clone() },
    }
}
