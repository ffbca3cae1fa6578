//! Activities: tasks that wait for a worker, and workers that wait for a task.
//!
//! A task in a queue is a few names, not an execution: that one sleeps until a worker takes the task. A worker gets
//! it after it is on record that they did, so that no restart can give it to a second one. Queues are not durable;
//! a new process fills them from the executions that wait.

use super::{Errand, Node, ReplyTo};
use crate::message::{ActivityTask, Reply, Unavailable};
use perdura_engine::asl::resource::Target;
use perdura_engine::{By, Call, EffectKey, Execution, ExecutionId, Input, StrandId, TaskToken};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// All queues.
#[derive(Default)]
pub(super) struct Activities {
    queues: BTreeMap<Arc<str>, Queue>,
    /// Where each task stands: in which queue, at which number.
    places: BTreeMap<(ExecutionId, StrandId), (Arc<str>, u64)>,
    last: u64,
}

#[derive(Default)]
struct Queue {
    tasks: BTreeMap<u64, Task>,
    pollers: VecDeque<Poller>,
}

/// A task that waits.
#[derive(Clone)]
struct Task {
    token: TaskToken,
    key: EffectKey,
    /// It is on record that a worker took it, but that one was gone before it arrived: the next gets it as it is.
    taken: Option<ActivityTask>,
}

/// A worker that waits.
pub(super) struct Poller {
    worker: Option<Arc<str>>,
    reply: Reply<Result<ActivityTask, Unavailable>>,
}

/// A task on its way to a worker.
pub(super) struct Handing {
    activity: Arc<str>,
    task: Task,
    poller: Poller,
}

impl Handing {
    /// It cannot be handed over now, and the worker should ask again.
    pub(super) fn refuse(self, why: Unavailable) {
        self.poller.reply.send(Err(why));
    }
}

impl Activities {
    /// Whether a worker waits for such a task.
    pub(super) fn has_poller(&self, call: &Call) -> bool {
        let Target::Activity { name } = &call.resource.target else { return false };
        self.queues.get(name).is_some_and(|queue| !queue.pollers.is_empty())
    }

    fn put(&mut self, activity: &Arc<str>, task: Task) {
        let place = (task.token.execution, task.token.strand);
        self.remove(place, None);
        self.last += 1;
        self.places.insert(place, (activity.clone(), self.last));
        self.queues.entry(activity.clone()).or_default().tasks.insert(self.last, task);
    }

    /// Takes a task out, of this key where one is given.
    pub(super) fn remove(&mut self, place: (ExecutionId, StrandId), key: Option<&EffectKey>) -> bool {
        let Some((activity, number)) = self.places.get(&place).cloned() else { return false };
        let Some(queue) = self.queues.get_mut(&activity) else { return false };
        if key.is_some_and(|key| queue.tasks.get(&number).is_none_or(|task| task.key != *key)) {
            return false;
        }
        self.places.remove(&place);
        queue.tasks.remove(&number);
        self.forget_empty(&activity);
        true
    }

    fn forget_empty(&mut self, activity: &Arc<str>) {
        if self.queues.get(activity).is_some_and(|queue| queue.tasks.is_empty() && queue.pollers.is_empty()) {
            self.queues.remove(activity);
        }
    }

    /// The next task with the next worker that still waits.
    fn next_pair(&mut self, activity: &Arc<str>) -> Option<(Task, Poller)> {
        let queue = self.queues.get_mut(activity)?;
        while queue.pollers.front().is_some_and(|poller| !poller.reply.is_wanted()) {
            queue.pollers.pop_front();
        }
        let pair = (!queue.pollers.is_empty()).then(|| queue.tasks.pop_first()).flatten();
        let pair = pair.and_then(|(_, task)| Some((task, queue.pollers.pop_front()?)));
        if let Some((task, _)) = &pair {
            self.places.remove(&(task.token.execution, task.token.strand));
        }
        self.forget_empty(activity);
        pair
    }

    /// Workers that have gone away are forgotten.
    pub(super) fn forget_the_gone(&mut self) {
        self.queues.retain(|_, queue| {
            queue.pollers.retain(|poller| poller.reply.is_wanted());
            !queue.tasks.is_empty() || !queue.pollers.is_empty()
        });
    }

    /// How many tasks and how many workers wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.places.len(), self.queues.values().map(|queue| queue.pollers.len()).sum())
    }

    /// The node goes down: workers are told.
    pub(super) fn abandon(self, why: &Unavailable) {
        for poller in self.queues.into_values().flat_map(|queue| queue.pollers) {
            poller.reply.send(Err(why.clone()));
        }
    }
}

impl Node {
    /// A task waits for a worker from now on.
    pub(super) fn queue_task(&mut self, call: &Call) {
        let (Target::Activity { name }, Some(token)) = (&call.resource.target, call.token) else { return };
        self.activities.put(name, Task { token, key: call.key.clone(), taken: None });
        self.hand_out(&name.clone());
    }

    /// A worker waits for a task from now on.
    pub(super) fn poll(
        &mut self,
        activity: &Arc<str>,
        worker: Option<Arc<str>>,
        reply: Reply<Result<ActivityTask, Unavailable>>,
    ) {
        let poller = Poller { worker, reply };
        self.activities.queues.entry(activity.clone()).or_default().pollers.push_back(poller);
        self.hand_out(activity);
    }

    /// Brings workers and tasks together.
    fn hand_out(&mut self, activity: &Arc<str>) {
        while let Some((task, poller)) = self.activities.next_pair(activity) {
            if let Some(taken) = task.taken {
                poller.reply.send(Ok(taken));
                continue;
            }
            let (execution, worker) = (task.token.execution, poller.worker.clone());
            let input = Input::TaskStarted { by: By::Token(task.token), worker };
            let handing = Handing { activity: activity.clone(), task, poller };
            self.errands.push(Errand::Input { execution, input, reply: ReplyTo::Worker(Box::new(handing)) });
        }
    }

    /// It is on record that a worker took a task, or that there was nothing to take.
    pub(super) fn handed_over(&mut self, handing: Handing, execution: &Execution, ignored: bool) {
        let Handing { activity, task, poller } = handing;
        let sent = execution.awaited(&task.token).filter(|_| !ignored);
        let Some(sent) = sent else { return self.back_to_waiting(&activity, poller) };
        let handed = ActivityTask { token: task.token, key: task.key.clone(), input: sent.input.clone() };
        if poller.reply.is_wanted() {
            return poller.reply.send(Ok(handed));
        }
        self.activities.put(&activity, Task { taken: Some(handed), ..task });
        self.hand_out(&activity);
    }

    /// Its task was taken back: the worker is the next to get one.
    fn back_to_waiting(&mut self, activity: &Arc<str>, poller: Poller) {
        self.activities.queues.entry(activity.clone()).or_default().pollers.push_front(poller);
        self.hand_out(activity);
    }

    /// An execution cannot be reached, or has ended: its worker gets another task.
    pub(super) fn not_handed_over(&mut self, handing: Handing) {
        let Handing { activity, poller, .. } = handing;
        self.back_to_waiting(&activity, poller);
    }
}
