//! Who may: nobody is told anything, also not what was done before, who may not do it now.

use crate::asks::{Ask, Told, key};
use crate::faulty::Verb;
use crate::grounds::on_each_store;
use crate::shop::{Plan, Shop, paid};
use axum::body::Body;
use axum::response::IntoResponse;
use http::request::Parts;
use http::{StatusCode, header};
use perdura_idempotency::observe::What;
use perdura_idempotency::store::Pending;
use perdura_idempotency::{Attached, Authorise, Denied, IdempotencyContext, Policy, Scope};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Who was asked for, and who may.
#[derive(Clone, Default)]
struct Rights {
    revoked: Arc<Mutex<BTreeSet<String>>>,
    asked: Arc<AtomicU32>,
}

impl Rights {
    fn plan(&self) -> Plan {
        self.over(Plan::waits(Policy::default()))
    }

    fn over(&self, plan: Plan) -> Plan {
        let rights = self.clone();
        plan.set_up(move |layer| {
            let rights = rights.clone();
            layer.authorise(move |_: &Parts, scope: &Scope| {
                rights.asked.fetch_add(1, Ordering::Relaxed);
                !rights.revoked.lock().unwrap().contains(&scope.principal)
            })
        })
    }
}

on_each_store! {
    async fn nobody_is_told_nothing(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        let claims = shop.store.asked(Verb::Claim);
        for credentials in [None, Some(""), Some("Basic YWNtZTphbm4="), Some("Bearer acme")] {
            for key in [key(1), key(2)] {
                let ask = Ask::pay(&key).without("authorization");
                let ask = credentials.iter().fold(ask, |ask, value| ask.header("authorization", value));
                let told = shop.ask(&ask).await;
                told.is_refused(401, "IDEMPOTENCY_SCOPE_MISSING").says_next("same_key");
                assert_eq!(told.member("operation"), None);
            }
        }
        assert_eq!((shop.till.runs(), shop.store.asked(Verb::Claim)), (1, claims), "the store was not asked");
    }

    async fn rights_that_were_taken_away_count_before_a_replay(ground) {
        let rights = Rights::default();
        let shop = Shop::open(&ground, rights.plan()).await;
        let ask = Ask::pay(&key(1));
        let first = shop.send(&ask);
        shop.till.began(1).await;
        rights.revoked.lock().unwrap().insert("ann".to_owned());
        shop.ask(&ask).await.is_refused(403, "NOT_AUTHORISED");
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        let told = shop.ask(&ask).await;
        told.is_refused(403, "NOT_AUTHORISED");
        assert_eq!((told.member("next").as_deref(), told.member("operation")), (Some("stop"), None));
        let unknown = shop.ask(&Ask::pay(&key(2))).await;
        assert_eq!(told.body, unknown.body, "nor is it told whether there is something");
        rights.revoked.lock().unwrap().clear();
        assert!(shop.ask(&ask).await.is_payment(1).is_replayed());
        assert_eq!(
            (shop.till.runs(), rights.asked.load(Ordering::Relaxed)),
            (1, 5),
            "asked for each request"
        );
    }

    async fn rights_that_were_taken_away_while_a_request_waits_count(ground) {
        let rights = Rights::default();
        let shop = Shop::open(&ground, rights.plan()).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        rights.revoked.lock().unwrap().insert("ann".to_owned());
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        waiting.await.unwrap().is_refused(403, "NOT_AUTHORISED");
    }

    async fn who_may_not_leaves_no_claim_and_no_trace_of_the_key(ground) {
        let rights = Rights::default();
        let shop = Shop::open(&ground, rights.plan()).await;
        rights.revoked.lock().unwrap().insert("ann".to_owned());
        shop.ask(&Ask::pay(&key(1))).await.is_refused(403, "NOT_AUTHORISED");
        assert_eq!((shop.till.runs(), shop.store.verbs()), (0, vec![Verb::Agree]), "the store was not asked");
        assert_eq!(shop.events.count(|what| *what == What::Arrived), 0);
        rights.revoked.lock().unwrap().clear();
        shop.till.open(1);
        assert!(!shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed(), "the key was not used up");
    }

    async fn who_waited_and_may_no_longer_is_told_nothing(ground) {
        let rights = Rights::default();
        let plan = Plan::of(Policy::default(), |call| async move {
            call.till.at_the_gate().await;
            StatusCode::TOO_MANY_REQUESTS
        });
        let shop = Shop::open(&ground, rights.over(plan)).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        rights.revoked.lock().unwrap().insert("ann".to_owned());
        shop.till.open(2);
        assert_eq!(first.await.unwrap().status, 429);
        waiting.await.unwrap().is_refused(403, "NOT_AUTHORISED");
        assert_eq!(shop.till.runs(), 1);
    }

    async fn who_was_overtaken_and_lost_its_rights_is_not_told_what_counts(ground) {
        let policy = Policy::durable(|_: IdempotencyContext| async { Attached::NotBegun });
        let rights = Rights::default();
        let here = Shop::open(
            &ground,
            rights.over(Plan::of(policy, |call| async move {
                if call.nth == 1 {
                    call.till.at_the_gate().await;
                }
                paid(call.nth)
            })),
        )
        .await;
        let there = here.beside().await;
        let ask = Ask::pay(&key(1));
        let paused = here.send(&ask);
        here.till.began(1).await;
        ground.pass(Duration::from_secs(31)).await;
        there.ask(&ask).await.is_payment(2);
        rights.revoked.lock().unwrap().insert("ann".to_owned());
        here.till.open(1);
        paused.await.unwrap().is_refused(403, "NOT_AUTHORISED");
    }

    async fn another_tenants_key_is_like_one_that_nobody_used(ground) {
        let shop = Shop::open(&ground, Plan::of(Policy::default(), |_| async { paid(7) })).await;
        let theirs = Ask::pay(&key(1)).body(r#"{"secret":1}"#);
        shop.ask(&theirs).await.is_payment(7);
        let asked_for = async |ask: Ask| {
            let verbs = [Verb::Claim, Verb::Look, Verb::Complete, Verb::Release];
            let before = verbs.map(|verb| shop.store.asked(verb));
            let told = shop.ask(&ask).await;
            let shown = |told: &Told| {
                let mut headers = told.headers.clone();
                headers.remove("idempotency-key");
                (told.status, headers, told.body.clone())
            };
            let asked: Vec<_> =
                verbs.iter().zip(before).map(|(verb, before)| shop.store.asked(*verb) - before).collect();
            (shown(&told), asked)
        };
        for other in ["other/ann", "acme/bob"] {
            let used = asked_for(Ask::pay(&key(1)).by(other)).await;
            let unused = asked_for(Ask::pay(&key(2)).by(other)).await;
            assert_eq!(used, unused, "{other}: neither the answer nor what the store was asked differs");
        }
    }

    async fn a_denial_in_the_programs_own_words_is_passed_on(ground) {
        struct Teapot(AtomicBool);
        impl Authorise for Teapot {
            fn authorise<'a>(&'a self, _: &'a Parts, _: &'a Scope) -> Pending<'a, Result<(), Denied>> {
                Box::pin(async {
                    if self.0.swap(false, Ordering::Relaxed) {
                        return Ok(());
                    }
                    let answer = (StatusCode::IM_A_TEAPOT, [(header::RETRY_AFTER, "7")], Body::from("no"));
                    Err(Denied::Answer(Box::new(answer.into_response())))
                })
            }
        }
        let plan =
            Plan::pays(Policy::default()).set_up(|layer| layer.authorise(Teapot(AtomicBool::new(true))));
        let shop = Shop::open(&ground, plan).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        let told = shop.ask(&Ask::pay(&key(1))).await;
        assert_eq!(
            (told.status.as_u16(), &told.body[..], told.header(header::RETRY_AFTER)),
            (418, &b"no"[..], "7")
        );
        assert_eq!(told.echo().unwrap(), key(1).as_str());
        assert!(told.is_digested());
    }
}
