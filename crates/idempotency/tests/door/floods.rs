//! What one caller may cost: budgets end in 429 for it alone, and somebody who guesses is noticed.

use crate::asks::{Ask, Told, key};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop};
use http::{StatusCode, header};
use perdura_idempotency::observe::What;
use perdura_idempotency::{Budgets, Policy};
use std::time::Duration;

fn within(plan: Plan, budgets: Budgets) -> Plan {
    plan.set_up(move |layer| layer.budgets(budgets))
}

/// It is told to come again later, with the same key.
#[track_caller]
fn assert_too_many(told: &Told) {
    told.is_refused(429, "IDEMPOTENCY_BUDGET_EXCEEDED").says_next("same_key");
    assert!((1..=60).contains(&told.header(header::RETRY_AFTER).parse::<u32>().unwrap()), "{told:?}");
}

on_each_store! {
    async fn replays_have_a_budget_for_each_caller(ground) {
        let plan = within(Plan::pays(Policy::default()), Budgets { replays: 2, ..Budgets::default() });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        for _ in 0..2 {
            assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
        }
        assert_too_many(&shop.ask(&ask).await);
        shop.ask(&Ask::pay(&key(2))).await.is_payment(2);
        let other = ask.clone().by("acme/bob");
        shop.ask(&other).await.is_payment(3);
        assert!(shop.ask(&other).await.is_payment(3).is_replayed(), "another caller has its own");
        assert_eq!(shop.till.runs(), 3);
    }

    async fn conflicts_have_a_budget_for_each_caller(ground) {
        let plan = within(Plan::pays(Policy::default()), Budgets { conflicts: 2, ..Budgets::default() });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        for guess in 0..2 {
            let told = shop.ask(&ask.clone().body(guess.to_string())).await;
            told.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        }
        assert_too_many(&shop.ask(&ask.clone().body("2")).await);
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "who does not guess gets its answer");
    }

    async fn only_so_many_run_at_a_time_for_one_caller(ground) {
        let plan = within(Plan::waits(Policy::default()), Budgets { running: 1, ..Budgets::default() });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        assert_too_many(&shop.ask(&Ask::pay(&key(2))).await);
        let waiting = shop.send(&ask);
        shop.events.until(1, |what| *what == What::Waiting).await;
        let other = shop.send(&ask.clone().by("acme/bob"));
        shop.till.began(2).await;
        shop.till.open(2);
        first.await.unwrap().is_payment(1);
        assert!(waiting.await.unwrap().is_payment(1).is_replayed(), "what it ran it may learn");
        other.await.unwrap().is_payment(2);
        shop.till.open(1);
        shop.ask(&Ask::pay(&key(2))).await.is_payment(3);
    }

    async fn only_so_much_is_stored_for_one_caller(ground) {
        let plan = within(Plan::pays(Policy::default()), Budgets { stored_bytes: 1, ..Budgets::default() });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        assert_too_many(&shop.ask(&Ask::pay(&key(2))).await);
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "what it stored it may have");
        shop.ask(&ask.clone().body("{}")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&ask.clone().by("acme/bob")).await.is_payment(2);
        assert_eq!(shop.till.runs(), 2);
    }

    async fn many_requests_under_one_key_are_told_once(ground) {
        let plan =
            within(Plan::pays(Policy::default()), Budgets { requests_per_key: 3, ..Budgets::default() });
        let shop = Shop::open(&ground, plan).await;
        let anomalies = || shop.events.count(|what| matches!(what, What::ReplayAnomaly { .. }));
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        for guess in [1, 1, 1, 2, 2] {
            shop.ask(&ask.clone().body(guess.to_string())).await;
        }
        assert_eq!(anomalies(), 0, "three different ones, with the first");
        for guess in 3..10 {
            shop.ask(&ask.clone().body(guess.to_string())).await;
        }
        assert_eq!(anomalies(), 1);
        assert_eq!(shop.events.count(|what| *what == What::ReplayAnomaly { requests: 4 }), 1);
    }
}

/// Nobody claims a lease that ran out as long as its caller may run nothing, and asking again at once changes nothing.
#[tokio::test]
async fn who_may_run_nothing_does_not_spin_on_a_lease_that_ran_out() {
    let ground = memory();
    let plan = Plan::of(Policy::default(), |_| std::future::pending::<StatusCode>());
    let shop = Shop::open(&ground, within(plan, Budgets { running: 1, ..Budgets::default() })).await;
    let hangs = shop.send(&Ask::pay(&key(1)));
    shop.till.began(1).await;
    ground.pass(Duration::from_hours(1)).await;
    assert_too_many(&shop.ask(&Ask::pay(&key(1))).await);
    hangs.abort();
}

/// Two callers, of whom one has as many running operations and waiting requests as it may.
#[tokio::test]
async fn one_caller_does_not_take_all_places_to_wait_in() {
    let plan = Plan::waits(Policy::default()).set_up(|layer| layer.waiting_max(8, 64));
    let shop = Shop::open(&memory(), plan).await;
    let waiting = || shop.events.count(|what| *what == What::Waiting);
    let greedy: Vec<_> = (0..16 * 9).map(|n| shop.send(&Ask::pay(&key(n % 16)))).collect();
    // All of the greedy one's requests wait at the gate, wait for the first, or were told to come again.
    while greedy.iter().filter(|sent| sent.is_finished()).count() + waiting() + 16 < greedy.len() {
        tokio::task::yield_now().await;
    }
    let before = waiting();
    assert!(before >= 32, "alone, it may have most of the places: {before}");
    let modest = Ask::pay(&key(1)).by("acme/bob");
    let modest = [shop.send(&modest), shop.send(&modest)];
    shop.events.until(before + 1, |what| *what == What::Waiting).await;
    shop.till.open(100);
    for told in modest {
        assert_eq!(told.await.unwrap().status, 201);
    }
}

#[tokio::test]
async fn outcomes_that_are_not_known_are_stored_and_count_as_such() {
    let plan = Plan::of(Policy::default(), |_| async { StatusCode::INTERNAL_SERVER_ERROR });
    let plan = within(plan, Budgets { stored_bytes: 1_000, ..Budgets::default() });
    let shop = Shop::open(&memory(), plan).await;
    let mut refused = 0;
    for n in 0..100 {
        refused += u32::from(shop.ask(&Ask::pay(&key(n))).await.status == 429);
    }
    assert!(refused > 90, "{refused} of 100 were refused");
}

/// Whoever is refused learns which budget it is, and how large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_budget_and_its_size() {
    let budgets = Budgets { replays: 1, running: 0, ..Budgets::default() };
    let none = Shop::open(&memory(), within(Plan::pays(Policy::default()), budgets)).await;
    let told = none.ask(&Ask::pay(&key(1))).await;
    told.is_refused(429, "IDEMPOTENCY_BUDGET_EXCEEDED");
    let detail = told.member("detail").unwrap_or_default();
    assert_eq!(detail, "Too many running operations: one caller may have 0 at a time on one instance");
    let budgets = Budgets { replays: 1, ..Budgets::default() };
    let shop = Shop::open(&memory(), within(Plan::pays(Policy::default()), budgets)).await;
    for _ in 0..2 {
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    }
    let detail = shop.ask(&Ask::pay(&key(1))).await.member("detail").unwrap_or_default();
    assert_eq!(detail, "Too many replays: one caller may have 1 in 60 s on one instance");
}

/// One caller is often a whole service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_service_as_one_caller_is_within_the_budgets() {
    let shop = Shop::open(&memory(), Plan::waits(Policy::default())).await;
    let sent: Vec<_> = (0..250).map(|n| shop.send(&Ask::pay(&key(n)))).collect();
    shop.till.began(250).await;
    shop.till.open(250);
    for told in sent {
        assert_eq!(told.await.unwrap().status, 201);
    }
    for n in 0..1_000 {
        assert!(shop.ask(&Ask::pay(&key(n % 250))).await.is_replayed(), "{n}");
    }
}
