//! A process is killed, and the next finds that it is alone with the file: nobody waits for leases that nobody holds.

use crate::caller::{Caller, Route};
use crate::check::{Answer, faults};
use crate::instance::{Instance, Setup};
use crate::place::{Place, Store};
use rustix::process::Signal;
use std::time::Duration;

/// Longer than any test waits.
const LEASE: Duration = Duration::from_mins(30);

fn setup(place: &Place, name: &str, halt_at: Option<&str>) -> Setup {
    Setup { name: name.to_owned(), lease: LEASE, halt_at: halt_at.map(str::to_owned), ..place.setup() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_a_lone_process_waits_for_no_lease() {
    for point in ["claimed", "before-effect", "after-effect", "saving"] {
        for &route in Store::Sqlite.routes() {
            let place = Place::new(Store::Sqlite, &format!("lone-{point}-{}", route.name()));
            let caller = Caller::new(route);
            let mut killed = Instance::start(&setup(&place, "first", Some(&format!("{point}=kill")))).await;
            let request = tokio::spawn(caller.clone().ask(killed.address()));
            killed.ended().await;
            request.await.expect("it was asked");
            let next = Instance::start(&setup(&place, "next", None)).await;
            let told = caller.settle(&next.address()).await;
            assert_eq!(
                told == Answer::Unknown,
                route == Route::Payments,
                "{point} {}: {told:?}",
                route.name()
            );
            let done = caller.done(&next.address()).await;
            let found = faults(route, &caller.answers(), done);
            assert!(found.is_empty(), "{point} {}: {found:?}", route.name());
            next.end().await;
            place.remove().await;
        }
    }
}

/// The first is stopped in its handler, and may go on at any moment: whoever starts meanwhile must not run it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_process_that_is_only_stopped_nobody_runs_its_handler() {
    // Not orders: each process that starts goes on with the jobs that it finds.
    for route in [Route::Payments, Route::Transfers, Route::Levels] {
        let place = Place::new(Store::Sqlite, &format!("stopped-{}", route.name()));
        let caller = Caller::new(route);
        let stopped = Instance::start(&setup(&place, "first", Some("before-effect=stop"))).await;
        let request = tokio::spawn(caller.clone().ask_within(stopped.address(), 60));
        stopped.stopped().await;
        for name in ["second", "third"] {
            let beside = Instance::start(&setup(&place, name, None)).await;
            assert_eq!(
                caller.clone().ask_within(beside.address(), 1).await,
                None,
                "{}: it runs",
                route.name()
            );
            assert_eq!(caller.done(&beside.address()).await.times, 0, "{}", route.name());
            beside.kill().await;
        }
        stopped.signal(Signal::CONT);
        let told = request.await.expect("it was asked");
        assert!(matches!(told, Some(Answer::Answered(_))), "{}: {told:?}", route.name());
        let done = caller.done(&stopped.address()).await;
        assert_eq!((done.times, done.tries), (1, 1), "{}", route.name());
        stopped.end().await;
        place.remove().await;
    }
}
