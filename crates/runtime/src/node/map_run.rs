//! Map Runs: children are started here, and their ends are counted here.
//!
//! Children are ordinary executions, and they are all that is remembered of a run: one that is taken up again asks
//! the store which it has. A run starts children when nothing else is to be decided, and a few in any case, so that a
//! million of them neither keep others waiting nor wait for ever. A run that is stopped ends its children first, and
//! is over when the last of them has ended.

use super::start::NewExecution;
use super::{Deed, Node, Queued, ReplyTo, Slot};
use crate::committer::MapRunNews;
use crate::fetch::{Fetch, Fetched, Recalled, Ticket, Wanted};
use crate::items::{Fed, Source};
use crate::message::{AdjustError, InputError, MapRunChange, Reply, Unavailable};
use perdura_engine::asl::error::{ITEM_READER, RUNTIME};
use perdura_engine::{
    By, Child, ExecutionId, Fault, Identity, Input, MapRun, MapRunOrder, MapRunOutcome, Moment, Next, Status,
    TURN_WORK_MAX,
};
use perdura_store::{ChildOf, Failure, MachineId, MapRunRow, Nesting, RevisionId, Shard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// How many items a run takes before they are made into children.
const ITEMS_AHEAD: usize = 4_096;
/// In how many batches they may be on their way.
const BATCHES_AHEAD: usize = 4;
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
    /// Those that may have something to do.
    eager: VecDeque<Uuid>,
    /// As they are to be written.
    rows: Vec<MapRunNews>,
    fetches: Vec<Fetch>,
    /// Children of an earlier process whose run is not here yet: they wait for it.
    unjoined: BTreeMap<ExecutionId, ChildOf>,
    /// What could not be read, and is asked for again.
    again: Vec<Uuid>,
    /// Those that found no place for a child.
    blocked: BTreeSet<Uuid>,
    /// What the costliest of late took beyond their share, as so many children. It is made up for before they have
    /// another share.
    ahead: usize,
}

impl MapRuns {
    pub(super) fn are_eager(&self) -> bool {
        !self.eager.is_empty()
    }

    /// Whether the run of this child is here, so that the child may go on.
    pub(super) fn has(&self, child: ChildOf) -> bool {
        self.runs.get(&child.run).is_some_and(|run| !matches!(run.stage, Stage::Recalling { .. }))
    }

    /// The run of this child ends, and its children with it.
    pub(super) fn is_unwanted(&self, child: ChildOf) -> bool {
        self.runs.get(&child.run).is_some_and(Run::is_unwanted)
    }

    /// There is something to look after once a second.
    pub(super) fn are_there(&self) -> bool {
        !self.runs.is_empty() || !self.unjoined.is_empty()
    }

    fn wake(&mut self, id: Uuid) {
        if let Some(run) = self.runs.get_mut(&id).filter(|run| !run.is_eager) {
            run.is_eager = true;
            self.eager.push_back(id);
        }
    }

    fn find(&mut self, ticket: Ticket) -> Option<&mut Run> {
        self.runs.get_mut(&ticket.run).filter(|run| run.ticket == ticket)
    }
}

/// A Map Run under way.
struct Run {
    ticket: Ticket,
    parent: Parent,
    map: MapRun,
    stage: Stage,
    is_eager: bool,
    /// Permits for the reader of its items.
    room: Arc<Semaphore>,
    /// How many batches it may still give.
    batches: usize,
    /// As it is written.
    row: MapRunRow,
    /// What is to be redriven and could not be read.
    unread: Vec<u32>,
    /// Changes of its bounds that came before it knew those that it had.
    changes: Vec<(MapRunChange, Reply<Result<(), AdjustError>>)>,
    /// It is taken up again as soon as it is over.
    then: Option<Box<MapRunOrder>>,
}

/// The execution that waits for a run.
#[derive(Clone)]
struct Parent {
    identity: Identity,
    machine: MachineId,
    revision: RevisionId,
    /// How many of its line were let in without a place, down to it.
    depth: u32,
}

/// What a run is doing.
enum Stage {
    /// It asks which children it has. Those that are in memory now need not have a row yet; meanwhile some end or fall
    /// asleep, and it may be told to stop.
    Recalling { here: Vec<u32>, ended: Vec<(u32, Status)>, end: Option<End> },
    /// Children run.
    Spreading,
    /// Children are being ended: those that were not told yet, and those that have not ended yet.
    Stopping { untold: Vec<u32>, left: BTreeSet<u32>, end: End },
    /// All children have ended, and what they gave is being gathered.
    Gathering,
    /// It is over, and its parent is to be told.
    Telling(MapRunOutcome),
}

/// Why a run ends early.
#[derive(Clone)]
enum End {
    /// Nobody waits for it any more.
    Unwanted,
    /// It cannot go on.
    Failed(Fault),
}

impl Drop for Run {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Run {
    fn order(&self) -> &MapRunOrder {
        self.map.order()
    }

    fn child(&self, index: u32) -> ExecutionId {
        ExecutionId::of_child(&self.order().key, u64::from(index))
    }

    fn row(&self) -> MapRunRow {
        MapRunRow { counts: self.map.counts(), bounds: self.map.bounds(), ..self.row.clone() }
    }

    /// Nothing more is started; what runs is ended.
    fn stop(&mut self, end: End) {
        self.room.close();
        match &mut self.stage {
            Stage::Recalling { end: asked, .. } => *asked = Some(end),
            Stage::Spreading => {
                let untold: Vec<u32> = self.map.under_way().collect();
                let left = untold.iter().copied().collect();
                self.stage = Stage::Stopping { untold, left, end };
            }
            Stage::Stopping { end: why, .. } => {
                if matches!(end, End::Unwanted) {
                    *why = end;
                }
            }
            Stage::Gathering | Stage::Telling(_) => {
                self.stage = Stage::Stopping { untold: Vec::new(), left: BTreeSet::new(), end };
            }
        }
    }

    /// It was stopped because nobody waited for it any more.
    fn is_unwanted(&self) -> bool {
        matches!(
            self.stage,
            Stage::Recalling { end: Some(End::Unwanted), .. } | Stage::Stopping { end: End::Unwanted, .. }
        )
    }

    fn ended(&mut self, index: u32, status: Status) {
        match &mut self.stage {
            Stage::Recalling { ended, .. } => ended.push((index, status)),
            Stage::Spreading => self.map.child_ended(index, status),
            Stage::Stopping { left, .. } => {
                left.remove(&index);
                self.map.child_ended(index, status);
            }
            Stage::Gathering | Stage::Telling(_) => {}
        }
    }

    /// The reader of its items may give more.
    fn take_more_items(&mut self) {
        if matches!(self.stage, Stage::Spreading) && self.map.waiting_items() < ITEMS_AHEAD {
            self.room.add_permits(BATCHES_AHEAD - self.batches);
            self.batches = BATCHES_AHEAD;
        }
    }

    fn fed(&mut self, fed: Fed) {
        match fed {
            Fed::From(Source { name, version }) => match &self.row.source_version {
                Some(before) if *before != version => {
                    let cause = format!(
                        "The items of the Map Run come from {name}, which has changed since the run began: it was \
                         {before}, and is {version}. Start a new execution."
                    );
                    self.stop(End::Failed(Fault::new(ITEM_READER, cause)));
                }
                _ => {
                    self.map.comes_from(name);
                    self.row.source_version = Some(version);
                }
            },
            Fed::Items(items) => {
                self.batches = self.batches.saturating_sub(1);
                self.map.offer(items);
            }
            Fed::End(Ok(())) => self.map.no_more_items(),
            Fed::End(Err(fault)) => match self.stage {
                Stage::Recalling { .. } | Stage::Spreading => self.stop(End::Failed(fault)),
                // Whoever reads for a run that is being stopped is not wanted, and says so.
                Stage::Stopping { .. } | Stage::Gathering | Stage::Telling(_) => {}
            },
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
        if let Some(run) = self.map_runs.runs.get_mut(&order.id()) {
            // One that fails of itself has still to say so: who asks again for that one is told by it.
            if run.is_unwanted() {
                run.then = Some(order);
            }
            return;
        }
        let parent = Parent {
            identity: running.execution.identity().clone(),
            machine: running.machine,
            revision: running.revision,
            depth: running.depth(),
        };
        let machine = running.execution.machine().clone();
        self.take_up(parent, machine, order);
    }

    fn take_up(
        &mut self,
        parent: Parent,
        machine: Arc<perdura_engine::asl::machine::Machine>,
        order: Box<MapRunOrder>,
    ) {
        let id = order.id();
        self.tickets += 1;
        let ticket = Ticket { run: id, number: self.tickets };
        let row = MapRunRow {
            id,
            arn: order.arn.clone(),
            execution: parent.identity.id,
            status: Status::Running,
            started_at: order.began_at,
            ended_at: None,
            redrives: order.redrives,
            redriven_at: order.redriven_at,
            bounds: perdura_engine::MapRunBounds::default(),
            source_version: None,
            counts: perdura_engine::MapRunCounts::default(),
            results_written: 0,
        };
        let map = MapRun::new(machine, *order, parent.identity.limits.payload_bytes_max);
        let run = Run {
            ticket,
            parent,
            map,
            stage: Stage::Recalling { here: self.members(id), ended: Vec::new(), end: None },
            is_eager: false,
            room: Arc::new(Semaphore::new(0)),
            batches: 0,
            row,
            unread: Vec::new(),
            changes: Vec::new(),
            then: None,
        };
        self.map_runs.runs.insert(id, run);
        self.map_runs.fetches.push(Fetch { ticket, wanted: Wanted::Children });
    }

    /// Nobody waits for this run any more.
    pub(super) fn stop_map_run(&mut self, execution: ExecutionId, key: &perdura_engine::EffectKey) {
        let is_meant = |run: &Run| run.parent.identity.id == execution && run.order().key == *key;
        let Some((id, run)) = self.map_runs.runs.iter_mut().find(|(_, run)| is_meant(run)) else { return };
        let id = *id;
        run.then = None;
        if !run.is_unwanted() {
            let under_way: Vec<ExecutionId> = run.map.under_way().map(|index| run.child(index)).collect();
            run.stop(End::Unwanted);
            self.stop_below(under_way);
        }
        self.map_runs.wake(id);
    }

    /// The runs of an execution end, and stop their children. Those that were under way.
    pub(super) fn end_runs_of(&mut self, execution: ExecutionId) -> Vec<ExecutionId> {
        let mut under_way = Vec::new();
        let runs = self.map_runs.runs.iter_mut().filter(|(_, run)| run.parent.identity.id == execution);
        let mut ending = Vec::new();
        for (id, run) in runs.filter(|(_, run)| !run.is_unwanted()) {
            under_way.extend(run.map.under_way().map(|index| run.child(index)));
            run.stop(End::Unwanted);
            ending.push(*id);
        }
        for id in ending {
            self.map_runs.wake(id);
        }
        under_way
    }

    /// A run that is here, as it stands. One that is being taken up does not know yet how it stood: its row tells. If
    /// that cannot be read, whoever asks reads it and learns why.
    pub(super) fn map_run(&mut self, id: Uuid) -> Option<Box<MapRunRow>> {
        let run = self.map_runs.runs.get(&id)?;
        let row = run.row();
        if !matches!(run.stage, Stage::Recalling { .. }) {
            return Some(Box::new(row));
        }
        let stood = self.reader.map_run(id).ok()?;
        Some(Box::new(stood.unwrap_or(row)))
    }

    /// The runs of an execution that are here, as they stand.
    pub(super) fn runs_of(&self, execution: ExecutionId) -> Vec<MapRunRow> {
        let runs = self.map_runs.runs.values().filter(|run| run.parent.identity.id == execution);
        runs.map(Run::row).collect()
    }

    /// Changes the bounds of a run, which counts at once and also after a restart.
    pub(super) fn adjust_map_run(
        &mut self,
        id: Uuid,
        change: MapRunChange,
        reply: Reply<Result<(), AdjustError>>,
    ) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else {
            let not_here = match self.reader.map_run(id) {
                Ok(None) => AdjustError::Unknown,
                Ok(Some(row)) if row.status != Status::Running => AdjustError::Ended,
                Ok(Some(_)) => AdjustError::Unavailable(Unavailable::Elsewhere),
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
            Stage::Stopping { .. } | Stage::Gathering | Stage::Telling(_) => {
                reply.send(Err(AdjustError::Ended));
            }
        }
    }

    /// An execution that is a child has ended.
    pub(super) fn map_child_ended(&mut self, child: ChildOf, status: Status) {
        let Some(run) = self.map_runs.runs.get_mut(&child.run) else { return };
        run.ended(child.index, status);
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
        std::mem::take(&mut self.map_runs.fetches).into_iter().map(Deed::Fetch)
    }

    /// Runs as they are to be written with the next group.
    pub fn map_run_rows(&mut self) -> Vec<MapRunNews> {
        std::mem::take(&mut self.map_runs.rows)
    }

    pub(super) fn fetched(&mut self, ticket: Ticket, fetched: Fetched) {
        let Some(run) = self.map_runs.find(ticket) else { return };
        match fetched {
            Fetched::Children(Ok(recalled)) => self.recalled(ticket.run, recalled),
            Fetched::Items(fed) => run.fed(fed),
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
                return self.map_runs.again.push(ticket.run);
            }
        }
        self.map_runs.wake(ticket.run);
    }

    /// It is known which children a run has.
    fn recalled(&mut self, id: Uuid, (known, row): Recalled) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        let Stage::Recalling { here, ended, end } = std::mem::replace(&mut run.stage, Stage::Spreading)
        else {
            unreachable!("a run asks for its children once")
        };
        run.map.resume(known);
        for index in here {
            run.map.found_running(index);
        }
        for (index, status) in ended {
            run.map.child_ended(index, status);
        }
        if let Some(row) = row {
            run.map.adjust(row.bounds);
            run.row.source_version = row.source_version;
        }
        for (change, _) in &run.changes {
            run.map.adjust(change.of(run.map.bounds()));
        }
        let told = run.changes.drain(..).map(|(_, reply)| reply).collect();
        run.row = run.row();
        self.map_runs.rows.push(MapRunNews { row: run.row.clone(), told });
        let reader = run.order().reader.clone();
        match (end, reader) {
            (Some(end), _) => run.stop(end),
            (None, Some(reader)) => {
                let room = run.room.clone();
                let ticket = run.ticket;
                run.take_more_items();
                self.map_runs.fetches.push(Fetch { ticket, wanted: Wanted::Items { reader, room } });
            }
            (None, None) => {}
        }
        let joining = self.map_runs.unjoined.iter().filter(|(_, child)| child.run == id);
        let joining: Vec<ExecutionId> = joining.map(|(execution, _)| *execution).collect();
        for execution in joining {
            self.join(execution, Input::Resume);
        }
    }

    /// The children of a run that are in memory and have not ended.
    fn members(&self, id: Uuid) -> Vec<u32> {
        let running = self.slots.values().filter(|slot| !slot.is_ended());
        running
            .filter_map(|slot| slot.child)
            .filter(|child| child.run == id)
            .map(|child| child.index)
            .collect()
    }

    /// A few children are started in any case, on average: one item may take the work of many.
    pub(super) fn spread_some(&mut self, moment: &Moment) {
        self.map_runs.ahead = self.map_runs.ahead.saturating_sub(START_AT_LEAST);
        if self.map_runs.ahead == 0 {
            self.spread(START_AT_LEAST, moment);
        }
    }

    /// Lets runs go on, until about so many children were started.
    pub(super) fn spread(&mut self, most: usize, moment: &Moment) {
        let mut started = 0;
        while started < most
            && let Some(id) = self.map_runs.eager.pop_front()
        {
            let Some(run) = self.map_runs.runs.get_mut(&id) else { continue };
            run.is_eager = false;
            let wants_more = self.drive(id, &mut started, moment);
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
                        Next::Over(Err(fault)) => run.stop(End::Failed(fault)),
                    }
                }
                Stage::Stopping { untold, left, end } => {
                    if let Some(index) = untold.pop() {
                        self.stop_map_child(id, index, moment);
                    } else if left.is_empty() {
                        let end = end.clone();
                        self.stopped(id, end, moment);
                    } else {
                        return false;
                    }
                }
                Stage::Telling(_) => {
                    self.tell_parent(id, moment);
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
        let wanted = Wanted::Results { order, bytes_max };
        self.map_runs.fetches.push(Fetch { ticket: run.ticket, wanted });
    }

    fn start_map_child(&mut self, id: Uuid, (child, nesting): (Child, Option<Nesting>), moment: &Moment) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        let index = child.index;
        if !self.shards.contains(&Shard::of(child.id, self.shard_count)) {
            let cause = "A child of the Map Run belongs to a shard that another node holds.";
            return run.stop(End::Failed(Fault::new(RUNTIME, cause)));
        }
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
            child: Some(ChildOf { run: id, index }),
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
            Err(error @ (InputError::Unavailable(_) | InputError::Unknown | InputError::Parked(_))) => {
                tracing::error!(%execution, %error, "a child cannot be redriven");
                run.ended(index, Status::Failed);
            }
        }
    }

    fn stop_map_child(&mut self, id: Uuid, index: u32, moment: &Moment) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let execution = run.child(index);
        let awake = self.awake(execution, moment);
        let is_parked = self.slots.get(&execution).is_some_and(|slot| slot.parked.is_some());
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        match awake {
            Ok(()) if !is_parked => {
                self.join(execution, Input::Stop { fault: Fault::default() });
            }
            Err(InputError::Unavailable(Unavailable::Store(_))) => run.unread.push(index),
            // It does not move, and nobody shall wait for it.
            Ok(()) | Err(InputError::Unavailable(_) | InputError::Unknown | InputError::Parked(_)) => {
                run.ended(index, Status::Aborted);
            }
        }
    }

    /// The children of a run that ends early have ended.
    fn stopped(&mut self, id: Uuid, end: End, moment: &Moment) {
        match end {
            End::Failed(fault) => {
                if let Some(run) = self.map_runs.runs.get_mut(&id) {
                    run.stage = Stage::Telling(MapRunOutcome::Failed { fault });
                }
            }
            End::Unwanted => self.over(id, Status::Aborted, moment),
        }
    }

    fn tell_parent(&mut self, id: Uuid, moment: &Moment) {
        let Some(run) = self.map_runs.runs.get(&id) else { return };
        let Stage::Telling(outcome) = &run.stage else { return };
        let outcome = outcome.clone();
        let parent = run.parent.identity.id;
        let by = By::Key { strand: run.order().strand, key: run.order().key.clone(), attempt: None };
        let status = match &outcome {
            MapRunOutcome::Succeeded { .. } => Status::Succeeded,
            MapRunOutcome::Failed { .. } => Status::Failed,
        };
        if let Err(InputError::Unavailable(Unavailable::Store(_))) = self.awake(parent, moment) {
            return self.map_runs.again.push(id);
        }
        self.over(id, status, moment);
        let Some(slot) = self.slots.get_mut(&parent).filter(|slot| slot.parked.is_none()) else { return };
        // Before all that waits there: one that was just woken up would ask for this run again.
        let input = Input::ChildOutcome { by, outcome };
        slot.inbox.push_front(Queued { input, reply: ReplyTo::Nobody });
        self.make_ready(parent);
    }

    /// A run is over; it is taken up again if that was asked for meanwhile.
    fn over(&mut self, id: Uuid, status: Status, moment: &Moment) {
        let Some(mut run) = self.map_runs.runs.remove(&id) else { return };
        let row = run.row();
        let over = MapRunRow { status, ended_at: Some(moment.now), ..row };
        self.map_runs.rows.push(over.into());
        if let Some(order) = run.then.take() {
            self.take_up(run.parent.clone(), run.map.machine().clone(), order);
        }
    }

    /// Once a second: the tables follow, what could not be read is asked for again, and children whose run is gone
    /// are ended.
    pub(super) fn look_after_map_runs(&mut self, moment: &Moment) {
        for run in self.map_runs.runs.values_mut() {
            let row = run.row();
            let is_news = run.row.counts != row.counts || run.row.bounds != row.bounds;
            if is_news && !matches!(run.stage, Stage::Recalling { .. }) {
                run.row = row.clone();
                self.map_runs.rows.push(row.into());
            }
        }
        self.wake_blocked_runs();
        for id in std::mem::take(&mut self.map_runs.again) {
            let Some(run) = self.map_runs.runs.get(&id) else { continue };
            match run.stage {
                Stage::Recalling { .. } => {
                    self.map_runs.fetches.push(Fetch { ticket: run.ticket, wanted: Wanted::Children });
                }
                Stage::Gathering => self.fetch_results(id),
                Stage::Spreading | Stage::Stopping { .. } | Stage::Telling(_) => self.map_runs.wake(id),
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
            let is_stopping =
                matches!(self.map_runs.runs.get(&id), Some(Run { stage: Stage::Stopping { .. }, .. }));
            for index in indices {
                if is_stopping {
                    self.stop_map_child(id, index, moment);
                } else {
                    self.redrive_map_child(id, index, moment);
                }
            }
            self.map_runs.wake(id);
        }
        self.join_or_end(moment);
    }

    /// Children of an earlier process whose run nobody has taken up.
    fn join_or_end(&mut self, moment: &Moment) {
        let mut waiting: BTreeMap<Uuid, Vec<ExecutionId>> = BTreeMap::new();
        for (execution, child) in &self.map_runs.unjoined {
            if !self.map_runs.runs.contains_key(&child.run) {
                waiting.entry(child.run).or_default().push(*execution);
            }
        }
        for (run, children) in waiting {
            let input = match self.is_orphaned(run, moment) {
                Ok(Some(true)) => Input::Stop { fault: Fault::default() },
                Ok(Some(false)) => Input::Resume,
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

    /// Whether nobody waits for this run; its row says so then. `None`: its parent has still to ask for it.
    fn is_orphaned(&mut self, run: Uuid, moment: &Moment) -> Result<Option<bool>, InputError> {
        let unread =
            |failure: Failure| InputError::Unavailable(Unavailable::Store(failure.to_string().into()));
        let row = self.reader.map_run(run).map_err(unread)?;
        let Some(row) = row.filter(|row| row.status == Status::Running) else { return Ok(Some(true)) };
        let is_wanted = match self.slots.get(&row.execution) {
            Some(parent) if parent.parked.is_some() => return Ok(Some(false)),
            Some(Slot { running: None, .. }) => return Ok(None),
            Some(Slot { running: Some(parent), .. }) => parent.execution.waits_for_map_run(&row.arn),
            None => match self.stored(row.execution) {
                Ok(Ok(parent)) => parent.execution.waits_for_map_run(&row.arn),
                Ok(Err(_)) => return Ok(Some(false)),
                Err(InputError::Unknown) => false,
                Err(error) => return Err(error),
            },
        };
        if is_wanted {
            return Ok(None);
        }
        let over = MapRunRow { status: Status::Aborted, ended_at: Some(moment.now), ..row };
        self.map_runs.rows.push(over.into());
        Ok(Some(true))
    }
}
