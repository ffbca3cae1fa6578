//! What is logged can be followed: a handler's lines say which operation, grant and route they belong to.

use crate::asks::{Ask, key};
use crate::grounds::on_each_store;
use crate::logs;
use crate::shop::{Plan, Shop, paid};
use perdura_idempotency::Policy;
use perdura_idempotency::store::Store;

on_each_store! {
    async fn what_a_handler_logs_says_its_operation_grant_and_route(ground) {
        let plan = Plan::of(Policy::default(), |call| async move {
            tracing::trace!(nth = call.nth, "before");
            tokio::task::yield_now().await;
            tracing::info!(nth = call.nth, "after");
            paid(call.nth)
        });
        let shop = Shop::open(&ground, plan).await;
        for (nth, (path, route)) in (1..).zip([
            ("/payments", "POST /payments"),
            ("/accounts/17/payments", "POST /accounts/{account}/payments"),
        ]) {
            shop.ask(&Ask::pay(&key(1)).to(path)).await.is_payment(nth);
            let operation = shop.store.operation();
            let epoch = shop.store.look(operation).await.unwrap().expect("it is recorded").epoch;
            let span = format!("idempotency operation={operation} epoch={epoch} route={route:?}");
            for when in ["before", "after"] {
                let said = format!("message={when} nth={nth} in {span}\n");
                assert!(logs::text().contains(&said), "{said}: {}", logs::text());
            }
        }
        tracing::info!("outside");
        assert!(logs::text().contains(" message=outside\n"), "and nothing else does");
    }
}
