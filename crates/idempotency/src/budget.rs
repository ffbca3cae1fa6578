//! What one caller may cost: replays, conflicts, running operations, new keys and stored bytes, each per scope.
//!
//! A scope has a window that begins with the first thing counted and lasts [`Budgets::window`]; then the next begins. So
//! no more than twice a budget is spent in any stretch as long as a window. Each instance counts for itself.
//!
//! Memory is bounded whatever callers do, and forgetting is where such a bound goes wrong: who can make us forget a live
//! window can reset a budget, his own or another's. So a live window is never forgotten. When as many scopes are tracked
//! as there is room for, the ones that come new are counted together, in a fixed number of shared windows that they are
//! spread over by their tag, a keyed hash that nobody can aim. A scope that gets a window of its own later begins it with
//! what its shared one had counted. What we hold against a scope is thus never less than what it spent: a flood may make
//! strangers pay for each other for the length of a window, and exempts nobody.
//!
//! With every window full that is 18 MiB at the defaults, and 46 MiB with 32 requests per key.
//!
//! Running operations are not windowed. They are counted exactly, in an entry that lives as long as they do.

use crate::record::{OperationId, RequestTag, ScopeTag};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many scopes have a window of their own at a time.
const OWN_WINDOWS_MAX: usize = 16_384;
/// How many windows the scopes beyond that share.
const SHARED_WINDOWS: u64 = 1_024;
/// For how many keys of one window different requests are counted.
const KEYS_PER_WINDOW_MAX: usize = 8;
/// How many different requests of one key are told apart at most.
const REQUESTS_PER_KEY_MAX: u32 = 32;
/// What a stored record is taken to cost beside its answer, so that empty answers are not free.
const RECORD_BYTES: u64 = 256;
/// When to come again if something has to end first, and nobody knows when it does.
const RETRY_RUNNING_AFTER: Duration = Duration::from_secs(1);

/// What one scope may spend, on one instance. The largest number is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// How long a window lasts; at least a second.
    pub window: Duration,
    /// Stored answers given again, per window.
    pub replays: u32,
    /// Keys used for a different request, per window.
    pub conflicts: u32,
    /// Operations running at the same time.
    pub running: u32,
    /// Bytes of answers and records stored, per window. With a retention of r this bounds what is kept for one scope
    /// to `stored_bytes * (r / window + 1)`.
    pub stored_bytes: u64,
    /// Records stored, and so keys that live, per window: bounded in the same way.
    pub stored_records: u32,
    /// More different requests than this under one key, within a window, are an anomaly; at most 32.
    pub requests_per_key: u32,
}

impl Default for Budgets {
    /// Wide enough for a caller that is a whole service, and for one that sends everything again after an outage; narrow
    /// enough that one caller does not take all. In a window of a minute 6,000 replays, 60 conflicts, 60,000 new keys and
    /// 64 MiB; 256 operations at the same time; an anomaly from 5 requests under one key.
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

/// A scope has spent what it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// What there was too much of, for a person to read.
    pub(crate) what: &'static str,
    /// How many there may be.
    pub(crate) limit: u64,
    /// In how long a time; at any time where there is none.
    pub(crate) window: Option<Duration>,
    /// When there is something to spend again.
    pub(crate) retry_after: Duration,
}

/// What a conflict comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflicted {
    /// Whether the scope may still cause conflicts.
    pub(crate) allowed: Result<(), Exceeded>,
    /// So many different requests came under this key, the one that it was first used for among them. Told once per key
    /// and window.
    pub(crate) anomaly: Option<u32>,
}

/// What every scope has spent.
pub(crate) struct Spending {
    budgets: Budgets,
    windows: Mutex<Windows>,
    running: Arc<Mutex<HashMap<ScopeTag, u32>>>,
}

/// One operation that runs. It is counted until this is dropped.
#[must_use = "dropped, the operation no longer counts as running"]
pub(crate) struct Place {
    running: Arc<Mutex<HashMap<ScopeTag, u32>>>,
    scope: ScopeTag,
}

/// What was counted since a window began.
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
    /// The beginnings of the tags of the requests that conflicted, each once. Empty once the anomaly was told.
    requests: Vec<[u8; 8]>,
    told: bool,
}

struct Windows {
    window_for: Duration,
    /// The latest instant seen. Threads read the clock before they get here, so they may arrive out of order.
    latest_at: Option<Instant>,
    own: HashMap<ScopeTag, Window>,
    /// The scopes in `own`, in the order in which their windows began and will end.
    order: VecDeque<ScopeTag>,
    shared: HashMap<u64, Window>,
}

impl Spending {
    /// Nothing is spent yet.
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

    /// What a scope may spend.
    pub(crate) fn budgets(&self) -> Budgets {
        self.budgets
    }

    /// Whether the scope may have something new stored.
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

    /// Counts a stored answer that is given again. Refused ones are not counted.
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

    /// Counts a key that was used for another request, and watches for keys that are used for many.
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

    /// Counts an answer of so many bytes that was stored.
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

/// What is guarded is a tally that is whole after every statement, so a panic elsewhere does not spoil it.
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
    /// Comes to this instant: own windows that ended are gone. Every window lasts equally long, so they end in the order
    /// in which they began.
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

    /// The window in which the scope is counted, if there is one.
    fn find(&self, scope: ScopeTag, now: Instant) -> Option<&Window> {
        self.own.get(&scope).or_else(|| {
            self.shared.get(&shared_place(scope)).filter(|window| !window.is_over(self.window_for, now))
        })
    }

    /// The window in which the scope is counted.
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

/// Which shared window a scope falls into when it has none of its own.
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

    /// Notes a request that conflicted. Says how many there are when they are more than `requests_max`, once. A key that
    /// was told keeps its place until the window ends; among the others the one with the fewest requests gives way.
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
