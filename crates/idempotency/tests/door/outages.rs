//! The store is away: nothing is run that could not be recorded, and what was done is recorded when it is back.

use crate::asks::{Ask, key};
use crate::faulty::{Fault, Verb};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop, paid};
use http::{StatusCode, header};
use perdura_idempotency::observe::What;
use perdura_idempotency::{Attached, Budgets, IdempotencyContext, Policy};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const UNAVAILABLE: &str = "IDEMPOTENCY_STORE_UNAVAILABLE";

on_each_store! {
    async fn without_its_store_nothing_is_run(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        shop.store.go_down();
        for key in [key(1), key(2)] {
            let told = shop.ask(&Ask::pay(&key)).await;
            told.is_refused(503, UNAVAILABLE).says_next("same_key");
            assert!(told.headers.contains_key(header::RETRY_AFTER));
            assert_eq!(told.echo().unwrap(), key.as_str());
        }
        assert_eq!(shop.till.runs(), 1);
        shop.store.mend();
        assert!(shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        assert!(!shop.ask(&Ask::pay(&key(2))).await.is_payment(2).is_replayed());
    }

    async fn by_choice_a_route_is_run_without_protection_meanwhile(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default().fail_open())).await;
        shop.store.go_down();
        for nth in 1..=2 {
            let told = shop.ask(&Ask::pay(&key(1))).await;
            assert!(!told.is_payment(nth).is_replayed());
            assert!(told.is_digested());
        }
        shop.store.mend();
        shop.ask(&Ask::pay(&key(1))).await.is_payment(3);
        assert!(shop.ask(&Ask::pay(&key(1))).await.is_payment(3).is_replayed());
        shop.ask(&Ask::pay("not a key")).await.is_refused(400, "IDEMPOTENCY_KEY_MALFORMED");
    }

    async fn a_claim_whose_answer_is_lost_is_granted_once(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.store.fail_once(Verb::Claim, Fault::Mute);
        assert!(!shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        assert!(shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
    }

    async fn a_claim_that_was_given_up_is_given_back(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.store.fail(Verb::Claim, Fault::Mute);
        shop.ask(&Ask::pay(&key(1))).await.is_refused(503, UNAVAILABLE);
        shop.store.mend();
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "NOT_APPLIED");
        assert!(
            !shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed(),
            "nothing was done, as it was told"
        );
    }

    async fn who_waits_when_the_store_goes_away_is_told_so(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        shop.store.fail(Verb::Look, Fault::Down);
        waiting.await.unwrap().is_refused(503, UNAVAILABLE);
        shop.store.mend();
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
    }

    async fn what_was_done_while_the_store_was_away_is_recorded_when_it_is_back(ground) {
        for (nth, fault) in (1..).zip([Fault::Down, Fault::Mute]) {
            let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
            shop.store.fail(Verb::Complete, fault);
            let ask = Ask::pay(&key(nth));
            let first = shop.send(&ask);
            shop.events.until(3, |what| matches!(what, What::SaveFailed { .. })).await;
            shop.store.mend();
            assert!(!first.await.unwrap().is_payment(1).is_replayed(), "{fault:?}");
            assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "{fault:?}");
        }
    }

    async fn what_was_done_is_recorded_even_after_its_caller_was_told_to_come_again(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.store.fail(Verb::Complete, Fault::Down);
        let ask = Ask::pay(&key(1));
        let told = shop.ask(&ask).await;
        told.is_refused(503, UNAVAILABLE).says_next("same_key");
        shop.ask(&ask.clone().header("prefer", "wait=0"))
            .await
            .is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        ground.pass(Duration::from_secs(31)).await;
        shop.ask(&ask).await.is_refused(409, "OUTCOME_UNKNOWN");
        shop.store.mend();
        shop.layer.drain().await;
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "it is known after all");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn who_has_an_end_to_record_stays_the_holder_until_the_store_takes_it(ground) {
        let policy = Policy::default().lease_for(Duration::from_millis(300));
        let shop = Shop::open(&ground, Plan::pays(policy)).await;
        shop.store.fail(Verb::Complete, Fault::Down);
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.events.until(5, |what| matches!(what, What::Renewing { .. })).await;
        shop.ask(&ask.clone().header("prefer", "wait=0"))
            .await
            .is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        shop.store.mend();
        assert!(!first.await.unwrap().is_payment(1).is_replayed());
        assert_eq!(shop.till.runs(), 1);
    }

    async fn what_is_recorded_late_is_told_and_counted(ground) {
        let budgets = Budgets { stored_records: 1, ..Budgets::default() };
        let shop = Shop::open(&ground, Plan::pays(Policy::default()).set_up(move |layer| layer.budgets(budgets))).await;
        shop.store.fail(Verb::Complete, Fault::Down);
        shop.ask(&Ask::pay(&key(1))).await.is_refused(503, UNAVAILABLE);
        shop.store.mend();
        shop.layer.drain().await;
        assert_eq!(shop.events.count(|what| matches!(what, What::Saved { status: 201, .. })), 1);
        shop.ask(&Ask::pay(&key(2))).await.is_refused(429, "IDEMPOTENCY_BUDGET_EXCEEDED");
    }

    async fn an_unclear_commit_that_did_not_take_place_is_told_as_not_done(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let shop = Shop::open(&ground, Plan::pays(Policy::transactional())).await;
        shop.store.fail_once(Verb::Commit, Fault::Down);
        shop.store.fail_once(Verb::Release, Fault::Mute);
        let told = shop.ask(&Ask::pay(&key(1))).await;
        told.is_refused(503, UNAVAILABLE).says_next("same_key");
        shop.ask(&Ask::pay(&key(1))).await.is_payment(2);
    }

    async fn shutting_down_waits_for_what_runs(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default())).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        let layer = shop.layer.clone();
        let drained = tokio::spawn(async move { layer.drain().await });
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled(), "its caller is gone");
        assert!(!drained.is_finished());
        shop.till.open(1);
        drained.await.unwrap();
        assert_eq!(shop.store.asked(Verb::Complete), 1);
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_takes_nothing_of_the_time_that_a_handler_has() {
    let policy = Policy::default().run_for_max(Duration::from_millis(10));
    let shop = Shop::open(&memory(), Plan::pays(policy)).await;
    // It is asked again after a pause that is longer than that.
    shop.store.fail_once(Verb::Claim, Fault::Down);
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    assert_eq!(shop.store.asked(Verb::Claim), 2);
}

#[tokio::test(start_paused = true)]
async fn who_did_nothing_is_told_so_even_if_the_store_learns_it_later() {
    let plan = Plan::of(Policy::default(), |_| async { StatusCode::TOO_MANY_REQUESTS });
    let shop = Shop::open(&memory(), plan).await;
    shop.store.fail(Verb::Release, Fault::Down);
    assert_eq!(shop.ask(&Ask::pay(&key(1))).await.status, 429);
    shop.store.mend();
    shop.layer.drain().await;
    assert_eq!(shop.ask(&Ask::pay(&key(1))).await.status, 429);
    assert_eq!(shop.till.runs(), 2, "the key was not used up");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_is_given_back_does_not_forget_that_work_was_begun() {
    let policy = Policy::durable(|_: IdempotencyContext| async { Attached::Answer(paid(77)) });
    let plan = Plan::of(policy, |_| async { StatusCode::INTERNAL_SERVER_ERROR });
    let shop = Shop::open(&memory(), plan).await;
    let ask = Ask::pay(&key(1));
    assert_eq!(shop.ask(&ask).await.status, 500);
    shop.store.fail(Verb::Claim, Fault::Mute);
    shop.ask(&ask).await.is_refused(503, UNAVAILABLE);
    shop.store.mend();
    shop.layer.drain().await;
    assert!(!shop.ask(&ask).await.is_payment(77).is_replayed(), "the work is asked for");
    assert_eq!(shop.till.runs(), 1, "and not begun again");
}

#[tokio::test(start_paused = true)]
async fn what_was_run_without_protection_is_not_given_back() {
    let shop = Shop::open(&memory(), Plan::pays(Policy::default().fail_open())).await;
    shop.store.fail(Verb::Claim, Fault::Mute);
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    shop.store.mend();
    shop.layer.drain().await;
    shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
    assert_eq!(shop.till.runs(), 1);
}

/// Who was told that nothing was done comes again after the outage, however long that took.
#[tokio::test(start_paused = true)]
async fn a_claim_is_given_back_also_after_an_outage_that_outlasts_its_lease() {
    const OUTAGE: Duration = Duration::from_mins(10);
    let ground = memory();
    let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
    shop.store.fail(Verb::Claim, Fault::Mute);
    shop.ask(&Ask::pay(&key(1))).await.is_refused(503, UNAVAILABLE);
    shop.store.go_down();
    let drained = timeout(Duration::from_mins(1), shop.layer.drain()).await;
    assert!(drained.is_ok(), "a program that ends does not wait for the store because of what was never run");
    sleep(OUTAGE).await;
    ground.pass(OUTAGE).await;
    shop.store.mend();
    sleep(Duration::from_secs(2)).await;
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_to_be_given_back_are_bounded_for_each_caller() {
    let budgets = Budgets { running: 64, ..Budgets::default() };
    let plan = Plan::pays(Policy::default()).set_up(move |layer| layer.budgets(budgets));
    let shop = Shop::open(&memory(), plan).await;
    shop.store.go_down();
    for n in 0..200 {
        shop.ask(&Ask::pay(&key(n))).await.is_refused(503, UNAVAILABLE);
    }
    shop.store.take_asked_for();
    sleep(Duration::from_millis(1_100)).await;
    let waiting = shop.store.take_asked_for().len();
    assert!((1..=64).contains(&waiting), "{waiting} claims are offered again every second");
    shop.store.mend();
    shop.layer.drain().await;
    shop.ask(&Ask::pay(&key(0))).await.is_payment(1);
}

/// Nothing that is tried again makes a damaged record whole.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_holds_up_neither_its_caller_nor_the_end_of_the_program() {
    let shop = Shop::open(&memory(), Plan::pays(Policy::default())).await;
    shop.store.fail(Verb::Complete, Fault::Damaged);
    let began = Instant::now();
    shop.ask(&Ask::pay(&key(1))).await.is_refused(500, "IDEMPOTENCY_RECORD_DAMAGED");
    let drained = timeout(Duration::from_mins(1), shop.layer.drain()).await;
    assert!(drained.is_ok(), "its end is offered again and again");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
