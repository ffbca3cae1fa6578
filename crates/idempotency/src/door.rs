//! The state that all requests share: the store, the secrets, hooks and observers, and the count of running operations.

use crate::budget::{Exceeded, Spending};
use crate::key::Forms;
use crate::layer::Redact;
use crate::locals::Carry;
use crate::observe::{FoundBy, Happening, Observer, What};
use crate::policy::{Mode, Policy};
use crate::problem::{Problem, Profile, Reason};
use crate::record::{Keep, OperationId, ScopeTag};
use crate::route::{NO_TEMPLATE, Route};
use crate::routes::Table;
use crate::scope::{Audit, Authorise, ScopeOf};
use crate::store::{Store, StoreError};
use crate::vault::Vault;
use http::{HeaderName, Method};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// The most records of one sweep, so that it delays nobody.
const SWEEP_AT_ONCE: u32 = 1_000;
/// `Retry-After` while the store is down.
pub(crate) const STORE_BACK_AFTER: Duration = Duration::from_secs(2);

pub(crate) struct Door {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) vault: Vault,
    pub(crate) scope_of: ScopeOf,
    /// Callers are not authenticated, on purpose.
    pub(crate) is_anonymous: bool,
    /// Every declared route, for the published policy.
    pub(crate) declared: Mutex<Table>,
    /// How long routes without a declaration keep records.
    pub(crate) undeclared_keep: Keep,
    pub(crate) authorise: Option<Arc<dyn Authorise>>,
    pub(crate) audit: Option<Arc<dyn Audit>>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) profile: Profile,
    /// The path of the callers' view of their operations, if it is set.
    pub(crate) operations_at: Option<String>,
    /// Which keys are accepted.
    pub(crate) keys: Forms,
    /// The task-locals that handlers are given.
    pub(crate) carried: Vec<Carry>,
    pub(crate) refuse_stale_keys: bool,
    pub(crate) spending: Spending,
    pub(crate) retained_headers: Vec<HeaderName>,
    pub(crate) redact: Option<Redact>,
    pub(crate) waiting: Places,
    pub(crate) running: Running,
}

impl Door {
    /// Records the routes that the layer protects.
    pub(crate) fn guards(&self, table: &Table) {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).0.extend(table.0.clone());
    }

    /// The protected routes with a path, for the self-test.
    pub(crate) fn guarded(&self) -> Vec<(Method, String)> {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let protected = declared.0.iter().filter(|((template, _), policy)| {
            !matches!(policy.mode, Mode::Exempt) && template != NO_TEMPLATE
        });
        protected
            .map(|((template, method), _)| {
                (Method::from_bytes(method.as_bytes()).expect("it was a method"), template.clone())
            })
            .collect()
    }

    pub(crate) fn tell(&self, route: &Route, operation: Option<OperationId>, what: What) {
        self.tell_all(&Happening { route: route.label.clone(), operation, what });
    }

    /// A record does not contain its route, so a decision without a request keeps it for as long as any route keeps.
    pub(crate) fn longest_keep(&self) -> Keep {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let least = Policy::default().keep.longest(self.undeclared_keep);
        declared.0.values().fold(least, |longest, policy| longest.longest(policy.keep))
    }

    /// Reports an expired lease, also in the log: a person must find out what was done. The route may be empty.
    pub(crate) fn tell_lapsed(&self, route: Arc<str>, operation: OperationId, by: FoundBy) {
        tracing::warn!(%operation, route = &*route, "a lease ran out: what came of the operation is unknown");
        self.tell_all(&Happening { route, operation: Some(operation), what: What::Lapsed { by } });
    }

    /// Calls each observer. A panic is logged, and does not affect the operation.
    fn tell_all(&self, happening: &Happening) {
        for observer in &self.observers {
            if catch_unwind(AssertUnwindSafe(|| observer.happened(happening))).is_err() {
                tracing::error!(what = ?happening.what, "an observer panicked");
            }
        }
    }
}

/// The caller's problem when the store did not answer.
pub(crate) fn store_problem(error: &StoreError) -> Problem {
    match error {
        StoreError::Unavailable(_)
        | StoreError::Unfit(_)
        | StoreError::Detached(_)
        | StoreError::Refused(_)
        | StoreError::Undone(_) => {
            tracing::error!(%error, "idempotency");
            Problem::new(Reason::StoreUnavailable).retry_after(STORE_BACK_AFTER)
        }
        StoreError::Corrupt { operation, .. } => {
            tracing::error!(%error, "idempotency");
            Problem::new(Reason::RecordDamaged).about(*operation)
        }
    }
}

/// The caller's problem when a budget is used up.
pub(crate) fn budget_problem(exceeded: &Exceeded, operation: OperationId) -> Problem {
    let Exceeded { what, limit, window, .. } = exceeded;
    let time = match window {
        Some(window) => format!("in {} s", window.as_secs()),
        None => "at a time".to_owned(),
    };
    let detail = format!("Too many {what}: one caller may have {limit} {time} on one instance");
    Problem::new(Reason::TooMany).about(operation).detail(detail).retry_after(exceeded.retry_after)
}

/// Sweeps expired records and expired leases repeatedly, for as long as the layer exists.
pub(crate) async fn sweep(door: Weak<Door>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(door) = door.upgrade() else { return };
        let tell = |what| door.tell_all(&Happening { route: "".into(), operation: None, what });
        tell(What::Sweeping);
        loop {
            match door.store.sweep(SWEEP_AT_ONCE, door.longest_keep()).await {
                Ok(swept) => {
                    for operation in &swept.lapsed {
                        door.tell_lapsed("".into(), *operation, FoundBy::Sweep);
                    }
                    let is_all = swept.count() < u64::from(SWEEP_AT_ONCE);
                    tell(What::Swept(swept));
                    if is_all {
                        break;
                    }
                    // A store that answers at once would not yield the thread.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "what expired could not be removed; it is tried again");
                    break;
                }
            }
        }
    }
}

/// A caller may take this many times as many places as it leaves free.
const GREED: usize = 4;

/// Places to wait in: so many for one operation, so many in all. However many greedy callers there are, the next one
/// finds a place: each can take only a share of the free places.
pub(crate) struct Places {
    per_operation: usize,
    in_all: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    in_all: usize,
    by_operation: HashMap<OperationId, usize>,
    by_scope: HashMap<ScopeTag, usize>,
}

impl Places {
    pub(crate) fn new(per_operation: usize, in_all: usize) -> Self {
        Self { per_operation, in_all, taken: Mutex::default() }
    }

    /// A place, or `None` if this caller has used its share.
    pub(crate) fn take(&self, operation: OperationId, scope: ScopeTag) -> Option<Place<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let here = taken.by_operation.get(&operation).copied().unwrap_or(0);
        let by_scope = taken.by_scope.get(&scope).copied().unwrap_or(0);
        let free = self.in_all.saturating_sub(taken.in_all);
        if here >= self.per_operation || by_scope >= free.saturating_mul(GREED) {
            return None;
        }
        taken.in_all += 1;
        taken.by_operation.insert(operation, here + 1);
        taken.by_scope.insert(scope, by_scope + 1);
        Some(Place { places: self, operation, scope })
    }
}

/// A place to wait in, released when it is dropped.
pub(crate) struct Place<'a> {
    places: &'a Places,
    operation: OperationId,
    scope: ScopeTag,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.in_all -= 1;
        one_less(&mut taken.by_operation, self.operation);
        one_less(&mut taken.by_scope, self.scope);
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// The number of operations between their claim and the record of their end.
#[derive(Clone)]
pub(crate) struct Running(Arc<watch::Sender<usize>>);

impl Default for Running {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Running {
    pub(crate) fn enter(&self) -> Inside {
        // Nobody waits for an increase.
        self.0.send_if_modified(|inside| {
            *inside += 1;
            false
        });
        Inside(self.clone())
    }

    pub(crate) async fn all_left(&self) {
        let left = self.0.subscribe().wait_for(|inside| *inside == 0).await.is_ok();
        assert!(left, "the sender is held by self");
    }
}

/// One running operation.
pub(crate) struct Inside(Running);

impl Drop for Inside {
    fn drop(&mut self) {
        let all = &self.0.0;
        all.send_if_modified(|inside| {
            *inside -= 1;
            *inside == 0 && all.receiver_count() > 0
        });
    }
}
