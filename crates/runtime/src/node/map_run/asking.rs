//! Those who ask how a Map Run stands, and those who change it.
//!
//! A run that is here answers at once, unless it has not read its own row yet. That row, and those of runs that are not
//! here, are read beside the node's thread, and whoever asked waits for that.

use super::super::Node;
use super::Run;
use crate::committer::Adjusting;
use crate::fetch::{Fetch, FetchKind, Ticket};
use crate::message::{AdjustError, MapRunChange, Reply, Unavailable};
use perdura_engine::{ExecutionId, MapRunEvent, Status};
use perdura_store::{Failure, MapRunRow};
use uuid::Uuid;

/// Somebody who waits for the row of a run.
pub(super) enum Asked {
    Show(Reply<Option<Box<MapRunRow>>>),
    Adjust(MapRunChange, Reply<Result<(), AdjustError>>),
}

impl Node {
    /// A run that is here, as it stands.
    pub(in super::super) fn show_map_run(&mut self, id: Uuid, reply: Reply<Option<Box<MapRunRow>>>) {
        match self.map_runs.runs.get(&id) {
            None => reply.send(None),
            Some(run) if run.life.is_unread() => self.ask_for_row(id, Asked::Show(reply)),
            Some(run) => reply.send(Some(Box::new(run.row()))),
        }
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
    ) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else {
            return self.ask_for_row(id, Asked::Adjust(change, reply));
        };
        let before = run.row().bounds;
        run.changes.push(Adjusting { before, reply });
        self.tell_run(id, MapRunEvent::Adjusted(change));
    }

    fn ask_for_row(&mut self, id: Uuid, asked: Asked) {
        let ticket = self.map_runs.next_ticket(id);
        self.map_runs.asked.insert(ticket.number, asked);
        self.map_runs.fetches.push(Fetch { ticket, kind: FetchKind::Row });
    }

    /// The row of a run was read. If the run knows more by now, that counts.
    pub(super) fn row_was_read(&mut self, ticket: Ticket, stored: Result<Option<Box<MapRunRow>>, Failure>) {
        let run = self.map_runs.runs.get(&ticket.run);
        match (self.map_runs.asked.remove(&ticket.number), stored) {
            (None, _) => {}
            // Whoever asks reads it, and learns why not.
            (Some(Asked::Show(reply)), Err(_)) => reply.send(None),
            (Some(Asked::Show(reply)), Ok(stored)) => {
                let known = run.map(|run| (run.life.is_unread(), Box::new(run.row())));
                reply.send(match known {
                    Some((false, row)) => Some(row),
                    Some((true, row)) => Some(stored.unwrap_or(row)),
                    None => stored,
                });
            }
            (Some(Asked::Adjust(change, reply)), _) if run.is_some() => {
                self.adjust_map_run(ticket.run, change, reply);
            }
            (Some(Asked::Adjust(_, reply)), stored) => {
                let not_here = match stored {
                    Ok(None) => AdjustError::Unknown,
                    Ok(Some(row)) if row.status != Status::Running => AdjustError::Ended,
                    Ok(Some(row)) => {
                        let shard = self.shards.of(row.execution);
                        AdjustError::Unavailable(Unavailable::Elsewhere(shard))
                    }
                    Err(failure) => AdjustError::Unavailable(Unavailable::Store(failure.to_string().into())),
                };
                reply.send(Err(not_here));
            }
        }
    }
}
