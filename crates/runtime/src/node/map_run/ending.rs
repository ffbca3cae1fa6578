//! Runs that end early: nobody waits for them any more, or they cannot go on.
//!
//! Such a run starts nothing more. Its children are stopped, a few at a time, and are counted by their rows when the
//! last of them has ended; only then does the run's own row say that it is over. Nothing of this needs what the run was
//! ordered with. So a run that an earlier process has left behind, of which there is a row and nothing else, ends
//! in the same way: whoever opens the store looks for those.

use super::super::{Node, Slot};
use super::{Ordered, START_AT_LEAST, START_AT_ONCE};
use crate::fetch::{Fetch, FetchKind, Recalled, Ticket};
use crate::message::{AdjustError, InputError, Unavailable};
use perdura_engine::{By, EffectKey, ExecutionId, Fault, Input, MapRunOutcome, Moment, Status};
use perdura_store::{Failure, MapRunRow};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// How many rows of runs are looked at once a second, after a start.
const LOOK_AT_ONCE: u32 = 256;

/// How many executions may be ready before no more children are brought into memory to be stopped.
const STOP_AHEAD: usize = 256;

/// A run that ends early.
pub(super) struct Ending {
    pub(super) ticket: Ticket,
    /// As it stood.
    pub(super) row: MapRunRow,
    /// What is stored of its bounds and its source counts: it was stopped before it had read that.
    pub(super) is_unread: bool,
    stage: Stage,
    pub(super) is_eager: bool,
    /// Children to be stopped.
    untold: Vec<ExecutionId>,
    /// Children to be stopped that could not be read.
    unread: Vec<ExecutionId>,
    /// Children that have not ended yet.
    left: BTreeSet<ExecutionId>,
    /// The step that is told why it failed. `None`: nobody waits for it.
    told: Option<(By, Fault)>,
    /// It is taken up again as soon as it is over.
    then: Option<Ordered>,
}

/// What it waits for.
enum Stage {
    /// To know which children run. Those in memory are stopped meanwhile.
    Asking,
    /// Its children.
    Stopping,
    /// To know how its children ended.
    Counting,
    /// Nothing.
    Counted,
}

impl Ending {
    pub(super) fn child_ended(&mut self, child: ExecutionId) {
        self.left.remove(&child);
    }

    /// It waits for what the store has of its children.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Asking | Stage::Counting)
    }

    fn stop(&mut self, children: impl IntoIterator<Item = ExecutionId>) {
        for child in children {
            if self.left.insert(child) {
                self.untold.push(child);
            }
        }
    }

    pub(super) fn recalled(&mut self, recalled: Recalled) {
        let Recalled { running, counts, row, known: _ } = recalled;
        match self.stage {
            Stage::Asking => {
                if let Some(row) = row.filter(|_| self.is_unread) {
                    (self.row.bounds, self.row.source_version) = (row.bounds, row.source_version);
                    let total = &mut self.row.counts.items.total;
                    *total = row.counts.items.total.max(*total);
                }
                self.is_unread = false;
                self.stop(running);
                self.stage = Stage::Stopping;
            }
            Stage::Counting => {
                let total = self.row.counts.items.total.max(counts.items.total);
                self.row.counts = counts;
                self.row.counts.items.total = total;
                self.stage = Stage::Counted;
            }
            Stage::Stopping | Stage::Counted => {}
        }
    }
}

/// How far the rows of runs were looked through for those that nobody waits for.
#[derive(Default)]
pub(super) struct Search {
    after: Option<Uuid>,
    /// Of some of them it could not be told yet: they are looked at again.
    again: bool,
}

impl Node {
    /// From now on runs are looked for that an earlier process was to end.
    pub(in super::super) fn search_map_runs(&mut self) {
        self.map_runs.search = Some(Search::default());
    }

    /// A run that cannot go on ends, and says why.
    pub(super) fn fail_map_run(&mut self, id: Uuid, fault: Fault) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let by = By::Key { strand: run.order().strand, key: run.order().key.clone(), attempt: None };
        self.end_map_run(id, Some((by, fault)));
    }

    /// A run ends early.
    fn end_map_run(&mut self, id: Uuid, told: Option<(By, Fault)>) {
        let Some(mut run) = self.map_runs.runs.remove(&id) else { return };
        for (_, reply) in run.changes.drain(..) {
            reply.send(Err(AdjustError::Ended));
        }
        self.end_by_row(run.row(), run.is_recalling(), told);
    }

    fn end_by_row(&mut self, row: MapRunRow, is_unread: bool, told: Option<(By, Fault)>) {
        let id = row.id;
        let ticket = self.next_ticket(id);
        let mut ending = Ending {
            ticket,
            row,
            is_unread,
            stage: Stage::Asking,
            is_eager: false,
            untold: Vec::new(),
            unread: Vec::new(),
            left: BTreeSet::new(),
            told,
            then: None,
        };
        ending.stop(self.members(id).into_iter().map(|(child, _)| child));
        self.map_runs.endings.insert(id, ending);
        self.map_runs.fetches.push(Fetch { ticket, kind: FetchKind::Children });
        self.map_runs.wake(id);
    }

    /// Nobody waits for this run any more.
    pub(in super::super) fn stop_map_run(&mut self, execution: ExecutionId, key: &EffectKey) {
        for ending in self.map_runs.endings.values_mut().filter(|ending| ending.row.execution == execution) {
            if ending.told.as_ref().is_some_and(|(by, _)| matches!(by, By::Key { key: of, .. } if of == key))
            {
                ending.told = None;
            }
            if ending.then.as_ref().is_some_and(|ordered| ordered.order.key == *key) {
                ending.then = None;
            }
        }
        let mut runs = self.map_runs.runs.iter();
        let found = runs.find(|(_, run)| run.parent.identity.id == execution && run.order().key == *key);
        let Some((id, run)) = found else { return };
        let (id, under_way) = (*id, run.children_under_way());
        self.end_map_run(id, None);
        self.stop_below(under_way);
    }

    /// The runs of an execution end, and stop their children. Those that were under way.
    pub(in super::super) fn end_runs_of(&mut self, execution: ExecutionId) -> Vec<ExecutionId> {
        let runs = self.map_runs.runs.iter().filter(|(_, run)| run.parent.identity.id == execution);
        let ending: Vec<Uuid> = runs.clone().map(|(id, _)| *id).collect();
        let under_way = runs.flat_map(|(_, run)| run.children_under_way()).collect();
        for id in ending {
            self.end_map_run(id, None);
        }
        under_way
    }

    /// A run that ends is asked for again; whether it does. One that fails has still to say so: whoever asks again for
    /// that one is told by it.
    pub(super) fn take_up_later(&mut self, ordered: &Ordered) -> bool {
        let Some(ending) = self.map_runs.endings.get_mut(&ordered.order.id()) else { return false };
        if ending.told.is_none() {
            ending.then = Some(ordered.clone());
        }
        true
    }

    /// Lets a run that ends go on for a while; whether it wants more.
    pub(super) fn drive_ending(&mut self, id: Uuid, started: &mut usize, moment: &Moment) -> bool {
        for _ in 0..START_AT_ONCE {
            let Some(ending) = self.map_runs.endings.get_mut(&id) else { return false };
            if !ending.untold.is_empty() && self.ready.len() >= STOP_AHEAD {
                *started += START_AT_LEAST;
                return true;
            }
            if let Some(child) = ending.untold.pop() {
                *started += 1;
                self.stop_map_child(id, child, moment);
                continue;
            }
            match ending.stage {
                Stage::Stopping if ending.left.is_empty() => {
                    ending.stage = Stage::Counting;
                    self.fetch_for_ending(id);
                }
                Stage::Counted => self.ended_early(id, moment),
                Stage::Asking | Stage::Stopping | Stage::Counting => {}
            }
            return false;
        }
        true
    }

    fn fetch_for_ending(&mut self, id: Uuid) {
        if let Some(Ending { ticket, .. }) = self.map_runs.endings.get(&id) {
            self.map_runs.fetches.push(Fetch { ticket: *ticket, kind: FetchKind::Children });
        }
    }

    fn stop_map_child(&mut self, id: Uuid, child: ExecutionId, moment: &Moment) {
        let awake = self.awake(child, moment);
        let moves = self.slots.get(&child).is_some_and(|slot| slot.parked.is_none() && !slot.is_ended());
        let Some(ending) = self.map_runs.endings.get_mut(&id) else { return };
        match awake {
            Ok(()) if moves => self.join(child, Input::Stop { fault: Fault::default() }),
            Err(InputError::Unavailable(Unavailable::Store(_))) => ending.unread.push(child),
            // It has ended, or does not move, and nobody shall wait for it.
            Ok(()) | Err(_) => {
                ending.child_ended(child);
            }
        }
    }

    /// All children of a run have ended, and are counted.
    fn ended_early(&mut self, id: Uuid, moment: &Moment) {
        let Some(Ending { row, told, .. }) = self.map_runs.endings.get(&id) else { return };
        let (parent, told) = (row.execution, told.clone());
        if told.is_some() && !self.can_be_told(parent, moment) {
            return self.map_runs.again.push(id);
        }
        let Some(Ending { row, then, .. }) = self.map_runs.endings.remove(&id) else { return };
        let status = if told.is_some() { Status::Failed } else { Status::Aborted };
        let over = MapRunRow { status, ended_at: Some(moment.now), ..row };
        self.map_runs.rows.push(over.into());
        if let Some((by, fault)) = told {
            self.tell_parent(parent, by, MapRunOutcome::Failed { fault });
        } else if let Some(ordered) = then {
            self.take_up(ordered);
        }
    }

    /// Once a second: what could not be read is asked for again, and a slice of the rows is looked at.
    pub(super) fn look_after_endings(&mut self, again: &[Uuid], moment: &Moment) {
        for id in again {
            match self.map_runs.endings.get(id).map(|ending| &ending.stage) {
                Some(Stage::Asking | Stage::Counting) => self.fetch_for_ending(*id),
                Some(Stage::Stopping | Stage::Counted) => self.map_runs.wake(*id),
                None => {}
            }
        }
        let mut unread = Vec::new();
        for (id, ending) in &mut self.map_runs.endings {
            if !ending.unread.is_empty() {
                ending.untold.append(&mut ending.unread);
                unread.push(*id);
            }
        }
        for id in unread {
            self.map_runs.wake(id);
        }
        self.join_or_end(moment);
        self.go_on_searching(moment);
    }

    /// A slice of the runs whose rows say that they run. The process before this one may have ended between the commit
    /// that gave a run up and its end.
    fn go_on_searching(&mut self, moment: &Moment) {
        let Some(Search { after, mut again }) = self.map_runs.search.take() else { return };
        let page = match self.reader.running_map_runs(after, LOOK_AT_ONCE) {
            Ok(page) => page,
            Err(failure) => {
                tracing::error!(%failure, "Map Runs that run cannot be read");
                self.map_runs.search = Some(Search { after, again });
                return;
            }
        };
        let last = page.last().map(|row| row.id);
        for row in page {
            if self.map_runs.is_here(row.id) {
                continue;
            }
            match self.is_given_up(&row, moment) {
                Ok(Some(true)) => self.end_by_row(row, false, None),
                Ok(Some(false)) => {}
                Ok(None) => again = true,
                Err(error) => {
                    tracing::error!(map_run = %row.id, %error, "it cannot be read who waits for it");
                    again = true;
                }
            }
        }
        self.map_runs.search = match last {
            Some(last) => Some(Search { after: Some(last), again }),
            None => again.then(Search::default),
        };
    }

    /// Children of an earlier process whose run nobody has taken up.
    fn join_or_end(&mut self, moment: &Moment) {
        let mut waiting: BTreeMap<Uuid, Vec<ExecutionId>> = BTreeMap::new();
        for (execution, child) in &self.map_runs.unjoined {
            if !self.map_runs.is_here(child.run) {
                waiting.entry(child.run).or_default().push(*execution);
            }
        }
        for (run, children) in waiting {
            let input = match self.input_without_run(run, moment) {
                Ok(Some(input)) => input,
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(map_run = %run, %error, "it cannot be read who waits for it");
                    continue;
                }
            };
            for execution in children {
                self.join(execution, input.clone());
            }
        }
    }

    /// What the children of a run get that is not here. `None`: their run is here soon, and says it.
    fn input_without_run(&mut self, run: Uuid, moment: &Moment) -> Result<Option<Input>, InputError> {
        let unread =
            |failure: Failure| InputError::Unavailable(Unavailable::Store(failure.to_string().into()));
        let row = self.reader.map_run(run).map_err(unread)?;
        let Some(row) = row.filter(|row| row.status == Status::Running) else {
            return Ok(Some(Input::Stop { fault: Fault::default() }));
        };
        match self.is_given_up(&row, moment)? {
            Some(true) => self.end_by_row(row, false, None),
            Some(false) => return Ok(Some(Input::Resume)),
            None => {}
        }
        Ok(None)
    }

    /// Whether nobody waits for this run, though its row says that it runs. `None`: its parent has still to ask for it.
    fn is_given_up(&mut self, row: &MapRunRow, moment: &Moment) -> Result<Option<bool>, InputError> {
        if self.held(row.execution).is_err() {
            return Ok(Some(false));
        }
        let is_wanted = match self.slots.get(&row.execution) {
            Some(parent) if parent.parked.is_some() => return Ok(Some(false)),
            Some(Slot { running: None, .. }) => return Ok(None),
            Some(Slot { running: Some(parent), .. }) => parent.execution.waits_for_map_run(&row.arn),
            None => {
                self.rebuilding.now = moment.now;
                match self.stored(row.execution) {
                    Ok(Ok(parent)) => parent.execution.waits_for_map_run(&row.arn),
                    Ok(Err(_)) => return Ok(Some(false)),
                    Err(InputError::Unknown) => false,
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(if is_wanted { None } else { Some(true) })
    }
}
