//! What a Map Run wants done.

use super::MapRunFigures;
use crate::effect::{MapRunOrder, ReaderOrder};
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId, Timestamp};
use crate::identity::Identity;
use crate::input::By;
use crate::map_run::MapRunOutcome;
use perdura_asl::machine::Machine;
use std::sync::Arc;

/// Something to do for a Map Run, at once.
#[derive(Clone, Debug, PartialEq)]
pub enum MapRunCommand {
    /// Let it make its next move soon, when others have had their turn.
    GoOn,
    /// Let it make its next move when there may be a place for a child.
    AwaitPlace,
    /// Read which children it has, and its row.
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
    /// Gather what its children gave, of at most so many bytes, or write it where the order says so.
    Gather { order: Box<MapRunOrder>, bytes_max: usize },
    /// Write its row. Whoever has changed its bounds is told when that is on disk.
    Write(MapRunFigures),
    /// Whoever wants to change its bounds is told that it has ended.
    RefuseChanges,
    /// Let the children of an earlier process go on that wait for their run.
    Join,
    /// Stop at once what these children wait for; they themselves are stopped one by one.
    StopBelow(Vec<ExecutionId>),
}

/// The next move of a Map Run: one that takes a while, so that others may have their turn in between.
#[derive(Clone, Debug)]
pub enum MapRunMove {
    /// Start this child.
    Start { identity: Box<Identity>, definition: Arc<Machine>, index: u32, items: u32 },
    /// Run this child again, unless it has ended since then.
    Redrive { child: ExecutionId, index: u32, since: Option<Timestamp> },
    /// Stop this child.
    Stop(ExecutionId),
    /// It is over: write its last row, tell its parent, and forget it. While the parent cannot be read, do nothing of that,
    /// and say so.
    Finish(Box<MapRunEnd>),
    /// There is none now, but this is to be done.
    Rest(Vec<MapRunCommand>),
}

/// How a Map Run ends.
#[derive(Clone, Debug)]
pub struct MapRunEnd {
    /// `None`: its row says so already.
    pub writes: Option<(Status, MapRunFigures)>,
    /// `None`: nobody waits for it.
    pub tells: Option<(By, MapRunOutcome)>,
    /// It was asked for again meanwhile, and begins anew.
    pub is_asked_for: bool,
}
