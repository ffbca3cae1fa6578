//! What a crash in the middle means: transactional, durable, at most once.

use crate::asks::{Ask, key};
use crate::faulty::{Fault, Verb};
use crate::grounds::{Ground, act, memory, on_each_store, postgres, sqlite};
use crate::shop::{Plan, Shop, paid};
use axum::response::IntoResponse;
use http::{StatusCode, header};
use perdura_idempotency::observe::What;
use perdura_idempotency::store::postgres::Transaction;
use perdura_idempotency::store::sqlite;
use perdura_idempotency::{Attached, IdempotencyContext, NotApplied, OutcomeUnknown, Policy};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Handlers that do something to the world in their transaction, then end as the query says, the first time.
fn acting(ground: &Arc<Ground>, policy: Policy) -> Plan {
    let ground = ground.clone();
    Plan::of(policy, move |call| {
        let ground = ground.clone();
        async move {
            let how = call.request.uri().query().unwrap_or_default().to_owned();
            if how.starts_with("gate") && call.nth == 1 {
                call.till.at_the_gate().await;
            }
            act(&ground, call.request.extensions()).await;
            if call.nth > 1 {
                return paid(call.nth);
            }
            match how.as_str() {
                "panic" | "gate-panic" => panic!("on purpose"),
                "never" => std::future::pending().await,
                "not-applied" => NotApplied(StatusCode::CONFLICT).into_response(),
                "renewed" => {
                    call.till.at_the_gate().await;
                    paid(1)
                }
                "" | "gate" => paid(1),
                status => StatusCode::from_u16(status.parse().unwrap()).unwrap().into_response(),
            }
        }
    })
}

/// A handler that takes the commit into its own hands has detached its effect from its record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_committed_by_itself_is_not_run_again() {
    let ground = postgres().await;
    // How it goes on after that.
    for (nth, how) in (1..).zip(["", "500", "429", "panic"]) {
        let before = ground.effects().await;
        let acting = ground.clone();
        let plan = Plan::of(Policy::transactional(), move |call| {
            let ground = acting.clone();
            async move {
                act(&ground, call.request.extensions()).await;
                let transaction = call.request.extensions().get::<Transaction>().unwrap();
                transaction.client().await.unwrap().batch_execute("COMMIT").await.unwrap();
                match how {
                    "" => paid(call.nth),
                    "panic" => panic!("on purpose"),
                    status => StatusCode::from_u16(status.parse().unwrap()).unwrap().into_response(),
                }
            }
        });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(nth));
        shop.ask(&ask).await.is_refused(500, "OUTCOME_UNKNOWN");
        let told = shop.ask(&ask).await;
        told.is_refused(409, "OUTCOME_UNKNOWN").says_next("stop");
        assert_eq!((shop.till.runs(), ground.effects().await - before), (1, 1), "{how}");
    }
}

on_each_store! {
    async fn transactional_needs_a_store_with_transactions(ground) {
        let opened = Shop::try_open(&ground, Plan::pays(Policy::transactional())).await;
        match (ground.shares_transactions(), opened) {
            (true, opened) => assert!(opened.is_ok()),
            (false, Ok(_)) => panic!("it should not start"),
            (false, Err(error)) => {
                let (text, store) = (error.to_string(), ground.store().name());
                assert!(text.contains(store) && text.contains("use SQLite or PostgreSQL"), "{text}");
            }
        }
    }

    async fn a_transactional_effect_and_its_record_are_both_there_or_neither_is(ground) {
        if !ground.shares_transactions() {
            return;
        }
        // How the first run ends, what its caller is told, and whether it counts.
        for (nth, (how, status, counts)) in (1..).zip([
            ("", 201, true),
            ("422", 422, true),
            ("303", 303, true),
            ("429", 429, false),
            ("500", 500, false),
            ("503", 503, false),
            ("not-applied", 409, false),
            ("panic", 500, false),
            ("never", 504, false),
        ]) {
            let before = ground.effects().await;
            let policy = Policy::transactional();
            let policy = if how == "never" { policy.run_for_max(Duration::from_secs(1)) } else { policy };
            let shop = Shop::open(&ground, acting(&ground, policy)).await;
            let ask = Ask::pay(&key(nth)).to(&format!("/payments?{how}"));
            assert_eq!(shop.ask(&ask).await.status, status, "{how}");
            assert_eq!(ground.effects().await - before, i64::from(counts), "{how}");
            let second = shop.ask(&ask).await;
            assert_eq!(ground.effects().await - before, 1, "{how}: once, at last");
            assert_eq!(
                (shop.till.runs(), second.is_replayed()),
                if counts { (1, true) } else { (2, false) },
                "{how}"
            );
            assert!(shop.ask(&ask).await.is_replayed(), "{how}");
        }
    }

    async fn a_commit_whose_answer_is_lost_is_found_out(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let shop = Shop::open(&ground, acting(&ground, Policy::transactional())).await;
        shop.store.fail(Verb::Commit, Fault::Mute);
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert!(told.is_payment(1).is_replayed(), "it was committed");
        assert_eq!((ground.effects().await, shop.till.runs()), (1, 1));

        shop.store.fail(Verb::Commit, Fault::Down);
        let told = shop.ask(&Ask::pay(&key(2))).await;
        told.is_refused(503, "IDEMPOTENCY_STORE_UNAVAILABLE").says_next("same_key");
        assert_eq!(ground.effects().await, 1, "it was not committed");
        shop.store.mend();
        shop.ask(&Ask::pay(&key(2))).await.is_payment(3);
        assert_eq!(ground.effects().await, 2);
    }

    async fn a_transaction_that_cannot_begin_runs_nothing_and_uses_up_no_key(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let shop = Shop::open(&ground, acting(&ground, Policy::transactional())).await;
        shop.store.fail(Verb::Begin, Fault::Down);
        shop.ask(&Ask::pay(&key(1))).await.is_refused(503, "IDEMPOTENCY_STORE_UNAVAILABLE");
        assert_eq!(shop.till.runs(), 0);
        shop.store.mend();
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        assert_eq!(ground.effects().await, 1);
    }

    async fn a_transaction_that_ends_after_its_lease_was_taken_over_leaves_nothing(ground) {
        if !ground.shares_transactions() {
            return;
        }
        for (nth, how) in (1..).zip(["gate", "gate-panic"]) {
            let before = ground.effects().await;
            let here = Shop::open(&ground, acting(&ground, Policy::transactional())).await;
            let there = here.beside().await;
            let ask = Ask::pay(&key(nth)).to(&format!("/payments?{how}"));
            let paused = here.send(&ask);
            here.till.began(1).await;
            ground.pass(Duration::from_secs(31)).await;
            there.ask(&ask).await.is_payment(2);
            here.till.open(1);
            let paused = paused.await.unwrap();
            assert!(paused.is_payment(2).is_replayed(), "{how}: it is told what counts");
            assert_eq!(ground.effects().await - before, 1, "{how}");
            assert!(here.ask(&ask).await.is_payment(2).is_replayed(), "{how}");
        }
    }

    async fn a_lease_may_be_renewed_while_a_transaction_is_open(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let policy = Policy::transactional().lease_for(Duration::from_secs(3));
        let shop = Shop::open(&ground, acting(&ground, policy)).await;
        let told = shop.send(&Ask::pay(&key(1)).to("/payments?renewed"));
        shop.events.until(1, |what| matches!(what, What::Renewing { .. })).await;
        shop.till.open(1);
        assert!(!told.await.unwrap().is_payment(1).is_replayed());
        assert_eq!(ground.effects().await, 1);
    }

    async fn durable_work_is_attached_to_and_not_begun_again(ground) {
        let attached: Arc<Mutex<Vec<IdempotencyContext>>> = Arc::default();
        let noting = attached.clone();
        let attach = move |context: IdempotencyContext| {
            let mut attached = noting.lock().unwrap();
            attached.push(context);
            let nth = attached.len();
            async move {
                match nth {
                    1 => Attached::StillRunning,
                    2 => Attached::Unknown,
                    3 => panic!("on purpose"),
                    4 => Attached::NotBegun,
                    _ => Attached::Answer(paid(77)),
                }
            }
        };
        let plan = Plan::of(Policy::durable(attach), |call| async move {
            match call.nth {
                1 => panic!("on purpose"),
                nth => (StatusCode::BAD_GATEWAY, format!("run {nth}")),
            }
        });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_refused(500, "OUTCOME_UNKNOWN");
        assert_eq!(attached.lock().unwrap().len(), 0, "the first request has nothing to attach to");

        let running = shop.ask(&ask).await;
        running.is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        assert!(running.headers.contains_key(header::RETRY_AFTER));
        shop.ask(&ask).await.is_refused(409, "OUTCOME_UNKNOWN");
        shop.ask(&ask).await.is_refused(500, "OUTCOME_UNKNOWN");
        assert_eq!(shop.till.runs(), 1, "none of these has run it");
        let run = shop.ask(&ask).await;
        assert_eq!((run.status.as_u16(), &run.body[..]), (502, &b"run 2"[..]), "it was not begun, so it is");
        assert!(!shop.ask(&ask).await.is_payment(77).is_replayed());
        assert!(shop.ask(&ask).await.is_payment(77).is_replayed(), "an end that was found is recorded");
        assert_eq!(shop.till.runs(), 2);

        let attached = attached.lock().unwrap();
        assert_eq!(attached.len(), 5);
        assert!(attached.iter().all(IdempotencyContext::is_taken_over));
        assert!(attached.iter().all(|context| context.operation() == shop.store.operation()));
        assert!(attached.windows(2).all(|pair| pair[0].epoch() < pair[1].epoch()));
    }

    async fn durable_work_whose_instance_is_gone_is_attached_to_once_the_lease_ran_out(ground) {
        let plan = Plan::waits(Policy::durable(|_: IdempotencyContext| async { Attached::Answer(paid(77)) }));
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let gone = here.send(&ask);
        here.till.began(1).await;
        there
            .ask(&ask.clone().header("prefer", "wait=0"))
            .await
            .is_refused(409, "IDEMPOTENT_REQUEST_IN_PROGRESS");
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(77);
        assert_eq!(here.till.runs(), 1);
        here.till.open(1);
        assert!(gone.await.unwrap().is_payment(77).is_replayed());
    }

    async fn at_most_once_what_its_instance_left_behind_is_not_known_and_stays_so(ground) {
        let here = Shop::open(&ground, Plan::waits(Policy::at_most_once())).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let gone = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        for _ in 0..3 {
            there.ask(&ask).await.is_refused(409, "OUTCOME_UNKNOWN");
            ground.pass(Duration::from_hours(7)).await;
        }
        assert_eq!(here.till.runs(), 1);
        gone.abort();
    }

    async fn who_did_nothing_after_its_lease_was_taken_over_is_told_what_counts(ground) {
        let not_begun = |_: IdempotencyContext| async { Attached::NotBegun };
        let plan = Plan::of(Policy::durable(not_begun), |call| async move {
            if call.nth == 1 {
                call.till.at_the_gate().await;
                return NotApplied(StatusCode::SERVICE_UNAVAILABLE).into_response();
            }
            paid(call.nth)
        });
        let here = Shop::open(&ground, plan).await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        here.till.open(1);
        assert!(paused.await.unwrap().is_payment(2).is_replayed());
        assert!(here.ask(&ask).await.is_payment(2).is_replayed());
    }
}

/// A statement that fails may roll the whole transaction back, and then SQLite commits each further one by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_run_after_sqlite_rolled_back_is_not_committed_apart_from_its_record() {
    let ground = sqlite();
    let plan = Plan::of(Policy::transactional(), |call| async move {
        let transaction = call.request.extensions().get::<sqlite::Transaction>().unwrap();
        let ran = transaction.run(move |file| {
            if call.nth == 1 {
                file.execute("INSERT OR ROLLBACK INTO effect VALUES (NULL)", [])
                    .expect_err("it is never null");
            }
            file.execute("INSERT INTO effect VALUES (1)", [])
        });
        if ran.await.is_ok() { Ok(paid(call.nth)) } else { Err(StatusCode::INTERNAL_SERVER_ERROR) }
    });
    let shop = Shop::open(&ground, plan).await;
    assert_eq!(shop.ask(&Ask::pay(&key(1))).await.status, 500);
    shop.ask(&Ask::pay(&key(1))).await.is_payment(2);
    assert_eq!(ground.effects().await, 1, "of two runs, one was undone");
}

/// A handler that asked somebody else, and got no answer, says so; the caller is told in the layer's words.
#[tokio::test]
async fn a_handler_can_say_that_it_does_not_know_what_was_done() {
    for (status, told) in [(504, 504), (502, 502), (200, 502)] {
        let plan = Plan::of(Policy::at_most_once(), move |_| async move {
            let status = StatusCode::from_u16(status).unwrap();
            OutcomeUnknown { status, detail: "the bank went silent".to_owned() }
        });
        let shop = Shop::open(&memory(), plan).await;
        let first = shop.ask(&Ask::pay(&key(1))).await;
        first.is_refused(told, "OUTCOME_UNKNOWN").says_next("stop");
        assert_eq!(first.member("detail").as_deref(), Some("the bank went silent"));
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "OUTCOME_UNKNOWN");
        assert_eq!(shop.till.runs(), 1);
    }
}

/// What a hook says of work that a handler began, which then broke.
async fn broken(attached: fn() -> Attached) -> Shop {
    let policy = Policy::durable(move |_: IdempotencyContext| async move { attached() });
    let plan = Plan::of(policy, |_| async { StatusCode::INTERNAL_SERVER_ERROR });
    let shop = Shop::open(&memory(), plan).await;
    assert_eq!(shop.ask(&Ask::pay(&key(1))).await.status, 500);
    shop
}

/// A handler that answers 429 did nothing. Work that has ended with it did.
#[tokio::test]
async fn work_that_has_ended_is_not_begun_again_whatever_it_ended_with() {
    let shop = broken(|| Attached::Answer(StatusCode::TOO_MANY_REQUESTS.into_response())).await;
    for replayed in [false, true, true] {
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!((told.status.as_u16(), told.is_replayed(), shop.till.runs()), (429, replayed, 1));
    }
}

#[tokio::test]
async fn the_hook_can_say_that_nothing_was_done_and_the_work_is_begun_again() {
    let shop = broken(|| Attached::Answer(NotApplied(StatusCode::TOO_MANY_REQUESTS).into_response())).await;
    for (status, runs) in [(429, 1), (500, 2)] {
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!((told.status.as_u16(), shop.till.runs()), (status, runs));
    }
}
