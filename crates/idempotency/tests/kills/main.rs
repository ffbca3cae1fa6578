//! The plug is pulled on the real example program, at each point of an operation's life, on each store: killed and
//! started again, or stopped for longer than its lease while a second instance works, and then let go on. What was done
//! in the end is counted.
//!
//! With `PERDURA_KILLS=N`, more processes are killed at moments that nobody chose. Runs through `scripts/with-servers`;
//! `--nocapture` shows the tables.

mod caller;
mod cell;
mod check;
mod instance;

use caller::{Caller, Route};
use cell::{Cell, How, Place, Store, Told};
use check::{Answer, faults};
use instance::{Instance, Setup};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const POINTS: [&str; 9] = [
    "arrived",
    "claimed",
    "before-effect",
    "after-effect",
    "saving",
    "saved",
    "renewing",
    "sweeping",
    "shutdown",
];
/// So many stories are told at the same time: most of each is waiting for a lease to end.
const AT_ONCE: usize = 8;

/// What must come of a kill at the points where that does not depend on time: the answer, and how often it was done.
fn expected(point: &str, route: Route) -> Option<(&'static str, usize)> {
    match (route, point) {
        (_, "arrived" | "saved") | (Route::Transfers | Route::Orders, _) => Some(("answered", 1)),
        (Route::Payments, "claimed" | "before-effect") => Some(("unknown", 0)),
        (Route::Payments, "after-effect" | "saving") => Some(("unknown", 1)),
        (Route::Payments | Route::Naive, _) => None,
    }
}

async fn matrix(store: Store) {
    let routes = store.routes();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (row, point) in POINTS.into_iter().enumerate() {
        for how in [How::Kill, How::Stop] {
            for &route in routes {
                let (places, cell) = (places.clone(), Cell { store, point, how, route });
                running.spawn(async move {
                    let _place = places.acquire_owned().await.expect("it is never closed");
                    (row, how, route, cell.told().await)
                });
            }
        }
    }
    let mut told = running.join_all().await;
    told.sort_by_key(|(row, how, route, _)| (*how, *row, *route));

    let mut table = format!("\n| {} | |", store.name());
    for route in routes {
        write!(table, " {} |", route.name()).expect("text grows");
    }
    write!(table, "\n|---|---|{}", "---|".repeat(routes.len())).expect("text grows");
    let mut wrong = Vec::new();
    for line in told.chunks(routes.len()) {
        let (row, how, ..) = line[0];
        write!(table, "\n| {} | {} |", how.name(), POINTS[row]).expect("text grows");
        for (_, _, route, Told { answers, effects, waited }) in line {
            write!(table, " {} |", cell::summary(answers, *effects, *waited)).expect("text grows");
            let place = format!("{}, {} {}, {}", store.name(), how.name(), POINTS[row], route.name());
            wrong.extend(faults(*route, answers, *effects).iter().map(|fault| format!("{place}: {fault}")));
            let came = (answers.last().map_or("nothing", Answer::name), *effects);
            if let (How::Kill, Some(expected)) = (how, expected(POINTS[row], *route))
                && came != expected
            {
                wrong.push(format!("{place}: it came to {came:?}, not to {expected:?}"));
            }
        }
    }
    println!("{table}\n");
    assert!(wrong.is_empty(), "{table}\n{}", wrong.join("\n"));
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counting_finds_what_a_route_without_a_claim_does_twice() {
    for (how, point) in
        [(How::Kill, "after-effect"), (How::Stop, "before-effect"), (How::Stop, "after-effect")]
    {
        let cell = Cell { store: Store::Sqlite, point, how, route: Route::Naive };
        let Told { answers, effects, .. } = cell.told().await;
        let found = faults(Route::Naive, &answers, effects);
        assert!(found.iter().any(|fault| fault.contains("done 2 times")), "{point}: {answers:?} {effects}");
    }
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
                (nth, caller.route(), caller.answers(), caller.effects(&address).await)
            });
        }
        for (nth, route, answers, effects) in running.join_all().await {
            let found = faults(route, &answers, effects);
            assert!(found.is_empty(), "round {round}, request {nth}: {found:?}: {answers:?}");
        }
        next.end().await;
        place.remove();
    }
}
