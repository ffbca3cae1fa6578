//! The story of a key, found by any of its forms.
//!
//! A readable key, a token and a trace's id name their execution, and a client's key stands in an index. A key from the
//! wire names nothing: it is a hash. It is looked up in the ledger, which lists what is not done, and otherwise found by
//! making the keys of recorded calls again, the newest executions first and within a bound. An index would find it at
//! once, and would cost every call of every execution a row that nobody asks for.

use super::executions::no_such;
use super::find::find;
use super::ledger::{Sent, execution_in};
use crate::control::{
    Answer, LedgerEntry, TraceBy, Traced, TracedEvent, TracedExecution, TracedStart, TracedStep,
};
use crate::data::Data;
use crate::fold::{begun, each_turn, fold};
use crate::telemetry::span_of;
use crate::{Refusal, RefusalKind, names};
use perdura_engine::asl::resource::{Resource, TaskKind};
use perdura_engine::{
    EffectKey, Event, EventKind, ExecutionId, Fault, Lateness, Note, Record, Resolved, Secret, StrandId,
    TaskFamily, TaskToken, Timestamp, Turn,
};
use perdura_store::audit::Subject;
use perdura_store::record::TurnBody;
use perdura_store::{Filter, LedgerFilter, Listing, Reader, Summary};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

const STEPS_MAX: usize = 1_000;
/// How many executions are told that one request began.
const BEGAN_MAX: usize = 1_000;
/// How many executions are searched for a wire key that is not in the ledger, and how many bytes of their Turns.
const EXECUTIONS_MAX: usize = 10_000;
const SEARCH_BYTES_MAX: usize = 256 * 1024 * 1024;
const PAGE: u32 = 500;

/// The forms of a key.
#[derive(Clone, Debug, PartialEq)]
enum Hand {
    Token(TaskToken),
    /// `00-{execution}-{first half of a wire key}-…`, as calls carry it.
    TraceParent(ExecutionId, [u8; 8]),
    /// An execution's id, or a key from the wire.
    Id(Uuid),
    Key(String),
    Name(String),
}

impl Hand {
    fn of(text: &str) -> Self {
        if let Some(token) = TaskToken::parse(text) {
            return Self::Token(token);
        }
        if let Some((execution, span)) = trace_parent(text) {
            return Self::TraceParent(execution, span);
        }
        if let Ok(id) = Uuid::from_str(text) {
            return Self::Id(id);
        }
        match text.split_once(':').map(|(first, _)| Uuid::from_str(first)) {
            Some(Ok(_)) => Self::Key(text.to_owned()),
            Some(Err(_)) | None => Self::Name(text.to_owned()),
        }
    }
}

fn trace_parent(text: &str) -> Option<(ExecutionId, [u8; 8])> {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, _flags] = parts[..] else { return None };
    let is_right = version.len() == 2 && trace.len() == 32 && span.len() == 16;
    let trace = is_right.then(|| u128::from_str_radix(trace, 16).ok()).flatten()?;
    let span = u64::from_str_radix(span, 16).ok()?;
    Some((ExecutionId::from_uuid(Uuid::from_u128(trace)), span.to_be_bytes()))
}

pub(super) fn trace<D: Data>(data: &mut D, text: &str) -> Result<Answer, Refusal> {
    let text = text.trim();
    let (id, by, selector) = match Hand::of(text) {
        Hand::Token(token) => (token.execution, TraceBy::Token, Selector::Secret(token.strand, token.secret)),
        Hand::TraceParent(id, span) => (id, TraceBy::TraceParent, Selector::Span(span)),
        Hand::Key(key) => (execution_in(&key)?, TraceBy::Key, Selector::Key(key)),
        Hand::Name(name) => match (find(data, &name), root(data, text)?) {
            (Err(refusal), Some(id)) if refusal.kind == RefusalKind::NotFound => {
                (id, TraceBy::RootKey, Selector::All)
            }
            (found, _) => (found?, TraceBy::Execution, Selector::All),
        },
        Hand::Id(uuid) => {
            let id = ExecutionId::from_uuid(uuid);
            if data.read(|reader| Ok(begun(reader, id)))??.is_some() {
                (id, TraceBy::Execution, Selector::All)
            } else if let Some(id) = root(data, text)? {
                (id, TraceBy::RootKey, Selector::All)
            } else {
                let key = search(data, uuid)?;
                (execution_in(&key)?, TraceBy::WireKey, Selector::Key(key))
            }
        }
    };
    data.gives_out(Subject::execution(id))?;
    let (execution, mut steps) = data.read(|reader| Ok(whole(reader, id)))??;
    let step = steps
        .iter()
        .find(|(secrets, step)| selector.is(secrets, step))
        .map(|(_, step)| step.entry.step.clone());
    match (&selector, step) {
        (Selector::All, _) => {}
        // All rounds of the step belong to its story.
        (_, Some(step)) => steps.retain(|(_, other)| other.entry.step == step),
        (_, None) => {
            return Err(Refusal::not_found(format!("{id} never sent anything under {text:?}"))
                .but(format!("`perdura trace {id}` shows all its calls")));
        }
    }
    let more = steps.len() > STEPS_MAX;
    let steps = steps.into_iter().take(STEPS_MAX).map(|(_, step)| step).collect();
    let began = match &execution.root_key {
        Some(key) => {
            began(data, key)?.into_iter().map(|summary| start(data, summary)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    Ok(Answer::Trace(Box::new(Traced { by, execution, steps, began, more })))
}

/// All that a request began, at first and second hand, the oldest first; of very many, those that began last.
fn began<D: Data>(data: &mut D, root_key: &Arc<str>) -> Result<Vec<Summary>, Refusal> {
    let filter = Filter { root_key: Some(root_key.clone()), ..Filter::default() };
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() < BEGAN_MAX {
        let Listing { rows, next } = data.list(&filter, after, PAGE)?;
        found.extend(rows);
        after = next;
        if after.is_none() {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

/// The execution that a client's key began itself; `None`: nothing began under it.
fn root<D: Data>(data: &mut D, text: &str) -> Result<Option<ExecutionId>, Refusal> {
    let Ok(key) = names::root_key(text) else { return Ok(None) };
    let began = began(data, &key)?;
    // Its children may have begun in the same millisecond.
    for summary in &began {
        let begun = data.read(|reader| Ok(begun(reader, summary.execution)))??;
        if begun.is_some_and(|begun| begun.parent.is_none()) {
            return Ok(Some(summary.execution));
        }
    }
    Ok(began.first().map(|summary| summary.execution))
}

fn start<D: Data>(data: &mut D, summary: Summary) -> Result<TracedStart, Refusal> {
    let machine = data.read(|reader| reader.machine_name(summary.machine))?;
    Ok(TracedStart {
        execution: summary.execution,
        name: summary.name.unwrap_or_else(|| summary.execution.to_string().into()),
        machine: machine.unwrap_or_else(|| "?".into()),
        status: summary.status,
        started_at: summary.started_at,
    })
}

/// Selects calls of an execution.
enum Selector {
    All,
    Key(String),
    Span([u8; 8]),
    Secret(StrandId, Secret),
}

impl Selector {
    fn is(&self, secrets: &[(StrandId, Secret)], step: &TracedStep) -> bool {
        match self {
            Self::All => false,
            Self::Key(key) => *step.entry.key == **key,
            Self::Span(span) => {
                EffectKey::try_from(step.entry.key.clone()).is_ok_and(|key| span_of(&key) == *span)
            }
            Self::Secret(strand, secret) => secrets.contains(&(*strand, *secret)),
        }
    }
}

/// The readable form of a key from the wire.
fn search<D: Data>(data: &mut D, wire: Uuid) -> Result<String, Refusal> {
    let filter = LedgerFilter { wire_key: Some(wire), ..LedgerFilter::default() };
    if let Some(row) = data.read(|reader| reader.ledger(&filter, 1))?.pop() {
        return Ok(row.key.to_string());
    }
    let (mut after, mut seen, mut bytes) = (None, 0, 0);
    'search: while seen < EXECUTIONS_MAX {
        let page = data.list(&Filter::default(), after, PAGE)?;
        after = page.next;
        for summary in &page.rows {
            seen += 1;
            let mut look = |body: &TurnBody, size| {
                bytes += size;
                body.turn
                    .marks()
                    .find(|mark| mark.key.wire() == wire)
                    .map(|mark| mark.key.readable().to_owned())
            };
            let found = data.read(|reader| Ok(each_turn(reader, summary.execution, &mut look)))??;
            if let Some(key) = found {
                return Ok(key);
            }
            if bytes > SEARCH_BYTES_MAX {
                break 'search;
            }
        }
        if after.is_none() {
            break;
        }
    }
    Err(Refusal::not_found(format!("no execution and no key is {wire}: {seen} executions were searched"))
        .but("an older one is found by its execution: `perdura trace EXECUTION`"))
}

/// A call with the secrets of its tokens.
type Secretive = (Vec<(StrandId, Secret)>, TracedStep);

/// An execution and all its calls.
fn whole(reader: &mut dyn Reader, id: ExecutionId) -> Result<(TracedExecution, Vec<Secretive>), Refusal> {
    let (mut sent, mut calls, mut parent) = (Sent::default(), Calls::default(), None);
    each_turn::<()>(reader, id, &mut |body, _| {
        if let Some(begun) = &body.begun {
            parent = begun.parent.as_ref().map(|key| key.readable().into());
        }
        sent.turn(id, &body.turn);
        calls.turn(&body.turn);
        None
    })?;
    let execution = fold(reader, id)?.ok_or_else(|| no_such(id))?.execution;
    let identity = execution.identity();
    let told = TracedExecution {
        execution: id,
        arn: identity.arn.clone(),
        name: identity.name.clone(),
        machine: identity.machine_name.clone(),
        status: execution.status(),
        started_at: execution.started_at(),
        ended_at: execution.ended_at(),
        fault: execution.fault().clone(),
        parent,
        labels: identity.labels.clone(),
        root_key: identity.root_key.clone(),
        erased_at: execution.erased_at(),
    };
    let mut steps: Vec<Secretive> = sent.entries().into_iter().map(|entry| calls.step(entry)).collect();
    for (_, step) in &mut steps {
        step.child = child(reader, step)?;
    }
    Ok((told, steps))
}

/// The execution that a step started: its id follows from the step's key.
fn child(reader: &mut dyn Reader, step: &TracedStep) -> Result<Option<ExecutionId>, Refusal> {
    let called =
        step.resource.as_ref().and_then(|called| Resource::parse(&format!("arn:aws:states:::{called}")));
    let starts = called.is_some_and(|called| called.kind == TaskKind::Child);
    let Some(key) = starts.then(|| EffectKey::try_from(step.entry.key.clone()).ok()).flatten() else {
        return Ok(None);
    };
    let id = ExecutionId::of_child(&key, 0);
    Ok(begun(reader, id)?.map(|_| id))
}

/// What happened under each key, in order.
#[derive(Default)]
struct Calls {
    by_key: BTreeMap<Arc<str>, CallStory>,
    /// The key under which each strand calls.
    current: BTreeMap<StrandId, Arc<str>>,
    /// The same, kept after the step is left.
    last: BTreeMap<StrandId, Arc<str>>,
    opening: BTreeMap<StrandId, Vec<TracedEvent>>,
    scheduled: BTreeMap<StrandId, (Arc<str>, Option<Secret>)>,
    at: Timestamp,
}

#[derive(Default)]
struct CallStory {
    resource: Option<Arc<str>>,
    secrets: Vec<(StrandId, Secret)>,
    events: Vec<TracedEvent>,
}

impl Calls {
    fn turn(&mut self, turn: &Turn) {
        for record in &turn.records {
            match record {
                Record::Event(event) => self.event(event),
                Record::Note(note) => self.note(note),
            }
        }
    }

    fn event(&mut self, event: &Event) {
        self.at = event.at;
        let strand = event.strand;
        let told = |what: &str, fault: Option<&Fault>| TracedEvent {
            at: event.at,
            event: Some(event.id.0),
            what: what.into(),
            fault: fault.cloned().unwrap_or_default(),
        };
        let told = match &event.kind {
            EventKind::TaskScheduled(scheduled) => {
                self.current.remove(&strand);
                self.scheduled.insert(strand, (resource(&scheduled.family), scheduled.secret));
                told("sent", None)
            }
            EventKind::TaskStarted { worker: Some(worker), .. } => told(&format!("taken by {worker}"), None),
            EventKind::TaskSubmitted { .. } => told("accepted", None),
            EventKind::TaskSucceeded { .. } => told("succeeded", None),
            EventKind::TaskFailed { fault, .. } | EventKind::TaskSubmitFailed { fault, .. } => {
                told("failed", Some(fault))
            }
            EventKind::TaskTimedOut { fault, .. } => told("timed out", Some(fault)),
            EventKind::TaskNotStarted { fault, .. } => told("not started", Some(fault)),
            EventKind::StateExited { .. } => return drop(self.current.remove(&strand)),
            _ => return,
        };
        self.push(strand, told);
    }

    fn push(&mut self, strand: StrandId, told: TracedEvent) {
        match self.current.get(&strand) {
            Some(key) => self.by_key.entry(key.clone()).or_default().events.push(told),
            None => self.opening.entry(strand).or_default().push(told),
        }
    }

    fn note(&mut self, note: &Note) {
        let (key, at, what, fault) = match note {
            Note::Ledger { strand, key, .. } => return self.mark(*strand, key),
            Note::Resting { strand, until, retry: Some(_), .. } => {
                let what = format!("tried again at {until}");
                return self.push(*strand, told_at(self.at, &what, Fault::default()));
            }
            Note::Repeated { key, .. } => {
                (key, None, "repeated after a restart".to_owned(), Fault::default())
            }
            Note::Held { key, fault, at, .. } => (key, *at, "held for a person".to_owned(), fault.clone()),
            Note::Resolved { key, resolution, reason, at, .. } => {
                let how = match resolution {
                    Resolved::Completed => "completed",
                    Resolved::Failed => "failed",
                    Resolved::Again => "to be called again",
                };
                (key, *at, format!("resolved by a person, {how}: {reason}"), Fault::default())
            }
            Note::LateOutcome { strand, key, succeeded, lateness } => {
                return self.late(*strand, key.as_ref(), *succeeded, *lateness);
            }
            _ => return,
        };
        let told = told_at(at.unwrap_or(self.at), &what, fault);
        self.by_key.entry(key.readable().into()).or_default().events.push(told);
    }

    /// An answer by token does not name its key: it is shown with the last call of its strand.
    fn late(&mut self, strand: StrandId, key: Option<&EffectKey>, succeeded: bool, lateness: Lateness) {
        let key = key.map(|key| key.readable().into()).or_else(|| self.last.get(&strand).cloned());
        let Some(key) = key else { return };
        let how = if succeeded { "success" } else { "failure" };
        let why = match lateness {
            Lateness::Unknown => "after its step was gone",
            Lateness::Duplicate => "after its step had an answer",
            Lateness::GivenUp => "after its step was given up",
        };
        let told = told_at(self.at, &format!("late answer, a {how}, {why}"), Fault::default());
        self.by_key.entry(key).or_default().events.push(told);
    }

    /// A mark names the key under which the strand calls. Events just before it belong to that key.
    fn mark(&mut self, strand: StrandId, key: &EffectKey) {
        let readable: Arc<str> = key.readable().into();
        let story = self.by_key.entry(readable.clone()).or_default();
        story.events.extend(self.opening.remove(&strand).unwrap_or_default());
        if let Some((resource, secret)) = self.scheduled.remove(&strand) {
            story.resource = Some(resource);
            story.secrets.extend(secret.map(|secret| (strand, secret)));
            self.last.insert(strand, readable.clone());
            self.current.insert(strand, readable);
        }
    }

    fn step(&mut self, entry: LedgerEntry) -> Secretive {
        let CallStory { resource, secrets, events } = self.by_key.remove(&entry.key).unwrap_or_default();
        let attempts = events.iter().filter(|event| &*event.what == "sent" || event.is_repeat()).count();
        (secrets, TracedStep { entry, resource, attempts: attempts as u64, child: None, events })
    }
}

fn told_at(at: Timestamp, what: &str, fault: Fault) -> TracedEvent {
    TracedEvent { at, event: None, what: what.into(), fault }
}

/// What was called, as events name it.
pub(crate) fn resource(family: &TaskFamily) -> Arc<str> {
    match family {
        TaskFamily::Lambda { resource } | TaskFamily::Activity { resource } => resource.clone(),
        TaskFamily::Task { resource_type, resource } => format!("{resource_type}:{resource}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_and_a_resolution_are_told_with_their_own_instants() {
        let text: Arc<str> = "0f0e0d0c-0b0a-4908-8706-050403020100:Charge#1:1".into();
        let key = EffectKey::try_from(text.clone()).unwrap();
        let strand = StrandId::TOP;
        let held = |at| Note::Held { strand, key: key.clone(), fault: Fault::default(), at };
        let resolved = Note::Resolved {
            strand,
            key: key.clone(),
            resolution: Resolved::Completed,
            reason: "seen".into(),
            at: Some(Timestamp(3_000)),
        };
        let mut calls = Calls { at: Timestamp(1_000), ..Calls::default() };
        for note in [held(Some(Timestamp(2_000))), resolved, held(None)] {
            calls.note(&note);
        }
        let told: Vec<i64> = calls.by_key[&text].events.iter().map(|event| event.at.0).collect();
        assert_eq!(told, [2_000, 3_000, 1_000], "an older record has that of the last event");
    }

    #[test]
    fn each_form_of_a_key_is_known_by_its_looks() {
        let id = Uuid::from_str("0f0e0d0c-0b0a-4908-8706-050403020100").unwrap();
        let execution = ExecutionId::from_uuid(id);
        let token = TaskToken { execution, strand: StrandId(3), secret: Secret(7) };
        let parent = format!("00-{}-0102030405060708-01", id.simple());
        for (text, expected) in [
            (token.to_string(), Hand::Token(token)),
            (parent, Hand::TraceParent(execution, [1, 2, 3, 4, 5, 6, 7, 8])),
            (id.to_string(), Hand::Id(id)),
            (id.simple().to_string(), Hand::Id(id)),
            (format!("{id}:Charge#1:1"), Hand::Key(format!("{id}:Charge#1:1"))),
            ("order/A-1".into(), Hand::Name("order/A-1".into())),
            (
                format!("arn:aws:states:r:1:execution:order:{id}"),
                Hand::Name(format!("arn:aws:states:r:1:execution:order:{id}")),
            ),
        ] {
            assert_eq!(Hand::of(&text), expected, "{text}");
        }
    }
}
