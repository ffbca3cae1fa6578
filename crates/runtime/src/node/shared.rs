//! A child that another node holds: somebody else reserved its name first, for an id of another Shard.
//!
//! The step asks as a client would. A start under the name goes to the holder, which begins the execution or compares it;
//! that it has ended is seen in its row, which is looked at again and again.

use super::children::{ChildOrder, ParentStep};
use super::errands::{Absent, Hearing};
use super::{Errand, Node, ReplyTo};
use crate::message::{Reply, StartError, Started};
use crate::naming::Start;
use crate::peers;
use perdura_engine::nested::Asked;
use perdura_engine::{ExecutionId, Fault, Input};
use std::sync::{Arc, Mutex, PoisonError};

/// What came of a start, and for whom it was made.
type Letter = (Box<ChildOrder>, Result<Started, StartError>);

/// What other nodes answered to steps of this one.
#[derive(Clone, Default)]
pub(super) struct Mail(Arc<Mutex<Vec<Letter>>>);

impl Mail {
    fn push(&self, letter: Letter) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
    }

    fn take(&self) -> Vec<Letter> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Node {
    /// The name of a child is that of an execution of another node.
    pub(super) fn share_elsewhere(&mut self, order: Box<ChildOrder>, other: ExecutionId) {
        let (Ok(asked), Some(chosen)) = (&order.asked, &order.chosen) else { return };
        let start = Start {
            revision: chosen.definition.record.revision,
            name: asked.name.clone(),
            shares_name: false,
            input: asked.input.clone(),
            limits: asked.limits,
            arns: asked.arns.clone(),
            via: chosen.via_of(asked),
        };
        let mail = self.errands.mail.clone();
        let reply = Reply::new(move |told| mail.push((order, told)));
        self.stray(other, peers::Asked::Start { start: Box::new(start), reply, ending: None }, None);
    }

    /// Steps hear of the executions that they share with others.
    pub(super) fn read_mail(&mut self) {
        for (mut order, told) in self.errands.mail.take() {
            match told {
                Ok(started) if self.wants_child(&order.step) => {
                    let step = order.step;
                    let begun = step.wait.begun(&started.arn, started.at);
                    self.errands.push(step.clone().answer(begun));
                    if step.waits_for_the_end() {
                        let (step, child) = (Box::new(step), started.execution);
                        self.errands.push(Errand::AwaitEnd { step, child });
                    }
                }
                // It began for a step that was given up meanwhile.
                Ok(started) if started.fresh && order.step.waits_for_the_end() => {
                    let input = Input::Stop { fault: Fault::default() };
                    let (execution, reply) = (started.execution, ReplyTo::Nobody);
                    self.errands.push(Errand::Input { execution, input, reply });
                }
                Ok(_) => {}
                Err(StartError::Exists(_)) => {
                    let arn = order.arn();
                    self.refuse_child(&order, Asked::name_is_taken(&arn));
                }
                Err(
                    StartError::NoMachine
                    | StartError::TooMany(_)
                    | StartError::Paused
                    | StartError::Unavailable(_),
                ) => {
                    order.chosen = None;
                    self.errands.put_off(Errand::Child(order));
                }
            }
        }
    }

    /// A step waits for the end of an execution that another node holds. Whoever gives the step up finds it by that.
    pub(super) fn await_elsewhere(&mut self, step: Box<ParentStep>, child: ExecutionId, hearing: &Hearing) {
        self.watchers.push_step(child, (*step).clone());
        self.look_elsewhere(step, child, hearing);
    }

    /// Looks whether it has ended, for as long as the step waits.
    pub(super) fn look_elsewhere(&mut self, step: Box<ParentStep>, child: ExecutionId, hearing: &Hearing) {
        if !self.watchers.is_awaited(child, &step.key) {
            return;
        }
        match self.known(child, hearing) {
            Ok(Some(known)) if known.is_ended() => {
                self.watchers.drop_step(child, &step.key);
                self.await_child(*step, &known);
            }
            // Who has the name by now is looked up again: it may have been swept.
            Ok(None) => {
                self.watchers.drop_step(child, &step.key);
                self.errands.put_off(Errand::Await(step));
            }
            Err(Absent::Unread) => self.errands.wait_for(child, Errand::LookElsewhere { step, child }),
            // It runs: asleep, or in the memory of its holder.
            Ok(Some(_)) | Err(Absent::Not(_)) => self.errands.put_off(Errand::LookElsewhere { step, child }),
        }
    }
}
