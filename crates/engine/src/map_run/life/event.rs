//! The events of a Map Run.

use super::{MapRunChange, MapRunFigures};
use crate::event::Fault;
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId};
use crate::map_run::{Known, MapRunCounts};
use perdura_asl::json::{Payload, Value};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum MapRunEvent {
    /// A second has passed.
    Second,
    /// Its children and its row.
    Recalled(Box<MapRunRecalled>),
    /// The source of its items, and its version; before the first items.
    Source { name: Arc<str>, version: Arc<str> },
    /// The next items, in order.
    Items(Vec<Value>),
    /// There are no more, or they cannot be read.
    NoMoreItems(Result<(), Fault>),
    /// A child ended, and that is on disk.
    ChildEnded { child: ExecutionId, index: u32, status: Status },
    /// A child that should be stopped has ended, or cannot be stopped; do not wait for it.
    StopInVain(ExecutionId),
    /// A client changes its bounds, and waits for an answer.
    Adjusted(MapRunChange),
    /// The state's result, or the fault without one.
    Gathered(Result<Payload, Fault>),
    /// Something that it requested, or its parent, cannot be read now.
    Unread,
    /// The step under this key requests it again.
    AskedFor { key: EffectKey },
    /// It is no longer wanted by the step under this key; `None`: nor by any execution above.
    Unwanted { key: Option<EffectKey> },
}

/// Whether a child may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapRunPlace {
    Free,
    /// Only for a child of a run that has none under way, so that the run makes progress at all.
    ForTheFirst,
    None,
}

/// The stored data of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapRunRecalled {
    /// The statuses of its children.
    pub known: Known,
    /// The running children.
    pub running: Vec<ExecutionId>,
    /// The sum of its children; the totals are those of the items and children that have begun.
    pub counts: MapRunCounts,
    /// Its own row, if it has one.
    pub row: Option<(Status, MapRunFigures)>,
}
