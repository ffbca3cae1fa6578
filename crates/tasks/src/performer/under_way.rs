//! Calls under way, by their waiting Step.
//!
//! Only the code that takes an entry out may answer it, so each entry is answered once. A call that was cancelled and
//! is repeated has the same key, so each entry also has a number of its own: an attempt that ends late finds that the
//! entry is not its own any more, and sends nothing.

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
    /// The number of attempts so far.
    attempts: u64,
}

/// The waiting Step.
type Place = (ExecutionId, StrandId);

struct Entry {
    key: EffectKey,
    attempt: u64,
    answer: Answer,
    /// Present once its task was spawned.
    task: Option<AbortHandle>,
}

/// Identifies an attempt of a Step.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    place: Place,
    attempt: u64,
}

/// The right to answer for one attempt. If it is dropped without an end, by a panic, the outcome is unknown.
pub(super) struct Attempt {
    ticket: Ticket,
    table: Arc<UnderWay>,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry. An earlier one in the same place is cancelled.
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

    /// Sets the entry's task, unless the attempt has ended already.
    pub(super) fn started(&self, ticket: Ticket, task: AbortHandle) {
        if let Some(entry) = self.lock().calls.get_mut(&ticket.place)
            && entry.attempt == ticket.attempt
        {
            entry.task = Some(task);
        }
    }

    /// The Step no longer waits for this call.
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

    /// Cancels all calls.
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
    /// Cancels it; nothing of it will be answered.
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

    /// Answers with the outcome, unless the call was cancelled.
    pub(super) fn end(self, outcome: Outcome) {
        if let Some(answer) = self.table.take(self.ticket) {
            answer.send(outcome);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // Without the lock: dropping an answer reports an unknown outcome.
        drop(self.table.take(self.ticket));
    }
}
