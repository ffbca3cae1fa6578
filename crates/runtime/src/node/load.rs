//! Waking up what sleeps, and setting aside what is broken.

use super::{Node, Queued, ReplyTo, Slot};
use crate::message::{InputError, Reply, Unavailable, View};
use crate::running::{Running, Unreadable, rebuild};
use perdura_engine::{ExecutionId, Input, Moment, Wake};
use perdura_store::{Recovered, Shard};
use std::sync::Arc;

impl Node {
    /// Makes sure that an execution is in memory.
    pub(super) fn awake(&mut self, id: ExecutionId, moment: &Moment) -> Result<(), InputError> {
        if self.slots.contains_key(&id) {
            return Ok(());
        }
        if !self.shards.contains(&Shard::of(id, self.shard_count)) {
            return Err(InputError::Unavailable(Unavailable::Elsewhere));
        }
        self.rebuilding.now = moment.now;
        let running = match self.stored(id)? {
            Ok(running) => running,
            Err(what) => {
                self.park_unreadable(id, what.clone());
                return Err(InputError::Parked(what));
            }
        };
        // Another process had it last: its clocks of silence start again, its calls are made again.
        let resumes = self.performs
            && !running.execution.is_ended()
            && running.execution.last_at() < self.opened_at
            && running.execution.calls().next().is_some();
        self.install(running);
        if resumes {
            let slot = self.slots.get_mut(&id).expect("it was just installed");
            match slot.child {
                Some(child) if !self.map_runs.has(child) => self.await_run(id, child),
                _ => slot.inbox.push_back(Queued { input: Input::Resume, reply: ReplyTo::Nobody }),
            }
        }
        Ok(())
    }

    /// An execution as its row has it; the inner error says why it cannot be read.
    pub(super) fn stored(&mut self, id: ExecutionId) -> Result<Result<Running, Arc<str>>, InputError> {
        let unavailable = |failure: perdura_store::Failure| {
            InputError::Unavailable(Unavailable::Store(failure.to_string().into()))
        };
        let Some((row, unsegmented_from)) = self.reader.row(id).map_err(unavailable)? else {
            return Err(InputError::Unknown);
        };
        // It is in some node's memory, and this is not the one: what the row holds is not all.
        if row.awake {
            return Err(InputError::Unavailable(Unavailable::Elsewhere));
        }
        let stored = Recovered { execution: id, row: Some(row), unsegmented_from, turns: Vec::new() };
        let rebuilt = rebuild(stored, &mut self.library, &mut *self.reader, &self.rebuilding);
        match rebuilt {
            Ok(running) => Ok(Ok(running)),
            Err(Unreadable::Damaged(damage)) => Ok(Err(damage.0.into())),
            Err(Unreadable::Unavailable(failure)) => Err(unavailable(failure)),
        }
    }

    /// Gives a rebuilt execution its place.
    pub(super) fn install(&mut self, running: Running) {
        let id = running.id();
        if running.named {
            self.names.insert((running.machine, running.execution.identity().name.clone()), id);
        }
        let wake = running.execution.next_wake();
        self.timers.replace(id, Wake::default(), wake);
        let child = running.child;
        self.slots.insert(id, Slot { running: Some(Box::new(running)), child, wake, ..Slot::default() });
    }

    /// Sets one execution aside; the others go on.
    pub(super) fn park(&mut self, id: ExecutionId, reason: Arc<str>) {
        tracing::error!(execution = %id, %reason, "parked");
        let Some(slot) = self.slots.get_mut(&id) else { return };
        for queued in slot.inbox.drain(..) {
            queued.reply.refuse(InputError::Parked(reason.clone()));
        }
        for show in slot.shows.drain(..) {
            show.send(None);
        }
        let wake = std::mem::take(&mut slot.wake);
        for watcher in self.watchers.remove(&id).into_iter().flatten() {
            watcher.send(Err(InputError::Parked(reason.clone())));
        }
        slot.parked = Some(reason);
        self.parked += 1;
        self.timers.replace(id, wake, Wake::default());
        // The journal must not keep rows for the sake of one that does not move.
        self.stale.push(id);
    }

    /// One that has not begun is gone, and its name is free.
    pub(super) fn forget(&mut self, id: ExecutionId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.parked -= usize::from(slot.parked.is_some());
        self.stale.retain(|stale| *stale != id);
        if let Some(running) = slot.running.filter(|running| running.named) {
            self.names.remove(&(running.machine, running.execution.identity().name.clone()));
        }
    }

    /// What is stored of it cannot be read.
    pub(super) fn park_unreadable(&mut self, id: ExecutionId, what: Arc<str>) {
        self.slots.insert(id, Slot::default());
        self.park(id, what);
    }

    pub(super) fn show(&mut self, id: ExecutionId, reply: Reply<Option<Box<View>>>) {
        match self.slots.get_mut(&id) {
            None => reply.send(None),
            // What nobody has on disk yet is not shown: a start under the same name waits for the first one's commit.
            Some(slot) => match slot.view().filter(|view| view.turns > 0 || view.parked.is_some()) {
                Some(view) => reply.send(Some(Box::new(view))),
                None if slot.parked.is_some() => reply.send(None),
                None => slot.shows.push(reply),
            },
        }
    }
}

impl Slot {
    /// As it was last committed; `None` while a commit is under way.
    pub(super) fn view(&self) -> Option<View> {
        let running = self.running.as_ref()?;
        Some(View {
            execution: running.execution.clone(),
            turns: running.turns,
            live: self.live.iter().map(|(_, key)| key.clone()).collect(),
            wake: self.wake,
            parked: self.parked.clone(),
        })
    }
}
