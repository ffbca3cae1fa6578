//! The ledger, and how a person resolves a call in doubt.

use super::executions::no_such;
use super::find::find;
use crate::control::{Answer, LedgerEntry, LedgerPlace, LedgerQuestion, Page, Resolving, Taken};
use crate::data::Data;
use crate::fold::{begun, each_turn, fold};
use crate::{Refusal, stuck};
use perdura_engine::{By, ExecutionId, Fault, Input, LedgerStatus, Mark, Resolution, Timestamp, Turn};
use perdura_store::audit::Subject;
use perdura_store::{LedgerFilter, Reader};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

/// The most rows that are shown.
const ROWS_MAX: u32 = 10_000;

pub(crate) fn ledger<D: Data>(data: &mut D, question: &LedgerQuestion) -> Result<Answer, Refusal> {
    let most = question.most.clamp(1, ROWS_MAX) as usize;
    let subject = match &question.key {
        Some(key) => Subject::Key { key: key.as_str().into() },
        None => Subject::Installation,
    };
    data.gives_out(subject)?;
    let mut items = match (&question.key, &question.execution) {
        (Some(key), _) => by_key(data, key)?,
        (None, Some(which)) => {
            let id = find(data, which)?;
            data.read(|reader| Ok(of_execution(reader, id)))??
        }
        (None, None) if question.stuck => stuck::stuck(data)?.into_iter().map(LedgerEntry::from).collect(),
        (None, None) => {
            let after = question.after.as_ref().map(|place| (place.at, place.key.clone()));
            let filter = LedgerFilter { status: question.status, after, ..LedgerFilter::default() };
            let rows = data.read(|reader| reader.ledger(&filter, most as u32 + 1))?;
            rows.into_iter().map(LedgerEntry::from).collect()
        }
    };
    items.retain(|entry| {
        question.status.is_none_or(|status| entry.status == status)
            && question
                .after
                .as_ref()
                .is_none_or(|place| (entry.started_at, &entry.key) > (place.at, &place.key))
    });
    items.sort_by(|a, b| (a.started_at, &a.key).cmp(&(b.started_at, &b.key)));
    let has_more = items.len() > most;
    items.truncate(most);
    let last = items.last().filter(|_| has_more);
    let next = last.map(|last| LedgerPlace { at: last.started_at, key: last.key.clone() });
    Ok(Answer::Ledger(Page { items, next }))
}

fn by_key<D: Data>(data: &mut D, key: &str) -> Result<Vec<LedgerEntry>, Refusal> {
    let unknown =
        |remedy: &str| Refusal::not_found(format!("nothing is known of the key {key:?}")).but(remedy);
    if let Ok(wire) = Uuid::from_str(key) {
        let filter = LedgerFilter { wire_key: Some(wire), ..LedgerFilter::default() };
        let rows = data.read(|reader| reader.ledger(&filter, ROWS_MAX))?;
        let found: Vec<LedgerEntry> = rows.into_iter().map(LedgerEntry::from).collect();
        if found.is_empty() {
            return Err(unknown(
                "a key from the wire is found only while its call is not done; ask with `--execution` for all of one",
            ));
        }
        return Ok(found);
    }
    let id = execution_in(key)?;
    let mut entries = data.read(|reader| Ok(of_execution(reader, id)))??;
    entries.retain(|entry| &*entry.key == key);
    if entries.is_empty() {
        return Err(unknown("`perdura ledger --execution` lists those of one execution"));
    }
    Ok(entries)
}

/// The execution of a readable key, which begins with its id.
pub(super) fn execution_in(key: &str) -> Result<ExecutionId, Refusal> {
    let id = key.split(':').next().and_then(|id| Uuid::from_str(id).ok());
    id.map(ExecutionId::from_uuid).ok_or_else(|| {
        Refusal::invalid(format!("{key:?} is no key"))
            .but("a key has an execution, a step and a round: `perdura ledger` lists them")
    })
}

/// All calls of an execution, from its Turns: the ledger table has no rows of completed calls.
fn of_execution(reader: &mut dyn Reader, id: ExecutionId) -> Result<Vec<LedgerEntry>, Refusal> {
    begun(reader, id)?.ok_or_else(|| no_such(id))?;
    let mut sent = Sent::default();
    each_turn::<()>(reader, id, &mut |body, _| {
        sent.turn(id, &body.turn);
        None
    })?;
    Ok(sent.entries())
}

/// The calls of an execution, folded from its Turns, in the order in which they were first sent.
#[derive(Default)]
pub(super) struct Sent {
    entries: Vec<LedgerEntry>,
    places: BTreeMap<Arc<str>, usize>,
    at: Timestamp,
}

impl Sent {
    pub(super) fn turn(&mut self, id: ExecutionId, turn: &Turn) {
        self.at = turn.events().next().map_or(self.at, |event| event.at);
        for mark in turn.marks() {
            self.mark(id, &mark);
        }
    }

    pub(super) fn entries(self) -> Vec<LedgerEntry> {
        self.entries
    }

    fn mark(&mut self, id: ExecutionId, Mark { key, status, said }: &Mark<'_>) {
        let readable: Arc<str> = key.readable().into();
        let place = *self.places.entry(readable.clone()).or_insert_with(|| {
            self.entries.push(LedgerEntry {
                wire_key: key.wire().to_string(),
                key: readable,
                execution: id,
                step: key.step().into(),
                round: key.round().0,
                status: *status,
                started_at: self.at,
                completed_at: None,
                result: None,
                error: None,
            });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[place];
        entry.status = *status;
        (entry.completed_at, entry.result, entry.error) = match status {
            LedgerStatus::Pending => (None, None, None),
            LedgerStatus::Completed | LedgerStatus::Failed | LedgerStatus::Uncertain => {
                (Some(self.at), said.result(), said.error())
            }
        };
    }
}

/// A person says how a call went.
pub(super) fn resolve<D: Data>(data: &mut D, resolving: Resolving) -> Result<Answer, Refusal> {
    let Resolving { key, completed, failed, again, reason } = resolving;
    let resolution = match (completed, failed, again) {
        (Some(output), None, false) => Resolution::Completed { output },
        (None, Some((error, cause)), false) => {
            let fault = Fault { error: Some(error.into()), cause: cause.map(Into::into) };
            Resolution::Failed { fault }
        }
        (None, None, true) => Resolution::Again,
        (_, _, _) => return Err(Refusal::invalid("say exactly one: completed, failed, or call again")),
    };
    let execution = execution_in(&key)?;
    let by = address(data, execution, &key)?;
    let taken = data.input(execution, Input::Resolve { by, resolution, reason: reason.into() })?;
    let performs = data.performs();
    let execution = execution.to_string().into();
    Ok(Answer::Taken(Taken { execution, ignored: taken.ignored, status: taken.status, performs }))
}

/// The strand that waits for the call under this key.
fn address<D: Data>(data: &mut D, id: ExecutionId, readable: &str) -> Result<By, Refusal> {
    let execution = match data.view(id) {
        Some(view) => view.execution,
        None => data.read(|reader| Ok(fold(reader, id)))??.ok_or_else(|| no_such(id))?.execution,
    };
    let waiting = execution.strands().find_map(|(strand, _)| {
        let key = execution.key(strand).filter(|key| key.readable() == readable)?;
        // What is said of a call that is held is meant for that attempt: a second copy must not count for the next.
        let held = execution.held().find(|(of, ..)| *of == strand);
        Some(By::Key { strand, key, attempt: held.map(|(_, _, attempt)| attempt) })
    });
    waiting.ok_or_else(|| {
        Refusal::conflict(format!("nobody waits for {readable}"))
            .but(format!("see what is known of it: `perdura ledger {readable}`"))
    })
}
