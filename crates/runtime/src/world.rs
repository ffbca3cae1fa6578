//! The door to the world: time, chance, and everything that is done outside.

use crate::core::Event;
use crate::items::{ReadOrder, WriteOrder};
use crate::message::Message;
use perdura_engine::{
    By, Call, Certainty, Destinations, EffectKey, ExecutionId, Fault, Moment, Outcome, Status, StrandId,
};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Where time and chance come from, and where effects go. It has a real side and a simulated one.
pub trait World: Send + Sync + 'static {
    /// Now, on both clocks, and fresh entropy.
    fn moment(&self) -> Moment;

    /// Performs a call. It returns at once; the outcome comes by the order's [`Answer`].
    fn perform(&self, order: Order);

    /// Nobody waits for this call any more: what can be stopped should be.
    fn cancel(&self, execution: ExecutionId, strand: StrandId, key: &EffectKey);

    /// Reads the items of a Map Run. It returns at once; the items come by the order's feed.
    fn read(&self, order: ReadOrder);

    /// Writes the results of a Map Run. It returns at once.
    fn write(&self, order: WriteOrder);

    /// An execution ended. It returns at once.
    fn publish(&self, execution: ExecutionId, status: Status);

    /// The policies of those who are called.
    fn destinations(&self) -> Arc<dyn Destinations>;
}

/// A call to make: its Turn is on disk.
#[derive(Debug)]
pub struct Order {
    /// What to call, with what, under which key.
    pub call: Call,
    /// Where the outcome goes.
    pub answer: Answer,
}

/// The way back for one outcome. Dropped without one, it says that nobody knows what came of the call.
#[derive(Debug)]
pub struct Answer {
    execution: ExecutionId,
    by: By,
    to: Option<Sender<Event>>,
}

impl Answer {
    /// To the driver that has the other end.
    pub fn new(execution: ExecutionId, call: &Call, to: Sender<Event>) -> Self {
        Self { execution, by: call.by(), to: Some(to) }
    }

    /// The execution that waits.
    pub fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// Hands over what came of it.
    pub fn send(mut self, outcome: Outcome) {
        self.deliver(outcome);
    }

    /// The call was cancelled: nothing of it is to arrive. A retry may have the same key, and must not be given what
    /// came of an attempt that was called off.
    pub fn withdraw(mut self) {
        self.to = None;
    }

    fn deliver(&mut self, outcome: Outcome) {
        let Some(to) = self.to.take() else { return };
        let by = self.by.clone();
        // Nobody is there any more: the process ends, and the call is made again under its key.
        let _ = to.send(Event::Message(Message::Answer { execution: self.execution, by, outcome }));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let fault = Fault::new("States.TaskFailed", "The step ended without an answer.");
        self.deliver(Outcome::Failed { fault, certainty: Certainty::Ambiguous });
    }
}
