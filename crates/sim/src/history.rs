//! Executions as stored at the end of a run: their Turns, and the fold of them.

use crate::dice::hash;
use crate::sim::Sim;
use perdura_engine::{Execution, ExecutionId, Turn};
use perdura_runtime::read_definition;
use perdura_store::record::TurnBody;
use perdura_store::{Reader, Row};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many bytes to read at once.
const READ_BYTES: usize = 1 << 20;

/// One execution.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) id: ExecutionId,
    pub(crate) row: Option<Row>,
    /// Its Turns, in order.
    pub(crate) turns: Vec<Turn>,
    /// The hash of each Turn's bytes.
    pub(crate) hashes: Vec<u64>,
    /// The fold of the Turns.
    pub(crate) execution: Option<Execution>,
    /// Problems found while reading.
    pub(crate) problems: Vec<String>,
    /// It was swept; this was read before.
    pub(crate) is_swept: bool,
}

/// All executions that began.
pub(crate) fn read_all(sim: &Sim) -> Vec<History> {
    let mut reader = sim.home.reader();
    let executions = sim.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner).observed.executions();
    let read = |id| sim.swept.get(&id).cloned().unwrap_or_else(|| read_one(id, &mut *reader));
    executions.into_iter().map(read).collect()
}

/// One stored execution.
pub(crate) fn read_one(id: ExecutionId, reader: &mut dyn Reader) -> History {
    let mut history = History {
        id,
        row: None,
        turns: Vec::new(),
        hashes: Vec::new(),
        execution: None,
        problems: Vec::new(),
        is_swept: false,
    };
    match reader.row(id) {
        Ok(row) => history.row = row.map(|(row, _)| row),
        Err(failure) => history.problems.push(failure.to_string()),
    }
    loop {
        let from = history.turns.len() as u64 + 1;
        let read = match reader.turns(id, from, READ_BYTES) {
            Ok(read) => read,
            Err(failure) => {
                history.problems.push(failure.to_string());
                break;
            }
        };
        if read.is_empty() {
            break;
        }
        for stored in read {
            let number = history.turns.len() as u64 + 1;
            if stored.number != number {
                history.problems.push(format!("Turn {} stands where {number} belongs", stored.number));
                return history;
            }
            history.hashes.push(hash(&stored.body));
            let body = match TurnBody::read(&stored.body) {
                Ok(body) => body,
                Err(damage) => {
                    history.problems.push(damage.0);
                    return history;
                }
            };
            history.fold(body, reader);
        }
    }
    history
}

impl History {
    fn fold(&mut self, body: TurnBody, reader: &mut dyn Reader) {
        if let Some(begun) = &body.begun
            && let Ok(Some(record)) = reader.revision(begun.revision)
            && let Some(machine) = read_definition(&record)
        {
            self.execution = Some(Execution::new(Arc::new(machine), begun.identity.clone()));
        }
        if let Some(execution) = &mut self.execution {
            let applied = catch_unwind(AssertUnwindSafe(|| execution.apply(&body.turn)));
            if applied.is_err() {
                self.problems.push(format!("Turn {} cannot be applied", self.turns.len() + 1));
            }
        } else {
            self.problems.push("the first Turn does not say who it is".into());
        }
        self.turns.push(body.turn);
    }

    /// Its name, or its id.
    pub(crate) fn name(&self) -> String {
        self.execution
            .as_ref()
            .map_or_else(|| self.id.to_string(), |execution| execution.identity().name.to_string())
    }
}
