//! A test of one state, run by the same code as in an execution.
//!
//! A trial gives the state its context object, and records the values between its stages and the handler of its error.
//! Executions have none: then nothing is recorded, and no value is copied.

use crate::event::Fault;
use perdura_asl::json::{Map, Payload, Value};
use perdura_asl::scope::Context;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// How many items of a Map are built as inputs of children: each may take an expression's worth of work.
pub(crate) const ITEMS_MAX: usize = 1_000;

/// The context of a state, and the recorded values.
pub(crate) struct Trial {
    /// `$$`
    pub(crate) context: Map,
    /// How often the retrier that matches an error has retried already, whichever it is.
    pub(crate) retries: Option<u64>,
    seen: RefCell<BTreeMap<Stage, Payload>>,
    handled: RefCell<Option<Handled>>,
    exhausted: Cell<Option<u32>>,
}

/// A point in a state with a value to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The value after `InputPath`.
    InputPath,
    /// The value after `Parameters` or `Arguments`, which is sent.
    Arguments,
    /// The task's result, or a Pass state's `Result`.
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

/// An error that Retry or Catch handled.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) fault: Fault,
    pub(crate) by: Handler,
}

/// The handler.
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

    /// The value at this stage, if the state came this far.
    pub(crate) fn at(&self, stage: Stage) -> Option<Payload> {
        self.seen.borrow().get(&stage).cloned()
    }

    pub(crate) fn handle(&self, fault: &Fault, by: Handler) {
        *self.handled.borrow_mut() = Some(Handled { fault: fault.clone(), by });
    }

    /// This retrier matched the error, and has no retries left.
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

/// A given context object, with values that only an execution knows.
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
