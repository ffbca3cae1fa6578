//! From Turns to spans: one for the execution, one for each step, one more for each further round of a call.
//!
//! A step that moves on to another round calls under another key, so what a called system reports of that call belongs
//! below a span of its own, which is below the step's. A redriven execution is exported again as a whole, with the same ids.

use super::span_of;
use crate::commands::resource;
use perdura_engine::asl::machine::StateIx;
use perdura_engine::{
    EffectKey, Event, EventKind, ExecutionId, Fault, Identity, Note, Record, Round, StateType, Status,
    StepPlace, StrandId, Timestamp, Turn,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most spans of one execution.
const SPANS_MAX: usize = 10_000;
/// The most events of one span.
const EVENTS_MAX: usize = 100;
/// The most characters of a cause.
const CAUSE_MAX: usize = 1_000;

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The execution.
    pub trace: ExecutionId,
    pub id: [u8; 8],
    /// The parent span; the execution's own has none.
    pub parent: Option<[u8; 8]>,
    pub name: Arc<str>,
    /// It is a call.
    pub is_call: bool,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, Attribute)>,
    pub events: Vec<SpanEvent>,
    /// The span of another trace that caused it.
    pub link: Option<Link>,
    pub outcome: Outcome,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Text(Arc<str>),
    Number(i64),
}

/// A span of another trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub trace: ExecutionId,
    pub span: [u8; 8],
}

/// Something that happened within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    pub at: Timestamp,
    pub name: Arc<str>,
    pub attributes: Vec<(&'static str, Attribute)>,
}

/// How a span ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Well,
    Badly(Arc<str>),
}

/// The spans of an execution, made Turn by Turn.
pub struct Spans {
    identity: Identity,
    root: Span,
    strands: BTreeMap<StrandId, Line>,
    ended: Vec<Span>,
    left_out: i64,
    at: Timestamp,
}

/// A strand.
#[derive(Default)]
struct Line {
    place: String,
    /// The parent span of its steps.
    around: Option<[u8; 8]>,
    visits: BTreeMap<StateIx, u32>,
    step: Option<Step>,
}

/// A step under way.
struct Step {
    state: StateIx,
    name: Arc<str>,
    visit: u32,
    /// How often its branches or iterations began.
    runs: u32,
    attempts: i64,
    span: Span,
    /// The round of its last call.
    called_in: Round,
    round: Option<Span>,
    fault: Option<Fault>,
    /// When the execution ended while it was under way.
    left_at: Option<Timestamp>,
}

impl Spans {
    /// `caused_by` is the key under which another execution started this one.
    pub fn new(identity: Identity, caused_by: Option<&EffectKey>) -> Self {
        let id = identity.id;
        let link = caused_by.and_then(|key| Some(Link { trace: key.execution()?, span: span_of(key) }));
        let mut root = [0; 8];
        root.copy_from_slice(&id.uuid().as_bytes()[8..]);
        let root = Span {
            trace: id,
            id: root,
            parent: None,
            name: identity.machine_name.clone(),
            is_call: false,
            started_at: Timestamp(0),
            ended_at: Timestamp(0),
            attributes: vec![
                ("perdura.execution", text(id.to_string())),
                ("perdura.execution.arn", Attribute::Text(identity.arn.clone())),
                ("perdura.execution.name", Attribute::Text(identity.name.clone())),
                ("perdura.machine", Attribute::Text(identity.machine_name.clone())),
            ],
            events: Vec::new(),
            link,
            outcome: Outcome::Well,
        };
        let strands = BTreeMap::from([(StrandId::TOP, Line { around: Some(root.id), ..Line::default() })]);
        Self { identity, root, strands, ended: Vec::new(), left_out: 0, at: Timestamp(0) }
    }

    pub fn turn(&mut self, turn: &Turn) {
        for record in &turn.records {
            match record {
                Record::Event(event) => self.event(event),
                Record::Note(note) => self.note(note),
            }
        }
    }

    /// All spans, the execution's own first. Open ones end with the last event.
    pub fn finish(mut self) -> Vec<Span> {
        let strands: Vec<StrandId> = self.strands.keys().copied().collect();
        for strand in strands {
            self.close(strand, None);
        }
        self.root.ended_at = self.root.ended_at.max(self.root.started_at);
        if self.left_out > 0 {
            self.root.attributes.push(("perdura.spans_left_out", Attribute::Number(self.left_out)));
        }
        std::iter::once(self.root).chain(self.ended).collect()
    }

    fn event(&mut self, event: &Event) {
        self.at = event.at;
        let strand = event.strand;
        match &event.kind {
            EventKind::ExecutionStarted { .. } => self.root.started_at = event.at,
            EventKind::ExecutionRedriven { redrive_count, .. } => {
                let count = vec![("perdura.redrives", Attribute::Number(i64::from(*redrive_count)))];
                push(&mut self.root.events, event.at, "redriven", count);
            }
            EventKind::ExecutionSucceeded { .. } => self.end(Status::Succeeded, &Fault::default()),
            EventKind::ExecutionFailed(fault) => self.end(Status::Failed, fault),
            EventKind::ExecutionAborted(fault) => self.end(Status::Aborted, fault),
            EventKind::ExecutionTimedOut(fault) => self.end(Status::TimedOut, fault),
            EventKind::StateEntered { state, state_type, name, .. } => {
                self.close(strand, None);
                self.open(strand, (*state, *state_type, name));
            }
            EventKind::StateExited { .. } => self.close(strand, Some(Outcome::Well)),
            EventKind::StateAborted { .. } => self.happened(strand, "aborted", None),
            EventKind::TaskScheduled(scheduled) => {
                let called = Attribute::Text(resource(&scheduled.family));
                self.sent(strand, scheduled.round, called);
            }
            EventKind::TaskSubmitted { .. } => self.happened(strand, "accepted", None),
            EventKind::TaskSucceeded { .. } => self.happened(strand, "succeeded", None),
            EventKind::TaskFailed { fault, .. }
            | EventKind::TaskSubmitFailed { fault, .. }
            | EventKind::EvaluationFailed { fault, .. }
            | EventKind::MapRunFailed(fault) => self.happened(strand, "failed", Some(fault)),
            EventKind::TaskTimedOut { fault, .. } => self.happened(strand, "timed out", Some(fault)),
            EventKind::TaskNotStarted { fault, .. } => self.happened(strand, "not started", Some(fault)),
            EventKind::TaskStarted { worker, .. } => {
                if let Some(worker) = worker {
                    self.happened(strand, &format!("taken by {worker}"), None);
                }
            }
            EventKind::StateFailed { .. }
            | EventKind::StateSucceeded { .. }
            | EventKind::ParallelStateStarted
            | EventKind::MapStateStarted { .. }
            | EventKind::MapIterationStarted(_)
            | EventKind::MapIterationSucceeded(_)
            | EventKind::MapIterationFailed(_)
            | EventKind::MapIterationAborted(_)
            | EventKind::MapRunStarted { .. }
            | EventKind::MapRunSucceeded
            | EventKind::MapRunAborted
            | EventKind::MapRunRedriven { .. } => {}
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::FanStarted { strand, .. } => {
                let Some(line) = self.strands.get_mut(strand) else { return };
                let Some(step) = &mut line.step else { return };
                step.runs += 1;
                // As in keys: each run again is another visit.
                if step.runs > 1 {
                    *line.visits.entry(step.state).or_default() += 1;
                }
            }
            Note::StrandStarted { strand, parent, index, .. } => self.branch(*strand, *parent, *index),
            Note::StrandEnded { strand, .. } => {
                self.close(*strand, Some(Outcome::Well));
                self.strands.remove(strand);
            }
            Note::StrandFailed { strand, fault } => {
                self.close(*strand, Some(Outcome::Badly(brief(fault))));
                if let Some(step) = self.step(*strand) {
                    step.fault = Some(fault.clone());
                }
            }
            Note::StrandsDropped { parent } => self.drop_branches(*parent),
            Note::FanWaits { strand, fault } => {
                self.happened(*strand, "waits for held calls before its retry", Some(fault));
            }
            Note::Resting { strand, retry: Some(_), .. } => self.happened(*strand, "waits for a retry", None),
            Note::Repeated { strand, .. } => self.happened(*strand, "repeated after a restart", None),
            Note::Held { strand, fault, .. } => self.happened(*strand, "held for a person", Some(fault)),
            Note::Resolved { strand, .. } => self.happened(*strand, "resolved by a person", None),
            Note::LateOutcome { key, succeeded, .. } => {
                let key = key.as_ref().map(|key| ("perdura.key", text(key.readable())));
                let name = if *succeeded { "late success" } else { "late failure" };
                push(&mut self.root.events, self.at, name, key.into_iter().collect());
            }
            Note::Resting { retry: None, .. }
            | Note::Woken { .. }
            | Note::Settled { .. }
            | Note::Ledger { .. }
            | Note::Ignored { .. }
            | Note::Erased { .. } => {}
        }
    }

    fn end(&mut self, status: Status, fault: &Fault) {
        self.root.ended_at = self.at;
        self.root.attributes.retain(|(name, _)| *name != "perdura.status" && !name.starts_with("error"));
        self.root.attributes.push(("perdura.status", text(status.name())));
        self.root.attributes.extend(told(fault));
        self.root.outcome =
            if status == Status::Succeeded { Outcome::Well } else { Outcome::Badly(brief(fault)) };
        for line in self.strands.values_mut() {
            if let Some(step) = &mut line.step {
                step.left_at = Some(self.at);
            }
        }
    }

    fn step(&mut self, strand: StrandId) -> Option<&mut Step> {
        let step = self.strands.get_mut(&strand)?.step.as_mut()?;
        step.left_at = None;
        Some(step)
    }

    fn branch(&mut self, strand: StrandId, parent: StrandId, index: u32) {
        let Some(line) = self.strands.get(&parent) else { return };
        let Some(step) = &line.step else { return };
        let place = match line.visits.get(&step.state).copied().unwrap_or(0) {
            0 | 1 => format!("{}[{index}]", line.place),
            visit => format!("{}[{visit}:{index}]", line.place),
        };
        let around = Some(step.span.id);
        self.strands.insert(strand, Line { place, around, ..Line::default() });
    }

    /// Ends what a Parallel or Map still had running, with all below it.
    fn drop_branches(&mut self, parent: StrandId) {
        let mut open: Vec<[u8; 8]> = self.step(parent).map(|step| step.span.id).into_iter().collect();
        while let Some(around) = open.pop() {
            let below = self.strands.iter().filter(|(_, line)| line.around == Some(around));
            let below: Vec<StrandId> = below.map(|(id, _)| *id).filter(|id| *id != parent).collect();
            for strand in below {
                open.extend(self.step(strand).map(|step| step.span.id));
                self.close(strand, None);
                self.strands.remove(&strand);
            }
        }
    }

    fn open(&mut self, strand: StrandId, (state, kind, name): (StateIx, StateType, &Arc<str>)) {
        let Some(line) = self.strands.get_mut(&strand) else { return };
        let visit = line.visits.entry(state).or_default();
        *visit += 1;
        let visit = *visit;
        let place = StepPlace { state: name, place: &line.place, visit };
        let key = EffectKey::new(self.identity.id, &place, Round::FIRST);
        let mut span = keyed(&key, self.at, line.around);
        span.name = format!("{name}{}", line.place).into();
        span.is_call = kind == StateType::Task;
        span.attributes.push(("perdura.state", Attribute::Text(name.clone())));
        span.attributes.push(("perdura.state.type", text(format!("{kind:?}"))));
        line.step = Some(Step {
            state,
            name: name.clone(),
            visit,
            runs: 0,
            attempts: 0,
            span,
            called_in: Round::FIRST,
            round: None,
            fault: None,
            left_at: None,
        });
    }

    /// A call begins. The first round is the step's own span; each further one has its own.
    fn sent(&mut self, strand: StrandId, round: Round, called: Attribute) {
        let (id, at) = (self.identity.id, self.at);
        let Some(line) = self.strands.get_mut(&strand) else { return };
        let place = line.place.clone();
        let Some(step) = &mut line.step else { return };
        (step.left_at, step.fault) = (None, None);
        step.attempts += 1;
        let attempt = vec![
            ("perdura.attempt", Attribute::Number(step.attempts)),
            ("perdura.round", Attribute::Number(i64::from(round.0))),
        ];
        push(&mut step.span.events, at, "sent", attempt);
        if !step.span.attributes.iter().any(|(name, _)| *name == "perdura.resource") {
            step.span.attributes.push(("perdura.resource", called.clone()));
        }
        let place = StepPlace { state: &step.name, place: &place, visit: step.visit };
        let key = EffectKey::new(id, &place, round);
        let called_in = std::mem::replace(&mut step.called_in, round);
        if called_in == round {
            return;
        }
        let before = step.round.take();
        // A step can go back to a round that has a span already.
        let told = (round < called_in).then(|| self.ended.iter().rposition(|span| span.id == span_of(&key)));
        step.round = match told.flatten() {
            Some(told) => Some(self.ended.remove(told)),
            None if round == Round::FIRST => None,
            None => {
                let mut span = keyed(&key, at, Some(step.span.id));
                span.name = format!("{}, round {}", step.span.name, round.0).into();
                span.is_call = true;
                span.attributes.push(("perdura.resource", called));
                Some(span)
            }
        };
        if let Some(before) = before {
            self.keep(before);
        }
    }

    /// Adds an event to the span of a step's round.
    fn happened(&mut self, strand: StrandId, what: &str, fault: Option<&Fault>) {
        let at = self.at;
        let Some(step) = self.step(strand) else { return };
        step.fault = fault.cloned();
        let span = step.round.as_mut().unwrap_or(&mut step.span);
        span.ended_at = at;
        if let (Some(fault), true) = (fault, span.parent.is_some()) {
            span.outcome = Outcome::Badly(brief(fault));
        }
        push(&mut span.events, at, what, fault.map(|fault| told(fault).collect()).unwrap_or_default());
    }

    /// Ends a step. Without an outcome, the last event decides how it ended.
    fn close(&mut self, strand: StrandId, outcome: Option<Outcome>) {
        let Some(step) = self.strands.get_mut(&strand).and_then(|line| line.step.take()) else { return };
        let Step { mut span, round, fault, left_at, attempts, .. } = step;
        span.ended_at = left_at.unwrap_or(self.at);
        span.outcome = match (outcome, &fault) {
            (Some(outcome), _) => outcome,
            (None, Some(fault)) => Outcome::Badly(brief(fault)),
            (None, None) if left_at.is_some() => self.root.outcome.clone(),
            (None, None) => Outcome::Well,
        };
        if attempts > 0 {
            span.attributes.push(("perdura.attempts", Attribute::Number(attempts)));
        }
        if let Outcome::Badly(_) = span.outcome {
            span.attributes.extend(fault.iter().flat_map(told));
        }
        let status = if span.outcome == Outcome::Well { "SUCCEEDED" } else { "FAILED" };
        span.attributes.push(("perdura.status", text(status)));
        if let Some(round) = round {
            self.keep(round);
        }
        self.keep(span);
    }

    fn keep(&mut self, mut span: Span) {
        span.ended_at = span.ended_at.max(span.started_at);
        if self.ended.len() < SPANS_MAX {
            self.ended.push(span);
        } else {
            self.left_out += 1;
        }
    }
}

/// A span id from a key.
fn keyed(key: &EffectKey, at: Timestamp, parent: Option<[u8; 8]>) -> Span {
    Span {
        trace: key.execution().expect("a step's key begins with its execution"),
        id: span_of(key),
        parent,
        name: key.step().into(),
        is_call: false,
        started_at: at,
        ended_at: at,
        attributes: vec![
            ("perdura.key", text(key.readable())),
            ("perdura.wire_key", text(key.wire().to_string())),
            ("perdura.round", Attribute::Number(i64::from(key.round().0))),
        ],
        events: Vec::new(),
        link: None,
        outcome: Outcome::Well,
    }
}

fn push(events: &mut Vec<SpanEvent>, at: Timestamp, name: &str, attributes: Vec<(&'static str, Attribute)>) {
    if events.len() < EVENTS_MAX {
        events.push(SpanEvent { at, name: name.into(), attributes });
    }
}

fn text(text: impl Into<Arc<str>>) -> Attribute {
    Attribute::Text(text.into())
}

/// Error and cause as attributes.
fn told(fault: &Fault) -> impl Iterator<Item = (&'static str, Attribute)> {
    let error = fault.error.clone().map(|error| ("error.type", Attribute::Text(error)));
    let cause = fault.cause.as_deref().map(|cause| ("error.message", text(cut(cause))));
    error.into_iter().chain(cause)
}

fn cut(text: &str) -> String {
    text.chars().take(CAUSE_MAX).collect()
}

fn brief(fault: &Fault) -> Arc<str> {
    let parts = [fault.error.as_deref(), fault.cause.as_deref()];
    cut(&parts.into_iter().flatten().collect::<Vec<_>>().join(": ")).into()
}

#[cfg(test)]
mod tests;
