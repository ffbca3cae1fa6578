//! Those who ask how a Map Run stands, and those who change it.
//!
//! A run that is here answers at once, unless it has not read its own row yet. That row, and those of runs that are not
//! here, are asked for, and whoever wants to know waits for that.

use super::super::Node;
use super::super::errands::{Errand, Hearing};
use super::Run;
use crate::committer::Adjusting;
use crate::librarian::{Ask, Subject, Told};
use crate::message::{AdjustError, MapRunChange, Reply, Unavailable};
use perdura_engine::{ExecutionId, MapRunEvent, Status};
use perdura_store::MapRunRow;
use uuid::Uuid;

/// The row of a run as it was just read, if that was asked for.
fn heard(hearing: &Hearing, run: Uuid) -> Option<&Option<Box<MapRunRow>>> {
    match hearing.as_ref()?.told(&Subject::MapRun(run))? {
        Told::MapRun(row) => Some(row),
        _ => None,
    }
}

impl Node {
    /// A run that is here, as it stands. If it knows more than its row, that counts.
    pub(in super::super) fn show_map_run(
        &mut self,
        id: Uuid,
        reply: Reply<Option<Box<MapRunRow>>>,
        hearing: &Hearing,
    ) {
        let stored = heard(hearing, id);
        let known = self.map_runs.runs.get(&id);
        let row = match (known, stored) {
            (Some(run), _) if !run.life.is_unread() => Some(Box::new(run.row())),
            (Some(_), None) => {
                return self.errands.ask(Ask::MapRun(id), Some(Errand::ShowRun { run: id, reply }));
            }
            (Some(run), Some(stored)) => Some(stored.clone().unwrap_or_else(|| Box::new(run.row()))),
            (None, stored) => stored.cloned().flatten(),
        };
        reply.send(row);
    }

    /// The runs of an execution that are here, as they stand.
    pub(in super::super) fn runs_of(&self, execution: ExecutionId) -> Vec<MapRunRow> {
        let runs = self.map_runs.runs.values().filter(|run| run.row.execution == execution);
        runs.map(Run::row).collect()
    }

    /// Changes the bounds of a run, which counts at once and also after a restart.
    pub(in super::super) fn adjust_map_run(
        &mut self,
        id: Uuid,
        change: MapRunChange,
        reply: Reply<Result<(), AdjustError>>,
        hearing: &Hearing,
    ) {
        if let Some(run) = self.map_runs.runs.get_mut(&id) {
            let before = run.row().bounds;
            run.changes.push(Adjusting { before, reply });
            return self.tell_run(id, MapRunEvent::Adjusted(change));
        }
        let why = match heard(hearing, id) {
            None => {
                let errand = Errand::AdjustRun { run: id, change, reply };
                return self.errands.ask(Ask::MapRun(id), Some(errand));
            }
            Some(None) => AdjustError::Unknown,
            Some(Some(row)) if row.status != Status::Running => AdjustError::Ended,
            Some(Some(row)) => {
                AdjustError::Unavailable(Unavailable::Elsewhere(self.shards.of(row.execution)))
            }
        };
        reply.send(Err(why));
    }
}
