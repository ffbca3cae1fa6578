//! What a request costs: how often the store is asked, and for what.

use crate::asks::{Ask, key};
use crate::faulty::Verb;
use crate::grounds::{act, on_each_store};
use crate::shop::{Plan, Shop, paid};
use perdura_idempotency::Policy;

on_each_store! {
    async fn a_first_request_costs_one_claim_and_one_complete(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        shop.layer.drain().await;
        assert_eq!(shop.store.verbs(), [Verb::Agree, Verb::Claim, Verb::Complete]);
    }

    async fn a_first_transaction_costs_one_claim_and_one_commit(ground) {
        if !ground.shares_transactions() {
            return;
        }
        let acting = ground.clone();
        let plan = Plan::of(Policy::transactional(), move |call| {
            let acting = acting.clone();
            async move {
                act(&acting, call.request.extensions()).await;
                paid(call.nth)
            }
        });
        let shop = Shop::open(&ground, plan).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        shop.layer.drain().await;
        assert_eq!(shop.store.verbs(), [Verb::Agree, Verb::Claim, Verb::Begin, Verb::Commit]);
    }

    async fn a_replay_writes_nothing(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        shop.ask(&Ask::pay(&key(1))).await.is_payment(1);
        let (verbs, kept) = (shop.store.verbs().len(), ground.at_rest().await);
        assert!(shop.ask(&Ask::pay(&key(1))).await.is_payment(1).is_replayed());
        shop.layer.drain().await;
        // A store that is near tells at once; one that is elsewhere is asked once, by a claim that finds it.
        let asked: &[Verb] = match ground.store().name() {
            "memory" | "sqlite" => &[],
            _ => &[Verb::Claim],
        };
        assert_eq!(shop.store.verbs()[verbs..], *asked);
        assert_eq!(ground.at_rest().await, kept, "not a byte has changed");
    }

    async fn a_refusal_costs_nothing(ground) {
        let shop = Shop::open(&ground, Plan::pays(Policy::default())).await;
        for ask in [
            Ask::pay(&key(1)).without("idempotency-key"),
            Ask::pay(&key(1)).without("authorization"),
            Ask::pay(&key(1)).header("content-digest", "sha-256=:AAAA:"),
        ] {
            assert!(shop.ask(&ask).await.status.is_client_error());
        }
        assert_eq!(shop.store.verbs(), [Verb::Agree]);
    }
}
