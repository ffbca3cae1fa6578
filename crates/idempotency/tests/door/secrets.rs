//! What must not be seen is not there: not in the store, not in logs, not in what observers and other callers are told.

use crate::asks::{Ask, Told, key};
use crate::faulty::{Fault, Verb};
use crate::grounds::{memory, on_each_store};
use crate::logs;
use crate::shop::{Plan, Shop};
use http::{StatusCode, header};
use perdura_idempotency::record::Standing;
use perdura_idempotency::store::{Pending, Store};
use perdura_idempotency::vault::{DataKey, KeyId};
use perdura_idempotency::{Audit, AuditFailed, DataKeys, DerivedKeys, Policy, ResultRead, Secret};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a caller would not like to be seen.
const KEY: &str = "5ec4e7ed-cafe-4000-8000-00000000c0de";
const SEEN_NOWHERE: [&str; 9] = [
    KEY,
    "5EC4E7ED-CAFE-4000-8000-00000000C0DE",
    "5ec4e7edcafe4000800000000000c0de",
    "4111-1111-1111-1111",
    "hush-tenant",
    "hush-principal",
    "hush-account",
    "hush-query",
    "hush-key",
];
/// What the handler answers.
const ANSWER: &str = "the balance is 17.50";

fn assert_unseen(where_to: &str, bytes: &[u8]) {
    for secret in SEEN_NOWHERE {
        let seen = bytes.windows(secret.len()).any(|window| window.eq_ignore_ascii_case(secret.as_bytes()));
        assert!(!seen, "{secret} is seen in {where_to}: {}", String::from_utf8_lossy(bytes));
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn master(byte: u8) -> Secret {
    Secret::new([byte; 32]).unwrap()
}

fn answers() -> Plan {
    Plan::of(Policy::default(), |_| async { ANSWER })
}

/// Writes down who read what, as long as it can.
#[derive(Clone, Default)]
struct Book {
    reads: Arc<Mutex<Vec<ResultRead>>>,
    is_full: Arc<AtomicBool>,
}

impl Audit for Book {
    fn result_read<'a>(&'a self, read: &'a ResultRead) -> Pending<'a, Result<(), AuditFailed>> {
        Box::pin(async {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(AuditFailed("no page is left".into()));
            }
            self.reads.lock().unwrap().push(read.clone());
            Ok(())
        })
    }
}

on_each_store! {
    async fn nothing_of_a_request_is_stored_logged_or_observed(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            tracing::trace!("the lowest level is heard");
            match call.nth {
                2 => panic!("on purpose"),
                3 => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::CREATED,
            }
        });
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(KEY)
            .to("/accounts/hush-account/payments?hush-query")
            .by("hush-tenant/hush-principal")
            .body(r#"{"card":"4111-1111-1111-1111"}"#);
        let under = |n| ask.clone().header("idempotency-key", &key(n));
        let mut told: Vec<Told> = Vec::new();
        for ask in [
            ask.clone(),
            ask.clone(),
            ask.clone().body("{\"card\":\"4111-1111-1111-1111\""),
            ask.clone().header("content-digest", "sha-256=:hush-key:"),
            ask.clone().header("idempotency-key", "hush-key"),
            ask.clone().header("content-encoding", "gzip"),
            under(2),
            under(2),
            under(3),
        ] {
            told.push(shop.ask(&ask).await);
        }
        shop.store.fail(Verb::Claim, Fault::Down);
        told.push(shop.ask(&under(4)).await);
        shop.store.mend();
        shop.store.fail_once(Verb::Complete, Fault::Down);
        told.push(shop.ask(&under(5)).await);
        let statuses: Vec<u16> = told.iter().map(|told| told.status.as_u16()).collect();
        assert_eq!(statuses, [201, 201, 409, 400, 400, 400, 500, 409, 429, 503, 201]);

        let panicked = told[7].member("operation").expect("it can be asked about");
        assert!(logs::text().contains(&panicked), "what happened to it was logged");
        assert!(logs::text().contains("the lowest level is heard"));
        assert_unseen("the logs", logs::text().as_bytes());
        assert_unseen("the store", &shop.store.given());
        assert_unseen("what is observed", shop.events.text().as_bytes());
        for told in told {
            assert_unseen("an answer", &told.body);
        }
    }

    async fn answers_are_sealed_where_keys_are_configured_and_open_on_every_instance(ground) {
        let plain = Shop::open(&ground, answers()).await;
        plain.ask(&Ask::pay(&key(1))).await;
        assert!(holds(&plain.store.given(), ANSWER), "without keys it is readable");

        let sealing = |keys: fn() -> DerivedKeys| answers().set_up(move |layer| layer.encrypt_with(keys()));
        let here = Shop::open(&ground, sealing(|| DerivedKeys::new(master(1)))).await;
        here.ask(&Ask::pay(&key(2))).await;
        assert!(!holds(&here.store.given(), ANSWER));
        let there = here.beside().await;
        let rotated = Shop::open(&ground, sealing(|| DerivedKeys::new(master(2)).and_older(master(1)))).await;
        for shop in [&here, &there, &rotated] {
            for n in [1, 2] {
                let told = shop.ask(&Ask::pay(&key(n))).await;
                assert_eq!((told.is_replayed(), &told.body[..]), (true, ANSWER.as_bytes()), "key {n}");
            }
        }
        let retired = Shop::open(&ground, sealing(|| DerivedKeys::new(master(2)))).await;
        let none = Shop::open(&ground, answers()).await;
        for shop in [retired, none] {
            let told = shop.ask(&Ask::pay(&key(2))).await;
            told.is_refused(409, "RESULT_NOT_RETAINED");
            assert_eq!(
                (told.member("next").as_deref(), shop.till.runs()),
                (Some("stop"), 0),
                "it is not run again"
            );
        }
    }

    async fn an_answer_that_was_copied_to_another_record_does_not_open(ground) {
        let sealed = answers().set_up(|layer| layer.encrypt_with(DerivedKeys::new(master(1))));
        for (what, plan) in [("plain", answers()), ("sealed", sealed)] {
            let shop = Shop::open(&ground, plan).await;
            let by_ann = |n| Ask::pay(&key(n)).by(&format!("{what}/ann"));
            let (mine, theirs) = (by_ann(1), by_ann(2));
            shop.ask(&theirs).await;
            let record = shop.store.look(shop.store.operation()).await.unwrap().unwrap();
            let Standing::Completed { answer, .. } = record.standing else {
                panic!("it has ended: {record:?}")
            };
            shop.ask(&mine).await;
            assert!(shop.ask(&mine).await.is_replayed());
            shop.store.serve(Some(answer));
            shop.ask(&mine).await.is_refused(500, "IDEMPOTENCY_RECORD_DAMAGED");
            shop.store.serve(None);
            assert!(shop.ask(&mine).await.is_replayed(), "{what}");
            assert_eq!(shop.till.runs(), 2, "{what}");
        }
    }

    async fn every_read_of_a_stored_answer_is_audited_or_does_not_take_place(ground) {
        let book = Book::default();
        let auditing = book.clone();
        let plan = Plan::waits(Policy::default()).set_up(move |layer| layer.audit(auditing.clone()));
        let shop = Shop::open(&ground, plan).await;
        let ask = Ask::pay(&key(1));
        let [first, waiting] = shop.send_twice(&ask).await;
        shop.till.open(1);
        first.await.unwrap().is_payment(1);
        waiting.await.unwrap().is_payment(1);
        assert_eq!(
            book.reads.lock().unwrap().len(),
            1,
            "one was given its own answer, the other a stored one"
        );
        shop.ask(&ask.clone().body("{}")).await.is_refused(409, "CONFLICTING_IDEMPOTENT_REQUEST");
        shop.ask(&ask).await.is_payment(1);
        let reads = book.reads.lock().unwrap().clone();
        assert_eq!(reads.len(), 2);
        for read in reads {
            assert_eq!((read.scope.tenant.as_str(), read.scope.principal.as_str()), ("acme", "ann"));
            assert_eq!((&*read.route, read.operation), ("POST /payments", shop.store.operation()));
        }
        book.is_full.store(true, Ordering::Relaxed);
        let told = shop.ask(&ask).await;
        told.is_refused(503, "IDEMPOTENCY_STORE_UNAVAILABLE");
        assert!(told.headers.contains_key(header::RETRY_AFTER), "{told:?}");
        assert!(!holds(&told.body, "payment\":1"));
        shop.till.open(1);
        shop.ask(&Ask::pay(&key(2))).await.is_payment(2);
    }
}

/// Data keys that panic while a test says so.
#[derive(Clone, Default)]
struct Fickle(Arc<AtomicBool>);

impl Fickle {
    async fn shop(&self) -> Shop {
        let keys = self.clone();
        let plan = Plan::pays(Policy::default()).set_up(move |layer| layer.encrypt_with(keys.clone()));
        Shop::open(&memory(), plan).await
    }

    fn panics(&self, panics: bool) {
        self.0.store(panics, Ordering::SeqCst);
    }
}

impl DataKeys for Fickle {
    fn newest(&self, tenant: &str) -> Option<(KeyId, DataKey)> {
        let id = KeyId([1; 8]);
        self.by_id(tenant, id).map(|key| (id, key))
    }

    fn by_id(&self, _: &str, _: KeyId) -> Option<DataKey> {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
        Some(DataKey::new([7; 32]))
    }
}

#[tokio::test]
async fn data_keys_that_panic_cost_the_stored_answer_and_not_the_outcome() {
    let keys = Fickle::default();
    let shop = keys.shop().await;
    keys.panics(true);
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "RESULT_NOT_RETAINED");
    assert_eq!(shop.till.runs(), 1);
}

#[tokio::test]
async fn who_asks_while_the_data_keys_panic_is_told_to_come_again() {
    let keys = Fickle::default();
    let shop = keys.shop().await;
    shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
    keys.panics(true);
    let told = shop.ask(&Ask::pay(&key(1))).await;
    assert_eq!((told.status.as_u16(), told.member("next").as_deref()), (503, Some("same_key")));
    assert!(told.headers.contains_key(header::RETRY_AFTER), "{told:?}");
    keys.panics(false);
    assert!(shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
}
