//! Erasing: removes the data of an execution.
//!
//! Payloads, causes and labels may be about a person, so they are replaced, all by the same marker, so that the rest
//! reveals nothing about them. Ids, names, times, states, keys and kinds stay, so that the history keeps its form and
//! folds to the same status. The error names that the language reserves stay too; any other may have been made from
//! data. A new record must be added here: the compiler reports it.

use crate::event::{Event, EventKind, Fault, Scheduled};
use crate::execution::{Core, Snapshot};
use crate::id::{Digest, Timestamp};
use crate::identity::Identity;
use crate::kept::Kept;
use crate::labels::Labels;
use crate::strand::{Run, Sent, Standing, Step, Strand};
use crate::turn::{Note, Record, Turn};
use perdura_asl::error::RESERVED;
use perdura_asl::json::{Map, Payload, Value};
use std::sync::Arc;

/// Replaces the name of an error that is not reserved.
const ERROR: &str = "Perdura.Erased";
/// Replaces every free text.
pub const TEXT: &str = "erased";

/// Replaces every payload.
fn marker() -> Payload {
    let marker: Value = Map::from_iter([("erased", Value::Bool(true))]).into();
    marker.into()
}

/// The Turn that records the erasure, after all others.
pub fn mark(at: Timestamp) -> Turn {
    Turn { records: vec![Record::Note(Note::Erased { at })] }
}

/// The name of an error, if it is reserved; otherwise the replacement.
pub fn error(name: &str) -> &str {
    if RESERVED.contains(&name) { name } else { ERROR }
}

/// Erases an identity. Labels are free text that a person chose.
pub fn identity(identity: &mut Identity) {
    identity.input = marker();
    identity.labels = Labels::default();
}

/// Erases a Turn.
pub fn turn(turn: &mut Turn) {
    for record in &mut turn.records {
        match record {
            Record::Event(Event { kind, id: _, previous: _, at: _, steady: _, strand: _ }) => event(kind),
            Record::Note(kind) => note(kind),
        }
    }
}

/// Erases a stored state, and writes it.
pub fn state<'de, D, S>(stored: D, serializer: S) -> Result<S::Ok, S::Error>
where
    D: serde::Deserializer<'de>,
    S: serde::Serializer,
{
    use serde::{Deserialize, Serialize, ser::Error};
    let mut snapshot = Snapshot::deserialize(stored).map_err(S::Error::custom)?;
    let Snapshot { identity: who, core, strands, results, visits: _, kept } = &mut snapshot;
    identity(Arc::make_mut(who));
    strands.values_mut().for_each(strand);
    results.values_mut().flat_map(|results| results.values_mut()).for_each(payload);
    kept.values_mut().flat_map(|kept| kept.values_mut()).for_each(self::kept);
    let Core { output, fault: ended_with, kept_bytes, .. } = core;
    maybe(output);
    fault(ended_with);
    *kept_bytes = kept.values().flat_map(|kept| kept.values()).map(Kept::bytes).sum();
    snapshot.serialize(serializer)
}

fn payload(payload: &mut Payload) {
    *payload = marker();
}

fn maybe(there: &mut Option<Payload>) {
    if let Some(there) = there {
        payload(there);
    }
}

fn text(text: &mut Arc<str>) {
    *text = TEXT.into();
}

fn fault(fault: &mut Fault) {
    let Fault { error: name, cause } = fault;
    if let Some(name) = name {
        *name = error(name).into();
    }
    if let Some(cause) = cause {
        text(cause);
    }
}

fn event(kind: &mut EventKind) {
    match kind {
        EventKind::ExecutionStarted { input } | EventKind::StateEntered { input, .. } => payload(input),
        EventKind::ExecutionSucceeded { output }
        | EventKind::TaskSubmitted { output, family: _ }
        | EventKind::TaskSucceeded { output, family: _ } => payload(output),
        EventKind::StateExited { output, assigned, state_type: _, name: _ } => {
            payload(output);
            for (_, value) in assigned {
                payload(value);
            }
        }
        EventKind::ExecutionFailed(why)
        | EventKind::ExecutionAborted(why)
        | EventKind::ExecutionTimedOut(why)
        | EventKind::MapRunFailed(why)
        | EventKind::TaskFailed { fault: why, .. }
        | EventKind::TaskSubmitFailed { fault: why, .. }
        | EventKind::TaskTimedOut { fault: why, .. }
        | EventKind::TaskNotStarted { fault: why, .. }
        | EventKind::EvaluationFailed { fault: why, .. } => fault(why),
        EventKind::TaskScheduled(scheduled) => {
            let Scheduled { input, credentials, .. } = &mut **scheduled;
            payload(input);
            maybe(credentials);
        }
        EventKind::ExecutionRedriven { .. }
        | EventKind::StateAborted { .. }
        | EventKind::StateFailed { .. }
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
        | EventKind::MapRunRedriven { .. }
        | EventKind::TaskStarted { .. } => {}
    }
}

fn note(note: &mut Note) {
    match note {
        Note::Held { fault: why, .. }
        | Note::StrandFailed { fault: why, .. }
        | Note::FanWaits { fault: why, .. } => fault(why),
        Note::Resolved { reason, .. } | Note::Ignored { reason } => text(reason),
        Note::FanStarted { items, .. } => payload(items),
        Note::StrandStarted { input, .. } => maybe(input),
        Note::StrandEnded { output, .. } => payload(output),
        Note::Settled { kept, .. } => self::kept(kept),
        Note::Resting { .. }
        | Note::Woken { .. }
        | Note::Repeated { .. }
        | Note::StrandsDropped { .. }
        | Note::Ledger { .. }
        | Note::LateOutcome { .. }
        | Note::Erased { .. } => {}
    }
}

fn kept(kept: &mut Kept) {
    match kept {
        Kept::Round(_) | Kept::MapRun(..) => {}
        Kept::Refused(sent) | Kept::Again(sent) => self::sent(sent),
        Kept::Done(sent, result) => {
            self::sent(sent);
            payload(result);
        }
        Kept::Beside(kept, aside) => {
            self::kept(kept);
            sent(aside);
        }
    }
}

/// A digest of sent bytes could be compared with that of a guess, so it goes too.
fn sent(sent: &mut Sent) {
    payload(&mut sent.input);
    maybe(&mut sent.credentials);
    if let Some(lost) = &mut sent.lost {
        *lost = Digest::of(&marker());
    }
}

fn strand(strand: &mut Strand) {
    let Strand { input, variables, step, parent: _, flow: _, place: _, last: _ } = strand;
    payload(input);
    Arc::make_mut(variables).values_mut().for_each(payload);
    if let Some(step) = step {
        self::step(step);
    }
}

fn step(step: &mut Step) {
    let Step { input, sent: last, aside, result, done, standing, .. } = step;
    payload(input);
    last.iter_mut().chain(aside.as_deref_mut()).for_each(sent);
    [result, done].into_iter().for_each(maybe);
    match standing {
        Standing::Held { fault: why, open: _ } => fault(why),
        Standing::Fanning(Run { items, failed, .. }) => {
            payload(items);
            failed.iter_mut().for_each(fault);
        }
        Standing::Ready
        | Standing::Calling { .. }
        | Standing::Resting { .. }
        | Standing::MapRunning { .. } => {}
    }
}
