//! `/v1` under the rule of the `Idempotency-Key`: a request that is sent twice is carried out once.
//!
//! What a crash in the middle means is the operation's mode in the table. A durable operation is found again by what it
//! leaves behind, and not by this record: a start by the name of its execution, which is the caller's or is made of the
//! key, and everything else because it changes nothing the second time. So a retry after a crash is carried out anew and
//! attaches to what is there.

use super::problem::{Code, Problem};
use super::table::{Mode, OPERATIONS, Of, Operation};
use super::{BODY_MAX, Desk};
use crate::who::Caller;
use crate::{Refusal, RefusalKind};
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use perdura_idempotency::operations::Operations;
use perdura_idempotency::store::{Scrubbed, Store};
use perdura_idempotency::{
    Attached, Budgets, IDEMPOTENCY_KEY, IdempotencyContext, IdempotencyLayer, NotApplied, Policy, Scope,
    Secret, StartError,
};
use perdura_sigv4::sha256;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;
use uuid::Uuid;

/// A caller is often a whole service; how many requests there are at all is bounded by connections and bodies.
const RUNNING_MAX: u32 = 4_096;

/// Where requests are remembered, and the secret that their keys are hashed under.
pub struct Memory {
    store: Arc<dyn Store>,
    secret: Secret,
}

impl Memory {
    /// With the secret of the installation, so that a store of another one is noticed.
    pub fn new(store: Arc<dyn Store>, installation: &[u8; 32]) -> Self {
        let secret = sha256(&[b"perdura idempotency\0", &installation[..]].concat());
        let secret = Secret::new(secret.to_vec()).expect("a SHA-256 is long enough");
        Self { store, secret }
    }

    pub(super) async fn layer(self) -> Result<IdempotencyLayer, StartError> {
        let budgets = Budgets {
            running: RUNNING_MAX,
            replays: u32::MAX,
            stored_bytes: u64::MAX,
            stored_records: u32::MAX,
            ..Budgets::default()
        };
        let builder = IdempotencyLayer::builder(self.store, self.secret).budgets(budgets).scope(|parts| {
            let caller = parts.extensions.get::<Caller>()?;
            Some(Scope::new(&*caller.tenant, &*caller.principal))
        });
        let policies = OPERATIONS.iter().filter_map(|operation| Some((operation, policy(operation.mode?))));
        let builder = policies.fold(builder, |builder, (operation, policy)| {
            let method = Method::from_bytes(operation.method.name().as_bytes()).expect("it is a method");
            builder.route(&method, operation.path, policy)
        });
        builder.build().await
    }
}

/// The stored answers, for whoever has to erase them.
#[derive(Clone)]
pub struct StoredAnswers(Operations);

impl StoredAnswers {
    pub(super) fn of(rule: &IdempotencyLayer) -> Self {
        Self(rule.operations())
    }

    /// Of a server that does not run.
    pub async fn open(memory: Memory) -> Result<Self, StartError> {
        Ok(Self::of(&memory.layer().await?))
    }

    /// Erases those to starts that these callers sent with this key; how many there were. The record stays, so that the same
    /// request is not run anew. No other answer has anything of an execution in it but its id.
    pub async fn erase(&self, scopes: &[Scope], key: &str) -> Result<u64, Refusal> {
        // A key that is no UUID is in no request: it was given as `rootKey`.
        let Ok(key) = Uuid::parse_str(key) else { return Ok(0) };
        let mut erased = 0;
        for operation in OPERATIONS.iter().filter(|operation| matches!(operation.of, Of::Start | Of::Starts))
        {
            for scope in scopes {
                let operation = self.0.named(scope, &Method::POST, operation.path, key);
                let gone = self.0.erase(operation).await;
                let gone = gone.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
                erased += u64::from(gone);
            }
        }
        Ok(erased)
    }

    /// Takes what was erased out of their file, where it has so many bytes at most.
    pub async fn scrub(&self, bytes_max: u64) -> Result<Scrubbed, Refusal> {
        let scrubbed = self.0.scrub(bytes_max).await;
        scrubbed.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))
    }
}

fn policy(mode: Mode) -> Policy {
    let policy = match mode {
        Mode::Exempt => return Policy::exempt(),
        Mode::AtMostOnce => Policy::at_most_once(),
        // What was begun is found by carrying it out again.
        Mode::Durable => Policy::durable(|_: IdempotencyContext| async { Attached::NotBegun }),
    };
    policy.body_bytes_max(BODY_MAX)
}

/// Whether an operation takes a key.
pub(super) fn is_keyed(operation: &Operation) -> bool {
    match operation.mode {
        Some(Mode::AtMostOnce | Mode::Durable) => true,
        Some(Mode::Exempt) | None => false,
    }
}

/// The caller has the control socket, and need not send keys where it does not repeat.
#[derive(Clone, Copy)]
pub(super) struct OnSocket;

/// Whether a request is under the rule. On TCP it is even without a key, and is told that it needs one.
pub(super) fn is_guarded(operation: &Operation, request: &Request) -> bool {
    let has_key = request.headers().contains_key(IDEMPOTENCY_KEY);
    is_keyed(operation) && (has_key || request.extensions().get::<OnSocket>().is_none())
}

/// A refusal as the rule is to see it. What did certainly nothing is forgotten, so that the same request may come again
/// when its reason is gone. A conflict is an end, and what failed may have been done.
pub(super) fn refused(problem: Problem) -> Response {
    let is_forgotten = match problem.code {
        Code::Invalid
        | Code::NotAuthenticated
        | Code::Forbidden
        | Code::NotFound
        | Code::WrongMethod
        | Code::TooSlow
        | Code::TooLarge
        | Code::NotJson
        | Code::WrongHost
        | Code::Crowded => true,
        Code::Conflict | Code::Changed | Code::Broken | Code::Unavailable => false,
    };
    let response = problem.into_response();
    if is_forgotten { NotApplied(response).into_response() } else { response }
}

/// An operation as the service that stands behind the rule.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) desk: Arc<Desk>,
    pub(super) operation: &'static Operation,
}

impl Service<Request> for Handler {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { desk, operation } = self.clone();
        Box::pin(async move { Ok(desk.answer(operation, request).await.unwrap_or_else(refused)) })
    }
}
