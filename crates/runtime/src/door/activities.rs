//! The registry of activities: creating and deleting them within the quota.
//!
//! A deleted activity is remembered under a kind of its own, so that tasks for it fail and do not wait for a worker that cannot
//! come. The node is told of both, because it decides about such tasks.

use super::Door;
use crate::message::Message;
use perdura_store::{CommitError, Failure, Registered, Registry};
use std::sync::MutexGuard;

/// The registered activities, locked for a change. Each method waits for the disk.
pub struct Activities<'a> {
    pub(super) door: &'a Door,
    /// The number of activities, once they were counted.
    pub(super) count: MutexGuard<'a, Option<usize>>,
}

impl Activities<'_> {
    /// One of them, as it is kept.
    pub fn find(&self, name: &str) -> Result<Option<Registered>, Failure> {
        self.door.read(|reader| reader.registered_one(Registry::Activity, name))
    }

    /// Keeps one; `false`: it would be new, and there are as many as there may be.
    pub fn put(&mut self, entry: &Registered, most: usize) -> Result<bool, CommitError> {
        if self.find(&entry.name)?.is_some() {
            self.door.register(entry)?;
            return Ok(true);
        }
        let known = match *self.count {
            Some(known) => known,
            None => self.door.read(|reader| reader.registered(Registry::Activity, None, u32::MAX))?.len(),
        };
        *self.count = Some(known);
        if known >= most {
            return Ok(false);
        }
        self.door.register(entry)?;
        *self.count = Some(known + 1);
        let was_deleted =
            self.door.read(|reader| reader.registered_one(Registry::DeletedActivity, &entry.name))?.is_some();
        if was_deleted && self.door.unregister(Registry::DeletedActivity, &entry.name)? {
            self.door.send(Message::Activity { name: entry.name.clone(), deleted: false });
        }
        Ok(true)
    }

    /// Deletes one; what is not there is gone. That it was there is kept: its tasks fail from now on.
    pub fn remove(&mut self, name: &str) -> Result<(), CommitError> {
        let Some(known) = self.find(name)? else { return Ok(()) };
        let name = known.name.clone();
        self.door.register(&Registered { kind: Registry::DeletedActivity, body: Vec::new(), ..known })?;
        let was_there = self.door.unregister(Registry::Activity, &name)?;
        *self.count = self.count.map(|count| count.saturating_sub(usize::from(was_there)));
        self.door.send(Message::Activity { name, deleted: true });
        Ok(())
    }
}
