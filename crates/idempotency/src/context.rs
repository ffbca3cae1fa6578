//! The context of a handler's run: its key, its operation, its epoch, and the deadline of its grant.
//!
//! It is an extractor, and a task-local in everything that the handler awaits, so that a client deep below can derive
//! the keys of its calls without an argument. A spawned task has task-locals of its own: [`carry`] takes the context
//! along. The keys that are derived here depend only on the operation and the step. So a handler that runs again after
//! a takeover sends the same keys, and the receivers turn its second call into the first.

use crate::record::{Epoch, Grant, OperationId};
use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// How many different steps of one run are counted.
const COUNTED_STEPS_MAX: usize = 65_536;

tokio::task_local! {
    static CURRENT: IdempotencyContext;
}

/// The run of the current handler. Clones are the same run.
#[derive(Clone)]
pub struct IdempotencyContext {
    key: Uuid,
    operation: OperationId,
    epoch: Epoch,
    taken_over: bool,
    deadline: watch::Receiver<Instant>,
    /// How often each counted step came in this run, by the key of its name.
    counted: Arc<Mutex<HashMap<Uuid, u32>>>,
}

/// One run has more different unnamed steps than are counted. Name them, and use [`IdempotencyContext::derive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {COUNTED_STEPS_MAX} different steps without a name in one run: give each call a step name"
)]
pub struct TooManySteps;

impl IdempotencyContext {
    /// The run under this grant. The task that renews the lease sends the new deadline; a deadline that has passed
    /// means that the grant is lost.
    pub(crate) fn new(
        key: Uuid,
        operation: OperationId,
        grant: Grant,
        deadline: watch::Receiver<Instant>,
    ) -> Self {
        let Grant { epoch, taken_over, first_at: _ } = grant;
        Self { key, operation, epoch, taken_over, deadline, counted: Arc::default() }
    }

    /// The run that this code is part of. `None`: outside of any run, or in a spawned task without [`carry`].
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs the future as part of this run.
    pub(crate) async fn within<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// The caller's key; for a key of another form, the name-based UUID of its text. Do not send it on: it is the
    /// caller's, and does not identify a step of the work.
    /// [`derive`](Self::derive) gives the keys to send.
    pub fn key(&self) -> Uuid {
        self.key
    }

    /// The operation; safe to show and to log.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// The number of the grant. A resource that remembers the largest epoch it has seen, and refuses smaller ones, is
    /// safe from a handler that was paused and overtaken, and woke up late.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether an earlier run began and did not end: parts of the work may be done already.
    pub fn is_taken_over(&self) -> bool {
        self.taken_over
    }

    /// The end of the grant unless it is renewed, which happens automatically while the handler runs.
    pub fn deadline(&self) -> Instant {
        *self.deadline.borrow()
    }

    /// Ends when the deadline has passed without a renewal: another process may hold the operation from then on. Work
    /// that outlives its handler selects against this.
    pub async fn lost(&self) {
        let mut deadline = self.deadline.clone();
        loop {
            let until = *deadline.borrow_and_update();
            tokio::select! {
                biased;
                renewed = deadline.changed() => if renewed.is_err() {
                    // There are no more renewals, so the last deadline is final.
                    tokio::time::sleep_until(until).await;
                    return;
                },
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// The key of a step of this operation: the same in every run of it, different for every other operation or step. A
    /// name-based UUID (RFC 9562, version 5) with the operation as its namespace.
    pub fn derive(&self, step: &str) -> Uuid {
        Uuid::new_v5(&self.operation.0, step.as_bytes())
    }

    /// The key of the next of several steps with one name: the first, the second and so on, counted in this run. Runs
    /// with the same order of these steps derive the same keys. It never equals a key of `derive`.
    pub fn derive_next(&self, step: &str) -> Result<Uuid, TooManySteps> {
        let name = self.derive(step);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() >= COUNTED_STEPS_MAX && !counted.contains_key(&name) {
            return Err(TooManySteps);
        }
        let before = counted.entry(name).or_default();
        let nth = *before;
        *before = before.checked_add(1).ok_or(TooManySteps)?;
        Ok(Uuid::new_v5(&name, &nth.to_be_bytes()))
    }
}

/// Shows only what may be logged, and so not the key.
impl fmt::Debug for IdempotencyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyContext")
            .field("operation", &self.operation)
            .field("epoch", &self.epoch)
            .field("taken_over", &self.taken_over)
            .finish_non_exhaustive()
    }
}

/// Takes the current run along into a task of its own: `tokio::spawn(carry(work))`. Outside of a run it returns the
/// future unchanged.
///
/// The grant is renewed only while the handler runs. A task that outlives it watches [`IdempotencyContext::lost`].
pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let current = IdempotencyContext::current();
    async move {
        match current {
            Some(context) => context.within(future).await,
            None => future.await,
        }
    }
}

/// The handler asks for the context of a run, and there is none: a mistake of the program, not of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this route has no idempotency context: it is exempt, or stands outside of the IdempotencyLayer; take \
     Option<IdempotencyContext>, or put the route under the layer"
)]
pub struct NoContext;

impl IntoResponse for NoContext {
    fn into_response(self) -> Response {
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": "Internal Server Error",
            "status": 500,
            "detail": self.to_string(),
            "code": "ERR500_INTERNAL",
        });
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        (StatusCode::INTERNAL_SERVER_ERROR, headers, problem.to_string()).into_response()
    }
}

/// Looks only at the request: a request that a handler makes to a router in its own process is not part of the
/// handler's run.
impl<S: Sync> FromRequestParts<S> for IdempotencyContext {
    type Rejection = NoContext;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoContext> {
        parts.extensions.get::<Self>().cloned().ok_or(NoContext)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use jiff::Timestamp;
    use std::time::Duration;
    use tower::ServiceExt;

    /// A run of the operation with this number; runs of the same operation differ in their epoch.
    pub(crate) fn run_of(
        operation: u8,
        epoch: u64,
        deadline: watch::Receiver<Instant>,
    ) -> IdempotencyContext {
        let grant = Grant { epoch: Epoch(epoch), taken_over: epoch > 1, first_at: Timestamp::UNIX_EPOCH };
        let key = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);
        IdempotencyContext::new(key, OperationId::from_hash([operation; 16]), grant, deadline)
    }

    fn run(operation: u8, epoch: u64) -> IdempotencyContext {
        run_of(operation, epoch, watch::channel(Instant::now()).1)
    }

    #[tokio::test]
    async fn the_context_is_there_in_what_the_handler_awaits_and_carried_into_what_it_spawns() {
        async fn deep_below() -> Option<OperationId> {
            tokio::task::yield_now().await;
            IdempotencyContext::current().map(|context| context.operation())
        }
        let context = run(1, 1);
        let operation = Some(context.operation());
        let (awaited, spawned, carried) = context
            .within(async {
                let spawned = tokio::spawn(deep_below());
                let carried = tokio::spawn(carry(deep_below()));
                (deep_below().await, spawned.await.unwrap(), carried.await.unwrap())
            })
            .await;
        assert_eq!((awaited, spawned, carried), (operation, None, operation));
        assert_eq!(carry(deep_below()).await, None, "outside of a run there is nothing to carry");
    }

    #[tokio::test]
    async fn runs_that_overlap_on_one_thread_see_their_own_context() {
        async fn seen() -> Epoch {
            tokio::task::yield_now().await;
            IdempotencyContext::current().expect("it is within a run").epoch()
        }
        let seen = tokio::join!(run(1, 1).within(seen()), run(2, 2).within(seen()));
        assert_eq!(seen, (Epoch(1), Epoch(2)));
    }

    #[test]
    fn a_step_has_one_key_in_every_run_of_its_operation_and_in_no_other() {
        let (first, again, other) = (run(1, 1), run(1, 2), run(2, 1));
        assert_eq!(first.derive("charge"), again.derive("charge"));
        assert_ne!(first.derive("charge"), first.derive("mail"));
        assert_ne!(first.derive("charge"), other.derive("charge"));
        assert_eq!(first.derive("charge").get_version_num(), 5);
        assert_ne!(first.derive("charge"), first.key());
    }

    #[test]
    fn steps_with_one_name_are_counted_by_run_and_clones_count_together() {
        let (first, again) = (run(1, 1), run(1, 2));
        let keys = |context: &IdempotencyContext| {
            [context.derive_next("mail"), context.clone().derive_next("mail"), context.derive_next("sms")]
        };
        let [one, two, three] = keys(&first);
        assert_eq!(keys(&again), [one, two, three]);
        assert!(one != two && two != three && one != three);
        assert!(one != Ok(first.derive("mail")), "a name and its first are two steps");
    }

    #[test]
    fn counting_is_bounded_and_names_are_not() {
        let context = run(1, 1);
        for step in 0..COUNTED_STEPS_MAX {
            context.derive_next(&step.to_string()).expect("it is within the bound");
        }
        assert_eq!(context.derive_next("one more"), Err(TooManySteps));
        assert!(context.derive_next("7").is_ok(), "a step that is counted already is counted on");
        assert_eq!(context.derive("one more").get_version_num(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_is_lost_when_its_deadline_passes_and_no_sooner() {
        let began = Instant::now();
        let (renew, deadline) = watch::channel(began + Duration::from_secs(10));
        let context = run_of(1, 1, deadline);
        let lost = tokio::spawn({
            let context = context.clone();
            async move {
                context.lost().await;
                began.elapsed()
            }
        });
        tokio::time::advance(Duration::from_secs(9)).await;
        renew.send(began + Duration::from_secs(19)).unwrap();
        assert_eq!(context.deadline(), began + Duration::from_secs(19));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(!lost.is_finished(), "it was renewed");
        drop(renew);
        let lost_after = lost.await.unwrap();
        assert_eq!(lost_after.as_secs(), 19, "without a renewer, the last deadline counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_set_to_the_past_ends_the_grant_at_once() {
        let began = Instant::now();
        let (renew, deadline) = watch::channel(began + Duration::from_secs(10));
        let context = run_of(1, 1, deadline);
        let ((), ()) = tokio::join!(context.lost(), async { renew.send(began).unwrap() });
        assert!(began.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn the_key_is_not_in_what_is_logged() {
        let context = run(1, 1);
        let shown = format!("{context:?}");
        assert!(shown.contains(&context.operation().to_string()), "{shown}");
        assert!(!shown.contains(&context.key().to_string()), "{shown}");
    }

    #[tokio::test]
    async fn a_handler_gets_its_context_and_one_without_is_told_what_to_do() {
        let app = Router::new()
            .route("/must", get(|context: IdempotencyContext| async move { context.epoch().to_string() }))
            .route(
                "/may",
                get(|context: Option<IdempotencyContext>| async move { context.is_some().to_string() }),
            );
        let ask = async |path: &str, context: Option<IdempotencyContext>| {
            let mut request = http::Request::get(path).body(Body::empty()).unwrap();
            if let Some(context) = context {
                request.extensions_mut().insert(context);
            }
            let response = app.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(ask("/must", Some(run(1, 7))).await, (200, "7".to_owned()));
        assert_eq!(ask("/may", Some(run(1, 7))).await, (200, "true".to_owned()));
        assert_eq!(ask("/may", None).await, (200, "false".to_owned()));
        let (status, problem) = ask("/must", None).await;
        assert_eq!(status, 500);
        assert!(problem.contains("put the route under the layer"), "{problem}");
        let outer = run(1, 1);
        let inner = outer.within(ask("/may", None)).await;
        assert_eq!(inner, (200, "false".to_owned()), "another request is not part of the run");
    }
}
