//! One story: a request, the plug pulled at one point, and retries until it is known what came of it.

use crate::caller::{Caller, Route};
use crate::check::{Answer, Done};
use crate::instance::{Instance, LEASE, Setup};
use crate::place::{Place, Store};
use crate::shelf::{EXPIRED, LEFT, Shelf};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::time::Duration;
use tokio::task::JoinHandle;
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

/// One story of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) store: Store,
    pub(crate) point: &'static str,
    pub(crate) how: How,
    pub(crate) route: Route,
    /// Nobody can be answered before the first goes on.
    pub(crate) waits: bool,
}

/// How a story ended.
pub(crate) struct Told {
    /// What all callers were answered, in order.
    pub(crate) answers: Vec<Answer>,
    pub(crate) done: Done,
    /// The second instance could not answer before the first went on.
    pub(crate) waited: bool,
}

impl Told {
    /// As the documentation has it: what callers learned, in order, and how often it was done.
    pub(crate) fn summary(&self) -> String {
        let mut learned: Vec<_> = self.answers.iter().map(Answer::name).collect();
        learned.dedup();
        if self.waited {
            learned.insert(0, "waits");
        }
        let Done { times, tries } = self.done;
        let tried = if tries == times { String::new() } else { format!(" in {tries} tries") };
        format!("{}, {times}×{tried}", learned.join(" → "))
    }
}

impl Cell {
    pub(crate) async fn told(self) -> Told {
        let name = format!("{}-{}-{}", self.how.name(), self.point, self.route.name());
        let (place, shelf) = if self.point == "sweeping" {
            let place = Place::apart(self.store, &name).await;
            let shelf = Shelf::fill(&place).await;
            (place, Some(shelf))
        } else {
            (Place::new(self.store, &name), None)
        };
        let told = match self.how {
            How::Kill => self.killed(&place).await,
            How::Stop => self.stopped(&place).await,
        };
        if let Some(shelf) = shelf {
            shelf.check(&place).await;
        }
        place.remove().await;
        told
    }

    /// Where the lease has to be renewed before the plug is pulled, a slow machine has time for it.
    fn lease(self) -> Duration {
        match self.point {
            "renewing" | "renewed" | "sweeping" | "draining" => LEASE * 3,
            _ => LEASE,
        }
    }

    /// The instance to which it happens, and the one beside it.
    fn setups(self, place: &Place) -> (Setup, Setup) {
        let other = Setup { name: "other".to_owned(), lease: self.lease(), ..place.setup() };
        let sweep_ms = if self.point == "sweeping" { 10 } else { other.sweep_ms };
        let halt_at = Some(format!("{}={}", self.point, self.how.name()));
        (Setup { name: "first".to_owned(), sweep_ms, halt_at, ..other.clone() }, other)
    }

    /// Begins to ask. Where the plug is pulled while the process waits for what runs, it is told to end; what runs has
    /// lost its client by then.
    async fn begin(self, caller: &Caller, first: &Instance) -> JoinHandle<Option<Answer>> {
        let request = tokio::spawn(caller.clone().ask(first.address()));
        if self.point == "draining" {
            caller.claimed(&first.address()).await;
            request.abort();
            first.signal(Signal::TERM);
        }
        request
    }

    /// Waits until the first request has its answer, or nobody who would get one.
    async fn answered(self, request: JoinHandle<Option<Answer>>) {
        match request.await {
            Ok(_) => {}
            Err(error) => assert!(error.is_cancelled() && self.point == "draining", "{error}"),
        }
    }

    async fn killed(self, place: &Place) -> Told {
        let (setup, other) = self.setups(place);
        let caller = Caller::new(self.route);
        let mut first = Instance::start(&setup).await;
        let request = self.begin(&caller, &first).await;
        let status = first.ended().await;
        assert_eq!(status.signal(), Some(9), "{self:?}: it is killed, and does not end otherwise");
        self.answered(request).await;

        // It sweeps as the first did, and finds what that left.
        let next = Instance::start(&Setup { sweep_ms: setup.sweep_ms, ..other }).await;
        caller.settle(&next.address()).await;
        caller.settle(&next.address()).await;
        let done = caller.done(&next.address()).await;
        if self.point == "sweeping" && self.store.is_swept() {
            caller.swept(&next.address(), LEFT).await;
        }
        next.end().await;
        Told { answers: caller.answers(), done, waited: false }
    }

    async fn stopped(self, place: &Place) -> Told {
        let (setup, other) = self.setups(place);
        let caller = Caller::new(self.route);
        // Before the first is stopped: on SQLite, one that is stopped in its transaction lets nobody else in.
        let second = Instance::start(&other).await;
        let mut first = Instance::start(&setup).await;
        let request = self.begin(&caller, &first).await;
        first.stopped().await;

        let beyond_the_lease = Instant::now() + self.lease() * 3 / 2;
        let address = second.address();
        let mut settled = pin!(caller.settle(&address));
        let waited = if self.waits {
            timeout(self.lease() * 3, settled.as_mut()).await.is_err()
        } else {
            settled.as_mut().await;
            false
        };
        sleep_until(beyond_the_lease).await;
        first.signal(Signal::CONT);
        if waited {
            settled.await;
        }
        self.answered(request).await;
        if self.point == "sweeping" && self.store.is_swept() {
            caller.swept(&first.address(), EXPIRED).await;
        }
        // What the first still does counts, until it has ended.
        if self.point == "draining" {
            let status = first.ended().await;
            assert!(status.success(), "{self:?}: it waits for what runs, and ends well: {status}");
        } else {
            caller.settle(&first.address()).await;
            caller.settle(&address).await;
            first.end().await;
        }
        caller.settle(&address).await;
        let done = caller.done(&address).await;
        second.end().await;
        Told { answers: caller.answers(), done, waited }
    }
}
