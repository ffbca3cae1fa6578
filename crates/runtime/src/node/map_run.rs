//! Map Runs: what they ask for is done here, and what came of it is told to them.
//!
//! How a run stands and what follows is for [`MapRunLife`] to say. Here are its replies, permits and tickets, and its turn
//! among others.

mod asking;
mod left;
mod moves;

pub(super) use moves::Redrive;

use super::{Deed, Node, Slot};
use crate::committer::{Adjusting, MapRunNews};
use crate::fetch::{Fetch, FetchKind, Fetched, Ticket};
use crate::items::{Fed, Source};
use crate::message::AdjustError;
use left::Left;
use perdura_engine::{
    EffectKey, ExecutionId, MapRunBounds, MapRunCommand, MapRunCounts, MapRunEvent, MapRunFigures,
    MapRunLife, MapRunOrder, OrderedMapRun, Status,
};
use perdura_store::{ChildOf, MachineId, MapRunRow, RevisionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The Map Runs of a node.
#[derive(Default)]
pub(super) struct MapRuns {
    runs: BTreeMap<Uuid, Run>,
    /// Those that may have a move to make.
    eager: VecDeque<Uuid>,
    /// Those that found no place for a child.
    blocked: BTreeSet<Uuid>,
    /// As they are to be written.
    rows: Vec<MapRunNews>,
    fetches: Vec<Fetch>,
    /// Children that run again as soon as they are read.
    redriven: BTreeSet<ExecutionId>,
    /// What an earlier process has left behind.
    left: Left,
    /// What the costliest of late took beyond their share, as so many children. It is made up for before they have
    /// another share.
    ahead: usize,
    /// The number of the last ticket; other nodes count elsewhere.
    tickets: u128,
}

/// A Map Run, and what its life has no eyes for.
struct Run {
    life: MapRunLife,
    /// Of its last question; answers to earlier ones are of no use.
    ticket: Ticket,
    /// Who it is: of the figures in it those of its life count.
    row: MapRunRow,
    /// `None`: there is nothing of it but a row, and it ends.
    parent: Option<Parent>,
    /// Permits for the reader of its items.
    room: Arc<Semaphore>,
    is_eager: bool,
    /// Who has changed its bounds, and is told when that is on disk.
    changes: Vec<Adjusting>,
    /// As it was last asked for while it ended.
    asked_for: Option<Asking>,
}

/// What children have of the execution that waits for their run.
struct Parent {
    machine: MachineId,
    revision: RevisionId,
    /// How many of its line were let in without a place, down to it.
    depth: u32,
}

/// A run that is asked for.
struct Asking {
    parent: Parent,
    ordered: OrderedMapRun,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Run {
    fn new(life: MapRunLife, row: MapRunRow, parent: Option<Parent>) -> Self {
        Self {
            life,
            ticket: Ticket { run: row.id, number: 0 },
            row,
            parent,
            room: Arc::new(Semaphore::new(0)),
            is_eager: false,
            changes: Vec::new(),
            asked_for: None,
        }
    }

    /// As it stands.
    fn row(&self) -> MapRunRow {
        self.row_with(self.life.figures())
    }

    fn row_with(&self, figures: MapRunFigures) -> MapRunRow {
        let MapRunFigures { bounds, source_version, counts, results_written } = figures;
        MapRunRow { bounds, source_version, counts, results_written, ..self.row.clone() }
    }
}

impl MapRuns {
    pub(super) fn numbered_from(number: u128) -> Self {
        Self { tickets: number, ..Self::default() }
    }

    /// Whether the run of this child is here, so that the child may go on.
    pub(super) fn has(&self, child: ChildOf) -> bool {
        self.runs.get(&child.run).is_some_and(|run| run.life.has_its_children())
    }

    /// The run of this child ends, and its children with it.
    pub(super) fn is_ending(&self, child: ChildOf) -> bool {
        self.runs.get(&child.run).is_some_and(|run| run.life.is_ending())
    }

    /// There is something to look after once a second.
    pub(super) fn are_there(&self) -> bool {
        !self.runs.is_empty() || self.left.is_looked_for()
    }

    /// Children, items or results are being brought, or children wait for their run.
    pub(super) fn are_reading(&self) -> bool {
        self.runs.values().any(|run| run.life.is_reading()) || self.left.has_unjoined()
    }

    /// How many children run again as soon as they are read.
    pub(super) fn redriven_soon(&self) -> u64 {
        self.redriven.len() as u64
    }

    fn wake(&mut self, id: Uuid) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !std::mem::replace(&mut run.is_eager, true) {
            self.eager.push_back(id);
        }
    }
}

impl Node {
    /// An execution asks for a Map Run, or asks again.
    pub(super) fn start_map_run(&mut self, execution: ExecutionId, order: Box<MapRunOrder>) {
        let Some(running) = self.executions.get(execution).and_then(Slot::running) else { return };
        if !self.performs.sees_to_calls() {
            return;
        }
        let (id, key) = (order.id(), order.key.clone());
        let parent = Parent { machine: running.machine, revision: running.revision, depth: running.depth() };
        let (identity, machine) = (running.execution.identity().clone(), running.execution.machine().clone());
        let asking = Asking { parent, ordered: OrderedMapRun { parent: identity, machine, order: *order } };
        match self.map_runs.runs.get_mut(&id) {
            None => self.take_up(asking),
            Some(run) => {
                run.asked_for = Some(asking).filter(|_| run.life.is_ending());
                self.tell_run(id, MapRunEvent::AskedFor { key });
            }
        }
    }

    fn take_up(&mut self, asking: Asking) {
        let Asking { parent, ordered } = asking;
        let order = &ordered.order;
        let row = MapRunRow {
            id: order.id(),
            arn: order.arn.clone(),
            execution: ordered.parent.id,
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
        let here = self.members(row.id).into_iter().map(|(_, index)| index).collect();
        let (life, commands) = MapRunLife::begin(ordered, here);
        self.keep_run(Run::new(life, row, Some(parent)), commands);
    }

    fn keep_run(&mut self, run: Run, commands: Vec<MapRunCommand>) {
        let id = run.row.id;
        self.map_runs.runs.insert(id, run);
        self.carry_out(id, commands);
    }

    /// The children of a run that are in memory and have not ended, in their order.
    fn members(&self, id: Uuid) -> Vec<(ExecutionId, u32)> {
        let running = self.executions.iter().filter(|(_, slot)| !slot.is_ended());
        let children = running.filter_map(|(execution, slot)| Some((execution, slot.child?)));
        let members = children.filter(|(_, child)| child.run == id);
        let mut members: Vec<_> = members.map(|(execution, child)| (execution, child.index)).collect();
        members.sort_unstable_by_key(|(_, index)| *index);
        members
    }

    /// Tells a run what happened, and does what follows.
    fn tell_run(&mut self, id: Uuid, event: MapRunEvent) {
        let Some(run) = self.map_runs.runs.get_mut(&id) else { return };
        let commands = run.life.take(event);
        self.carry_out(id, commands);
    }

    fn carry_out(&mut self, id: Uuid, commands: Vec<MapRunCommand>) {
        for command in commands {
            let MapRuns { runs, blocked, rows, fetches, tickets, .. } = &mut self.map_runs;
            let Some(run) = runs.get_mut(&id) else { return };
            match command {
                MapRunCommand::GoOn => self.map_runs.wake(id),
                MapRunCommand::AwaitPlace => drop(blocked.insert(id)),
                MapRunCommand::ReadChildren => {
                    if run.life.is_ending() {
                        run.room.close();
                    }
                    *tickets += 1;
                    run.ticket = Ticket { run: id, number: *tickets };
                    fetches.push(Fetch { ticket: run.ticket, kind: FetchKind::Children });
                }
                MapRunCommand::ReadItems { machine, key, reader } => {
                    let kind = FetchKind::Items { machine, key, reader, room: run.room.clone() };
                    fetches.push(Fetch { ticket: run.ticket, kind });
                }
                MapRunCommand::TakeItems(batches) => run.room.add_permits(batches),
                MapRunCommand::Gather { order, bytes_max } => {
                    fetches.push(Fetch { ticket: run.ticket, kind: FetchKind::Results { order, bytes_max } });
                }
                MapRunCommand::Write(figures) => {
                    let (row, told) = (run.row_with(figures), std::mem::take(&mut run.changes));
                    rows.push(MapRunNews { row, told });
                }
                MapRunCommand::RefuseChanges => {
                    for Adjusting { reply, .. } in run.changes.drain(..) {
                        reply.send(Err(AdjustError::Ended));
                    }
                }
                MapRunCommand::Join => self.join_run(id),
                MapRunCommand::StopBelow(children) => self.stop_below(children),
            }
        }
    }

    /// An execution that is a child has ended.
    pub(super) fn map_child_ended(&mut self, execution: ExecutionId, child: ChildOf, status: Status) {
        let event = MapRunEvent::ChildEnded { child: execution, index: child.index, status };
        self.tell_run(child.run, event);
    }

    /// Nobody waits for this run any more.
    pub(super) fn stop_map_run(&mut self, execution: ExecutionId, key: &EffectKey) {
        for id in self.ids_of_runs(execution) {
            self.tell_run(id, MapRunEvent::Unwanted { key: Some(key.clone()) });
        }
    }

    /// The runs of an execution end, and stop their children. Those that were under way.
    pub(super) fn end_runs_of(&mut self, execution: ExecutionId) -> Vec<ExecutionId> {
        let mut under_way = Vec::new();
        for id in self.ids_of_runs(execution) {
            let Some(run) = self.map_runs.runs.get_mut(&id) else { continue };
            let mut commands = run.life.take(MapRunEvent::Unwanted { key: None });
            commands.retain_mut(|command| match command {
                MapRunCommand::StopBelow(children) => {
                    under_way.append(children);
                    false
                }
                _ => true,
            });
            self.carry_out(id, commands);
        }
        under_way
    }

    fn ids_of_runs(&self, execution: ExecutionId) -> Vec<Uuid> {
        let runs = self.map_runs.runs.iter().filter(|(_, run)| run.row.execution == execution);
        runs.map(|(id, _)| *id).collect()
    }

    /// Runs that found no place for a child look again.
    pub(super) fn wake_blocked_runs(&mut self) {
        for id in std::mem::take(&mut self.map_runs.blocked) {
            self.map_runs.wake(id);
        }
    }

    /// What is to be brought for runs.
    pub fn fetches(&mut self) -> impl Iterator<Item = Deed> {
        let begins = self.performs.begins();
        let fetches = if begins { std::mem::take(&mut self.map_runs.fetches) } else { Vec::new() };
        fetches.into_iter().map(Deed::Fetch)
    }

    /// Runs as they are to be written with the next group.
    pub fn map_run_rows(&mut self) -> Vec<MapRunNews> {
        std::mem::take(&mut self.map_runs.rows)
    }

    /// What was brought for a run.
    pub(super) fn fetched(&mut self, ticket: Ticket, fetched: Fetched) {
        let event = match fetched {
            Fetched::Children(Ok(recalled)) => MapRunEvent::Recalled(recalled),
            Fetched::Results(Ok(result)) => MapRunEvent::Gathered(result),
            Fetched::Items(Fed::From(Source { name, version })) => MapRunEvent::Source { name, version },
            Fetched::Items(Fed::Items(items)) => MapRunEvent::Items(items),
            Fetched::Items(Fed::End(how)) => MapRunEvent::NoMoreItems(how),
            Fetched::Children(Err(failure)) | Fetched::Results(Err(failure)) => {
                tracing::error!(map_run = %ticket.run, %failure, "its children cannot be read");
                MapRunEvent::Unread
            }
        };
        if self.map_runs.runs.get(&ticket.run).is_some_and(|run| run.ticket == ticket) {
            self.tell_run(ticket.run, event);
        }
    }

    /// Once a second: the tables follow, what could not be read is asked for again, and runs and children that nobody
    /// waits for are ended.
    pub(super) fn look_after_map_runs(&mut self) {
        let all: Vec<Uuid> = self.map_runs.runs.keys().copied().collect();
        for id in all {
            self.tell_run(id, MapRunEvent::Second);
        }
        self.wake_blocked_runs();
        self.look_for_the_left();
    }
}
