//! A service is called only after that very clone of it has said that it is ready.

use crate::asks::{Ask, key};
use crate::faulty::Faulty;
use crate::grounds::memory;
use crate::shop::{Plan, paid};
use axum::extract::Request;
use axum::response::Response;
use http::Method;
use perdura_idempotency::Policy;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tower::{Layer, Service, ServiceExt};

/// Is ready when it is asked for the second time, and panics where it is called without.
#[derive(Default)]
struct Picky {
    asked: u32,
}

impl Clone for Picky {
    /// That one clone is ready says nothing of another.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request> for Picky {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.asked += 1;
        if self.asked > 1 {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request) -> Self::Future {
        assert!(std::mem::take(&mut self.asked) > 1, "this clone was not ready");
        ready(Ok(paid(1)))
    }
}

#[tokio::test]
async fn the_clone_that_is_called_was_asked_whether_it_is_ready() {
    let pay = Ask::pay(&key(1));
    for (what, policy, store_is_down, ask) in [
        ("guarded", Policy::default(), false, pay.clone()),
        ("exempt", Policy::exempt(), false, pay.clone()),
        ("untouched", Policy::default(), false, pay.clone().method(Method::GET)),
        ("without its store", Policy::default().fail_open(), true, pay.clone()),
    ] {
        let store = Faulty::new(memory().store());
        let layer = Plan::pays(policy.clone()).builder(store.clone()).policy(policy).build().await.unwrap();
        if store_is_down {
            store.go_down();
        }
        let inner = Picky { asked: 2 };
        let answered = layer.layer(inner).oneshot(ask.request()).await.unwrap();
        assert_eq!(answered.status(), 201, "{what}");
    }
}

#[tokio::test]
async fn behind_a_second_layer_it_is_asked_too() {
    let layer = async || {
        let builder = Plan::pays(Policy::default()).builder(Faulty::new(memory().store()));
        builder.build().await.unwrap()
    };
    let (outer, inner) = (layer().await, layer().await);
    let service = outer.layer(inner.layer(Picky { asked: 2 }));
    assert_eq!(service.oneshot(Ask::pay(&key(1)).request()).await.unwrap().status(), 201);
}
