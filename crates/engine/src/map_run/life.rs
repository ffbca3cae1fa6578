//! The course of a Map Run, from its order to its end: events in, commands out. Pure.
//!
//! Its driver reads and writes, starts and stops children, and holds replies and permits; the results are the next
//! events. Slow work, such as starting a child, is not a command but its next move: the driver asks for that when it is
//! the run's turn.
//!
//! It relies on these rules. Commands are carried out in order. Each [`MapRunCommand::ReadChildren`] is answered, and
//! the answer to an earlier one is dropped. It gets an event for every child that ends. A failed read is reported as
//! such, and is repeated a second later.

mod command;
mod ending;
mod event;
#[cfg(test)]
mod tests;

pub use command::{MapRunCommand, MapRunEnd, MapRunMove};
pub use event::{MapRunEvent, MapRunPlace, MapRunRecalled};

use super::{MapRun, MapRunBounds, MapRunCounts, MapRunOutcome, Next};
use crate::effect::MapRunOrder;
use crate::event::Fault;
use crate::execution::Status;
use crate::id::{EffectKey, ExecutionId};
use crate::identity::Identity;
use crate::input::By;
use ending::{Basis, Ending};
use perdura_asl::error::ITEM_READER;
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::Machine;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many batches of items may be under way.
const BATCHES_AHEAD: usize = 4;
/// How many items a run takes before they are made into children.
const ITEMS_AHEAD: usize = 4_096;

/// The data of a run's row, besides its identity and whether it is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapRunFigures {
    pub bounds: MapRunBounds,
    /// The version of the source of its items, if there is one.
    pub source_version: Option<Arc<str>>,
    pub counts: MapRunCounts,
    /// The number of children with written results.
    pub results_written: u64,
}

/// A change of a running Map Run. `None`: unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapRunChange {
    /// How many children at once; 0 is as many as allowed.
    pub max_concurrency: Option<u64>,
    /// How many items may fail.
    pub tolerated_count: Option<u64>,
    /// The percentage of items that may fail.
    pub tolerated_percentage: Option<f64>,
}

impl MapRunChange {
    fn of(&self, bounds: MapRunBounds) -> MapRunBounds {
        MapRunBounds {
            max_concurrency: self.max_concurrency.unwrap_or(bounds.max_concurrency),
            tolerated_count: self.tolerated_count.or(bounds.tolerated_count),
            tolerated_percentage: self.tolerated_percentage.or(bounds.tolerated_percentage),
        }
    }
}

/// A Map Run with its state.
pub struct MapRunLife {
    /// The row as it was last written.
    written: MapRunFigures,
    stage: Stage,
    /// A read failed: it is repeated.
    asks_again: bool,
    /// The work of making children so far.
    spent: u64,
}

/// The stage of a run.
enum Stage {
    /// It reads its children. Those that were in memory when it was taken up need not have a row yet; some of them end
    /// meanwhile.
    Recalling {
        ordered: Box<OrderedMapRun>,
        here: Vec<u32>,
        ended: Vec<(u32, Status)>,
        changes: Vec<MapRunChange>,
    },
    /// Children run.
    Spreading { parent: Box<Identity>, map: Box<MapRun>, feed: Feed },
    /// All children have ended, and their results are being gathered.
    Gathering { order: Box<MapRunOrder>, bytes_max: usize, figures: MapRunFigures },
    /// It is over, and its parent must get the outcome.
    Telling { by: By, outcome: MapRunOutcome, figures: MapRunFigures },
    /// It ends early: it is no longer wanted, or it cannot continue.
    Ending(Box<Ending>),
}

/// A run as an execution orders it.
#[derive(Clone, Debug)]
pub struct OrderedMapRun {
    /// The parent, which waits for it.
    pub parent: Identity,
    /// The machine whose processor the children run.
    pub machine: Arc<Machine>,
    pub order: MapRunOrder,
}

/// Whether more items will come.
enum Feed {
    /// At most so many batches, before more are requested.
    Open {
        batches: usize,
    },
    Closed,
}

impl MapRunLife {
    /// An ordered run. These children of it are in memory already.
    pub fn begin(ordered: OrderedMapRun, here: Vec<u32>) -> (Self, Vec<MapRunCommand>) {
        let mut written =
            MapRunFigures { bounds: MapRunBounds::of(&ordered.order), ..MapRunFigures::default() };
        written.counts.items.total = ordered.order.items_known();
        let (ordered, ended, changes) = (Box::new(ordered), Vec::new(), Vec::new());
        let stage = Stage::Recalling { ordered, here, ended, changes };
        (Self::at(stage, written), vec![MapRunCommand::ReadChildren])
    }

    /// A run that has only a row and children; these are in memory. It ends.
    pub fn left_behind(row: MapRunFigures, here: Vec<ExecutionId>) -> (Self, Vec<MapRunCommand>) {
        let ending = Ending::new(row.clone(), Basis::Row, here, None);
        let life = Self::at(Stage::Ending(Box::new(ending)), row);
        (life, vec![MapRunCommand::ReadChildren, MapRunCommand::GoOn])
    }

    fn at(stage: Stage, written: MapRunFigures) -> Self {
        Self { written, stage, asks_again: false, spent: 0 }
    }

    /// Takes an event; returns the commands to carry out.
    pub fn take(&mut self, event: MapRunEvent) -> Vec<MapRunCommand> {
        match event {
            MapRunEvent::Second => self.second(),
            MapRunEvent::Recalled(recalled) => self.recalled(*recalled),
            MapRunEvent::Source { name, version } => self.comes_from(name, version),
            MapRunEvent::Items(items) => self.offer(items),
            MapRunEvent::NoMoreItems(how) => self.no_more_items(how),
            MapRunEvent::ChildEnded { child, index, status } => self.child_ended(child, index, status),
            MapRunEvent::StopInVain(child) => {
                if let Stage::Ending(ending) = &mut self.stage {
                    ending.child_ended(child);
                }
                vec![MapRunCommand::GoOn]
            }
            MapRunEvent::Adjusted(change) => self.adjust(change),
            MapRunEvent::Gathered(result) => self.gathered(result),
            MapRunEvent::Unread => {
                self.asks_again = true;
                Vec::new()
            }
            MapRunEvent::AskedFor { key } => {
                if let Stage::Ending(ending) = &mut self.stage {
                    ending.asked_for(key);
                }
                Vec::new()
            }
            MapRunEvent::Unwanted { key } => self.unwanted(key.as_ref()),
        }
    }

    /// The current data for its row.
    pub fn figures(&self) -> MapRunFigures {
        match &self.stage {
            Stage::Recalling { .. } => self.written.clone(),
            Stage::Spreading { map, .. } => {
                let mut counts = map.counts();
                // A run that was taken up again reads its items once more.
                counts.items.total = counts.items.total.max(self.written.counts.items.total);
                MapRunFigures { bounds: map.bounds(), counts, ..self.written.clone() }
            }
            Stage::Gathering { figures, .. } | Stage::Telling { figures, .. } => figures.clone(),
            Stage::Ending(ending) => ending.figures().clone(),
        }
    }

    /// Its children are known, and those of an earlier process continue beside it.
    pub fn has_its_children(&self) -> bool {
        match self.stage {
            Stage::Recalling { .. } | Stage::Ending(_) => false,
            Stage::Spreading { .. } | Stage::Gathering { .. } | Stage::Telling { .. } => true,
        }
    }

    pub fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Ending(_))
    }

    /// Whether children must be stopped that were not told yet.
    pub fn has_children_to_stop(&self) -> bool {
        matches!(&self.stage, Stage::Ending(ending) if ending.has_untold())
    }

    /// Whether its own row has more data than is known here, because it was not read yet.
    pub fn is_unread(&self) -> bool {
        match &self.stage {
            Stage::Recalling { .. } => true,
            Stage::Spreading { .. } | Stage::Gathering { .. } | Stage::Telling { .. } => false,
            Stage::Ending(ending) => ending.is_unread(),
        }
    }

    /// Whether it waits for the store's data about its children, or for items that it has room for.
    pub fn is_reading(&self) -> bool {
        match &self.stage {
            Stage::Recalling { .. } | Stage::Gathering { .. } => true,
            Stage::Spreading { feed: Feed::Open { batches }, .. } => *batches > 0,
            Stage::Spreading { feed: Feed::Closed, .. } | Stage::Telling { .. } => false,
            Stage::Ending(ending) => ending.is_reading(),
        }
    }

    /// The work of making children so far, in units of [`perdura_asl::scope::Dice::spent`].
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Its next move, given whether there is a place for a child.
    pub fn go_on(&mut self, place: MapRunPlace) -> MapRunMove {
        match &mut self.stage {
            Stage::Recalling { .. } | Stage::Gathering { .. } => MapRunMove::Rest(Vec::new()),
            Stage::Spreading { .. } => self.spread(place),
            Stage::Telling { by, outcome, figures } => {
                let status = match outcome {
                    MapRunOutcome::Succeeded { .. } => Status::Succeeded,
                    MapRunOutcome::Failed { .. } => Status::Failed,
                };
                let (writes, tells) = (Some((status, figures.clone())), Some((by.clone(), outcome.clone())));
                MapRunMove::Finish(Box::new(MapRunEnd { writes, tells, is_asked_for: false }))
            }
            Stage::Ending(ending) => ending.go_on(),
        }
    }

    fn spread(&mut self, place: MapRunPlace) -> MapRunMove {
        let Stage::Spreading { parent, map, feed } = &mut self.stage else {
            return MapRunMove::Rest(Vec::new());
        };
        let has_place = match place {
            MapRunPlace::Free => true,
            MapRunPlace::ForTheFirst => map.counts().children.running == 0,
            MapRunPlace::None => false,
        };
        if !has_place {
            return MapRunMove::Rest(vec![MapRunCommand::AwaitPlace]);
        }
        let before = map.spent();
        let next = map.advance();
        self.spent = self.spent.saturating_add(map.spent() - before);
        match next {
            Next::Start(child) if child.again => {
                let (since, index) = (map.order().redriven_at, child.index);
                MapRunMove::Redrive { child: child.id, index, since }
            }
            Next::Start(child) => {
                let (index, items) = (child.index, child.items);
                let identity = Box::new(map.order().child_identity(parent, child));
                MapRunMove::Start { identity, definition: map.machine().clone(), index, items }
            }
            Next::Looking => {
                MapRunMove::Rest(feed.more(map).into_iter().chain([MapRunCommand::GoOn]).collect())
            }
            Next::NotNow => MapRunMove::Rest(feed.more(map).into_iter().collect()),
            Next::Over(Ok(())) => {
                let (order, bytes_max) = (Box::new(map.order().clone()), parent.limits.payload_bytes_max);
                let gather = MapRunCommand::Gather { order: order.clone(), bytes_max };
                self.stage = Stage::Gathering { order, bytes_max, figures: self.figures() };
                MapRunMove::Rest(vec![gather])
            }
            Next::Over(Err(fault)) => MapRunMove::Rest(self.fail(fault)),
        }
    }

    /// A second has passed: writes the row, and repeats failed reads.
    fn second(&mut self) -> Vec<MapRunCommand> {
        let mut commands = Vec::new();
        let figures = self.figures();
        let is_news = self.written.counts != figures.counts || self.written.bounds != figures.bounds;
        if is_news && self.has_its_children() {
            self.written = figures.clone();
            commands.push(MapRunCommand::Write(figures));
        }
        let asks_again = std::mem::take(&mut self.asks_again);
        match &mut self.stage {
            Stage::Recalling { .. } => commands.extend(asks_again.then_some(MapRunCommand::ReadChildren)),
            Stage::Gathering { order, bytes_max, .. } => {
                let gather = || MapRunCommand::Gather { order: order.clone(), bytes_max: *bytes_max };
                commands.extend(asks_again.then(gather));
            }
            Stage::Spreading { .. } | Stage::Telling { .. } => {
                commands.extend(asks_again.then_some(MapRunCommand::GoOn));
            }
            Stage::Ending(ending) => commands.extend(ending.second(asks_again)),
        }
        commands
    }

    /// The children of the run are known.
    fn recalled(&mut self, recalled: MapRunRecalled) -> Vec<MapRunCommand> {
        let (ordered, here, ended, changes) = match &mut self.stage {
            Stage::Recalling { ordered, here, ended, changes } => (&**ordered, here, ended, changes),
            Stage::Spreading { .. } | Stage::Gathering { .. } | Stage::Telling { .. } => return Vec::new(),
            Stage::Ending(ending) => return ending.recalled(recalled),
        };
        let OrderedMapRun { parent, machine, order } = ordered.clone();
        let mut map = MapRun::new(machine, order, parent.limits.payload_bytes_max);
        map.resume(recalled.known);
        for index in here.drain(..) {
            map.found_running(index);
        }
        for (index, status) in ended.drain(..) {
            map.child_ended(index, status);
        }
        if let Some((_, row)) = recalled.row {
            map.adjust(row.bounds);
            self.written.source_version = row.source_version;
            self.written.counts.items.total = row.counts.items.total;
        }
        for change in changes.drain(..) {
            map.adjust(change.of(map.bounds()));
        }
        let (mut feed, mut reads) = (Feed::Closed, Vec::new());
        if let Some(reader) = map.order().reader.clone() {
            feed = Feed::Open { batches: 0 };
            reads.extend(feed.more(&map));
            let (machine, key) = (parent.machine_name.clone(), map.order().key.clone());
            reads.push(MapRunCommand::ReadItems { machine, key, reader });
        }
        self.stage = Stage::Spreading { parent: Box::new(parent), map: Box::new(map), feed };
        self.written = self.figures();
        let write = MapRunCommand::Write(self.written.clone());
        [write].into_iter().chain(reads).chain([MapRunCommand::Join, MapRunCommand::GoOn]).collect()
    }

    /// The source of its items. A run that was taken up again continues only with the version that it began with.
    fn comes_from(&mut self, name: Arc<str>, version: Arc<str>) -> Vec<MapRunCommand> {
        let Stage::Spreading { map, .. } = &mut self.stage else { return Vec::new() };
        match &self.written.source_version {
            Some(before) if *before != version => {
                let cause = format!(
                    "The items of the Map Run come from {name}, which has changed since the run began: it was \
                     {before}, and is {version}. Start a new execution."
                );
                self.fail(Fault::new(ITEM_READER, cause))
            }
            Some(_) | None => {
                map.comes_from(name);
                self.written.source_version = Some(version);
                vec![MapRunCommand::GoOn]
            }
        }
    }

    fn offer(&mut self, items: Vec<Value>) -> Vec<MapRunCommand> {
        let Stage::Spreading { map, feed, .. } = &mut self.stage else { return Vec::new() };
        if let Feed::Open { batches } = feed {
            *batches = batches.saturating_sub(1);
        }
        map.offer(items);
        vec![MapRunCommand::GoOn]
    }

    fn no_more_items(&mut self, how: Result<(), Fault>) -> Vec<MapRunCommand> {
        let Stage::Spreading { map, feed, .. } = &mut self.stage else { return Vec::new() };
        if let Err(fault) = how {
            return self.fail(fault);
        }
        *feed = Feed::Closed;
        map.no_more_items();
        vec![MapRunCommand::GoOn]
    }

    fn child_ended(&mut self, child: ExecutionId, index: u32, status: Status) -> Vec<MapRunCommand> {
        match &mut self.stage {
            Stage::Recalling { ended, .. } => ended.push((index, status)),
            Stage::Spreading { map, .. } => map.child_ended(index, status),
            Stage::Gathering { .. } | Stage::Telling { .. } => {}
            Stage::Ending(ending) => ending.child_ended(child),
        }
        vec![MapRunCommand::GoOn]
    }

    /// A change applies at once and is on disk before it is answered. One that came too early waits.
    fn adjust(&mut self, change: MapRunChange) -> Vec<MapRunCommand> {
        match &mut self.stage {
            Stage::Recalling { changes, .. } => {
                changes.push(change);
                Vec::new()
            }
            Stage::Spreading { map, .. } => {
                map.adjust(change.of(map.bounds()));
                self.written = self.figures();
                vec![MapRunCommand::Write(self.written.clone()), MapRunCommand::GoOn]
            }
            Stage::Gathering { .. } | Stage::Telling { .. } | Stage::Ending(_) => {
                vec![MapRunCommand::RefuseChanges]
            }
        }
    }

    fn gathered(&mut self, result: Result<Payload, Fault>) -> Vec<MapRunCommand> {
        let Stage::Gathering { order, figures, .. } = &mut self.stage else { return Vec::new() };
        let (by, mut figures) = (order.by(), std::mem::take(figures));
        let outcome = match result {
            Ok(output) => {
                // To a file or into the output of the state: AWS counts both.
                figures.results_written = figures.counts.children.total;
                MapRunOutcome::Succeeded { output }
            }
            Err(fault) => MapRunOutcome::Failed { fault },
        };
        self.stage = Stage::Telling { by, outcome, figures };
        vec![MapRunCommand::GoOn]
    }

    /// It cannot continue; its parent gets the fault when its children have ended.
    fn fail(&mut self, fault: Fault) -> Vec<MapRunCommand> {
        let Stage::Spreading { map, .. } = &self.stage else { return Vec::new() };
        let by = map.order().by();
        self.end(Some((by, fault)))
    }

    /// It is no longer wanted: by its step under this key, or by the execution above. Calls of its children are stopped
    /// at once, so that the tree does not grow while the children are stopped one by one.
    fn unwanted(&mut self, key: Option<&EffectKey>) -> Vec<MapRunCommand> {
        let (own, below) = match &mut self.stage {
            Stage::Recalling { ordered, .. } => (Some(&ordered.order.key), Vec::new()),
            Stage::Spreading { map, .. } => {
                let order = map.order();
                (Some(&order.key), map.under_way().map(|index| order.child(index)).collect())
            }
            Stage::Gathering { order, .. } => (Some(&order.key), Vec::new()),
            Stage::Telling { by, .. } => (by.key(), Vec::new()),
            Stage::Ending(ending) => {
                if let Some(key) = key {
                    ending.unwanted(key);
                }
                return Vec::new();
            }
        };
        if key.is_some() && own != key {
            return Vec::new();
        }
        let mut commands = self.end(None);
        commands.push(MapRunCommand::StopBelow(below));
        commands
    }

    /// It ends early. Known children are stopped while it reads the others.
    fn end(&mut self, told: Option<(By, Fault)>) -> Vec<MapRunCommand> {
        let (basis, children) = match &self.stage {
            Stage::Recalling { ordered, here, ended, .. } => {
                let ended: BTreeSet<u32> = ended.iter().map(|(index, _)| *index).collect();
                let run = here.iter().filter(|index| !ended.contains(index));
                let children = run.map(|index| ordered.order.child(*index)).collect();
                (Basis::Order, children)
            }
            Stage::Spreading { map, .. } => {
                (Basis::Whole, map.under_way().map(|index| map.order().child(index)).collect())
            }
            Stage::Gathering { .. } | Stage::Telling { .. } => (Basis::Whole, Vec::new()),
            Stage::Ending(_) => return Vec::new(),
        };
        self.stage = Stage::Ending(Box::new(Ending::new(self.figures(), basis, children, told)));
        self.asks_again = false;
        vec![MapRunCommand::RefuseChanges, MapRunCommand::ReadChildren, MapRunCommand::GoOn]
    }
}

impl Feed {
    /// Requests more items, if few wait to be made into children.
    fn more(&mut self, map: &MapRun) -> Option<MapRunCommand> {
        let Self::Open { batches } = self else { return None };
        let more = BATCHES_AHEAD.saturating_sub(*batches);
        if more == 0 || map.waiting_items() >= ITEMS_AHEAD {
            return None;
        }
        *batches = BATCHES_AHEAD;
        Some(MapRunCommand::TakeItems(more))
    }
}
