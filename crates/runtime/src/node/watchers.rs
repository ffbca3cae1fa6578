//! Who waits for the end of which execution, and which executions a tree is made of.
//!
//! A step that waits for its child is found by the child, to be told of its end, and by its execution: whoever stops a
//! tree has to reach all of it at once.

use super::children::ParentStep;
use super::{ById, InputError, Reply};
use crate::message::Ending;
use perdura_engine::{EffectKey, ExecutionId};
use std::collections::BTreeSet;
use uuid::Uuid;

/// One to tell when an execution has ended.
pub(super) enum Watcher {
    /// A caller of the API or the library.
    Reply(Reply<Result<Ending, InputError>>),
    /// A step of another execution here.
    Step(ParentStep),
}

impl Watcher {
    fn is_wanted(&self) -> bool {
        match self {
            Self::Reply(reply) => reply.is_wanted(),
            Self::Step(_) => true,
        }
    }

    fn step(&self) -> Option<&ParentStep> {
        match self {
            Self::Reply(_) => None,
            Self::Step(step) => Some(step),
        }
    }

    fn is_step(&self, key: &EffectKey) -> bool {
        self.step().is_some_and(|step| step.key == *key)
    }

    /// Its end cannot be waited for here any more. A step is told when it is resumed.
    pub(super) fn refuse(self, error: InputError) {
        match self {
            Self::Reply(reply) => reply.send(Err(error)),
            Self::Step(_) => {}
        }
    }
}

/// All who wait for an end.
#[derive(Default)]
pub(super) struct Watchers {
    of: ById<Vec<Watcher>>,
    /// Parents that wait, each with its child.
    families: BTreeSet<(ExecutionId, ExecutionId)>,
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    pub(super) fn has(&self, execution: ExecutionId) -> bool {
        self.of.contains_key(&execution)
    }

    pub(super) fn push(&mut self, execution: ExecutionId, watcher: Watcher) {
        self.families.extend(watcher.step().map(|step| (step.execution, execution)));
        self.of.entry(execution).or_default().push(watcher);
    }

    /// A step waits for its child, and is told once.
    pub(super) fn push_step(&mut self, child: ExecutionId, step: ParentStep) {
        let is_there =
            self.of.get(&child).is_some_and(|known| known.iter().any(|one| one.is_step(&step.key)));
        if !is_there {
            self.push(child, Watcher::Step(step));
        }
    }

    /// Takes out everybody who waits for this execution to end.
    pub(super) fn take(&mut self, execution: ExecutionId) -> Vec<Watcher> {
        let taken = self.of.remove(&execution).unwrap_or_default();
        for step in taken.iter().filter_map(Watcher::step) {
            self.families.remove(&(step.execution, execution));
        }
        taken
    }

    /// The steps that are meant do not wait for this child any more.
    fn drop_steps(&mut self, child: ExecutionId, is_meant: impl Fn(&ParentStep) -> bool) {
        for watcher in self.take(child) {
            if !watcher.step().is_some_and(&is_meant) {
                self.push(child, watcher);
            }
        }
    }

    /// This step does not wait for its child any more.
    pub(super) fn drop_step(&mut self, child: ExecutionId, key: &EffectKey) {
        self.drop_steps(child, |step| step.key == *key);
    }

    /// Whether this step waits for this execution.
    pub(super) fn is_awaited(&self, child: ExecutionId, key: &EffectKey) -> bool {
        self.of.get(&child).is_some_and(|watchers| watchers.iter().any(|watcher| watcher.is_step(key)))
    }

    /// The execution that this step waits for.
    pub(super) fn awaited_by(&self, key: &EffectKey) -> Option<ExecutionId> {
        let waits = |watchers: &[Watcher]| watchers.iter().any(|watcher| watcher.is_step(key));
        self.of.iter().find(|(_, watchers)| waits(watchers)).map(|(id, _)| *id)
    }

    /// The children that an execution waits for; it does so no more.
    pub(super) fn take_children(&mut self, parent: ExecutionId) -> Vec<ExecutionId> {
        let first = ExecutionId::from_uuid(Uuid::nil());
        let family = self.families.range((parent, first)..).take_while(|(of, _)| *of == parent);
        let children: Vec<ExecutionId> = family.map(|(_, child)| *child).collect();
        for child in &children {
            self.drop_steps(*child, |step| step.execution == parent);
        }
        children
    }

    /// Forgets callers that have hung up.
    pub(super) fn forget_the_gone(&mut self) {
        self.of.retain(|_, watchers| {
            watchers.retain(Watcher::is_wanted);
            !watchers.is_empty()
        });
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = Watcher> {
        self.of.into_values().flatten()
    }
}
