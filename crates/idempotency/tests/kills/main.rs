//! The plug is pulled on the real example program, at each point of an operation's life, on each store: killed and
//! started again, or stopped for longer than its lease while a second instance works, and then let go on. Or its store
//! is in trouble: a connection is cut around a commit, a clock steps. What was done in the end is counted, and each
//! story is held to what `docs/idempotency.md` says of it.
//!
//! With `PERDURA_KILLS=N`, more processes are killed at moments that nobody chose. Runs through `scripts/with-servers`;
//! `--nocapture` shows the tables.

mod caller;
mod cell;
mod check;
mod documented;
mod instance;
mod lone;
mod outage;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/pg.rs"]
mod pg;
mod place;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/proxy.rs"]
mod proxy;
#[expect(dead_code, reason = "the tests of the servers use the rest")]
#[path = "../servers/redis_server.rs"]
mod redis_server;
mod shelf;

use caller::{Caller, Route};
use cell::{Cell, How, Told};
use check::{Done, faults};
use instance::{Instance, Setup};
use outage::{Outage, Trouble};
use place::{Place, Store};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Where the plug is pulled, and what the documentation calls it.
const POINTS: [(&str, &str); 10] = [
    ("arrived", "arrived, not claimed"),
    ("claimed", "claimed, handler not begun"),
    ("before-effect", "in the handler, before the deed"),
    ("after-effect", "in the handler, after the deed"),
    ("saving", "before the end is recorded"),
    ("saved", "recorded, not answered"),
    ("renewing", "before the lease is renewed"),
    ("renewed", "after it was renewed once"),
    ("sweeping", "between two batches of a sweep"),
    ("draining", "while the process waits to end"),
];
/// So many stories are told at the same time: most of each is waiting for a lease to end.
const AT_ONCE: usize = 8;

/// A story that is to be told, and where its end is written.
#[derive(Clone, Copy)]
struct Entry {
    row: &'static str,
    group: usize,
    route: Route,
    story: Story,
}

#[derive(Clone, Copy)]
enum Story {
    Cell(Cell),
    Outage(Outage),
}

impl Entry {
    async fn told(self) -> Told {
        match self.story {
            Story::Cell(cell) => cell.told().await,
            Story::Outage(outage) => outage.told().await,
        }
    }
}

/// Tells all stories, and holds each to what the documentation says of it, word for word.
async fn tell(store: Store, entries: Vec<Entry>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (nth, entry) in entries.into_iter().enumerate() {
        let places = places.clone();
        running.spawn(async move {
            let _place = places.acquire_owned().await.expect("it is never closed");
            (nth, entry, entry.told().await)
        });
    }
    let mut told = running.join_all().await;
    told.sort_by_key(|(nth, ..)| *nth);
    let (mut table, mut wrong) = (format!("\n{}\n", store.name()), Vec::new());
    for (_, Entry { row, group, route, story }, told) in told {
        let (came, expected) = (told.summary(), documented::cell(store, row, group, route));
        let how = match story {
            Story::Cell(cell) => cell.how.name(),
            Story::Outage(_) => "outage",
        };
        let place = format!("{row} | {how} | {}", route.name());
        writeln!(table, "| {place} | {came} |").expect("text grows");
        wrong.extend(faults(route, &told.answers, told.done).iter().map(|fault| format!("{place}: {fault}")));
        if came != expected {
            wrong.push(format!("{place}: it came to {came:?}, not to {expected:?}"));
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{table}\n{}", wrong.join("\n"));
}

/// The plug is pulled at each point, in each way, on each route.
async fn matrix(store: Store) {
    let mut entries = Vec::new();
    for (point, row) in POINTS {
        for (group, how) in [How::Kill, How::Stop].into_iter().enumerate() {
            for &route in store.routes() {
                let waits = documented::cell(store, row, group, route).starts_with("waits");
                let story = Story::Cell(Cell { store, point, how, route, waits });
                entries.push(Entry { row, group, route, story });
            }
        }
    }
    tell(store, entries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_pulled_on_sqlite_nothing_is_done_twice() {
    matrix(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_pulled_on_postgres_nothing_is_done_twice() {
    matrix(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_pulled_on_redis_nothing_is_done_twice() {
    matrix(Store::Redis).await;
}

/// Connections that are cut, and clocks that step.
async fn outages(store: Store) {
    let mut entries = Vec::new();
    for trouble in Trouble::ALL.into_iter().filter(|trouble| trouble.concerns(store)) {
        for &route in store.routes() {
            let story = Story::Outage(Outage { store, trouble, route });
            entries.push(Entry { row: trouble.words(), group: 0, route, story });
        }
    }
    tell(store, entries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_sqlite_nothing_is_done_twice() {
    outages(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_postgres_nothing_is_done_twice() {
    outages(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_redis_nothing_is_done_twice() {
    outages(Store::Redis).await;
}

/// A process is stopped while its write is on the way, overtaken, and let go on: the write arrives after a newer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_is_told_the_epoch_refuses_who_was_overtaken() {
    for store in [Store::Sqlite, Store::Postgres, Store::Redis] {
        let overtaken = |route| Cell { store, point: "before-effect", how: How::Stop, route, waits: false };
        let Told { answers, done, .. } = overtaken(Route::Levels).told().await;
        assert_eq!(faults(Route::Levels, &answers, done), [""; 0], "{}: {answers:?}", store.name());
        assert_eq!(done, Done { times: 1, tries: 2 }, "{}: the second write was refused", store.name());
        let Told { done, .. } = overtaken(Route::UnfencedLevels).told().await;
        assert_eq!(done, Done { times: 2, tries: 2 }, "{}: without the epoch it is not", store.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counting_finds_what_a_route_without_a_claim_does_twice() {
    for (how, point) in
        [(How::Kill, "after-effect"), (How::Stop, "before-effect"), (How::Stop, "after-effect")]
    {
        is_done_twice(how, point, Route::Naive).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counting_finds_what_a_job_without_a_key_does_twice() {
    for how in [How::Kill, How::Stop] {
        is_done_twice(how, "after-effect", Route::KeylessOrders).await;
    }
}

async fn is_done_twice(how: How, point: &'static str, route: Route) {
    let cell = Cell { store: Store::Sqlite, point, how, route, waits: false };
    let Told { answers, done, .. } = cell.told().await;
    let found = faults(route, &answers, done);
    assert!(found.iter().any(|fault| fault.contains("done 2 times")), "{cell:?}: {answers:?} {done:?}");
}

/// How often processes are killed at any moment: a few times in each run of the tests, more often where asked for.
fn rounds() -> usize {
    std::env::var("PERDURA_KILLS").map_or(3, |kills| kills.parse().expect("PERDURA_KILLS is a number"))
}

/// Many requests at once, and a kill when so many of them were answered; the rest go on with whoever comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_under_load_nothing_is_done_twice() {
    const REQUESTS: usize = 24;
    for round in 0..rounds() {
        let store = [Store::Sqlite, Store::Postgres, Store::Redis][round % 3];
        let routes = store.routes();
        let place = Place::new(store, &format!("load-{round}"));
        let setup = Setup { work_ms: 5, ..place.setup() };
        let killed = Instance::start(&setup).await;
        let mut callers: Vec<_> = (0..REQUESTS).map(|nth| Caller::new(routes[nth % routes.len()])).collect();
        let mut running = JoinSet::new();
        for caller in &callers {
            running.spawn(caller.clone().ask(killed.address()));
        }
        let answered_before = round * 7 % REQUESTS;
        for _ in 0..answered_before {
            running.join_next().await.expect("there are more").expect("asking does not fail");
        }
        killed.kill().await;
        let next = Instance::start(&Setup { name: "next".to_owned(), ..setup.clone() }).await;
        running.join_all().await;
        let mut running = JoinSet::new();
        for (nth, caller) in callers.drain(..).enumerate() {
            let address = next.address();
            running.spawn(async move {
                caller.settle(&address).await;
                caller.settle(&address).await;
                (nth, caller.route(), caller.answers(), caller.done(&address).await)
            });
        }
        for (nth, route, answers, done) in running.join_all().await {
            let found = faults(route, &answers, done);
            assert!(found.is_empty(), "round {round}, request {nth}: {found:?}: {answers:?}");
        }
        next.end().await;
        place.remove().await;
    }
}
