//! A Map Run: which child comes next, and when it is over. Pure; somebody else starts the children.

use crate::effect::MapRunOrder;
use crate::event::Fault;
use crate::id::ExecutionId;
use perdura_asl::error::TOLERANCE_EXCEEDED;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::machine::{Kind, Machine};
use perdura_asl::scope::{Dice, Failure, Scope, States, Variables};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How a Map Run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MapRunOutcome {
    /// Enough of it went well.
    Succeeded {
        /// The results in the order of the items.
        output: Payload,
    },
    /// It did not.
    Failed {
        /// Error and cause.
        fault: Fault,
    },
}

/// A child to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Which one.
    pub index: u32,
    /// Its id, which follows from the Map Run's key and the index.
    pub id: ExecutionId,
    /// What it receives.
    pub input: Payload,
    /// How many items that is.
    pub items: u32,
}

/// How the items fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapRunCounts {
    /// In all.
    pub total: u64,
    /// Ended well.
    pub succeeded: u64,
    /// Failed or timed out.
    pub failed: u64,
    /// Under way.
    pub running: u64,
}

/// A Map Run over items that are in memory.
pub struct MapRun {
    order: MapRunOrder,
    machine: Arc<Machine>,
    waiting: VecDeque<(u32, u32, Payload)>,
    live: BTreeMap<u32, u32>,
    results: BTreeMap<u32, Payload>,
    counts: MapRunCounts,
}

/// AWS runs at most this many children of a Map Run at once.
const AT_ONCE_MAX: u64 = 10_000;

impl MapRun {
    /// Prepares every child's input; a selector that fails, fails the run.
    pub fn new(
        machine: Arc<Machine>,
        order: MapRunOrder,
        items: &[Value],
        dice: &Dice,
    ) -> Result<Self, Fault> {
        let inputs = items
            .iter()
            .enumerate()
            .map(|(index, item)| select(&machine, &order, index as u64, item, dice))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|failure| Fault::new(failure.error, failure.cause))?;
        let batches = batch(&order, inputs);
        let waiting =
            batches.into_iter().enumerate().map(|(at, (count, input))| (at as u32, count, input)).collect();
        let counts = MapRunCounts { total: items.len() as u64, ..MapRunCounts::default() };
        Ok(Self { order, machine, waiting, live: BTreeMap::new(), results: BTreeMap::new(), counts })
    }

    /// What was ordered.
    pub fn order(&self) -> &MapRunOrder {
        &self.order
    }

    /// The machine whose processor the children run.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// How the items fare.
    pub fn counts(&self) -> MapRunCounts {
        self.counts
    }

    /// The next child to start now, if one more may run.
    pub fn next_child(&mut self) -> Option<Child> {
        let at_once = match self.order.max_concurrency {
            0 => AT_ONCE_MAX,
            most => most.min(AT_ONCE_MAX),
        };
        if self.live.len() as u64 >= at_once {
            return None;
        }
        let (index, items, input) = self.waiting.pop_front()?;
        self.live.insert(index, items);
        self.counts.running += u64::from(items);
        Some(Child { index, id: ExecutionId::of_child(&self.order.key, u64::from(index)), input, items })
    }

    /// A child ended. `Some`: so did the run; children still under way are to be stopped.
    pub fn child_ended(&mut self, index: u32, ending: Result<Payload, Fault>) -> Option<MapRunOutcome> {
        let items = u64::from(self.live.remove(&index)?);
        self.counts.running -= items;
        match ending {
            Ok(output) => {
                self.counts.succeeded += items;
                self.results.insert(index, output);
            }
            Err(fault) => {
                self.counts.failed += items;
                self.results.insert(index, fault.to_value().into());
                if self.exceeded() {
                    let cause = "The specified tolerated failure threshold was exceeded";
                    return Some(MapRunOutcome::Failed { fault: Fault::new(TOLERANCE_EXCEEDED, cause) });
                }
            }
        }
        self.ended()
    }

    /// Over, if nothing is left to do; also true at once of a run without items.
    pub fn ended(&self) -> Option<MapRunOutcome> {
        if !self.waiting.is_empty() || !self.live.is_empty() {
            return None;
        }
        let results: Vec<Payload> = self.results.values().cloned().collect();
        Some(MapRunOutcome::Succeeded { output: self.transformed(&results) })
    }

    fn exceeded(&self) -> bool {
        let MapRunCounts { total, failed, .. } = self.counts;
        let share = if total == 0 { 0.0 } else { failed as f64 * 100.0 / total as f64 };
        match (self.order.tolerated_count, self.order.tolerated_percentage) {
            (None, None) => failed > 0,
            (count, percentage) => {
                count.is_some_and(|most| failed > most) || percentage.is_some_and(|most| share > most)
            }
        }
    }

    /// `WriterConfig.Transformation: FLATTEN` joins the results that are arrays.
    fn transformed(&self, results: &[Payload]) -> Payload {
        let flatten = self
            .order
            .writer
            .as_ref()
            .and_then(|writer| writer.config.get("Transformation"))
            .is_some_and(|how| how.as_str() == Some("FLATTEN"));
        if !flatten {
            return Payload::array_of(results);
        }
        let flat = results.iter().flat_map(|result| match result.value() {
            Value::Array(items) => items.to_vec(),
            other => vec![other.clone()],
        });
        flat.collect::<Value>().into()
    }
}

/// What `ItemSelector` makes of one item.
fn select(
    machine: &Machine,
    order: &MapRunOrder,
    index: u64,
    item: &Value,
    dice: &Dice,
) -> Result<Payload, Failure> {
    let Kind::Map(map) = &machine.state(order.state).kind else { return Ok(item.clone().into()) };
    let Some(selector) = &map.selector else { return Ok(item.clone().into()) };
    let mut inner = Map::new();
    inner.insert("Index", index);
    inner.insert("Value", item.clone());
    let mut context = order.context.as_object().cloned().expect("the context object is an object");
    context.insert("Map", [("Item", inner)].into_iter().collect::<Map>());
    let context = Value::from(context);
    let scope = Scope {
        input: order.input.value(),
        context: &context,
        variables: &Variables { own: Some(&order.variables), outer: None },
        states: States { input: Some(order.input.value()), ..States::default() },
        dice,
    };
    selector.evaluate(&scope, "ItemSelector").map(Payload::from)
}

/// Groups items into batches by count and size; without a batcher each item is alone.
fn batch(order: &MapRunOrder, inputs: Vec<Payload>) -> Vec<(u32, Payload)> {
    let Some(batcher) = &order.batcher else { return inputs.into_iter().map(|input| (1, input)).collect() };
    let most_items = batcher.max_items.unwrap_or(u64::MAX) as usize;
    let most_bytes = batcher.max_bytes.map_or(usize::MAX, |bytes| bytes as usize);
    let mut batches = Vec::new();
    let mut open: Vec<Payload> = Vec::new();
    let mut bytes = 0;
    let close = |open: &mut Vec<Payload>| {
        let items = std::mem::take(open);
        let mut object = Map::new();
        if let Some(input) = &batcher.input {
            object.insert("BatchInput", input.value().clone());
        }
        object.insert("Items", items.iter().map(|item| item.value().clone()).collect::<Value>());
        (items.len() as u32, Payload::from(Value::from(object)))
    };
    for input in inputs {
        let size = input.len() + 1;
        if !open.is_empty() && (open.len() >= most_items || bytes + size > most_bytes) {
            batches.push(close(&mut open));
            bytes = 0;
        }
        bytes += size;
        open.push(input);
    }
    if !open.is_empty() {
        batches.push(close(&mut open));
    }
    batches
}
