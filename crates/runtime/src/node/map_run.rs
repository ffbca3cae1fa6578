//! Map Runs: children are started here, and their ends are counted here.
//!
//! Children are ordinary executions, and they are all that is remembered of a run: one that is taken up again asks
//! the store which it has. A run starts children when nothing else is to be decided, and a few in any case, so that a
//! million of them neither keep others waiting nor wait for ever.

mod ending;
mod run;

use super::start::NewExecution;
use super::{Deed, Node, Queued, ReplyTo};
use crate::committer::MapRunNews;
use crate::fetch::{Fetch, FetchKind, Fetched, Recalled, Ticket};
use crate::message::{AdjustError, InputError, MapRunChange, Reply, Unavailable};
use ending::{Ending, Search};
use perdura_engine::{
    By, Child, ExecutionId, Input, MapRun, MapRunBounds, MapRunCounts, MapRunOrder, MapRunOutcome, Moment,
    Next, Status, TURN_WORK_MAX,
};
use perdura_store::{ChildOf, MapRunRow, Nesting, Shard};
use run::{Ordered, Parent, Run, Stage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// How many children one run starts before another has its turn.
const START_AT_ONCE: usize = 32;
/// How many children are started even if others wait to be decided. Children that take much work to make count for more.
const START_AT_LEAST: usize = 64;
/// A child that takes this many units of work to make counts for one more.
const CHILD_WORK: u64 = TURN_WORK_MAX / START_AT_LEAST as u64;

/// The Map Runs of a node.
#[derive(Default)]
pub(super) struct MapRuns {
    runs: BTreeMap<Uuid, Run>,
    /// Those that end early.
    endings: BTreeMap<Uuid, Ending>,
    /// Those that may have something to do.
    eager: VecDeque<Uuid>,
    /// As they are to be written.
    rows: Vec<MapRunNews>,
    fetches: Vec<Fetch>,
    /// Children of an earlier process whose run is not here yet: they wait for it.
    unjoined: BTreeMap<ExecutionId, ChildOf>,
    /// What could not be read, and is asked for again.
    again: Vec<Uuid>,
    /// Runs are looked for that an earlier process was to end.
    search: Option<Search>,
    /// Those that found no place for a child.
    blocked: BTreeSet<Uuid>,
    /// What the costliest of late took beyond their share, as so many children. It is made up for before they have
    /// another share.
    ahead: usize,
}

impl MapRuns {
    /// Whether the run of this child is here, so that the child may go on.
    pub(super) fn has(&self, child: ChildOf) -> bool {
        self.runs.get(&child.run).is_some_and(|run| !run.is_recalling())
    }

    /// The run of this child ends, and its children with it.
    pub(super) fn is_ending(&self, child: ChildOf) -> bool {
        self.endings.contains_key(&child.run)
    }

    /// Somebody here looks after this run.
    fn is_here(&self, id: Uuid) -> bool {
        self.runs.contains_key(&id) || self.endings.contains_key(&id)
    }

    /// There is something to look after once a second.
    pub(super) fn are_there(&self) -> bool {
        let is_quiet = self.runs.is_empty() && self.endings.is_empty() && self.unjoined.is_empty();
        !is_quiet || self.search.is_some()
    }

    /// Something was asked for that is not there yet: children, items, results.
    pub(super) fn are_reading(&self) -> bool {
        let runs = self.runs.values().any(Run::is_reading);
        runs || self.endings.values().any(Ending::is_reading) || !self.unjoined.is_empty()
    }

    fn wake(&mut self, id: Uuid) {
        let run = self.runs.get_mut(&id).map(|run| &mut run.is_eager);
        let is_eager = run.or_else(|| self.endings.get_mut(&id).map(|ending| &mut ending.is_eager));
        if is_eager.is_some_and(|is_eager| !std::mem::replace(is_eager, true)) {
            self.eager.push_back(id);
        }
    }
}

impl Node {
    /// An execution asks for a Map Run, or asks again.
    pub(super) fn start_map_run(&mut self, execution: ExecutionId, order: Box<MapRunOrder>) {
        let Some(running) = self.slots.get(&execution).and_then(|slot| slot.running.as_ref()) else { return };
        if !self.performs {
            return;
        }
        if self.map_runs.runs.contains_key(&order.id()) {
            return;
        }
        let parent = Parent {
            identity: running.execution.identity().clone(),
            machine: running.machine,
            revision: running.revision,
            depth: running.depth(),
        };
        let machine = running.execution.machine().clone();
        let ordered = Ordered { parent, machine, order };
        if !self.take_up_later(&ordered) {
            self.take_up(ordered);
        }
    }

    fn next_ticket(&mut self, run: Uuid) -> Ticket {
        self.tickets += 1;
        Ticket { run, number: self.tickets }
    }

    fn take_up(&mut self, ordered: Ordered) {
        let Ordered { parent, machine, order } = ordered;
        let id = order.id();
        let ticket = self.next_ticket(id);
        let row = MapRunRow {
            id,
            arn: order.arn.clone(),
            execution: parent.identity.id,
            status: Status::Running,
            started_at: order.began_at,
            ended_at: None,
            redrives: order.redrives,
            redriven_at: order.redriven_at,
            bounds: MapRunBounds::default(),
            source_version: None,
            counts: MapRunCounts::default(),
            results_written: 0,
        };
        let map = MapRun::new(machine, *order, parent.identity.limits.payload_bytes_max);
        let run = Run {
            ticket,
            parent,
            map,
            stage: Stage::Recalling {
                here: self.members(id).into_iter().map(|(_, index)| index).collect(),
                ended: Vec::new(),
            },
            is_eager: false,
            room: Arc::new(Semaphore::new(0)),
            reads_items: false,
            batches: 0,
            row,
            unread: Vec::new(),
            changes: Vec::new(),
        };
        self.map_runs.runs.insert(id, run);
        self.map_runs.fetches.push(Fetch { ticket, kind: FetchKind::Children });
    }

    /// A run that is here, as it stands. One that is being taken up does not know yet how it stood: its row tells. If
    /// that cannot be read, whoever asks reads it and learns why.
    pub(super) fn map_run(&mut self, id: Uuid) -> Option<Box<MapRunRow>> {
        let (row, is_unread) = match (self.map_runs.runs.get(&id), self.map_runs.endings.get(&id)) {
            (Some(run), _) => (run.row(), run.is_recalling()),
            (None, Some(ending)) => (ending.row.clone(), ending.is_unread),
            (None, None) => return None,
        };
        if !is_unread {
            return Some(Box::new(row));
        }
        let stood = self.reader.map_run(id).ok()?;
        Some(Box::new(stood.unwrap_or(row)))
    }

    /// The runs of an execution that are here, as they stand.
    pub(super) fn runs_of(&self, execution: ExecutionId) -> Vec<MapRunRow> {
        let runs = self.map_runs.runs.values().filter(|run| run.parent.identity.id == execution);
        let endings = self.map_runs.endings.values().filter(|ending| ending.row.execution == execution);
        runs.map(Run::row).chain(endings.map(|ending| ending.row.clone())).collect()
    }

    /// Changes the bounds of a run, which counts at once and also after a restart.
    pub(super) fn adjust_map_run(
        &mut self,
        id: Uuid,
        change: MapRunChange,
        reply: Reply<Result<(), AdjustError>>,
    ) {
        if self.map_runs.endings.contains_key(&id) {
            return reply.send(Err(AdjustError::Ended));
        }
        let Some(run) = self.map_runs.runs.get_mut(&id) else {
            let not_here = match self.reader.map_run(id) {
                Ok(None) => AdjustError::Unknown,
                Ok(Some(row)) if row.status != Status::Running => AdjustError::Ended,
                Ok(Some(row)) => {
                    let shard = Shard::of(row.execution, self.shard_count);
                    AdjustError::Unavailable(Unavailable::Elsewhere(shard))
                }
                Err(failure) => AdjustError::Unavailable(Unavailable::Store(failure.to_string().into())),
            };
            return reply.send(Err(not_here));
        };
        match run.stage {
            Stage::Recalling { .. } => run.changes.push((change, reply)),
            Stage::Spreading => {
                run.map.adjust(change.of(run.map.bounds()));
                run.row = run.row();
                self.map_runs.rows.push(MapRunNews { row: run.row.clone(), told: vec![reply] });
                self.map_runs.wake(id);
            }
            Stage::Gathering | Stage::Telling(_) => {
                reply.send(Err(AdjustError::Ended));
            }
        }
    }

    /// An execution that is a child has ended.
    pub(super) fn map_child_ended(&mut self, execution: ExecutionId, child: ChildOf, status: Status) {
        if let Some(run) = self.map_runs.runs.get_mut(&child.run) {
            run.ended(child.index, status);
        } else if let Some(ending) = self.map_runs.endings.get_mut(&child.run) {
            ending.child_ended(execution);
        }
        self.map_runs.wake(child.run);
    }

    /// A child of an earlier process: whether it goes on is for its run to say.
    pub(super) fn await_run(&mut self, execution: ExecutionId, child: ChildOf) {
        self.map_runs.unjoined.insert(execution, child);
        if let Some(slot) = self.slots.get_mut(&execution) {
            slot.awaits_run = true;
        }
    }

    /// A child of an earlier process gets its first input here, before all that came for it meanwhile.
    fn join(&mut self, execution: ExecutionId, input: Input) {
        self.map_runs.unjoined.remove(&execution);
        let Some(slot) = self.slots.get_mut(&execution) else { return };
        slot.awaits_run = false;
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

    /// Runs that found no place for a child look again.
    pub(super) fn wake_blocked_runs(&mut self) {
        for id in std::mem::take(&mut self.map_runs.blocked) {
            self.map_runs.wake(id);
        }
    }

    /// What runs ask for.
    pub fn fetches(&mut self) -> impl Iterator<Item = Deed> {
        let fetches = if self.ends { Vec::new() } else { std::mem::take(&mut self.map_runs.fetches) };
        fetches.into_iter().map(Deed::Fetch)
    }

    /// Runs as they are to be written with the next group.
    pub fn map_run_rows(&mut self) -> Vec<MapRunNews> {
        std::mem::take(&mut self.map_runs.rows)
    }

    pub(super) fn fetched(&mut self, ticket: Ticket, fetched: Fetched) {
        let id = ticket.run;
        if let Some(ending) = self.map_runs.endings.get_mut(&id).filter(|ending| ending.ticket == ticket) {
            match fetched {
                Fetched::Children(Ok(recalled)) => ending.recalled(recalled),
                Fetched::Children(Err(failure)) => {
                    tracing::error!(map_run = %ending.row.arn, %failure, "its children cannot be read");
                    return self.map_runs.again.push(id);
                }
                Fetched::Items(_) | Fetched::Results(_) => {}
            }
            return self.map_runs.wake(id);
        }
        let Some(run) = self.map_runs.runs.get_mut(&id).filter(|run| run.ticket == ticket) else { return };
        match fetched {
            Fetched::Children(Ok(recalled)) => self.recalled(id, recalled),
            Fetched::Items(fed) => {
                if let Err(fault) = run.fed(fed) {
                    self.fail_map_run(id, fault);
                }
            }
            Fetched::Results(Ok(result)) => {
                let outcome = match result {
                    Ok(output) => MapRunOutcome::Succeeded { output },
                    Err(fault) => MapRunOutcome::Failed { fault },
                };
                if matches!(run.stage, Stage::Gathering) {
                    // To a file or into the output of the state: AWS counts both.
                    if matches!(outcome, MapRunOutcome::Succeeded { .. }) {
                        run.row.results_written = run.map.counts().children.total;
                    }
                    run.stage = Stage::Telling(outcome);
                }
            }
            Fetched::Children(Err(failure)) | Fetched::Results(Err(failure)) => {
                tracing::error!(map_run = %run.order().arn, %failure, "its children cannot be read");
                return self.map_runs.again.push(id);
            }
        }
        self.map_runs.wake(id);
    }

    /// It is known which children a run has.
    fn recalled(&mut self, id: Uuid, recalled: Recalled) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        let Stage::Recalling { here, ended } = std::mem::replace(&mut run.stage, Stage::Spreading) else {
            unreachable!("a run asks for its children once")
        };
        run.map.resume(recalled.known);
        for index in here {
            run.map.found_running(index);
        }
        for (index, status) in ended {
            run.map.child_ended(index, status);
        }
        if let Some(row) = recalled.row {
            run.map.adjust(row.bounds);
            run.row.source_version = row.source_version;
            run.row.counts.items.total = row.counts.items.total;
        }
        for (change, _) in &run.changes {
            run.map.adjust(change.of(run.map.bounds()));
        }
        let told = run.changes.drain(..).map(|(_, reply)| reply).collect();
        run.row = run.row();
        self.map_runs.rows.push(MapRunNews { row: run.row.clone(), told });
        if let Some(reader) = run.order().reader.clone() {
            let (ticket, room) = (run.ticket, run.room.clone());
            run.reads_items = true;
            run.take_more_items();
            let (machine, key) = (run.parent.identity.machine_name.clone(), run.order().key.clone());
            let kind = FetchKind::Items { machine, key, reader, room };
            self.map_runs.fetches.push(Fetch { ticket, kind });
        }
        let joining = self.map_runs.unjoined.iter().filter(|(_, child)| child.run == id);
        let joining: Vec<ExecutionId> = joining.map(|(execution, _)| *execution).collect();
        for execution in joining {
            self.join(execution, Input::Resume);
        }
    }

    /// The children of a run that are in memory and have not ended, in their order.
    fn members(&self, id: Uuid) -> Vec<(ExecutionId, u32)> {
        let running = self.slots.iter().filter(|(_, slot)| !slot.is_ended());
        let children = running.filter_map(|(execution, slot)| Some((*execution, slot.child?)));
        let members = children.filter(|(_, child)| child.run == id);
        let mut members: Vec<_> = members.map(|(execution, child)| (execution, child.index)).collect();
        members.sort_unstable_by_key(|(_, index)| *index);
        members
    }

    /// A few children are started in any case, on average: one item may take the work of many.
    pub(super) fn spread_some(&mut self, moment: &Moment) {
        self.map_runs.ahead = self.map_runs.ahead.saturating_sub(START_AT_LEAST);
        if self.map_runs.ahead == 0 {
            self.spread(START_AT_LEAST, moment);
        }
    }

    /// Runs have something to do, and may do it here.
    pub(super) fn spreads(&self) -> bool {
        !self.ends && !self.map_runs.eager.is_empty()
    }

    /// Lets runs go on, until about so many children were started.
    pub(super) fn spread(&mut self, most: usize, moment: &Moment) {
        let mut started = 0;
        while started < most
            && self.spreads()
            && let Some(id) = self.map_runs.eager.pop_front()
        {
            let wants_more = if let Some(run) = self.map_runs.runs.get_mut(&id) {
                run.is_eager = false;
                self.drive(id, &mut started, moment)
            } else if let Some(ending) = self.map_runs.endings.get_mut(&id) {
                ending.is_eager = false;
                self.drive_ending(id, &mut started, moment)
            } else {
                continue;
            };
            if wants_more {
                self.map_runs.wake(id);
            }
        }
        self.map_runs.ahead = self.map_runs.ahead.max(started.saturating_sub(START_AT_LEAST));
    }

    /// Lets one run go on for a while; whether it wants more.
    fn drive(&mut self, id: Uuid, started: &mut usize, moment: &Moment) -> bool {
        let until = *started + START_AT_ONCE;
        for _ in 0..START_AT_ONCE {
            if *started >= until {
                return true;
            }
            let has_place = self.has_place();
            let Some(run) = self.map_runs.runs.get_mut(&id) else { return false };
            match &mut run.stage {
                Stage::Recalling { .. } | Stage::Gathering => return false,
                Stage::Spreading => {
                    let depth = run.parent.depth;
                    let is_alone = run.map.counts().children.running == 0;
                    if !(has_place || is_alone && self.may_nest(depth)) {
                        self.map_runs.blocked.insert(id);
                        return false;
                    }
                    let Some(run) = self.map_runs.runs.get_mut(&id) else { return false };
                    let spent = run.map.spent();
                    let next = run.map.advance();
                    *started += ((run.map.spent() - spent) / CHILD_WORK) as usize;
                    match next {
                        Next::Start(child) => {
                            *started += 1;
                            let nesting = self.admits(depth, true).unwrap_or_default();
                            self.start_map_child(id, (child, nesting), moment);
                        }
                        Next::Looking => {
                            run.take_more_items();
                            return true;
                        }
                        Next::NotNow => {
                            run.take_more_items();
                            return false;
                        }
                        Next::Over(Ok(())) => {
                            run.stage = Stage::Gathering;
                            self.fetch_results(id);
                        }
                        Next::Over(Err(fault)) => {
                            self.fail_map_run(id, fault);
                            return false;
                        }
                    }
                }
                Stage::Telling(_) => {
                    self.tell_outcome(id, moment);
                    return false;
                }
            }
        }
        true
    }

    fn fetch_results(&mut self, id: Uuid) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let order = Box::new(run.order().clone());
        let bytes_max = run.parent.identity.limits.payload_bytes_max;
        let kind = FetchKind::Results { order, bytes_max };
        self.map_runs.fetches.push(Fetch { ticket: run.ticket, kind });
    }

    fn start_map_child(&mut self, id: Uuid, (child, nesting): (Child, Option<Nesting>), moment: &Moment) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        let (index, items) = (child.index, child.items);
        if child.again {
            return self.redrive_map_child(id, index, moment);
        }
        let new = NewExecution {
            machine: run.parent.machine,
            revision: run.parent.revision,
            definition: run.map.machine().clone(),
            identity: run.order().child_identity(&run.parent.identity, child),
            named: false,
            parent: None,
            awaited: false,
            nesting,
            child: Some(ChildOf { run: id, index, items }),
        };
        self.begin(new, ReplyTo::Nobody, moment);
    }

    /// One that did not succeed runs again, unless it did so in this redrive already.
    fn redrive_map_child(&mut self, id: Uuid, index: u32, moment: &Moment) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let (execution, since) = (run.child(index), run.row.redriven_at);
        let awake = self.awake(execution, moment);
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        match awake {
            Ok(()) => {
                let running = self.slots.get(&execution).and_then(|slot| slot.running.as_ref());
                let ended = running.and_then(|running| Some((running.execution.ended_at()?, running)));
                match ended {
                    Some((at, running)) if since.is_some_and(|since| at >= since) => {
                        run.ended(index, running.execution.status());
                    }
                    _ => self.queue(execution, Input::Redrive, ReplyTo::Nobody, moment),
                }
            }
            Err(InputError::Unavailable(Unavailable::Store(_))) => run.unread.push(index),
            Err(error) => {
                tracing::error!(%execution, %error, "a child cannot be redriven");
                run.ended(index, Status::Failed);
            }
        }
    }

    /// All children have ended: whoever waits is told, and the run is over.
    fn tell_outcome(&mut self, id: Uuid, moment: &Moment) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let Stage::Telling(outcome) = &run.stage else { return };
        let outcome = outcome.clone();
        let parent = run.parent.identity.id;
        let by = By::Key { strand: run.order().strand, key: run.order().key.clone(), attempt: None };
        let status = match &outcome {
            MapRunOutcome::Succeeded { .. } => Status::Succeeded,
            MapRunOutcome::Failed { .. } => Status::Failed,
        };
        if !self.can_be_told(parent, moment) {
            return self.map_runs.again.push(id);
        }
        let Some(run) = self.map_runs.runs.remove(&id) else { return };
        let over = MapRunRow { status, ended_at: Some(moment.now), ..run.row() };
        self.map_runs.rows.push(over.into());
        self.tell_parent(parent, by, outcome);
    }

    /// Whether an execution is in memory, or will never be; otherwise it cannot be read now.
    fn can_be_told(&mut self, parent: ExecutionId, moment: &Moment) -> bool {
        !matches!(self.awake(parent, moment), Err(InputError::Unavailable(Unavailable::Store(_))))
    }

    fn tell_parent(&mut self, parent: ExecutionId, by: By, outcome: MapRunOutcome) {
        let Some(slot) = self.slots.get_mut(&parent).filter(|slot| slot.parked.is_none()) else { return };
        // Before all that waits there: one that was just woken up would ask for this run again.
        let input = Input::ChildOutcome { by, outcome };
        slot.inbox.push_front(Queued { input, reply: ReplyTo::Nobody });
        self.make_ready(parent);
    }

    /// Once a second: the tables follow, what could not be read is asked for again, and runs and children that nobody
    /// waits for are ended.
    pub(super) fn look_after_map_runs(&mut self, moment: &Moment) {
        for run in self.map_runs.runs.values_mut() {
            let row = run.row();
            let is_news = run.row.counts != row.counts || run.row.bounds != row.bounds;
            if is_news && !run.is_recalling() {
                run.row = row.clone();
                self.map_runs.rows.push(row.into());
            }
        }
        self.wake_blocked_runs();
        let again = std::mem::take(&mut self.map_runs.again);
        for id in &again {
            let Some(run) = self.map_runs.runs.get(id) else { continue };
            match run.stage {
                Stage::Recalling { .. } => {
                    self.map_runs.fetches.push(Fetch { ticket: run.ticket, kind: FetchKind::Children });
                }
                Stage::Gathering => self.fetch_results(*id),
                Stage::Spreading | Stage::Telling(_) => self.map_runs.wake(*id),
            }
        }
        let unread: Vec<(Uuid, Vec<u32>)> = self
            .map_runs
            .runs
            .iter_mut()
            .filter(|(_, run)| !run.unread.is_empty())
            .map(|(id, run)| (*id, std::mem::take(&mut run.unread)))
            .collect();
        for (id, indices) in unread {
            for index in indices {
                self.redrive_map_child(id, index, moment);
            }
            self.map_runs.wake(id);
        }
        self.look_after_endings(&again, moment);
    }
}
