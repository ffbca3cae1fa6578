//! One story: a request, the plug pulled at one point, and retries until it is known what came of it.

use crate::caller::{Caller, Route};
use crate::check::Answer;
use crate::instance::{Instance, LEASE, Setup};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::{Instant, sleep_until, timeout};

/// What is done to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// It is killed, and another is started.
    Kill,
    /// It is stopped beyond its lease while another works, and goes on then.
    Stop,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
        }
    }
}

/// Where operations are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
    Redis,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        }
    }

    /// What can be asked of a service on it.
    pub(crate) fn routes(self) -> &'static [Route] {
        match self {
            Self::Sqlite | Self::Postgres => &[Route::Payments, Route::Transfers, Route::Orders],
            Self::Redis => &[Route::Payments, Route::Orders],
        }
    }

    fn argument(self, folder: &Path) -> String {
        let server = |name: &str| {
            std::env::var(name)
                .unwrap_or_else(|_| panic!("{name} is not set: run this through scripts/with-servers"))
        };
        match self {
            Self::Sqlite => format!("sqlite:{}", folder.join("store.db").display()),
            Self::Postgres => server("PERDURA_POSTGRES"),
            Self::Redis => server("PERDURA_REDIS"),
        }
    }
}

/// A folder of one story, and the store beside it.
pub(crate) struct Place {
    folder: PathBuf,
    store: String,
}

impl Place {
    pub(crate) fn new(store: Store, name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("kills-{}-{nth}-{name}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let store = store.argument(&folder);
        Self { folder, store }
    }

    pub(crate) fn setup(&self) -> Setup {
        let (folder, store) = (self.folder.clone(), self.store.clone());
        Setup { name: "first".to_owned(), folder, store, work_ms: 0, sweep_ms: 60_000, halt_at: None }
    }

    /// When all went well; otherwise it stays to be looked at.
    pub(crate) fn remove(self) {
        std::fs::remove_dir_all(&self.folder).expect("a folder can be removed");
    }
}

/// One story of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) store: Store,
    pub(crate) point: &'static str,
    pub(crate) how: How,
    pub(crate) route: Route,
}

/// How a story ended.
pub(crate) struct Told {
    /// What all callers were answered, in order.
    pub(crate) answers: Vec<Answer>,
    pub(crate) effects: usize,
    /// The second instance could not answer before the first went on.
    pub(crate) waited: bool,
}

impl Cell {
    pub(crate) async fn told(self) -> Told {
        let name = format!("{}-{}-{}", self.how.name(), self.point, self.route.name());
        let place = Place::new(self.store, &name);
        let told = match self.how {
            How::Kill => self.killed(&place).await,
            How::Stop => self.stopped(&place).await,
        };
        place.remove();
        told
    }

    /// The instance to which it happens, and those beside it. What happens while the deed is done needs one that takes
    /// its time.
    fn setups(self, place: &Place) -> (Setup, Setup) {
        let work_ms = if matches!(self.point, "renewing" | "sweeping" | "shutdown") { 250 } else { 0 };
        let other = Setup { name: "other".to_owned(), work_ms, ..place.setup() };
        let sweep_ms = if self.point == "sweeping" { 50 } else { other.sweep_ms };
        let halt_at = Some(format!("{}={}", self.point, self.how.name()));
        (Setup { name: "first".to_owned(), sweep_ms, halt_at, ..other.clone() }, other)
    }

    /// Tells it to end, where the plug is pulled then.
    async fn shut_down(self, caller: &Caller, first: &Instance) {
        if self.point == "shutdown" {
            caller.claimed(&first.address()).await;
            first.signal(Signal::TERM);
        }
    }

    async fn killed(self, place: &Place) -> Told {
        let (setup, other) = self.setups(place);
        let caller = Caller::new(self.route);
        let mut first = Instance::start(&setup).await;
        let request = tokio::spawn(caller.clone().ask(first.address()));
        self.shut_down(&caller, &first).await;
        let status = first.ended().await;
        assert_eq!(status.signal(), Some(9), "{self:?}: it is killed, and does not end otherwise");
        request.await.expect("asking does not fail");

        let next = Instance::start(&other).await;
        caller.settle(&next.address()).await;
        caller.settle(&next.address()).await;
        let effects = caller.effects(&next.address()).await;
        next.end().await;
        Told { answers: caller.answers(), effects, waited: false }
    }

    async fn stopped(self, place: &Place) -> Told {
        let (setup, other) = self.setups(place);
        let caller = Caller::new(self.route);
        // Before the first is stopped: on SQLite, one that is stopped in its transaction lets nobody else in.
        let second = Instance::start(&other).await;
        let first = Instance::start(&setup).await;
        let request = tokio::spawn(caller.clone().ask(first.address()));
        self.shut_down(&caller, &first).await;
        first.stopped().await;

        let beyond_the_lease = Instant::now() + LEASE * 3 / 2;
        let address = second.address();
        let mut settled = pin!(caller.settle(&address));
        let answered = timeout(LEASE * 5, settled.as_mut()).await;
        sleep_until(beyond_the_lease).await;
        first.signal(Signal::CONT);
        if answered.is_err() {
            settled.await;
        }
        request.await.expect("asking does not fail");
        if self.point != "shutdown" {
            caller.settle(&first.address()).await;
        }
        caller.settle(&address).await;
        // What the first still does counts, until it has ended.
        first.end().await;
        let effects = caller.effects(&address).await;
        caller.settle(&address).await;
        second.end().await;
        Told { answers: caller.answers(), effects, waited: answered.is_err() }
    }
}

/// For the table: what callers learned, in order, and how often it was done.
pub(crate) fn summary(answers: &[Answer], effects: usize, waited: bool) -> String {
    let mut learned: Vec<_> = answers.iter().map(Answer::name).collect();
    learned.dedup();
    if waited {
        learned.insert(0, "waits");
    }
    format!("{}, done {effects}×", learned.join(", then "))
}
