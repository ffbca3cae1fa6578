//! Transactions that do not come to be, because of what the handler did in them. That is no outage: the store is there.

use crate::asks::{Ask, key};
use crate::faulty::Verb;
use crate::grounds::{Ground, act, on_each_store, run};
use crate::shop::{Plan, Shop, paid};
use perdura_idempotency::Policy;
use perdura_idempotency::observe::What;
use std::sync::Arc;

/// Refers to what is not there, which nobody notices before the commit.
const DANGLING: &str = "
    CREATE TABLE IF NOT EXISTS parent (id INTEGER PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO child VALUES (7)";

/// Handlers that do something to the world and run these statements, whether they fail or not.
fn careless(ground: &Arc<Ground>, statements: &'static str) -> Plan {
    let ground = ground.clone();
    Plan::of(Policy::transactional(), move |call| {
        let ground = ground.clone();
        async move {
            act(&ground, call.request.extensions()).await;
            if call.nth == 1 {
                drop(run(&ground, call.request.extensions(), statements).await);
            }
            paid(call.nth)
        }
    })
}

on_each_store! {
    async fn a_commit_that_the_database_refuses_is_told_once_and_for_all(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let shop = Shop::open(&ground, careless(&ground, DANGLING)).await;
        let ask = Ask::pay(&key(1));
        let first = shop.ask(&ask).await;
        first.is_refused(409, "COMMIT_REFUSED").says_next("new_key");
        assert_eq!(first.member("code").as_deref(), Some("ERR409_SERVER_STATE_CONFLICT"));
        assert!(first.member("operation").is_some());
        for _ in 0..3 {
            let again = shop.ask(&ask).await;
            again.is_refused(409, "COMMIT_REFUSED").says_next("new_key");
            assert!(again.is_replayed());
            assert_eq!(again.body, first.body);
        }
        assert_eq!((shop.till.runs(), ground.effects().await), (1, 0), "it was run once, and nothing is there");
        let saved = shop.events.count(|what| matches!(what, What::Saved { status: 409, retained: true, .. }));
        assert_eq!((saved, shop.events.count(|what| matches!(what, What::SaveFailed { .. }))), (1, 0));
        shop.ask(&Ask::pay(&key(2))).await.is_payment(2);
        assert_eq!(ground.effects().await, 1, "a new key is a new request");
    }

    /// The store is asked for nothing that it was not asked for before: a refusal is an end like any other.
    async fn a_refused_commit_leaves_nothing_behind_that_asks_again(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let shop = Shop::open(&ground, careless(&ground, DANGLING)).await;
        shop.ask(&Ask::pay(&key(1))).await.is_refused(409, "COMMIT_REFUSED");
        shop.layer.drain().await;
        assert_eq!((shop.store.asked(Verb::Complete), shop.store.asked(Verb::Release)), (1, 0));
    }
}

/// The handler took no notice of what became of its transaction, and answered as if all were well.
async fn is_told_as_its_failure(ground: Arc<Ground>, statements: &'static str) {
    let shop = Shop::open(&ground, careless(&ground, statements)).await;
    let ask = Ask::pay(&key(1));
    shop.ask(&ask).await.is_refused(500, "HANDLER_FAILED").says_next("same_key");
    assert_eq!(ground.effects().await, 0);
    shop.ask(&ask).await.is_payment(2);
    assert_eq!(ground.effects().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_failure_was_passed_over_is_the_handlers_failure() {
    is_told_as_its_failure(crate::grounds::postgres().await, "SELECT 1 / 0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_the_database_rolled_back_is_the_handlers_failure() {
    is_told_as_its_failure(crate::grounds::sqlite(), "INSERT OR ROLLBACK INTO effect VALUES (NULL)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_takes_too_long_is_the_handlers_failure() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    is_told_as_its_failure(crate::grounds::sqlite(), endless).await;
}
