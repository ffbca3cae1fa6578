//! What a Map Run is told.

use super::{MapRunChange, MapRunFigures};
use crate::event::Fault;
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId};
use crate::map_run::{Known, MapRunCounts};
use perdura_asl::json::{Payload, Value};
use std::sync::Arc;

/// What happened to a Map Run.
#[derive(Clone, Debug, PartialEq)]
pub enum MapRunEvent {
    /// Another second is over.
    Second,
    /// Which children it has.
    Recalled(Box<MapRunRecalled>),
    /// Where its items come from, and in which version; told before the first.
    Source { name: Arc<str>, version: Arc<str> },
    /// The next items, in order.
    Items(Vec<Value>),
    /// There are no more, or they cannot be read.
    NoMoreItems(Result<(), Fault>),
    /// A child ended, and that is on disk.
    ChildEnded { child: ExecutionId, index: u32, status: Status },
    /// A child that was to be stopped has ended, or does not move; nobody shall wait for it.
    StopInVain(ExecutionId),
    /// Somebody changes its bounds, and waits for an answer.
    Adjusted(MapRunChange),
    /// The state's result, or why there is none.
    Gathered(Result<Payload, Fault>),
    /// What it asked for, or whom it was to tell, cannot be read now.
    Unread,
    /// The step under this key asks for it again.
    AskedFor { key: EffectKey },
    /// Nobody waits for it any more: the step under this key; `None`: neither does anybody above.
    Unwanted { key: Option<EffectKey> },
}

/// Whether a child may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapRunPlace {
    Free,
    /// Only for a child of a run that has none under way, so that the run goes on at all.
    ForTheFirst,
    None,
}

/// What is stored of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapRunRecalled {
    /// How its children stand.
    pub known: Known,
    /// Those that run.
    pub running: Vec<ExecutionId>,
    /// The sum of its children; the totals are those of the items and children that have begun.
    pub counts: MapRunCounts,
    /// Its own row, if it has one.
    pub row: Option<(Status, MapRunFigures)>,
}
