//! The policy of a route: the meaning of a crash, and its limits.

use crate::context::IdempotencyContext;
use crate::fingerprint::Hashing;
use crate::record::{Keep, Takeover};
use crate::store::Pending;
use axum::body::Body;
use http::Response;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The shortest and the longest retention of a result.
pub(crate) const RETENTION: (Duration, Duration) = (Duration::from_hours(2), Duration::from_hours(24));
/// A shorter lease could not be renewed in time.
const LEASE_MIN: Duration = Duration::from_millis(300);

/// The longest lease, run and wait: a year.
const TIME_MAX: Duration = Duration::from_hours(366 * 24);

/// The meaning of a crash between the effect and its record.
#[derive(Clone)]
pub enum Mode {
    /// Not protected: it reads, it polls, or it must give something new each time. No key is needed, nothing is stored.
    Exempt,
    /// The outcome is unknown, the caller is told so, and the operation never runs again silently.
    AtMostOnce,
    /// The handler works in the transaction that also completes the record: both are there, or neither.
    Transactional,
    /// The work goes on without the handler; a retry is attached to it.
    Durable(Arc<dyn Attach>),
}

impl Mode {
    /// Its name in lists.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::AtMostOnce => "at_most_once",
            Self::Transactional => "transactional",
            Self::Durable(_) => "durable",
        }
    }

    /// Whether another process may run an operation that began and did not end.
    pub(crate) const fn takeover(&self) -> Takeover {
        match self {
            Self::Exempt | Self::AtMostOnce => Takeover::Never,
            Self::Transactional | Self::Durable(_) => Takeover::Allowed,
        }
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Finds the work of an earlier request whose end was not recorded here.
///
/// It is called before a request of a [`Mode::Durable`] route runs anew: after a crash, a panic or a server error.
pub trait Attach: Send + Sync + 'static {
    /// Finds out what happened to this operation's work. It may wait for the end, within the context's deadline.
    fn attach(&self, context: IdempotencyContext) -> Pending<'static, Attached>;
}

impl<F, O> Attach for F
where
    F: Fn(IdempotencyContext) -> O + Send + Sync + 'static,
    O: Future<Output = Attached> + Send + 'static,
{
    fn attach(&self, context: IdempotencyContext) -> Pending<'static, Attached> {
        Box::pin(self(context))
    }
}

/// The state of earlier work.
#[derive(Debug)]
pub enum Attached {
    /// It has ended with this answer. It is stored even with a status by which a handler would say that nothing was
    /// done, such as 429; to say that, use [`NotApplied`](crate::NotApplied).
    Answer(Response<Body>),
    /// It never began: the handler runs.
    NotBegun,
    /// It is still running; the caller retries later.
    StillRunning,
    Unknown,
}

/// A route's mode and limits.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) mode: Mode,
    pub(crate) hashing: Hashing,
    pub(crate) body_bytes_max: usize,
    pub(crate) answer_bytes_max: usize,
    pub(crate) lease_for: Duration,
    pub(crate) run_for_max: Option<Duration>,
    pub(crate) wait_for_max: Duration,
    pub(crate) keep: Keep,
    pub(crate) streaming: bool,
    pub(crate) fail_open: bool,
}

impl Default for Policy {
    /// [`Mode::AtMostOnce`], because an unwanted second run is the worse mistake.
    fn default() -> Self {
        Self::of(Mode::AtMostOnce)
    }
}

impl Policy {
    /// This mode with the default limits: bodies and answers of up to 1 MiB, a lease of 30 s, a wait of up to 10 s,
    /// results kept for 24 h.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            hashing: Hashing::Raw,
            body_bytes_max: 1024 * 1024,
            answer_bytes_max: 1024 * 1024,
            lease_for: Duration::from_secs(30),
            run_for_max: None,
            wait_for_max: Duration::from_secs(10),
            keep: Keep { answer_for: RETENTION.1, tombstone_for: Duration::ZERO },
            streaming: false,
            fail_open: false,
        }
    }

    /// Not protected; see [`Mode::Exempt`].
    pub fn exempt() -> Self {
        Self::of(Mode::Exempt)
    }

    /// See [`Mode::AtMostOnce`].
    pub fn at_most_once() -> Self {
        Self::of(Mode::AtMostOnce)
    }

    /// See [`Mode::Transactional`].
    pub fn transactional() -> Self {
        Self::of(Mode::Transactional)
    }

    /// See [`Mode::Durable`].
    pub fn durable(attach: impl Attach) -> Self {
        Self::of(Mode::Durable(Arc::new(attach)))
    }

    /// How to compare two bodies.
    pub fn hashing(mut self, hashing: Hashing) -> Self {
        self.hashing = hashing;
        self
    }

    /// The largest request; larger ones are 413. All of it is held in memory, because all of it is compared.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }

    /// The largest answer that is stored. A larger one is sent once; a retry gets `RESULT_NOT_RETAINED`.
    pub fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// The duration of a lease without a renewal. It is renewed at a third of this.
    pub fn lease_for(mut self, lease: Duration) -> Self {
        self.lease_for = lease;
        self
    }

    /// How long the handler may run; by default without a limit.
    pub fn run_for_max(mut self, run: Duration) -> Self {
        self.run_for_max = Some(run);
        self
    }

    /// How long a second request waits for the first. `Prefer: wait` shortens it.
    pub fn wait_for_max(mut self, wait: Duration) -> Self {
        self.wait_for_max = wait;
        self
    }

    /// How long results are kept, from 2 h to 24 h, counted from completion.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.keep.answer_for = retention;
        self
    }

    /// How long after that it is remembered that there was a result, so that a late retry is refused and does not run
    /// again.
    pub fn tombstone_for(mut self, tombstone: Duration) -> Self {
        self.keep.tombstone_for = tombstone;
        self
    }

    /// The answer is a stream: it is passed on as it comes, and not stored.
    pub fn streaming(mut self) -> Self {
        self.streaming = true;
        self
    }

    /// Run without protection while the store is down. Without this, such requests are 503 and not run.
    pub fn fail_open(mut self) -> Self {
        self.fail_open = true;
        self
    }

    /// A duration that cannot be added to an instant.
    fn without_end(&self) -> Option<(&'static str, Duration)> {
        let run = self.run_for_max.unwrap_or(Duration::ZERO);
        let times = [("a lease", self.lease_for), ("a run", run), ("a wait", self.wait_for_max)];
        times.into_iter().find(|(_, time)| *time > TIME_MAX)
    }

    /// The mistake in this policy, for a store that does or does not share its transactions.
    pub(crate) fn fault(&self, shares_transactions: bool, store: &str) -> Option<String> {
        let (least, most) = RETENTION;
        if matches!(self.mode, Mode::Exempt) {
            None
        } else if !(least..=most).contains(&self.keep.answer_for) {
            Some(format!(
                "results are kept for {:?}, which is not between 2 h and 24 h",
                self.keep.answer_for
            ))
        } else if self.lease_for < LEASE_MIN {
            Some(format!(
                "a lease of {:?} is too short to be renewed; the least is {LEASE_MIN:?}",
                self.lease_for
            ))
        } else if let Some((what, time)) = self.without_end() {
            Some(format!("{what} of {time:?} is longer than {TIME_MAX:?}, and no clock gets there"))
        } else if matches!(self.mode, Mode::Transactional) && self.fail_open {
            Some("it is transactional, and without its store there is no transaction to run it in".to_owned())
        } else if matches!(self.mode, Mode::Transactional) && !shares_transactions {
            Some(format!(
                "it is transactional, and the {store} store has no transaction to share; use SQLite or PostgreSQL, or \
                 declare it durable or at_most_once"
            ))
        } else {
            None
        }
    }
}
