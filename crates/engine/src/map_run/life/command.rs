//! The commands of a Map Run.

use super::MapRunFigures;
use crate::effect::{MapRunOrder, ReaderOrder};
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId, Timestamp};
use crate::identity::Identity;
use crate::input::By;
use crate::map_run::MapRunOutcome;
use perdura_asl::machine::Machine;
use std::sync::Arc;

/// A command to carry out at once.
#[derive(Clone, Debug, PartialEq)]
pub enum MapRunCommand {
    /// Let it make its next move soon, after other work.
    GoOn,
    /// Let it make its next move when there may be a place for a child.
    AwaitPlace,
    /// Read its children, and its row.
    ReadChildren,
    /// Read its items, as far as there is room for them.
    ReadItems {
        /// The name of the machine that has the Map, and the Map's key.
        machine: Arc<str>,
        key: EffectKey,
        reader: ReaderOrder,
    },
    /// There is room for so many more batches of items.
    TakeItems(usize),
    /// Gather the results of its children, of at most so many bytes, or write them if the order says so.
    Gather { order: Box<MapRunOrder>, bytes_max: usize },
    /// Write its row. A client that has changed its bounds gets its answer when that is on disk.
    Write(MapRunFigures),
    /// Answer clients that want to change its bounds: it has ended.
    RefuseChanges,
    /// Let waiting children of an earlier process continue.
    Join,
    /// Stop at once the executions below these children; the children themselves are stopped one by one.
    StopBelow(Vec<ExecutionId>),
}

/// The next move of a Map Run: slow work, so that other work can come in between.
#[derive(Clone, Debug)]
pub enum MapRunMove {
    /// Start this child.
    Start { identity: Box<Identity>, definition: Arc<Machine>, index: u32, items: u32 },
    /// Run this child again, unless it has ended since then.
    Redrive { child: ExecutionId, index: u32, since: Option<Timestamp> },
    /// Stop this child.
    Stop(ExecutionId),
    /// It is over: write its last row, tell its parent, and forget it. If the parent cannot be read, do nothing of
    /// that, and report it.
    Finish(Box<MapRunEnd>),
    /// There is none now, but carry out these commands.
    Rest(Vec<MapRunCommand>),
}

/// The end of a Map Run.
#[derive(Clone, Debug)]
pub struct MapRunEnd {
    /// `None`: its row has this status already.
    pub writes: Option<(Status, MapRunFigures)>,
    /// `None`: no step waits for it.
    pub tells: Option<(By, MapRunOutcome)>,
    /// It was requested again meanwhile, and begins anew.
    pub is_asked_for: bool,
}
