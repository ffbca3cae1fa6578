//! One Map Run under way: which stage it is in, what its items and children are.

use crate::fetch::Ticket;
use crate::items::{Fed, Source};
use crate::message::{AdjustError, MapRunChange, Reply};
use perdura_engine::asl::error::ITEM_READER;
use perdura_engine::asl::machine::Machine;
use perdura_engine::{ExecutionId, Fault, Identity, MapRun, MapRunOrder, MapRunOutcome, Status};
use perdura_store::{MachineId, MapRunRow, RevisionId};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// In how many batches they may be on their way.
const BATCHES_AHEAD: usize = 4;

/// How many items a run takes before they are made into children.
const ITEMS_AHEAD: usize = 4_096;

/// A Map Run under way.
pub(super) struct Run {
    pub(super) ticket: Ticket,
    pub(super) parent: Parent,
    pub(super) map: MapRun,
    pub(super) stage: Stage,
    pub(super) is_eager: bool,
    /// Permits for the reader of its items.
    pub(super) room: Arc<Semaphore>,
    /// That one has not come to the last.
    pub(super) reads_items: bool,
    /// How many batches it may still give.
    pub(super) batches: usize,
    /// As it is written.
    pub(super) row: MapRunRow,
    /// What is to be redriven and could not be read.
    pub(super) unread: Vec<u32>,
    /// Changes of its bounds that came before it knew those that it had.
    pub(super) changes: Vec<(MapRunChange, Reply<Result<(), AdjustError>>)>,
}

/// A run that is asked for.
#[derive(Clone)]
pub(super) struct Ordered {
    pub(super) parent: Parent,
    pub(super) machine: Arc<Machine>,
    pub(super) order: Box<MapRunOrder>,
}

/// The execution that waits for a run.
#[derive(Clone)]
pub(super) struct Parent {
    pub(super) identity: Identity,
    pub(super) machine: MachineId,
    pub(super) revision: RevisionId,
    /// How many of its line were let in without a place, down to it.
    pub(super) depth: u32,
}

/// What a run is doing.
pub(super) enum Stage {
    /// It asks which children it has. Those that are in memory now need not have a row yet; meanwhile some end or fall
    /// asleep.
    Recalling { here: Vec<u32>, ended: Vec<(u32, Status)> },
    /// Children run.
    Spreading,
    /// All children have ended, and what they gave is being gathered.
    Gathering,
    /// It is over, and its parent is to be told.
    Telling(MapRunOutcome),
}

impl Drop for Run {
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Run {
    pub(super) fn order(&self) -> &MapRunOrder {
        self.map.order()
    }

    pub(super) fn child(&self, index: u32) -> ExecutionId {
        ExecutionId::of_child(&self.order().key, u64::from(index))
    }

    pub(super) fn row(&self) -> MapRunRow {
        let mut counts = self.map.counts();
        // One that was taken up again comes to its items once more.
        counts.items.total = counts.items.total.max(self.row.counts.items.total);
        MapRunRow { counts, bounds: self.map.bounds(), ..self.row.clone() }
    }

    pub(super) fn is_recalling(&self) -> bool {
        matches!(self.stage, Stage::Recalling { .. })
    }

    /// It waits for what its children are, for items that it has room for, or for what its children gave.
    pub(super) fn is_reading(&self) -> bool {
        match self.stage {
            Stage::Recalling { .. } | Stage::Gathering => true,
            Stage::Spreading => self.reads_items && self.batches > 0,
            Stage::Telling(_) => false,
        }
    }

    pub(super) fn children_under_way(&self) -> Vec<ExecutionId> {
        self.map.under_way().map(|index| self.child(index)).collect()
    }

    pub(super) fn ended(&mut self, index: u32, status: Status) {
        match &mut self.stage {
            Stage::Recalling { ended, .. } => ended.push((index, status)),
            Stage::Spreading => self.map.child_ended(index, status),
            Stage::Gathering | Stage::Telling(_) => {}
        }
    }

    /// The reader of its items may give more.
    pub(super) fn take_more_items(&mut self) {
        if matches!(self.stage, Stage::Spreading) && self.map.waiting_items() < ITEMS_AHEAD {
            self.room.add_permits(BATCHES_AHEAD - self.batches);
            self.batches = BATCHES_AHEAD;
        }
    }

    /// What came of its items; the fault with which it cannot go on.
    pub(super) fn fed(&mut self, fed: Fed) -> Result<(), Fault> {
        self.reads_items &= !matches!(fed, Fed::End(_));
        match fed {
            Fed::From(Source { name, version }) => match &self.row.source_version {
                Some(before) if *before != version => {
                    let cause = format!(
                        "The items of the Map Run come from {name}, which has changed since the run began: it was \
                         {before}, and is {version}. Start a new execution."
                    );
                    return Err(Fault::new(ITEM_READER, cause));
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
                Stage::Recalling { .. } | Stage::Spreading => return Err(fault),
                Stage::Gathering | Stage::Telling(_) => {}
            },
        }
        Ok(())
    }
}
