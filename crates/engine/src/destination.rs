//! Policies of receivers. They are beside definitions, never in them.
//!
//! Only deciding reads them; its results are recorded, so a changed policy changes nothing of the past.

use crate::effect::Call;
use crate::id::{ExecutionId, Timestamp};
use crate::identity::Identity;
use crate::strand::Sent;
use perdura_asl::json::Payload;
use perdura_asl::resource::{Resource, Target};
use std::fmt;
use std::sync::Arc;

/// The destinations of an execution, and their policies.
pub trait Destinations: Send + Sync {
    /// The policy for one call.
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy;

    /// Whether somebody outside answers this call, although a node would handle it: a task for a worker, a child. Mocks
    /// do.
    fn stands_in(&self, _: &Identity, _: &Call) -> bool {
        false
    }

    /// Whether an activity was deleted, so that no worker will ask for its tasks.
    fn is_deleted(&self, _activity: &str) -> bool {
        false
    }

    /// Whether this process makes the calls of an execution that existed before it. Those of others stay unchanged.
    fn performs_for(&self, _: ExecutionId) -> bool {
        true
    }

    /// When all of this was restored from a backup. The outcome of calls that were under way then is unknown, so they
    /// are held.
    fn restored_at(&self) -> Option<Timestamp> {
        None
    }
}

/// The policy of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What to do about an unknown outcome.
    pub uncertain: Uncertain,
    /// How long the receiver remembers a key, in milliseconds. A call is not repeated later than that.
    pub key_memory_ms: i64,
    /// Names of errors by which the receiver refuses: certainly nothing was done. An error with any other name may come
    /// after the effect.
    pub refused: Arc<[Arc<str>]>,
}

impl Default for Policy {
    /// Repeated under the same key, within a day; no error is a refusal.
    fn default() -> Self {
        Self { uncertain: Uncertain::Retry, key_memory_ms: 24 * 60 * 60 * 1000, refused: Arc::default() }
    }
}

impl Policy {
    /// Whether an error with this name says that certainly nothing was done.
    pub fn refuses(&self, error: Option<&str>) -> bool {
        error.is_some_and(|error| self.refused.iter().any(|name| **name == *error))
    }

    /// Whether the receiver recognises its keys, so that its refusal of one covers all calls under it.
    pub(crate) fn honours_keys(&self) -> bool {
        self.uncertain == Uncertain::Retry
    }
}

/// What to do about an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncertain {
    /// The step failed; Retry repeats it under the same key, and a new process does so too.
    Retry,
    /// The step is held until a person or a late answer says how it went.
    Hold,
}

/// The policies of an execution; `None`: the default for all.
#[derive(Clone, Default)]
pub(crate) struct Policies(pub(crate) Option<Arc<dyn Destinations>>);

impl Policies {
    /// The policy for a call that was first sent then.
    pub(crate) fn policy(&self, resource: &Resource, sent: &Sent) -> Policy {
        let Some(known) = &self.0 else { return Policy::default() };
        let mut policy = known.policy(resource, &sent.input);
        if self.is_restored(sent) {
            policy.uncertain = Uncertain::Hold;
        }
        policy
    }

    /// Whether the resource is an activity that was deleted.
    pub(crate) fn is_deleted(&self, resource: &Resource) -> bool {
        match (&self.0, &resource.target) {
            (Some(known), Target::Activity { name }) => known.is_deleted(name),
            (None, Target::Activity { .. })
            | (_, Target::Function { .. } | Target::Service { .. } | Target::Step { .. }) => false,
        }
    }

    /// Whether a call was first sent before the backup that this was restored from.
    pub(crate) fn is_restored(&self, sent: &Sent) -> bool {
        let restored_at = self.0.as_ref().and_then(|known| known.restored_at());
        restored_at.is_some_and(|at| sent.at < at)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "destinations" } else { "no destinations" })
    }
}
