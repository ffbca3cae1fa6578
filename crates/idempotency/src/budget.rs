//! Budgets of a caller: replays, conflicts, running operations, new keys and stored bytes, each per scope.
//!
//! A scope has a window that begins with the first counted event and lasts [`Budgets::window`]; then the next begins.
//! So no more than twice a budget is spent in any period as long as a window. Each instance counts for itself.
//!
//! Memory is bounded whatever callers do. Such a bound can go wrong when a live window is dropped: a caller that causes
//! this resets a budget, its own or another's. So a live window is never dropped. When the table of scopes is full, new
//! scopes are counted together, in a fixed number of shared windows; their tag, a keyed hash that nobody can choose,
//! selects the window. If a scope gets a window of its own later, it begins with the counts of its shared one. So the
//! counts of a scope are never less than what it spent: a flood may make other scopes pay for each other for the length
//! of a window, and exempts nobody.
//!
//! With every window full that is 18 MiB at the defaults, and 46 MiB with 32 requests per key.
//!
//! Running operations have no window. They are counted exactly, in an entry that lives as long as they do.

use crate::record::{OperationId, RequestTag, ScopeTag};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many scopes can have a window of their own.
const OWN_WINDOWS_MAX: usize = 16_384;
/// How many shared windows the other scopes have.
const SHARED_WINDOWS: u64 = 1_024;
/// For how many keys of one window different requests are counted.
const KEYS_PER_WINDOW_MAX: usize = 8;
/// The most different requests of one key that are counted.
const REQUESTS_PER_KEY_MAX: u32 = 32;
/// The assumed size of a stored record without its answer, so that empty answers are not free.
const RECORD_BYTES: u64 = 256;
/// `Retry-After` if another operation must end first, at an unknown time.
const RETRY_RUNNING_AFTER: Duration = Duration::from_secs(1);

/// The budgets of one scope on one instance. The largest number means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// How long a window lasts; at least a second.
    pub window: Duration,
    /// Replays per window.
    pub replays: u32,
    /// Keys used for a different request, per window.
    pub conflicts: u32,
    /// Operations running at the same time.
    pub running: u32,
    /// Bytes of answers and records stored, per window. With a retention of r, one scope stores at most `stored_bytes *
    /// (r / window + 1)`.
    pub stored_bytes: u64,
    /// Records stored, and so live keys, per window: bounded in the same way.
    pub stored_records: u32,
    /// More different requests than this under one key, within a window, are an anomaly; at most 32.
    pub requests_per_key: u32,
}

impl Default for Budgets {
    /// Large enough for a caller that is a whole service, and for one that repeats everything after an outage; small
    /// enough that one caller does not take all. In a window of a minute 6,000 replays, 60 conflicts, 60,000 new keys
    /// and 64 MiB; 256 operations at the same time; an anomaly from 5 requests under one key.
    fn default() -> Self {
        Self {
            window: Duration::from_mins(1),
            replays: 6_000,
            conflicts: 60,
            running: 256,
            stored_bytes: 64 * 1024 * 1024,
            stored_records: 60_000,
            requests_per_key: 4,
        }
    }
}

/// A scope has used up a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The exceeded budget, for people.
    pub(crate) what: &'static str,
    /// Its size.
    pub(crate) limit: u64,
    /// Its window; `None` for running operations.
    pub(crate) window: Option<Duration>,
    /// When to try again.
    pub(crate) retry_after: Duration,
}

/// The result of counting a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflicted {
    /// Whether the scope may still cause conflicts.
    pub(crate) allowed: Result<(), Exceeded>,
    /// The number of different requests under this key, including the first, if that is an anomaly. Reported once per
    /// key and window.
    pub(crate) anomaly: Option<u32>,
}

/// The counts of all scopes.
pub(crate) struct Spending {
    budgets: Budgets,
    windows: Mutex<Windows>,
    running: Arc<Mutex<HashMap<ScopeTag, u32>>>,
}

/// The place of one running operation. It is counted until this is dropped.
#[must_use = "dropped, the operation no longer counts as running"]
pub(crate) struct Place {
    running: Arc<Mutex<HashMap<ScopeTag, u32>>>,
    scope: ScopeTag,
}

/// The counts since a window began.
#[derive(Clone)]
struct Window {
    began_at: Instant,
    replays: u32,
    conflicts: u32,
    stored_bytes: u64,
    stored_records: u32,
    keys: Vec<Key>,
}

/// A key that was used for different requests.
#[derive(Clone)]
struct Key {
    operation: OperationId,
    /// The beginnings of the tags of the conflicting requests, each once. Empty once the anomaly was reported.
    requests: Vec<[u8; 8]>,
    told: bool,
}

struct Windows {
    window_for: Duration,
    /// The latest instant so far. Threads read the clock before they take the lock, so instants may come out of order.
    latest_at: Option<Instant>,
    own: HashMap<ScopeTag, Window>,
    /// The scopes in `own`, in the order in which their windows began, and end.
    order: VecDeque<ScopeTag>,
    shared: HashMap<u64, Window>,
}

impl Spending {
    pub(crate) fn new(budgets: Budgets) -> Self {
        let budgets = Budgets {
            window: budgets.window.max(Duration::from_secs(1)),
            requests_per_key: budgets.requests_per_key.clamp(1, REQUESTS_PER_KEY_MAX),
            ..budgets
        };
        let windows = Windows {
            window_for: budgets.window,
            latest_at: None,
            own: HashMap::new(),
            order: VecDeque::new(),
            shared: HashMap::new(),
        };
        Self { budgets, windows: Mutex::new(windows), running: Arc::default() }
    }

    pub(crate) fn budgets(&self) -> Budgets {
        self.budgets
    }

    /// Checks that the scope may store something new.
    pub(crate) fn admit(&self, scope: ScopeTag, now: Instant) -> Result<(), Exceeded> {
        let mut windows = lock(&self.windows);
        let now = windows.at(now);
        match windows.find(scope, now) {
            Some(window) if window.stored_bytes >= self.budgets.stored_bytes => {
                Err(self.until_next(window, "bytes of stored answers", self.budgets.stored_bytes, now))
            }
            Some(window) if window.stored_records >= self.budgets.stored_records => {
                Err(self.until_next(window, "new keys", self.budgets.stored_records.into(), now))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Counts an operation that begins to run, until the place is dropped.
    pub(crate) fn run(&self, scope: ScopeTag) -> Result<Place, Exceeded> {
        let mut running = lock(&self.running);
        let count = running.get(&scope).copied().unwrap_or(0);
        if count >= self.budgets.running {
            let (limit, retry_after) = (self.budgets.running.into(), RETRY_RUNNING_AFTER);
            return Err(Exceeded { what: "running operations", limit, window: None, retry_after });
        }
        running.insert(scope, count + 1);
        Ok(Place { running: Arc::clone(&self.running), scope })
    }

    /// Counts a replay. Refused ones are not counted.
    pub(crate) fn replay(&self, scope: ScopeTag, now: Instant) -> Result<(), Exceeded> {
        let mut windows = lock(&self.windows);
        let now = windows.at(now);
        let window = windows.of(scope, now);
        if window.replays >= self.budgets.replays {
            return Err(self.until_next(window, "replays", self.budgets.replays.into(), now));
        }
        window.replays += 1;
        Ok(())
    }

    /// Counts a key that was used for another request, and detects keys that are used for many.
    pub(crate) fn conflict(
        &self,
        scope: ScopeTag,
        operation: OperationId,
        request: RequestTag,
        now: Instant,
    ) -> Conflicted {
        let mut windows = lock(&self.windows);
        let now = windows.at(now);
        let window = windows.of(scope, now);
        let anomaly = window.saw(operation, request, self.budgets.requests_per_key);
        let allowed = if window.conflicts >= self.budgets.conflicts {
            Err(self.until_next(window, "conflicts", self.budgets.conflicts.into(), now))
        } else {
            window.conflicts += 1;
            Ok(())
        };
        Conflicted { allowed, anomaly }
    }

    /// Counts a stored answer of so many bytes.
    pub(crate) fn stored(&self, scope: ScopeTag, bytes: u64, now: Instant) {
        let mut windows = lock(&self.windows);
        let now = windows.at(now);
        let window = windows.of(scope, now);
        window.stored_bytes = window.stored_bytes.saturating_add(bytes).saturating_add(RECORD_BYTES);
        window.stored_records = window.stored_records.saturating_add(1);
    }

    fn until_next(&self, window: &Window, what: &'static str, limit: u64, now: Instant) -> Exceeded {
        let lasted_for = now.saturating_duration_since(window.began_at);
        let window_for = self.budgets.window;
        Exceeded { what, limit, window: Some(window_for), retry_after: window_for.saturating_sub(lasted_for) }
    }
}

/// The counts are consistent after every statement, so a panic elsewhere does not corrupt them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        match running.get_mut(&self.scope) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                running.remove(&self.scope);
            }
        }
    }
}

impl Windows {
    /// Advances to this instant and drops own windows that have ended. All windows have the same length, so they end in
    /// the order in which they began.
    fn at(&mut self, now: Instant) -> Instant {
        let now = self.latest_at.map_or(now, |latest| latest.max(now));
        self.latest_at = Some(now);
        while let Some(scope) = self.order.front()
            && self.own.get(scope).is_none_or(|window| window.is_over(self.window_for, now))
        {
            self.own.remove(scope);
            self.order.pop_front();
        }
        now
    }

    /// The window of the scope, if there is one.
    fn find(&self, scope: ScopeTag, now: Instant) -> Option<&Window> {
        self.own.get(&scope).or_else(|| {
            self.shared.get(&shared_place(scope)).filter(|window| !window.is_over(self.window_for, now))
        })
    }

    /// The window of the scope; creates it if needed.
    fn of(&mut self, scope: ScopeTag, now: Instant) -> &mut Window {
        let place = shared_place(scope);
        if !self.own.contains_key(&scope) {
            if self.shared.get(&place).is_some_and(|window| window.is_over(self.window_for, now)) {
                self.shared.remove(&place);
            }
            if self.own.len() >= OWN_WINDOWS_MAX {
                return self.shared.entry(place).or_insert_with(|| Window::new(now));
            }
            let began = match self.shared.get(&place) {
                Some(shared) => Window { began_at: now, ..shared.clone() },
                None => Window::new(now),
            };
            self.own.insert(scope, began);
            self.order.push_back(scope);
        }
        self.own.get_mut(&scope).expect("it was there, or was put there")
    }
}

/// The shared window of a scope without a window of its own.
fn shared_place(scope: ScopeTag) -> u64 {
    let end = scope.0.last_chunk().expect("a tag has 16 bytes");
    u64::from_be_bytes(*end) % SHARED_WINDOWS
}

impl Window {
    fn new(began_at: Instant) -> Self {
        Self { began_at, replays: 0, conflicts: 0, stored_bytes: 0, stored_records: 0, keys: Vec::new() }
    }

    fn is_over(&self, window_for: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.began_at) >= window_for
    }

    /// Records a conflicting request. Returns their number once it exceeds `requests_max`, once. A reported key keeps
    /// its place until the window ends; otherwise the key with the fewest requests is replaced.
    fn saw(&mut self, operation: OperationId, request: RequestTag, requests_max: u32) -> Option<u32> {
        let known = self.keys.iter().position(|key| key.operation == operation);
        let index = match known {
            Some(index) => index,
            None if self.keys.len() < KEYS_PER_WINDOW_MAX => {
                self.keys.push(Key { operation, requests: Vec::new(), told: false });
                self.keys.len() - 1
            }
            None => {
                let untold = self.keys.iter().enumerate().filter(|(_, key)| !key.told);
                let (index, _) = untold.min_by_key(|(_, key)| key.requests.len())?;
                self.keys[index] = Key { operation, requests: Vec::new(), told: false };
                index
            }
        };
        let key = &mut self.keys[index];
        let beginning = *request.0.first_chunk().expect("a tag has 32 bytes");
        if key.told || key.requests.contains(&beginning) {
            return None;
        }
        key.requests.push(beginning);
        let requests = key.requests.len() as u32 + 1;
        if requests <= requests_max {
            return None;
        }
        key.told = true;
        key.requests = Vec::new();
        Some(requests)
    }
}

#[cfg(test)]
mod tests;
