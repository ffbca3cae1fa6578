//! A second request while the first one runs: it waits, within bounds, and is told what came of the first.

use crate::asks::{Ask, key};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop, durable, paid};
use http::{StatusCode, header};
use perdura_idempotency::Policy;
use perdura_idempotency::observe::What;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use tower::ServiceExt;

const IN_PROGRESS: &str = "IDEMPOTENT_REQUEST_IN_PROGRESS";

on_each_store! {
    async fn another_request_under_the_key_does_not_wait_and_learns_only_that_it_conflicts(ground) {
        let here = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let other = ask.clone().body("{}");
        let first = here.send(&ask);
        here.till.began(1).await;
        let (running_here, running_there) = (here.ask(&other).await, there.ask(&other).await);
        assert_eq!(here.events.count(|what| *what == What::Waiting), 0);
        here.till.open(1);
        first.await.unwrap().is_payment(1);
        let ended = here.ask(&other).await;
        ended.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        for running in [running_here, running_there] {
            assert_eq!((running.body, running.status), (ended.body.clone(), ended.status));
            assert_eq!(running.headers, ended.headers, "nothing tells that it runs");
        }
    }

    async fn another_request_under_the_key_never_takes_over(ground) {
        let shop = Shop::open(&ground, Plan::waits(durable())).await;
        let ask = Ask::pay(&key(1));
        let paused = shop.send(&ask);
        shop.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        shop.ask(&ask.clone().body("{}")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        assert_eq!(shop.till.runs(), 1);
        shop.till.open(1);
        assert!(!paused.await.unwrap().is_payment(1).is_replayed(), "nobody took it over");
    }

    async fn who_waits_is_told_the_first_ones_answer_on_any_instance(ground) {
        let here = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let first = here.send(&ask);
        here.till.began(1).await;
        let waiting = [here.send(&ask), there.send(&ask)];
        here.events.until(2, |what| *what == What::Waiting).await;
        here.till.open(1);
        assert!(!first.await.unwrap().is_payment(1).is_replayed());
        for told in waiting {
            assert!(told.await.unwrap().is_payment(1).is_replayed());
        }
        assert_eq!(here.events.count(|what| matches!(what, What::Waited { .. })), 2);
        assert_eq!(here.till.runs(), 1);
    }

    async fn only_so_many_wait_for_one_operation_and_in_all(ground) {
        let plan = Plan::waits(Policy::default()).set_up(|layer| layer.waiting_max(2, 3));
        let shop = Shop::open(&ground, plan).await;
        let (one, two) = (Ask::pay(&key(1)), Ask::pay(&key(2)));
        let first = [shop.send(&one), shop.send(&two)];
        shop.till.began(2).await;
        let mut waiting = vec![shop.send(&one), shop.send(&one)];
        shop.events.until(2, |what| *what == What::Waiting).await;
        let told = shop.ask(&one).await;
        told.is_refused(409, IN_PROGRESS).says_next("same_key");
        assert!((1..=60).contains(&told.header(header::RETRY_AFTER).parse::<u32>().unwrap()));
        waiting.push(shop.send(&two));
        shop.events.until(3, |what| *what == What::Waiting).await;
        shop.ask(&two).await.is_refused(409, IN_PROGRESS);
        shop.till.open(2);
        for told in first.into_iter().chain(waiting) {
            assert_eq!(told.await.unwrap().status, StatusCode::CREATED);
        }
        assert_eq!(shop.till.runs(), 2);
        assert!(shop.ask(&one).await.is_replayed(), "the places were given back");
    }

    async fn a_client_may_wish_to_wait_less_and_not_more(ground) {
        let shop =
            Shop::open(&ground, Plan::waits(Policy::default().wait_for_max(Duration::from_millis(20)))).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        for wish in
            ["wait=0", "respond-async, wait=0", "wait=1000000", "wait=99999999999999999999", "return=minimal"]
        {
            let told = shop.ask(&ask.clone().header("prefer", wish)).await;
            told.is_refused(409, IN_PROGRESS);
            assert!(told.headers.contains_key(header::RETRY_AFTER), "{wish}");
        }
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
    }

    async fn who_waits_for_one_that_fails_is_told_so_and_does_not_take_over(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            call.till.at_the_gate().await;
            assert!(call.nth == 0, "no run succeeds");
        });
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let first = here.send(&ask);
        here.till.began(1).await;
        let waiting = [here.send(&ask), there.send(&ask), there.send(&ask)];
        here.events.until(3, |what| *what == What::Waiting).await;
        here.till.open(10);
        first.await.unwrap().is_refused(500, "OUTCOME_UNKNOWN");
        for told in waiting {
            told.await.unwrap().is_refused(409, "OUTCOME_UNKNOWN");
        }
        assert_eq!(here.till.runs(), 1);
    }

    async fn who_waits_for_one_that_did_nothing_is_told_so_and_does_not_run_in_its_place(ground) {
        let policies = [Policy::default(), durable(), Policy::transactional()];
        // How the first ends: refused in any mode, and failed where that is undone.
        let ends = [StatusCode::TOO_MANY_REQUESTS, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY];
        for (nth, (policy, end)) in (1..).zip(policies.into_iter().zip(ends)) {
            if end == StatusCode::BAD_GATEWAY && !ground.shares_transactions() {
                continue;
            }
            let plan = Plan::of(policy, move |call| async move {
                call.till.at_the_gate().await;
                if call.nth == 1 { Err(end) } else { Ok(paid(call.nth)) }
            });
            let here = Shop::open(&ground, plan).await;
            let there = here.beside().await;
            let ask = Ask::pay(&key(nth));
            let first = here.send(&ask);
            here.till.began(1).await;
            let waiting = [here.send(&ask), there.send(&ask), there.send(&ask)];
            here.events.until(3, |what| *what == What::Waiting).await;
            here.till.open(10);
            assert_eq!(first.await.unwrap().status, end);
            for told in waiting {
                let told = told.await.unwrap();
                told.is_refused(409, "NOT_APPLIED").says_next("same_key");
                assert!(told.headers.contains_key(header::RETRY_AFTER));
            }
            assert_eq!(here.till.runs(), 1);
            there.ask(&ask).await.is_payment(2);
        }
    }

    async fn who_waits_for_durable_work_that_fails_is_attached_to_it(ground) {
        let plan = Plan::of(durable(), |call| async move {
            call.till.at_the_gate().await;
            if call.nth == 1 { Err(StatusCode::BAD_GATEWAY) } else { Ok(paid(call.nth)) }
        });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        shop.till.open(2);
        assert_eq!(first.await.unwrap().status, StatusCode::BAD_GATEWAY);
        waiting.await.unwrap().is_payment(2);
        assert_eq!(shop.till.runs(), 2, "the hook said that the work was not begun");
    }

    async fn who_waits_for_one_whose_lease_runs_out_is_told_that_it_is_not_known(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        ground.pass(Duration::from_secs(31)).await;
        waiting.await.unwrap().is_refused(409, "OUTCOME_UNKNOWN");
        shop.till.open(1);
        assert!(!first.await.unwrap().is_payment(1).is_replayed(), "nobody else ran, so it counts, late");
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
        assert_eq!(shop.till.runs(), 1);
    }

    async fn a_waiter_that_goes_away_leaves_its_place(ground) {
        let plan = Plan::waits(Policy::default()).set_up(|layer| layer.waiting_max(1, 1));
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        let gone = shop.send(&ask);
        shop.events.until(1, |what| *what == What::Waiting).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        let waiting = shop.send(&ask);
        shop.events.until(2, |what| *what == What::Waiting).await;
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        assert!(waiting.await.unwrap().is_payment(1).is_replayed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waited_in_vain_is_told_to_come_again_after_about_as_long_as_it_takes() {
    let policy = Policy::default().wait_for_max(Duration::from_secs(1));
    let plan = Plan::of(policy, |call| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        paid(call.nth)
    });
    let shop = Shop::open(&memory(), plan).await;
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    let second = shop.send(&Ask::pay(&key(2)));
    shop.till.began(2).await;
    let told = shop.ask(&Ask::pay(&key(2))).await;
    told.is_refused(409, IN_PROGRESS);
    assert!((20..=30).contains(&told.header(header::RETRY_AFTER).parse::<u32>().unwrap()), "{told:?}");
    second.await.unwrap().is_payment(2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_the_client_wishes_and_no_longer_than_the_route_allows() {
    let shop = Shop::open(&memory(), Plan::waits(Policy::default())).await;
    let ask = Ask::pay(&key(1));
    let first = shop.send(&ask);
    shop.till.began(1).await;
    for (wish, seconds) in [("wait=2", 2), ("wait=0", 0), ("wait=60", 10), ("return=minimal", 10)] {
        let began = Instant::now();
        shop.ask(&ask.clone().header("prefer", wish)).await.is_refused(409, IN_PROGRESS);
        assert_eq!(began.elapsed().as_secs(), seconds, "{wish}");
    }
    shop.till.open(1);
    first.await.unwrap().is_payment(1);
}

#[tokio::test(start_paused = true)]
async fn who_waited_in_vain_is_not_told_to_come_again_when_all_others_do() {
    let plan = Plan::of(Policy::default(), |call| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        paid(call.nth)
    });
    let shop = Shop::open(&memory(), plan).await;
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    let second = shop.send(&Ask::pay(&key(2)));
    shop.till.began(2).await;
    let waiting: Vec<_> = (0..50).map(|_| shop.send(&Ask::pay(&key(2)))).collect();
    let mut told_to_come = BTreeSet::new();
    for told in waiting {
        let told = told.await.unwrap();
        told.is_refused(409, IN_PROGRESS);
        told_to_come.insert(told.header(header::RETRY_AFTER).parse::<u32>().unwrap());
    }
    assert!(told_to_come.len() > 1, "{told_to_come:?}");
    assert!(told_to_come.iter().all(|seconds| (20..=30).contains(seconds)), "{told_to_come:?}");
    second.await.unwrap().is_payment(2);
}

/// How somebody lets go of a request that runs.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// A layer further out panics, and all that it waits for is dropped while the thread unwinds.
    Panicking,
    /// What served the request is dropped by a thread that knows no runtime.
    OnAnotherThread,
}

#[tokio::test]
async fn what_runs_is_recorded_however_its_caller_is_dropped() {
    for leaves in [Leaves::Panicking, Leaves::OnAnotherThread] {
        let shop = Shop::open(&memory(), Plan::waits(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        let mut asked = Box::pin(shop.app.clone().oneshot(ask.request()));
        tokio::select! {
            biased;
            told = &mut asked => panic!("it waits: {told:?}"),
            () = shop.till.began(1) => {}
        }
        match leaves {
            Leaves::Panicking => {
                let panics = tokio::spawn(async move {
                    let _asked = asked;
                    panic!("on purpose");
                });
                assert!(panics.await.is_err(), "it panicked");
            }
            Leaves::OnAnotherThread => std::thread::spawn(move || drop(asked)).join().unwrap(),
        }
        shop.till.open(1);
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "{leaves:?}");
    }
}
