//! Calls under way, by who waits for them.
//!
//! Whoever takes an entry out has its answer, and the only one. A call that was called off and is made again has the
//! same key, so each entry also has a number of its own: an attempt that ends late finds that the place is not its own
//! any more, and is silent.

use perdura_engine::{Call, EffectKey, ExecutionId, Outcome, StrandId};
use perdura_runtime::Answer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// All of them.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<Table>);

#[derive(Default)]
struct Table {
    calls: HashMap<Place, Entry>,
    /// How many there have been.
    attempts: u64,
}

/// Who waits.
type Place = (ExecutionId, StrandId);

struct Entry {
    key: EffectKey,
    attempt: u64,
    answer: Answer,
    /// There once its task is.
    task: Option<AbortHandle>,
}

/// Which attempt of whom.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    place: Place,
    attempt: u64,
}

/// The right to answer for one attempt. Dropped without an end, by a panic, it says that nobody knows.
pub(super) struct Attempt {
    ticket: Ticket,
    table: Arc<UnderWay>,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new entry. One that is still in its place is called off.
    pub(super) fn enter(self: &Arc<Self>, call: &Call, answer: Answer) -> Attempt {
        let place = (answer.execution(), call.strand);
        let mut table = self.lock();
        table.attempts += 1;
        let attempt = table.attempts;
        let entry = Entry { key: call.key.clone(), attempt, answer, task: None };
        let before = table.calls.insert(place, entry);
        drop(table);
        if let Some(before) = before {
            before.call_off();
        }
        Attempt { ticket: Ticket { place, attempt }, table: self.clone() }
    }

    /// Its task is there, unless it has ended already.
    pub(super) fn started(&self, ticket: Ticket, task: AbortHandle) {
        if let Some(entry) = self.lock().calls.get_mut(&ticket.place)
            && entry.attempt == ticket.attempt
        {
            entry.task = Some(task);
        }
    }

    /// Nobody waits for this call any more.
    pub(super) fn call_off(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey) {
        let place = (execution, strand);
        let mut table = self.lock();
        let is_meant = table.calls.get(&place).is_some_and(|entry| entry.key == *key);
        let entry = is_meant.then(|| table.calls.remove(&place)).flatten();
        drop(table);
        if let Some(entry) = entry {
            entry.call_off();
        }
    }

    /// Nobody waits for anything any more.
    pub(super) fn call_all_off(&self) {
        let all = std::mem::take(&mut self.lock().calls);
        all.into_values().for_each(Entry::call_off);
    }

    fn take(&self, ticket: Ticket) -> Option<Answer> {
        let mut table = self.lock();
        let is_ours = table.calls.get(&ticket.place).is_some_and(|entry| entry.attempt == ticket.attempt);
        let entry = is_ours.then(|| table.calls.remove(&ticket.place)).flatten()?;
        Some(entry.answer)
    }
}

impl Entry {
    /// Nothing of it is to arrive.
    fn call_off(self) {
        self.answer.withdraw();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

impl Attempt {
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(super) fn execution(&self) -> ExecutionId {
        self.ticket.place.0
    }

    /// Hands over what came of it, unless it was called off.
    pub(super) fn end(self, outcome: Outcome) {
        if let Some(answer) = self.table.take(self.ticket) {
            answer.send(outcome);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // Without the lock: an answer that is dropped says that nobody knows.
        drop(self.table.take(self.ticket));
    }
}
