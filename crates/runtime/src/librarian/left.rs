//! Map Runs whose rows say that they run, and whether their executions wait for them.
//!
//! What was read is old when it arrives: an execution may have woken up since, and a run may have been taken up or have
//! ended. Whoever asked goes by its own memory first.

use super::{Librarian, Told};
use crate::fold::Unreadable;
use perdura_store::{Failure, MapRunRow, Recovered};
use uuid::Uuid;

/// How many rows of runs are read at once.
const RUNS_AT_ONCE: u32 = 256;

/// A run that an earlier process may have left behind.
#[derive(Debug)]
pub(crate) struct LeftRun {
    pub(crate) run: Uuid,
    /// `None`: it has none.
    pub(crate) row: Option<Box<MapRunRow>>,
    pub(crate) parent: Waits,
}

/// Whether the execution of a run waits for it, as far as its row tells.
#[derive(Debug)]
pub(crate) enum Waits {
    Yes,
    /// It does not, or there is no such execution.
    No,
    /// It is in some node's memory, which knows.
    Awake,
    /// What is stored of it makes no sense.
    Damaged,
    Unread(Failure),
}

impl Librarian {
    /// The next runs whose rows say that they run.
    pub(super) fn left_runs(&mut self, after: Option<Uuid>) -> Result<Told, Failure> {
        let page = self.reader.running_map_runs(after, RUNS_AT_ONCE)?;
        let runs = page.into_iter().map(|row| (row.id, Some(row)));
        Ok(Told::Runs(runs.map(|(run, row)| self.left_run(run, row)).collect()))
    }

    /// These runs.
    pub(super) fn runs(&mut self, runs: &[Uuid]) -> Result<Told, Failure> {
        let mut told = Vec::new();
        for run in runs {
            let row = self.reader.map_run(*run)?;
            told.push(self.left_run(*run, row));
        }
        Ok(Told::Runs(told))
    }

    fn left_run(&mut self, run: Uuid, row: Option<MapRunRow>) -> LeftRun {
        let parent = row.as_ref().map_or(Waits::No, |row| self.waits(row));
        LeftRun { run, row: row.map(Box::new), parent }
    }

    fn waits(&mut self, run: &MapRunRow) -> Waits {
        let (row, unsegmented_from) = match self.reader.row(run.execution) {
            Ok(Some(found)) => found,
            Ok(None) => return Waits::No,
            Err(failure) => return Waits::Unread(failure),
        };
        if row.awake {
            return Waits::Awake;
        }
        if row.ended_at.is_some() {
            return Waits::No;
        }
        let stored =
            Recovered { execution: run.execution, row: Some(row), unsegmented_from, turns: Vec::new() };
        match self.rebuild(stored) {
            Ok(parent) if parent.execution.waits_for_map_run(&run.arn) => Waits::Yes,
            Ok(_) => Waits::No,
            Err(Unreadable::Damaged(_)) => Waits::Damaged,
            Err(Unreadable::Unavailable(failure)) => Waits::Unread(failure),
        }
    }
}
