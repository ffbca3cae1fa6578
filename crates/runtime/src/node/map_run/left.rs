//! What an earlier process has left behind: runs that nobody waits for, and children whose run is not here yet.
//!
//! A process may have ended between the commit that gave a run up and the end of that run. So whoever opens the store looks
//! for such runs, a slice of them at a time. Their rows and their parents are asked for; what is in memory when the answer
//! arrives counts more than what was read. A run that is ended by its row reads that row once more
//! before it says so.

use super::super::slot::Body;
use super::super::{Node, Queued, ReplyTo, Slot};
use super::Run;
use crate::fetch::figures;
use crate::librarian::{Ask, LeftRun, Waits};
use perdura_engine::{Destinations, ExecutionId, Fault, Input, MapRunLife, Status};
use perdura_store::{ChildOf, MapRunRow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// What may have been left behind.
#[derive(Default)]
pub(super) struct Left {
    /// Children of an earlier process whose run is not here yet: they wait for it.
    unjoined: BTreeMap<ExecutionId, ChildOf>,
    search: Option<Search>,
}

/// How far the rows of runs were looked through for those that nobody waits for.
#[derive(Default)]
struct Search {
    after: Option<Uuid>,
    /// Of some of them it could not be told yet: they are looked at again.
    again: bool,
}

/// Whether a run that is not here is wanted, though its row says that it runs.
enum Need {
    /// Its parent has still to ask for it, or it cannot be told yet.
    Perhaps,
    /// It is for somebody else to say.
    Elsewhere,
    No,
}

impl Left {
    pub(super) fn is_looked_for(&self) -> bool {
        !self.unjoined.is_empty() || self.search.is_some()
    }

    pub(super) fn has_unjoined(&self) -> bool {
        !self.unjoined.is_empty()
    }

    fn of(&self, run: Uuid) -> Vec<ExecutionId> {
        let children = self.unjoined.iter().filter(|(_, child)| child.run == run);
        children.map(|(execution, _)| *execution).collect()
    }
}

impl Node {
    /// From now on runs are looked for that an earlier process was to end.
    pub(in super::super) fn search_map_runs(&mut self) {
        self.map_runs.left.search = Some(Search::default());
    }

    /// A child of an earlier process: whether it goes on is for its run to say.
    pub(in super::super) fn await_run(&mut self, execution: ExecutionId, child: ChildOf) {
        self.map_runs.left.unjoined.insert(execution, child);
        if let Some(slot) = self.executions.get_mut(execution) {
            slot.gate.awaits_run = true;
        }
    }

    /// A child of an earlier process gets its first input here, before all that came for it meanwhile.
    pub(super) fn join(&mut self, execution: ExecutionId, input: Input) {
        self.map_runs.left.unjoined.remove(&execution);
        let Some(slot) = self.executions.get_mut(execution) else { return };
        slot.gate.awaits_run = false;
        if slot.parked.is_none() {
            let queued = Queued { input, reply: ReplyTo::Nobody };
            match queued.input {
                // One that has not begun would begin after its stop, and never hear of it again.
                Input::Stop { .. } => slot.queue(queued),
                _ => slot.inbox.push_front(queued),
            }
            self.make_ready(execution);
        }
    }

    /// A run is here: its children go on.
    pub(super) fn join_run(&mut self, run: Uuid) {
        for execution in self.map_runs.left.of(run) {
            self.join(execution, Input::Resume);
        }
    }

    /// Once a second: the runs of children that wait for them are asked for, and the next slice of all others. What is being
    /// read is not asked for twice.
    pub(super) fn look_for_the_left(&mut self) {
        if !self.performs.begins() {
            return;
        }
        let left = &self.map_runs.left;
        let runs: BTreeSet<Uuid> = left.unjoined.values().map(|child| child.run).collect();
        let absent = |run: &Uuid| !self.map_runs.runs.contains_key(run);
        let absent: Arc<[Uuid]> = runs.into_iter().filter(absent).collect();
        if !absent.is_empty() {
            self.errands.ask(Ask::Runs(absent), None);
        }
        if let Some(Search { after, .. }) = left.search {
            self.errands.ask(Ask::LeftRuns { after }, None);
        }
    }

    /// A slice of the runs whose rows say that they run.
    pub(in super::super) fn go_on_searching(&mut self, slice: Vec<LeftRun>) {
        let last = slice.last().map(|left| left.run);
        let mut again = false;
        for LeftRun { run, row, parent } in slice {
            let Some(row) = row.filter(|_| !self.map_runs.runs.contains_key(&run)) else { continue };
            match self.need_of(&row, &parent) {
                Need::No => self.end_by_row(*row),
                Need::Elsewhere => {}
                Need::Perhaps => again = true,
            }
        }
        let Some(search) = &mut self.map_runs.left.search else { return };
        search.again |= again;
        self.map_runs.left.search = match last {
            Some(last) => Some(Search { after: Some(last), again: search.again }),
            None => search.again.then(Search::default),
        };
    }

    /// Children of an earlier process whose run nobody has taken up. Where their run is here soon, that says what they get.
    pub(in super::super) fn join_or_end(&mut self, LeftRun { run, row, parent }: LeftRun) {
        if self.map_runs.runs.contains_key(&run) {
            return;
        }
        let input = match row.filter(|row| row.status == Status::Running) {
            None => Input::Stop { fault: Fault::default() },
            Some(row) => match self.need_of(&row, &parent) {
                Need::Elsewhere => Input::Resume,
                Need::No => return self.end_by_row(*row),
                Need::Perhaps => return,
            },
        };
        for execution in self.map_runs.left.of(run) {
            self.join(execution, input.clone());
        }
    }

    fn need_of(&self, row: &MapRunRow, parent: &Waits) -> Need {
        if self.shards.hold(row.execution).is_err() || !self.destinations.performs_for(row.execution) {
            return Need::Elsewhere;
        }
        match self.executions.get(row.execution) {
            Some(Slot { parked: Some(_), .. }) => Need::Elsewhere,
            Some(Slot { body: Body::Here(parent), .. }) if !parent.execution.waits_for_map_run(&row.arn) => {
                Need::No
            }
            Some(_) => Need::Perhaps,
            None => match parent {
                Waits::No => Need::No,
                Waits::Damaged => Need::Elsewhere,
                Waits::Yes | Waits::Awake => Need::Perhaps,
                Waits::Unread(failure) => {
                    tracing::error!(map_run = %row.id, %failure, "it cannot be read who waits for it");
                    Need::Perhaps
                }
            },
        }
    }

    /// Nobody waits for this run, of which there is nothing here but its row.
    fn end_by_row(&mut self, row: MapRunRow) {
        let here = self.members(row.id).into_iter().map(|(child, _)| child).collect();
        let (life, commands) = MapRunLife::left_behind(figures(&row), here);
        self.keep_run(Run::new(life, row, None), commands);
    }
}
