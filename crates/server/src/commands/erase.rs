//! Erasing the data of executions, with all that they started.
//!
//! What an execution was given stands in those that it started too, and what they gave stands in it. So they go together,
//! in one commit; and one that was started by another, which is still there with its data, does not go alone. What is
//! still running keeps all of them as they are.

use super::executions::no_such;
use super::find::find;
use super::ledger::execution_in;
use super::tokens;
use crate::Refusal;
use crate::control::{Answer, Erased};
use crate::data::Data;
use crate::fold::{begun, each_turn};
use crate::names;
use crate::retention::PAUSE;
use crate::who::Caller;
use perdura_engine::{ExecutionId, Timestamp};
use perdura_idempotency::Scope;
use perdura_idempotency::store::Scrubbed;
use perdura_store::{Erased as Done, Filter, Listing, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long an execution that is in use is waited for, and a reader that still looks at what was there.
const WAITS_FOR_MS: i64 = 10_000;
const PAGE: u32 = 200;
/// A file of so many bytes is written anew in about a second by a slow disk, and as much is in memory meanwhile. SQLite leaves
/// copies of rows in the unused parts of pages, which nothing else takes away.
const REWRITTEN_BYTES_MAX: u64 = 32 << 20;

/// Executions that have ended, each with its end.
type Ended = BTreeMap<ExecutionId, Timestamp>;

pub(super) fn execution<D: Data>(data: &mut D, which: &str) -> Result<Answer, Refusal> {
    let id = find(data, which)?;
    let key = data.read(|reader| Ok(alone(reader, id)))??;
    let done = all(data, |data| data.read(|reader| Ok(family(reader, [id])))?)?;
    finish(data, done, key)
}

pub(super) fn key<D: Data>(data: &mut D, key: &str) -> Result<Answer, Refusal> {
    let key = names::root_key(key)?;
    if began(data, &key)?.is_empty() {
        return Err(Refusal::not_found(format!("no execution began with the key {key}"))
            .but("`perdura trace KEY` shows what did; what retention has deleted has no data left"));
    }
    let done = all(data, |data| {
        let began = began(data, &key)?;
        data.read(|reader| Ok(family(reader, began)))?
    })?;
    finish(data, done, Some(key))
}

/// Whether it may be erased without another one: the key that it began with itself, if any.
fn alone(reader: &mut dyn Reader, id: ExecutionId) -> Result<Option<Arc<str>>, Refusal> {
    let begun = begun(reader, id)?.ok_or_else(|| no_such(id))?;
    let parent = match (&begun.child, &begun.parent) {
        (Some(child), _) => reader.map_run(child.run)?.map(|run| run.execution),
        (None, Some(key)) => Some(execution_in(key.readable())?),
        (None, None) => return Ok(begun.identity.root_key),
    };
    let Some(parent) = parent else { return Ok(None) };
    let has_data = is_there(reader, parent)? && !is_erased(reader, parent)?;
    if has_data {
        return Err(Refusal::conflict(format!("{id} was started by {parent}, which has its data too"))
            .but(format!("`perdura erase {parent}` erases both")));
    }
    Ok(None)
}

fn is_there(reader: &mut dyn Reader, id: ExecutionId) -> Result<bool, Refusal> {
    Ok(begun(reader, id)?.is_some())
}

/// Its last Turn says so.
fn is_erased(reader: &mut dyn Reader, id: ExecutionId) -> Result<bool, Refusal> {
    let folded = crate::fold::fold(reader, id)?;
    Ok(folded.is_some_and(|folded| folded.execution.erased_at().is_some()))
}

/// All that a request began, at first and second hand.
fn began<D: Data>(data: &mut D, root_key: &Arc<str>) -> Result<Vec<ExecutionId>, Refusal> {
    let filter = Filter { root_key: Some(root_key.clone()), ..Filter::default() };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let Listing { rows, next } = data.list(&filter, after, PAGE)?;
        found.extend(rows.into_iter().map(|summary| summary.execution));
        after = next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// These and all that they started, if all of them have ended.
fn family(reader: &mut dyn Reader, ids: impl IntoIterator<Item = ExecutionId>) -> Result<Ended, Refusal> {
    let (mut open, mut ended): (Vec<_>, _) = (ids.into_iter().collect(), Ended::new());
    while let Some(id) = open.pop() {
        if ended.contains_key(&id) {
            continue;
        }
        let row = reader.row(id)?.map(|(row, _)| row).filter(|row| !row.awake);
        let Some(ended_at) = row.and_then(|row| row.ended_at) else { return Err(runs(id)) };
        ended.insert(id, ended_at);
        open.extend(started(reader, id)?);
    }
    Ok(ended)
}

fn runs(id: ExecutionId) -> Refusal {
    Refusal::conflict(format!(
        "{id} has not ended, and nothing is erased before all that belong together have"
    ))
    .but(format!("wait for its end, or `perdura stop {id}`"))
}

/// What an execution started: children of its Map Runs, and those whose ids follow from the keys of its calls.
fn started(reader: &mut dyn Reader, id: ExecutionId) -> Result<Vec<ExecutionId>, Refusal> {
    let mut found = Vec::new();
    each_turn::<()>(reader, id, &mut |body, _| {
        found.extend(body.turn.marks().map(|mark| ExecutionId::of_child(mark.key, 0)));
        None
    })?;
    found.sort_unstable();
    found.dedup();
    let mut children = Vec::new();
    for child in found {
        if is_there(reader, child)? {
            children.push(child);
        }
    }
    for run in reader.map_runs(id)? {
        let mut from = Some(0);
        while let Some(next) = from {
            let page = reader.children(run.id, next, PAGE)?;
            from = page.last().and_then(|last| last.child).map(|last| last.index + 1);
            children.extend(page.into_iter().map(|child| child.execution));
        }
    }
    Ok(children)
}

/// Erases what is seen. One that is in use for a moment, as by a late answer, is waited for.
fn all<D: Data>(data: &mut D, see: impl Fn(&mut D) -> Result<Ended, Refusal>) -> Result<Erased, Refusal> {
    let until = data.moment().now.after_ms(WAITS_FOR_MS);
    loop {
        let ended = see(data)?;
        let of = ended.len() as u64;
        match data.erase(ended.into_iter().collect())? {
            Done::Done { executions, ledger } => {
                return Ok(Erased { executions, of, ledger, answers: 0, more: false, rewrite: false });
            }
            Done::Moved(id) if data.moment().now >= until => {
                return Err(
                    Refusal::conflict(format!("{id} is in use, and nothing was erased")).but("ask again")
                );
            }
            Done::Moved(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The answers to the requests that began them go too, and then what was overwritten is taken out of the files.
fn finish<D: Data>(data: &mut D, done: Erased, key: Option<Arc<str>>) -> Result<Answer, Refusal> {
    let (answers, scrubbed) = match key {
        Some(key) => {
            let scopes = scopes(data)?;
            let erased = data.erase_answers(&scopes, &key)?;
            (erased, data.scrub_answers(REWRITTEN_BYTES_MAX)?)
        }
        None => (0, Scrubbed::Clean),
    };
    let is_anew = data.rewrite_small(REWRITTEN_BYTES_MAX)?;
    let until = data.moment().now.after_ms(WAITS_FOR_MS);
    let mut more = !data.scrub()?;
    while more && data.moment().now < until {
        std::thread::sleep(PAUSE);
        more = !data.scrub()?;
    }
    more |= scrubbed == Scrubbed::Read;
    let rewrite = !is_anew || scrubbed == Scrubbed::TooLarge;
    let Erased { executions, of, ledger, .. } = done;
    tracing::info!(executions, of, ledger, answers, more, rewrite, "erased");
    Ok(Answer::Erased(Erased { answers, more, rewrite, ..done }))
}

/// Everybody who may have sent a request with a key.
fn scopes<D: Data>(data: &mut D) -> Result<Vec<Scope>, Refusal> {
    let owner = Caller::owner();
    let tokens = tokens::all(data)?.into_iter().map(|token| (token.tenant, token.principal));
    let mut scopes: Vec<Scope> = std::iter::once((owner.tenant, owner.principal))
        .chain(tokens)
        .map(|(tenant, principal)| Scope::new(tenant, principal))
        .collect();
    scopes.sort_unstable();
    scopes.dedup();
    Ok(scopes)
}
