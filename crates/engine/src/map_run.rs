//! A Map Run: chooses the next child, and detects the end. Pure; the runtime starts the children. [`life`] is the whole
//! course of a run from its order to its end, this the part in which children run.
//!
//! It holds no results and no list of all items: items are offered in pieces, made into children one after the other,
//! and forgotten. A run that is taken up again reads the same items in the same order, and so makes the same children;
//! of those that ended before it only reads the status.

mod items;
mod known;
mod life;

pub use known::Known;
pub use life::{
    MapRunChange, MapRunCommand, MapRunEnd, MapRunEvent, MapRunFigures, MapRunLife, MapRunMove, MapRunPlace,
    MapRunRecalled, OrderedMapRun,
};

use crate::arn::Arns;
use crate::effect::MapRunOrder;
use crate::event::Fault;
use crate::execution::Status;
use crate::id::ExecutionId;
use crate::identity::{Identity, TURN_WORK_MAX};
use crate::input::By;
use crate::labels::Labels;
use items::{Items, Made};
use perdura_asl::error::TOLERANCE_EXCEEDED;
use perdura_asl::json::{Payload, Value};
use perdura_asl::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// AWS's limit for children of a Map Run at once.
const AT_ONCE_MAX: u64 = 10_000;
/// How many children that have ended before are skipped at once.
const PASS_AT_ONCE: usize = 1_000;

/// The outcome of a Map Run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MapRunOutcome {
    /// The failures are within the tolerance.
    Succeeded {
        /// The results in the order of the items.
        output: Payload,
    },
    /// It failed.
    Failed {
        /// Error and cause.
        fault: Fault,
    },
}

/// A child to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub index: u32,
    /// Its id, which follows from the Map Run's key and the index.
    pub id: ExecutionId,
    pub input: Payload,
    /// The number of its items.
    pub items: u32,
    /// It ended before without success: a redrive runs it again.
    pub again: bool,
}

/// The next step of a Map Run.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Start this child.
    Start(Child),
    /// It has skipped many finished children: call again soon, after other work.
    Looking,
    /// Nothing, until a child ends or more items come.
    NotNow,
    /// It is over: all children ended, or it cannot continue. Stop children that are still under way.
    Over(Result<(), Fault>),
}

/// Counts by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// In all, as far as known.
    pub total: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub aborted: u64,
}

impl Tally {
    /// Not begun yet.
    pub fn pending(&self) -> u64 {
        let others = self.running + self.succeeded + self.failed + self.timed_out + self.aborted;
        self.total.saturating_sub(others)
    }

    /// The number that counts against the tolerance.
    fn unsuccessful(&self) -> u64 {
        self.failed + self.timed_out
    }

    fn add(&mut self, status: Status, count: u64) {
        *self.of(status) += count;
    }

    fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::Created | Status::Running => &mut self.running,
            Status::Succeeded => &mut self.succeeded,
            Status::Failed => &mut self.failed,
            Status::Aborted => &mut self.aborted,
            Status::TimedOut => &mut self.timed_out,
        }
    }
}

/// The counts of a Map Run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapRunCounts {
    pub items: Tally,
    /// Its children, each with one item or a batch of them.
    pub children: Tally,
}

impl MapRunCounts {
    /// Counts one more child with this status and number of items.
    pub fn add(&mut self, status: Status, items: u32) {
        self.items.total += u64::from(items);
        self.children.total += 1;
        self.count(status, items);
    }

    fn count(&mut self, status: Status, items: u32) {
        self.items.add(status, u64::from(items));
        self.children.add(status, 1);
    }
}

/// The bounds that may be changed while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MapRunBounds {
    /// How many children at once; 0 is as many as allowed.
    pub max_concurrency: u64,
    /// How many items may fail.
    pub tolerated_count: Option<u64>,
    /// The percentage of items that may fail.
    pub tolerated_percentage: Option<f64>,
}

pub struct MapRun {
    items: Items,
    bounds: MapRunBounds,
    /// The number of the next child.
    next: u32,
    /// Running children, with their numbers of items.
    live: BTreeMap<u32, u32>,
    /// Children of an earlier process that this run has not reached yet.
    known: Known,
    counts: MapRunCounts,
}

impl MapRun {
    /// A run of this order, with a size limit for the input of a child. Items that are part of the order need not be
    /// offered.
    pub fn new(machine: Arc<Machine>, order: MapRunOrder, input_bytes_max: usize) -> Self {
        let bounds = MapRunBounds::of(&order);
        let mut run = Self {
            items: Items::new(machine, order, input_bytes_max),
            bounds,
            next: 0,
            live: BTreeMap::new(),
            known: Known::default(),
            counts: MapRunCounts::default(),
        };
        run.counts.items.total = run.items.waiting() as u64;
        run
    }

    /// Sets the statuses of its existing children. Those that ended are not started again.
    pub fn resume(&mut self, known: Known) {
        assert_eq!(self.next, 0, "a run is taken up before it starts children");
        self.known = known;
    }

    /// The order of the run.
    pub fn order(&self) -> &MapRunOrder {
        self.items.order()
    }

    /// The machine whose processor the children run.
    pub fn machine(&self) -> &Arc<Machine> {
        self.items.machine()
    }

    pub fn counts(&self) -> MapRunCounts {
        self.counts
    }

    /// Its bounds as they are now.
    pub fn bounds(&self) -> MapRunBounds {
        self.bounds
    }

    /// Changes its bounds; running children continue.
    pub fn adjust(&mut self, bounds: MapRunBounds) {
        self.bounds = bounds;
    }

    /// Sets the source of its items, for `Map.Item.Source`.
    pub fn comes_from(&mut self, source: Arc<str>) {
        self.items.comes_from(source);
    }

    /// Adds items, in order.
    pub fn offer(&mut self, items: Vec<Value>) {
        self.counts.items.total += items.len() as u64;
        self.items.offer(items);
    }

    /// There are no more items.
    pub fn no_more_items(&mut self) {
        self.items.no_more();
    }

    /// How many items it has not made into children yet: the reader should wait while there are many.
    pub fn waiting_items(&self) -> usize {
        self.items.waiting()
    }

    /// The work of its selector so far, in units of [`perdura_asl::scope::Dice::spent`].
    pub fn spent(&self) -> u64 {
        self.items.spent()
    }

    /// The running children, including those that it has not reached yet.
    pub fn under_way(&self) -> impl Iterator<Item = u32> {
        let ahead = self.known.running().filter(|index| *index >= self.next);
        self.live.keys().copied().chain(ahead)
    }

    /// A child of an earlier process still runs. It is counted when the run reaches its items.
    pub fn found_running(&mut self, index: u32) {
        self.known.set(index, Status::Running);
    }

    /// A child ended. A repeat counts once.
    pub fn child_ended(&mut self, index: u32, status: Status) {
        if index >= self.next {
            return self.known.set(index, status);
        }
        let Some(items) = self.live.remove(&index) else { return };
        self.counts.items.running -= u64::from(items);
        self.counts.children.running -= 1;
        self.counts.count(status, items);
    }

    /// The next step. It takes hardly more work than a Turn may.
    pub fn advance(&mut self) -> Next {
        let spent_max = self.items.spent().saturating_add(TURN_WORK_MAX);
        for _ in 0..PASS_AT_ONCE {
            if self.items.spent() >= spent_max {
                return Next::Looking;
            }
            if self.exceeded() {
                return Next::Over(Err(tolerance_exceeded()));
            }
            if self.live.len() as u64 >= self.at_once() {
                return Next::NotNow;
            }
            let known = self.known.get(self.next);
            let again = known.is_some_and(|status| self.runs_again(status));
            let passes_over = known.is_some() && !again;
            let made = match self.items.make(passes_over, spent_max) {
                Ok(Some(made)) => made,
                Ok(None) if self.items.spent() >= spent_max => return Next::Looking,
                Ok(None) if self.items.are_all_made() && self.live.is_empty() => return Next::Over(Ok(())),
                Ok(None) => return Next::NotNow,
                Err(fault) => return Next::Over(Err(fault)),
            };
            let index = self.next;
            self.next += 1;
            self.counts.children.total += 1;
            let Made { items, input } = made;
            let status = known.filter(|_| passes_over).unwrap_or(Status::Running);
            self.counts.count(status, items);
            if status == Status::Running {
                self.live.insert(index, items);
            }
            if !passes_over {
                let id = self.order().child(index);
                return Next::Start(Child { index, id, input, items, again });
            }
        }
        Next::Looking
    }

    /// Whether a redrive runs a child with this status again.
    fn runs_again(&self, status: Status) -> bool {
        match status {
            Status::Created | Status::Running | Status::Succeeded => false,
            Status::Failed | Status::Aborted | Status::TimedOut => self.order().redriven_at.is_some(),
        }
    }

    fn at_once(&self) -> u64 {
        match self.bounds.max_concurrency {
            0 => AT_ONCE_MAX,
            most => most.min(AT_ONCE_MAX),
        }
    }

    /// Whether more items failed than is tolerated. The percentage is known once all items are.
    fn exceeded(&self) -> bool {
        let MapRunBounds { tolerated_count, tolerated_percentage, .. } = self.bounds;
        let items = &self.counts.items;
        let total = self.items.are_all_here().then_some(items.total);
        let none_is_tolerated = tolerated_count.is_none() && tolerated_percentage.is_none();
        self.bounds.are_exceeded(items.unsuccessful(), total) || none_is_tolerated && items.unsuccessful() > 0
    }
}

impl MapRunBounds {
    /// The bounds of an order.
    fn of(order: &MapRunOrder) -> Self {
        Self {
            max_concurrency: order.max_concurrency,
            tolerated_count: order.tolerated_count,
            tolerated_percentage: order.tolerated_percentage,
        }
    }

    /// Whether so many failures exceed a bound, of so many items if their number is known.
    pub(crate) fn are_exceeded(&self, failed: u64, total: Option<u64>) -> bool {
        if failed == 0 {
            return false;
        }
        let share = total.map(|total| failed as f64 * 100.0 / total as f64);
        let too_many = self.tolerated_count.is_some_and(|most| failed > most);
        let too_large = self
            .tolerated_percentage
            .is_some_and(|most| most == 0.0 || share.is_some_and(|share| share > most));
        too_many || too_large
    }
}

/// The fault when more items failed than were tolerated.
pub(crate) fn tolerance_exceeded() -> Fault {
    Fault::new(TOLERANCE_EXCEEDED, "The specified tolerated failure threshold was exceeded")
}

impl MapRunOrder {
    /// The id of a child, which follows from the step's key and the child's number.
    fn child(&self, index: u32) -> ExecutionId {
        ExecutionId::of_child(&self.key, u64::from(index))
    }

    /// The waiting step.
    fn by(&self) -> By {
        By::Key { strand: self.strand, key: self.key.clone(), attempt: None }
    }

    /// The number of its items, as far as they are part of the order.
    pub(crate) fn items_known(&self) -> u64 {
        let items = self.items.as_ref().map_or(0, |items| match items.value() {
            Value::Array(items) => items.len(),
            Value::Object(items) => items.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        });
        items as u64
    }

    /// The identity of a child. A Map Run is `…:mapRun:MACHINE/LABEL:UNIQUE`, and its children run `MACHINE/LABEL`.
    pub fn child_identity(&self, parent: &Identity, child: Child) -> Identity {
        let parts: Vec<&str> = self.arn.splitn(8, ':').collect();
        let part = |at: usize| (*parts.get(at).unwrap_or(&"")).to_owned();
        let arns = Arns { partition: part(1), region: part(3), account: part(4) };
        let (name, machine) = (child.id.to_string(), part(6));
        Identity {
            id: child.id,
            arn: arns.execution(&machine, &name, self.execution_type, &name).into(),
            name: name.into(),
            machine_arn: arns.machine(&machine).into(),
            machine_name: machine.into(),
            role_arn: parent.role_arn.clone(),
            version_arn: None,
            alias_arn: None,
            trace_header: None,
            labels: Labels::default(),
            root_key: parent.root_key.clone(),
            kind: self.execution_type,
            flow: self.flow,
            input: child.input,
            limits: parent.limits,
        }
    }

    /// The state's result: the outputs of the children in the order of their items, error and cause of those that
    /// failed. `WriterConfig.Transformation: FLATTEN` joins outputs that are arrays.
    pub fn gathered(&self, results: &[Payload]) -> Payload {
        let transformation = self.writer.as_ref().and_then(|writer| writer.config.get("Transformation"));
        if transformation.is_none_or(|how| how.as_str() != Some("FLATTEN")) {
            return Payload::array_of(results);
        }
        let flat = results.iter().flat_map(|result| match result.value() {
            Value::Array(items) => items.to_vec(),
            other => vec![other.clone()],
        });
        flat.collect::<Value>().into()
    }
}
