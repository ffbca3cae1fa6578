//! Policies of those who are called, with what the data itself says of them.

use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::Resource;
use perdura_engine::{Call, Destinations, ExecutionId, Identity, Policy, Timestamp};
use perdura_store::{Failure, Reader, Registry};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Destinations as they are on this data.
pub(super) struct Here {
    inner: Arc<dyn Destinations>,
    /// Activities that were deleted. A task of one that was never made waits for its worker; one that was deleted has none.
    deleted: Mutex<BTreeSet<Arc<str>>>,
    restored_at: Option<Timestamp>,
}

impl Here {
    /// As the store knows them. A deleted activity that is there again was made by a process without a server.
    pub(super) fn read(
        inner: Arc<dyn Destinations>,
        restored_at: Option<Timestamp>,
        reader: &mut dyn Reader,
    ) -> Result<Self, Failure> {
        let mut deleted = BTreeSet::new();
        for entry in reader.registered(Registry::DeletedActivity, None, u32::MAX)? {
            if reader.registered_one(Registry::Activity, &entry.name)?.is_none() {
                deleted.insert(entry.name);
            }
        }
        Ok(Self { inner, deleted: Mutex::new(deleted), restored_at })
    }

    /// An activity was deleted, or made again.
    pub(super) fn mark(&self, activity: Arc<str>, is_deleted: bool) {
        if is_deleted {
            self.deleted().insert(activity);
        } else {
            self.deleted().remove(&activity);
        }
    }

    fn deleted(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Destinations for Here {
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy {
        self.inner.policy(resource, input)
    }

    fn stands_in(&self, identity: &Identity, call: &Call) -> bool {
        self.inner.stands_in(identity, call)
    }

    fn is_deleted(&self, activity: &str) -> bool {
        self.deleted().contains(activity)
    }

    fn performs_for(&self, execution: ExecutionId) -> bool {
        self.inner.performs_for(execution)
    }

    fn restored_at(&self) -> Option<Timestamp> {
        self.restored_at
    }
}
