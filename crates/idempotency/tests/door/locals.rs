//! Task-locals of middleware outside of the layer, in handlers.

use crate::asks::{Ask, key};
use crate::grounds::memory;
use crate::shop::{Plan, Shop, ask_of};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use bytes::Bytes;
use perdura_idempotency::observe::What;
use perdura_idempotency::{Attached, IdempotencyContext, Policy};
use std::cell::Cell;
use tower::ServiceExt;

tokio::task_local! {
    static TRACE: String;
    static STEPS: Cell<u32>;
    static UNSET: u32;
}

async fn set(request: Request, next: Next) -> Response {
    TRACE.scope("r-17".to_owned(), STEPS.scope(Cell::new(1), next.run(request))).await
}

fn around(shop: &Shop) -> Router {
    shop.app.clone().layer(from_fn(set))
}

/// What a handler sees, before and after it waited.
fn looks() -> Plan {
    Plan::of(Policy::default(), |call| async move {
        let before = TRACE.try_with(Clone::clone).ok();
        let counted = STEPS.try_with(|steps| steps.set(steps.get() + 1));
        assert_eq!(counted.is_ok(), before.is_some());
        call.till.at_the_gate().await;
        let steps = STEPS.try_with(Cell::get).ok();
        format!(
            "{before:?} {:?} {steps:?} {:?}",
            TRACE.try_with(Clone::clone).ok(),
            UNSET.try_with(|n| *n).ok()
        )
    })
}

fn carried(plan: Plan) -> Plan {
    plan.set_up(|layer| layer.carry(&TRACE).carry(&STEPS).carry(&UNSET))
}

const SEEN: &str = r#"Some("r-17") Some("r-17") Some(2) None"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_locals_that_are_named_are_there_in_the_handler_and_others_are_not() {
    for (plan, seen) in [(looks(), "None None None None"), (carried(looks()), SEEN)] {
        let shop = Shop::open(&memory(), plan).await;
        shop.till.open(1);
        let told = ask_of(&around(&shop), &Ask::pay(&key(1))).await;
        assert_eq!(told.body, seen);
    }
}

/// Where they would be lost if the handler merely ran in the task of its request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_there_when_the_client_is_gone() {
    let shop = Shop::open(&memory(), carried(looks())).await;
    let request = tokio::spawn(around(&shop).oneshot(Ask::pay(&key(1)).request()));
    shop.till.began(1).await;
    request.abort();
    assert!(request.await.is_err_and(|error| error.is_cancelled()));
    shop.till.open(1);
    shop.events.until(1, |what| matches!(what, What::Saved { .. })).await;
    let told = shop.ask(&Ask::pay(&key(1))).await;
    assert!(told.is_replayed());
    assert_eq!(told.body, Bytes::from(SEEN));
}

/// The hook that finds work again is asked by a request too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_there_in_what_attaches() {
    let policy = Policy::durable(|_: IdempotencyContext| async {
        let trace = TRACE.try_with(Clone::clone).unwrap_or_default();
        Attached::Answer(http::Response::new(trace.into()))
    });
    let plan = Plan::of(policy, |_| async { http::StatusCode::INTERNAL_SERVER_ERROR });
    let shop = Shop::open(&memory(), carried(plan)).await;
    let app = around(&shop);
    assert_eq!(ask_of(&app, &Ask::pay(&key(1))).await.status, 500);
    assert_eq!(ask_of(&app, &Ask::pay(&key(1))).await.body, "r-17");
}
