//! How long it is remembered: from the end on, never while it runs, and whoever sweeps changes no answer.

use crate::asks::{Ask, key};
use crate::grounds::{memory, on_each_store};
use crate::shop::{Plan, Shop};
use jiff::{SignedDuration, Timestamp};
use perdura_idempotency::conformance::{answered, claim, operation};
use perdura_idempotency::observe::What;
use perdura_idempotency::record::{Claimed, Keep};
use perdura_idempotency::store::Store;
use perdura_idempotency::{Builder, Policy};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a sweep keeps what it finds to have lapsed.
const KEEP: Keep = Keep { answer_for: hours(2), tombstone_for: Duration::ZERO };

const fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

/// A key that says that it was made at this moment.
fn made_at(moment: Timestamp) -> String {
    let millis = format!("{:012x}", moment.as_millisecond());
    format!("{}-{}-7000-8000-000000000001", &millis[..8], &millis[8..])
}

/// A key from long ago.
fn old() -> Ask {
    Ask::pay(&made_at("2022-02-22T19:22:22Z".parse().unwrap()))
}

on_each_store! {
    async fn a_result_is_given_for_as_long_as_it_is_kept_and_then_the_key_is_new(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default().retention(hours(2)))).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        ground.pass(Duration::from_mins(119)).await;
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed(), "which does not prolong it");
        ground.pass(Duration::from_mins(2)).await;
        let other = ask.clone().body("{}");
        assert!(!shop.ask(&other).await.is_payment(2).is_replayed(), "the key may be used for anything");
        shop.ask(&ask).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    }

    async fn it_is_kept_from_its_end_on(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default().retention(hours(2)))).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        ground.pass(hours(5)).await;
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        ground.pass(Duration::from_mins(119)).await;
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
    }

    async fn nothing_expires_while_it_runs(ground) {
        let shop = Shop::open(&ground, Plan::waits(Policy::default().retention(hours(2)))).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        ground.pass(hours(48)).await;
        shop.store.sweep(1_000, KEEP).await.unwrap();
        shop.ask(&ask).await.is_refused(409, "OUTCOME_UNKNOWN");
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        assert_eq!(shop.till.runs(), 1);
    }

    async fn a_tombstone_refuses_a_late_retry_whether_or_not_it_was_swept(ground) {
        let policy = Policy::default().retention(hours(2)).tombstone_for(hours(24));
        let shop = Shop::open(&ground, Plan::pays(policy)).await;
        let ask = Ask::pay(&key(1));
        shop.ask(&ask).await.is_payment(1);
        ground.pass(hours(3)).await;
        for _ in 0..2 {
            let told = shop.ask(&ask).await;
            told.is_refused(409, "RESULT_EXPIRED").says_next("stop");
            shop.ask(&ask.clone().body("{}")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
            shop.store.sweep(1_000, KEEP).await.unwrap();
        }
        ground.pass(hours(24)).await;
        shop.ask(&ask).await.is_payment(2);
    }

    async fn what_expired_is_swept_away_by_itself(ground) {
        let policy = Policy::default().retention(hours(2));
        let plan = Plan::pays(policy).set_up(|layer| layer.sweep_every(Duration::from_millis(10)));
        let shop = Shop::open(&ground, plan).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        ground.pass(hours(3)).await;
        // A store that forgets by itself has nothing left to sweep.
        let is_gone = || async { shop.store.look(shop.store.operation()).await.unwrap().is_none() };
        let before = shop.events.count(|what| matches!(what, What::Swept(_)));
        shop.events.until(before + 2, |what| matches!(what, What::Swept(_))).await;
        assert!(is_gone().await);
        shop.ask(&Ask::pay(&key(1))).await.is_payment(2);
    }

    async fn a_key_that_is_older_than_any_record_is_refused_by_choice(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&old()).await.is_payment(1);
        let plan = Plan::pays(Policy::default()).set_up(Builder::refuse_stale_keys);
        let strict = Shop::open(&ground, plan).await;
        assert!(strict.ask(&old()).await.is_payment(1).is_replayed(), "there is a record of it");
        ground.pass(hours(25)).await;
        let told = strict.ask(&old()).await;
        told.is_refused(412, "STALE_IDEMPOTENCY_KEY").says_next("stop");
        let now = Timestamp::now();
        let stale = Ask::pay(&made_at(now - SignedDuration::from_hours(25)));
        strict.ask(&stale).await.is_refused(412, "STALE_IDEMPOTENCY_KEY");
        assert_eq!(strict.till.runs(), 0);
        for key in [made_at(now), made_at(now + SignedDuration::from_hours(1)), key(1)] {
            assert_eq!(strict.ask(&Ask::pay(&key)).await.status, 201, "{key}");
        }
    }
}

#[tokio::test]
async fn a_tombstone_that_stays_for_ever_goes_with_the_refusal_of_stale_keys() {
    let plan = Plan::pays(Policy::default().tombstone_for(Duration::MAX)).set_up(Builder::refuse_stale_keys);
    Shop::open(&memory(), plan).await.ask(&old()).await.is_payment(1); // No key is older than for ever.
}

/// A record that is there when the key's age is looked at, and gone when it is claimed.
#[tokio::test]
async fn a_stale_key_is_refused_also_where_its_record_expires_in_between() {
    let ground = memory();
    Shop::open(&ground, Plan::pays(Policy::default())).await.ask(&old()).await.is_payment(1);
    let plan = Plan::pays(Policy::default()).set_up(Builder::refuse_stale_keys);
    let strict = Shop::open(&ground, plan).await;
    strict.store.after_looks(move || {
        let ground = ground.clone();
        Box::pin(async move { ground.pass(hours(25)).await })
    });
    for _ in 0..2 {
        strict.ask(&old()).await.is_refused(412, "STALE_IDEMPOTENCY_KEY");
    }
    assert_eq!(strict.till.runs(), 0);
}

/// A store that answers at once never lets go of the thread by itself.
#[tokio::test(start_paused = true)]
async fn a_large_sweep_lets_others_have_the_thread() {
    const RECORDS: u64 = 10_000;
    let ground = memory();
    for n in 0..RECORDS {
        let Ok(Claimed::Granted(grant)) = ground.store().claim(&claim(operation(n), 1)).await else {
            panic!("it is granted")
        };
        let completion = answered(operation(n), grant.epoch, "done");
        ground.store().complete(&completion).await.unwrap();
    }
    ground.pass(hours(3)).await;
    let plan = Plan::pays(Policy::default()).set_up(|layer| layer.sweep_every(Duration::from_secs(1)));
    let shop = Shop::open(&ground, plan).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut seen = BTreeSet::new();
    while seen.last() != Some(&RECORDS) {
        let swept = shop.events.all().into_iter().map(|happening| match happening.what {
            What::Swept(batch) => batch.records,
            _ => 0,
        });
        seen.insert(swept.sum());
        tokio::task::yield_now().await;
    }
    assert!(seen.len() > 5, "others had their turn after {seen:?}");
}
