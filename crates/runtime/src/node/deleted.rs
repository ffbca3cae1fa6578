//! Activities that were deleted. A task of one that was never made waits for its worker; one that was deleted has none.

use perdura_store::{Failure, Reader, Registry};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Their names, for deciding. The store has them too.
#[derive(Default)]
pub(super) struct Deleted(Mutex<BTreeSet<Arc<str>>>);

impl Deleted {
    /// As the store knows them. One that is there again was made by a process without a server.
    pub(super) fn read(reader: &mut dyn Reader) -> Result<Self, Failure> {
        let mut names = BTreeSet::new();
        for entry in reader.registered(Registry::DeletedActivity, None, u32::MAX)? {
            if reader.registered_one(Registry::Activity, &entry.name)?.is_none() {
                names.insert(entry.name);
            }
        }
        Ok(Self(Mutex::new(names)))
    }

    pub(super) fn mark(&self, name: Arc<str>, deleted: bool) {
        if deleted {
            self.names().insert(name);
        } else {
            self.names().remove(&name);
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names().contains(name)
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
