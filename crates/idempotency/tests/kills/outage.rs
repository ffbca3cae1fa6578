//! What happens to the store while an instance works: its connection is cut around the commit of the end, or its clock
//! steps by an hour while an operation runs.

use crate::caller::{Caller, Route};
use crate::cell::Told;
use crate::instance::{Instance, Setup};
use crate::place::{Place, Store};
use crate::proxy::{Point, Proxy};
use rustix::process::Signal;
use std::time::Duration;

const HOUR: i32 = 3_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// The server does not get the commit.
    CutBefore,
    /// The server has committed, and nobody hears of it.
    CutAfter,
    /// The clock goes an hour ahead: every lease has run out.
    ClockAhead,
    /// The clock goes an hour back: every lease lasts an hour longer.
    ClockBack,
}

impl Trouble {
    pub(crate) const ALL: [Self; 4] = [Self::CutBefore, Self::CutAfter, Self::ClockAhead, Self::ClockBack];

    /// As the documentation calls it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::CutBefore => "the connection is cut before the commit of the end",
            Self::CutAfter => "the connection is cut after it, before the reply",
            Self::ClockAhead => "the store's clock goes an hour ahead",
            Self::ClockBack => "the store's clock goes an hour back",
        }
    }

    /// Whether it can happen to this store. A file has no connection.
    pub(crate) fn concerns(self, store: Store) -> bool {
        match self {
            Self::CutBefore | Self::CutAfter => store != Store::Sqlite,
            Self::ClockAhead | Self::ClockBack => true,
        }
    }
}

/// One story.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) store: Store,
    pub(crate) trouble: Trouble,
    pub(crate) route: Route,
}

impl Outage {
    pub(crate) async fn told(self) -> Told {
        match self.trouble {
            Trouble::CutBefore => self.cut(Point::BeforeTheRequest).await,
            Trouble::CutAfter => self.cut(Point::BeforeTheReply).await,
            Trouble::ClockAhead => self.stepped(HOUR).await,
            Trouble::ClockBack => self.stepped(-HOUR).await,
        }
    }

    /// By which the commit of the end is known on the way: the answer in it, or the commit itself.
    fn commit(self) -> &'static [u8] {
        match self.route {
            // With what ends it: a transaction that begins says READ COMMITTED.
            Route::Transfers => b"COMMIT;",
            Route::Orders => b"shipped_by",
            Route::Payments | Route::Levels | Route::Naive | Route::KeylessOrders | Route::UnfencedLevels => {
                b"receipt"
            }
        }
    }

    async fn cut(self, point: Point) -> Told {
        let place = Place::new(self.store, &format!("{:?}-{}", self.trouble, self.route.name()));
        let (proxy, through) = Proxy::before(&place.store).await;
        let instance = Instance::start(&Setup { store: through, ..place.setup() }).await;
        let caller = Caller::new(self.route);
        proxy.cut(self.commit(), point);
        caller.settle(&instance.address()).await;
        caller.settle(&instance.address()).await;
        assert_eq!(proxy.cuts(), 1, "{self:?}");
        let done = caller.done(&instance.address()).await;
        instance.end().await;
        place.remove().await;
        Told { answers: caller.answers(), done, waited: false }
    }

    /// The first instance is stopped before its deed, for a moment only: by its own clock its lease holds throughout.
    async fn stepped(self, seconds: i32) -> Told {
        let place = Place::apart(self.store, &format!("{:?}-{}", self.trouble, self.route.name())).await;
        let clock = (self.store == Store::Sqlite).then(|| place.clock());
        if clock.is_some() {
            place.step(0).await;
        }
        let other = Setup { name: "other".to_owned(), lease: Duration::from_mins(1), clock, ..place.setup() };
        let halt_at = Some("before-effect=stop".to_owned());
        let second = Instance::start(&other).await;
        let first = Instance::start(&Setup { name: "first".to_owned(), halt_at, ..other.clone() }).await;
        let caller = Caller::new(self.route);
        let request = tokio::spawn(caller.clone().ask(first.address()));
        first.stopped().await;
        assert_eq!(caller.clone().ask_within(second.address(), 0).await, None, "{self:?}: it is held");

        place.step(seconds).await;
        let waited = if seconds > 0 {
            caller.settle(&second.address()).await;
            false
        } else {
            caller.clone().ask_within(second.address(), 0).await.is_none()
        };
        first.signal(Signal::CONT);
        request.await.expect("asking does not fail");
        caller.settle(&first.address()).await;
        place.step(-seconds).await;
        caller.settle(&second.address()).await;
        first.end().await;
        caller.settle(&second.address()).await;
        let done = caller.done(&second.address()).await;
        second.end().await;
        place.remove().await;
        Told { answers: caller.answers(), done, waited }
    }
}
