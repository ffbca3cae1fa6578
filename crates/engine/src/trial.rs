//! One state tried alone, by the same lines that decide in an execution.
//!
//! A trial gives the state its context object, and takes note of the values between its stages and of the handler
//! that took its error. Executions have none: then nothing is noted, and nothing is copied for noting it.

use crate::event::Fault;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::scope::Context;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// How many items of a Map are made as its children would receive them: each may be an expression's worth of work.
pub(crate) const ITEMS_MAX: usize = 1_000;

/// What a state is given, and what was seen of it.
pub(crate) struct Trial {
    /// `$$`
    pub(crate) context: Map,
    /// How often the retrier that takes an error has taken it already, whichever that is.
    pub(crate) retries: Option<u64>,
    seen: RefCell<BTreeMap<Stage, Payload>>,
    handled: RefCell<Option<Handled>>,
    exhausted: Cell<Option<u32>>,
}

/// A point in a state at which there is a value to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// After `InputPath`.
    InputPath,
    /// After `Parameters` or `Arguments`: what is sent.
    Arguments,
    /// What came back, or a Pass state's `Result`.
    Result,
    /// After `ResultSelector`.
    ResultSelector,
    /// After `ResultPath`.
    ResultPath,
    /// The items of a Map.
    Items,
    /// The items of an inline Map as `ItemSelector` makes them.
    Selected,
    /// `MaxConcurrency` of an inline Map.
    MaxConcurrency,
}

/// An error that Retry or Catch took.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) fault: Fault,
    pub(crate) by: Handler,
}

/// Who took it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    Retrier { at: u32, delay_ms: i64 },
    Catcher { at: usize },
}

impl Trial {
    pub(crate) fn new(context: Map, retries: Option<u64>) -> Self {
        let (seen, handled) = (RefCell::default(), RefCell::default());
        Self { context, retries, seen, handled, exhausted: Cell::new(None) }
    }

    pub(crate) fn see(&self, stage: Stage, value: Payload) {
        self.seen.borrow_mut().insert(stage, value);
    }

    /// The value at this stage, if the state came so far.
    pub(crate) fn at(&self, stage: Stage) -> Option<Payload> {
        self.seen.borrow().get(&stage).cloned()
    }

    pub(crate) fn handle(&self, fault: &Fault, by: Handler) {
        *self.handled.borrow_mut() = Some(Handled { fault: fault.clone(), by });
    }

    /// This retrier matched the error, and has taken it as often as it may.
    pub(crate) fn exhaust(&self, at: u32) {
        self.exhausted.set(Some(at));
    }

    pub(crate) fn exhausted(&self) -> Option<u32> {
        self.exhausted.get()
    }

    pub(crate) fn handled(&self) -> Option<Handled> {
        self.handled.borrow().clone()
    }
}

/// A context object that was given, with what only an execution knows of the step.
pub(crate) struct GivenContext<'a> {
    pub(crate) whole: Value,
    pub(crate) step: &'a dyn Context,
}

impl Context for GivenContext<'_> {
    fn whole(&self) -> Value {
        self.whole.clone()
    }

    fn hidden(&self, names: &[&str]) -> Option<Value> {
        self.step.hidden(names)
    }
}
