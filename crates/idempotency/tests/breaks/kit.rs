//! A layer, a handler that counts, and requests to it.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use perdura_idempotency::store::{Memory, Store};
use perdura_idempotency::{Builder, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, IdempotencyLayer, Scope, Secret};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use tower::ServiceExt;

/// How often something was done.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU32>);

impl Count {
    /// Once more; which time this is, from 1.
    pub(crate) fn once_more(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn so_far(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A layer in the making, over this store. Who asks is named in `Authorization`.
pub(crate) fn over(store: Arc<dyn Store>) -> Builder {
    let secret = Secret::new(*b"a secret of thirty-two bytes, ok").expect("it is long enough");
    IdempotencyLayer::builder(store, secret).scope(|parts| {
        let principal = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        Some(Scope::new("tenant", principal))
    })
}

/// The same, over the memory of this process.
pub(crate) fn in_memory() -> Builder {
    over(Arc::new(Memory::new()))
}

/// A clock that is moved by hand, and a memory on it.
pub(crate) fn clocked() -> (Arc<AtomicI64>, Memory) {
    let began = Timestamp::now();
    let passed = Arc::new(AtomicI64::new(0));
    let clock = passed.clone();
    let now = move || began + SignedDuration::from_secs(clock.load(Ordering::SeqCst));
    (passed, Memory::with_clock(Arc::new(now)))
}

/// The n-th key.
pub(crate) fn key(n: u32) -> String {
    format!("8e03978e-40d5-43e8-bc93-{n:012x}")
}

/// A POST with this key and no content.
pub(crate) fn post(path: &str, key: &str) -> Request<Body> {
    post_as("somebody", path, key)
}

/// The same, by this principal.
pub(crate) fn post_as(who: &str, path: &str, key: &str) -> Request<Body> {
    let request = Request::post(path).header(IDEMPOTENCY_KEY, key).header(header::AUTHORIZATION, who);
    request.body(Body::empty()).expect("a request")
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What came behind it.
    pub(crate) trailers: HeaderMap,
}

impl Told {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.expect("a whole answer");
        let trailers = collected.trailers().cloned().unwrap_or_default();
        Self { status: parts.status, headers: parts.headers, body: collected.to_bytes(), trailers }
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.contains_key(IDEMPOTENCY_REPLAYED)
    }

    /// The `reason` of a problem.
    pub(crate) fn reason(&self) -> String {
        self.member("reason")
    }

    /// What a problem says is to be done `next`.
    pub(crate) fn next(&self) -> String {
        self.member("next")
    }

    fn member(&self, name: &str) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        problem[name].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) async fn ask(app: &Router, request: Request<Body>) -> Told {
    let Ok(response) = app.clone().oneshot(request).await;
    Told::read(response).await
}
