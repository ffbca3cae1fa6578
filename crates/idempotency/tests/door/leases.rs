//! Leases: kept up while the handler runs, never outlived where somebody else may run, and numbered.

use crate::asks::{Ask, key};
use crate::faulty::{Fault, Verb};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop, durable, paid};
use perdura_idempotency::observe::What;
use perdura_idempotency::{Attached, IdempotencyContext, Policy};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Notes when it is dropped: when a handler was stopped.
struct Stopped(Arc<Mutex<Option<Instant>>>);

impl Drop for Stopped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(Instant::now());
    }
}

/// Handlers that never end by themselves, and when the last of them was stopped.
fn endless(policy: Policy) -> (Plan, Arc<Mutex<Option<Instant>>>) {
    let stopped_at = Arc::new(Mutex::new(None));
    let noting = stopped_at.clone();
    let plan = Plan::of(policy, move |call| {
        let stopped = Stopped(noting.clone());
        async move {
            if call.nth == 1 {
                std::future::pending::<()>().await;
            }
            drop(stopped);
            paid(call.nth)
        }
    });
    (plan, stopped_at)
}

/// The context that the request carries.
fn context(call: &crate::shop::Call) -> IdempotencyContext {
    call.request.extensions().get::<IdempotencyContext>().expect("the layer puts it there").clone()
}

on_each_store! {
    async fn a_handler_that_takes_longer_than_its_lease_keeps_it(ground) {
        let lease = Duration::from_millis(1_500);
        let shop = Shop::open(&ground, Plan::waits(Policy::default().lease_for(lease))).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        for renewals in 1..=5 {
            // That the next is asked for says that those before are done.
            shop.events.until(renewals, |what| matches!(what, What::Renewing { .. })).await;
            ground.pass(lease / 4).await;
        }
        let told = shop.ask(&ask.clone().header("prefer", "wait=0")).await;
        told.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        assert_eq!(shop.events.count(|what| matches!(what, What::LeaseLost { .. })), 0);
    }

    async fn a_handler_whose_lease_cannot_be_renewed_is_stopped_where_others_may_run(ground) {
        for (nth, fault) in (1..).zip([Fault::Down, Fault::Stuck]) {
            let (plan, stopped_at) = endless(durable().lease_for(Duration::from_secs(1)));
            let shop = Shop::open(&ground, plan).await;
            shop.store.fail(Verb::Renew, fault);
            let told = shop.ask(&Ask::pay(&key(nth))).await;
            told.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
            assert!(
                stopped_at.lock().unwrap().is_some(),
                "{fault:?}: the handler is gone before its caller is told"
            );
            shop.store.mend();
            ground.pass(Duration::from_secs(2)).await;
            shop.ask(&Ask::pay(&key(nth))).await.is_payment(2);
        }
    }

    async fn a_handler_whose_lease_cannot_be_renewed_goes_on_where_nobody_else_may_run(ground) {
        let plan = Plan::waits(Policy::default().lease_for(Duration::from_millis(300)));
        let shop = Shop::open(&ground, plan).await;
        shop.store.fail(Verb::Renew, Fault::Down);
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.events.until(8, |what| matches!(what, What::Renewing { .. })).await;
        ground.pass(Duration::from_secs(1)).await;
        shop.ask(&ask).await.is_refused(409, "OUTCOME_UNKNOWN");
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
        assert_eq!(shop.till.runs(), 1);
    }

    async fn each_grant_has_a_larger_epoch_and_says_whether_somebody_began_before(ground) {
        let plan = Plan::of(durable(), |call| async move {
            let context = context(&call);
            assert_eq!(context.key().to_string(), key(1));
            assert!(IdempotencyContext::current().is_some_and(|current| current.epoch() == context.epoch()));
            assert!(call.nth == 3, "the first two break");
            format!("{} {}", context.is_taken_over(), context.operation())
        });
        let shop = Shop::open(&ground, plan).await;
        for _ in 0..2 {
            shop.ask(&Ask::pay(&key(1))).await.is_refused(500, "OUTCOME_UNKNOWN");
        }
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!(told.body, format!("true {}", shop.store.operation()));
        let events = shop.events.claims();
        assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "{events:?}");
        assert_eq!(events.iter().map(|(_, taken_over)| *taken_over).collect::<Vec<_>>(), [false, true, true]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_in_the_context_moves_with_each_renewal() {
    let plan = Plan::of(Policy::default(), |call| async move {
        let (context, began) = (context(&call), Instant::now());
        let mut left = Vec::new();
        for _ in 0..3 {
            left.push((context.deadline() - began).as_secs());
            tokio::time::sleep(Duration::from_secs(11)).await;
        }
        format!("{left:?}")
    });
    let shop = Shop::open(&memory(), plan).await;
    assert_eq!(shop.ask(&Ask::pay(&key(1))).await.body, "[28, 38, 48]");
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_stopped_before_its_lease_can_end_whatever_the_store_does() {
    // Down from the start, and stuck from some renewal on: they are at 10 s, and from then on every 2.5 s.
    for stuck_from in 0..8 {
        let (plan, stopped_at) = endless(durable());
        let shop = Shop::open(&memory(), plan).await;
        let began = Instant::now();
        shop.store.fail(Verb::Renew, if stuck_from == 0 { Fault::Stuck } else { Fault::Down });
        let told = shop.send(&Ask::pay(&key(1)));
        if stuck_from > 0 {
            shop.events.until(stuck_from, |what| matches!(what, What::Renewing { .. })).await;
            shop.store.fail(Verb::Renew, Fault::Stuck);
        }
        told.await.unwrap().is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        let ran_for = stopped_at.lock().unwrap().expect("it was stopped") - began;
        assert!((28..30).contains(&ran_for.as_secs()), "stuck from {stuck_from}: it ran for {ran_for:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_a_renewal_that_gets_none() {
    for policy in [Policy::default(), durable()] {
        let shop = Shop::open(&memory(), Plan::waits(policy)).await;
        shop.store.fail(Verb::Renew, Fault::Stuck);
        let began = Instant::now();
        let told = shop.send(&Ask::pay(&key(1)));
        shop.events.until(1, |what| matches!(what, What::Renewing { .. })).await;
        shop.till.open(1);
        told.await.unwrap().is_payment(1);
        assert_eq!(began.elapsed().as_secs(), 10, "when the renewal was asked for");
    }
}

/// Another instance has taken the work over, and its hook says that it goes on: a retry is attached to it.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_of_work_that_goes_on_is_told_to_come_again() {
    let ground = memory();
    let policy = Policy::durable(|_: IdempotencyContext| async { Attached::StillRunning });
    let here = Shop::open(&ground, endless(policy).0).await;
    let there = here.beside().await;
    here.store.fail(Verb::Renew, Fault::Stuck);
    let asked = here.send(&Ask::pay(&key(1)));
    here.till.began(1).await;
    ground.pass(Duration::from_secs(31)).await;
    for told in [there.ask(&Ask::pay(&key(1))).await, asked.await.unwrap()] {
        told.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS").says_next("same_key");
    }
}
