//! Makes the inputs of children from items: one item, or a batch of them, each through `ItemSelector`.

use crate::effect::{BatcherOrder, MapRunOrder};
use crate::event::Fault;
use perdura_asl::error::DATA_LIMIT_EXCEEDED;
use perdura_asl::json::{DEPTH_MAX, Map, Payload, Value};
use perdura_asl::machine::{Kind, Machine, Template};
use perdura_asl::scope::{Scope, States, Variables};
use std::collections::VecDeque;
use std::sync::Arc;

/// `Map.Item.Source` for items that are part of the state's input.
const STATE_DATA: &str = "STATE_DATA";

/// The items of a run that are not part of a child yet.
pub(super) struct Items {
    machine: Arc<Machine>,
    order: MapRunOrder,
    input_bytes_max: usize,
    source: Arc<str>,
    waiting: VecDeque<Item>,
    are_all_here: bool,
    /// The number of the next item.
    next: u64,
    batch: Batch,
    /// The work of its selector so far.
    spent: u64,
}

/// An item, with its key if the items are an object.
struct Item {
    key: Option<Arc<str>>,
    value: Value,
}

impl Item {
    /// The child's input without a selector.
    fn whole(self) -> Payload {
        let Some(key) = self.key else { return self.value.into() };
        let mut pair = Map::new();
        pair.insert("Key", key);
        pair.insert("Value", self.value);
        Value::from(pair).into()
    }
}

/// The input of one child.
pub(super) struct Made {
    pub(super) items: u32,
    pub(super) input: Payload,
}

/// Items that wait for the rest of their batch.
#[derive(Default)]
struct Batch {
    items: Vec<Payload>,
    bytes: u64,
}

impl Items {
    pub(super) fn new(machine: Arc<Machine>, order: MapRunOrder, input_bytes_max: usize) -> Self {
        let waiting = match order.items.as_ref().map(Payload::value) {
            Some(Value::Array(items)) => {
                items.iter().map(|value| Item { key: None, value: value.clone() }).collect()
            }
            Some(Value::Object(items)) => items
                .iter()
                .map(|(key, value)| Item { key: Some(key.clone()), value: value.clone() })
                .collect(),
            // The engine orders a list or an object; any other value has no items.
            Some(_) | None => VecDeque::new(),
        };
        Self {
            machine,
            are_all_here: order.items.is_some(),
            order,
            input_bytes_max,
            source: STATE_DATA.into(),
            waiting,
            next: 0,
            batch: Batch::default(),
            spent: 0,
        }
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    pub(super) fn order(&self) -> &MapRunOrder {
        &self.order
    }

    pub(super) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    pub(super) fn comes_from(&mut self, source: Arc<str>) {
        self.source = source;
    }

    pub(super) fn offer(&mut self, items: Vec<Value>) {
        self.waiting.extend(items.into_iter().map(|value| Item { key: None, value }));
    }

    pub(super) fn no_more(&mut self) {
        self.are_all_here = true;
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.batch.items.len()
    }

    pub(super) fn are_all_here(&self) -> bool {
        self.are_all_here
    }

    pub(super) fn are_all_made(&self) -> bool {
        self.are_all_here && self.waiting() == 0
    }

    /// The input of the next child; `None`: there are not enough items yet, or no more, or the work limit is reached so
    /// that the batch must wait for the rest. The input of a skipped child need not be built, unless its size decides
    /// where the next one begins.
    pub(super) fn make(&mut self, is_passed_over: bool, spent_max: u64) -> Result<Option<Made>, Fault> {
        let Some(batcher) = self.order.batcher.clone() else {
            let Some(item) = self.waiting.pop_front() else { return Ok(None) };
            let input = if is_passed_over { Payload::default() } else { self.select(item)? };
            self.next += 1;
            return self.bounded(Made { items: 1, input });
        };
        loop {
            if self.batch.has_all_items(&batcher) {
                return self.close(&batcher);
            }
            if self.spent >= spent_max {
                return Ok(None);
            }
            let Some(item) = self.waiting.pop_front() else {
                let is_last = self.are_all_here && !self.batch.items.is_empty();
                return if is_last { self.close(&batcher) } else { Ok(None) };
            };
            let input = self.select(item)?;
            self.next += 1;
            let made = if self.batch.has_room_for(&batcher, &input) { None } else { self.close(&batcher)? };
            self.batch.push(input);
            if made.is_some() {
                return Ok(made);
            }
        }
    }

    fn close(&mut self, batcher: &BatcherOrder) -> Result<Option<Made>, Fault> {
        let made = std::mem::take(&mut self.batch).close(batcher);
        self.bounded(made)
    }

    fn bounded(&self, made: Made) -> Result<Option<Made>, Fault> {
        let name = &self.machine.state(self.order.state).name;
        if made.input.depth() > DEPTH_MAX {
            let cause =
                format!("What a child of the Map '{name}' would receive nests more than {DEPTH_MAX} deep.");
            return Err(Fault::new(DATA_LIMIT_EXCEEDED, cause));
        }
        if made.input.len() <= self.input_bytes_max {
            return Ok(Some(made));
        }
        let (size, most) = (made.input.len(), self.input_bytes_max);
        let cause = format!(
            "A child of the Map '{name}' would receive {size} bytes, more than the {most} that are allowed: \
             select less of each item, or make smaller batches."
        );
        Err(Fault::new(DATA_LIMIT_EXCEEDED, cause))
    }

    fn selector(&self) -> Option<&Template> {
        match &self.machine.state(self.order.state).kind {
            Kind::Map(map) => map.selector.as_ref(),
            _ => None,
        }
    }

    /// The result of `ItemSelector` for an item.
    fn select(&mut self, item: Item) -> Result<Payload, Fault> {
        let Some(selector) = self.selector() else { return Ok(item.whole()) };
        let order = &self.order;
        let mut inner = Map::new();
        inner.insert("Index", self.next);
        if let Some(key) = item.key {
            inner.insert("Key", key);
        }
        inner.insert("Value", item.value);
        inner.insert("Source", self.source.clone());
        let mut context = order.context.as_object().cloned().expect("the context object is an object");
        context.insert("Map", [("Item", inner)].into_iter().collect::<Map>());
        let context = Value::from(context);
        let dice = order.dice(self.next);
        let scope = Scope {
            input: order.input.value(),
            context: &context,
            variables: &Variables { own: Some(&order.variables), outer: None },
            states: States { input: Some(order.input.value()), ..States::default() },
            dice: &dice,
        };
        let selected = selector.evaluate(&scope, "ItemSelector");
        self.spent = self.spent.saturating_add(dice.spent());
        selected.map(Payload::from).map_err(|failure| Fault::new(failure.error, failure.cause))
    }
}

impl Batch {
    fn has_all_items(&self, batcher: &BatcherOrder) -> bool {
        batcher.max_items.is_some_and(|most| self.items.len() as u64 >= most)
    }

    /// A batch has at least one item, whatever its size.
    fn has_room_for(&self, batcher: &BatcherOrder, item: &Payload) -> bool {
        let fits = batcher.max_bytes.is_none_or(|most| self.bytes + size(item) <= most);
        fits || self.items.is_empty()
    }

    fn push(&mut self, item: Payload) {
        self.bytes += size(&item);
        self.items.push(item);
    }

    fn close(self, batcher: &BatcherOrder) -> Made {
        let mut object = Map::new();
        if let Some(input) = &batcher.input {
            object.insert("BatchInput", input.value().clone());
        }
        object.insert("Items", self.items.iter().map(|item| item.value().clone()).collect::<Value>());
        Made { items: self.items.len() as u32, input: Value::from(object).into() }
    }
}

/// The size of an item in a list, with its comma.
fn size(item: &Payload) -> u64 {
    item.len() as u64 + 1
}
