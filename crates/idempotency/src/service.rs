//! The way of a request through the layer: read, claim, then run, wait, replay or refuse.

use crate::answer::{Answer, Kept};
use crate::asked::{self, Asked, CONTENT_DIGEST, Echo, IDEMPOTENCY_REPLAYED, Refusal};
use crate::carried::carried;
use crate::content::{Content, Whole, with_digest};
use crate::context::IdempotencyContext;
use crate::door::{Door, STORE_BACK_AFTER, budget_problem, store_problem};
use crate::locals::Locals;
use crate::observe::What;
use crate::policy::Mode;
use crate::problem::{Next, Problem, Reason};
use crate::record::{Record, Standing, Takeover};
use crate::route::{Route, RouteTable};
use crate::rule;
use crate::run::{Step, Unrun, claim_and_run};
use crate::scope::ResultRead;
use crate::self_test::Probe;
use crate::vault::{OpenError, Sealing};
use crate::wait::{self, Waited};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

/// The service that [`IdempotencyLayer`](crate::IdempotencyLayer) makes.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    pub(crate) inner: S,
    pub(crate) door: Arc<Door>,
    pub(crate) routes: Arc<RouteTable>,
}

/// A service like axum's routes.
pub(crate) trait Inner:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Inner for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Service<Request> for IdempotencyService<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    /// Always ready: the clone that handles a request waits for the inner service, once it is known that it must run.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (door, inner) = (self.door.clone(), self.inner.clone());
        if let Some(probe) = request.extensions().get::<Probe>().cloned() {
            let (parts, _) = request.into_parts();
            let answer = with_digest(probe.seen(&parts, (door.scope_of)(&parts).is_some()));
            return Box::pin(async move { Ok(answer) });
        }
        match self.routes.find(&request) {
            Some(route) if is_guarded(&route, &request) => {
                Box::pin(async move { Ok(guarded(door, route, request, inner).await) })
            }
            Some(_) | None => Box::pin(inner.oneshot(request)),
        }
    }
}

/// Whether this layer handles the request: a layer further out may handle it already.
fn is_guarded(route: &Route, request: &Request) -> bool {
    !matches!(route.policy.mode, Mode::Exempt) && request.extensions().get::<IdempotencyContext>().is_none()
}

/// Answers a request of a guarded route.
async fn guarded(door: Arc<Door>, route: Arc<Route>, request: Request, inner: impl Inner) -> Response {
    let locals = Locals::here(&door.carried);
    let (mut parts, body) = request.into_parts();
    let mut echo = Echo::of(&parts.headers);
    let answered = match Asked::read(&door, route.clone(), &mut parts, body, &mut echo).await {
        Ok((asked, content)) => {
            let asked = Arc::new(asked);
            let unrun = Unrun { request: http::Request::from_parts(parts, content), inner, locals };
            let answered = answer(&door, &asked, unrun).await;
            answered.map_err(|refusal| (Some(asked.operation), refusal))
        }
        Err(refusal) => Err((None, refusal)),
    };
    let mut response = answered.unwrap_or_else(|(operation, refusal)| match refusal {
        Refusal::Problem(problem) => {
            door.tell(&route, operation, What::Refused { reason: problem.reason().name() });
            shown(&door, problem)
        }
        Refusal::Failed(problem) => shown(&door, problem),
        Refusal::Answer(answer) => {
            door.tell(&route, operation, What::Refused { reason: Reason::NotAuthorised.name() });
            answer.map(Content::Flowing)
        }
    });
    echo.put(response.headers_mut());
    with_digest(response)
}

/// The caller's answer for a refusal.
pub(crate) fn shown(door: &Door, problem: Problem) -> http::Response<Content> {
    problem.found_below(door.operations_at.as_deref()).into_response(door.profile).map(Content::whole)
}

/// Runs the request, or finds its result.
async fn answer(
    door: &Arc<Door>,
    asked: &Arc<Asked>,
    mut unrun: Unrun<impl Inner>,
) -> Result<http::Response<Content>, Refusal> {
    let policy = &asked.route.policy;
    let takeover = policy.mode.takeover();
    let prefers = asked.prefers_wait.map_or(policy.wait_for_max, std::time::Duration::from_secs);
    let patience_until = Instant::now() + policy.wait_for_max.min(prefers);
    refuse_stale(door, asked).await?;
    door.tell(&asked.route, Some(asked.operation), What::Arrived);
    loop {
        let (record, back) = match door.store.glance(asked.operation) {
            // A settled record needs no claim and no task.
            Some(record) if record.standing.is_settled(takeover) => (record, unrun),
            // Runs to its end, so that a caller who goes away leaves no claim behind and no effect half done.
            Some(_) | None => match carried(claim_and_run(door.clone(), asked.clone(), unrun)).await {
                Step::Done(answer) => return Ok(answer),
                Step::Failed(problem) => return Err(Refusal::Failed(problem)),
                Step::Refused(problem) => return Err(problem.into()),
                Step::Found(record_and_back) => *record_and_back,
            },
        };
        if let Some(answer) = found(door, asked, &record).await? {
            return Ok(answer);
        }
        let waited = wait::for_change(door, asked, patience_until).await?;
        unrun = authorise_again(door, asked, back).await?;
        match waited {
            Waited::Changed => {}
            Waited::NotApplied => return Err(wait::not_applied(asked).into()),
            Waited::InVain => return Err(wait::in_progress(asked).into()),
        }
    }
}

/// Rights may have been revoked while the request waited.
async fn authorise_again<S>(door: &Door, asked: &Asked, unrun: Unrun<S>) -> Result<Unrun<S>, Refusal> {
    let (parts, content) = unrun.request.into_parts();
    asked::authorise(door, &parts, &asked.scope).await?;
    Ok(Unrun { request: http::Request::from_parts(parts, content), ..unrun })
}

/// The answer from a record; `None`: the request runs, or may be run. Compares the requests before it reveals anything
/// else.
pub(crate) async fn found(
    door: &Door,
    asked: &Asked,
    record: &Record,
) -> Result<Option<http::Response<Content>>, Problem> {
    if !bool::from(record.request.0.ct_eq(&asked.request.0)) {
        return Err(conflict(door, asked));
    }
    let problem = |reason| Err(Problem::new(reason).about(asked.operation));
    match &record.standing {
        Standing::Running { .. } => Ok(None),
        // If it may be taken over, the next request does that.
        Standing::Unknown { .. } if asked.route.policy.mode.takeover() == Takeover::Allowed => Ok(None),
        Standing::Unknown { .. } => Err(outcome_unknown(asked)),
        Standing::Expired { .. } => problem(Reason::ResultExpired),
        Standing::Completed { answer, .. } => replay(door, asked, record, answer).await.map(Some),
    }
}

/// It began, and its outcome is unknown. If the work goes on by itself, a retry can find out.
pub(crate) fn outcome_unknown(asked: &Asked) -> Problem {
    let problem = Problem::new(Reason::OutcomeUnknown).about(asked.operation);
    match asked.route.policy.mode {
        Mode::Exempt | Mode::AtMostOnce | Mode::Transactional => problem,
        Mode::Durable(_) => problem
            .with_next(Next::SameKey)
            .detail("Sent again with the same key, it is attached to the work that was begun"),
    }
}

/// The stored answer, if the caller may see it and its budget allows it.
async fn replay(
    door: &Door,
    asked: &Asked,
    record: &Record,
    sealed: &Bytes,
) -> Result<http::Response<Content>, Problem> {
    let operation = asked.operation;
    let later = |detail: &str| {
        let problem = Problem::new(Reason::StoreUnavailable).about(operation);
        problem.detail(detail).retry_after(STORE_BACK_AFTER)
    };
    door.spending
        .replay(asked.scope_tag, Instant::now().into_std())
        .map_err(|exceeded| budget_problem(&exceeded, operation))?;
    if let Some(audit) = &door.audit {
        let read = ResultRead {
            scope: asked.scope.clone(),
            route: asked.route.label.clone(),
            operation,
            epoch: record.epoch,
        };
        audit.result_read(&read).await.map_err(|error| {
            tracing::error!(%error, %operation, "idempotency");
            later("The read could not be audited")
        })?;
    }
    let sealing = Sealing {
        tenant: &asked.scope.tenant,
        scope: asked.scope_tag,
        operation,
        request: asked.request,
        epoch: record.epoch,
    };
    let damaged = || Problem::new(Reason::RecordDamaged).about(operation);
    let answer = door.vault.open(&sealing, sealed).map_err(|error| {
        tracing::error!(%error, %operation, "a stored answer does not open");
        match error {
            OpenError::NoKey => Problem::new(Reason::ResultNotRetained).about(operation),
            OpenError::Panicked => later("The answer cannot be opened now"),
            OpenError::Damaged => damaged(),
        }
    })?;
    let mut answer = Answer::decode(&answer).ok_or_else(damaged)?;
    let last_modified = last_modified(record.first_at, Timestamp::now()).ok_or_else(damaged)?;
    let Kept::Body(body) = answer.body else {
        // A server error is never a stored answer; it stands for an unknown outcome.
        return Err(if answer.status.is_server_error() {
            outcome_unknown(asked)
        } else {
            Problem::new(Reason::ResultNotRetained).about(operation)
        });
    };
    door.tell(&asked.route, Some(operation), What::Replayed { epoch: record.epoch });
    let whole = Whole { bytes: body, trailers: answer.trailers };
    let content = match answer.headers.remove(CONTENT_DIGEST) {
        Some(digest) => Content::Whole(whole, digest),
        None => Content::whole(whole),
    };
    let mut response = http::Response::new(content);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response.headers_mut().insert(header::LAST_MODIFIED, last_modified);
    Ok(response)
}

/// RFC 9110: in seconds, and not later than the answer's own date. `None`: it is before the first valid date.
fn last_modified(first_at: Timestamp, now: Timestamp) -> Option<HeaderValue> {
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&first_at.min(now)).ok()?;
    Some(HeaderValue::try_from(text).expect("a date is ASCII"))
}

fn conflict(door: &Door, asked: &Asked) -> Problem {
    let operation = asked.operation;
    door.tell(&asked.route, Some(operation), What::Conflicted);
    let spent = door.spending.conflict(asked.scope_tag, operation, asked.request, Instant::now().into_std());
    if let Some(requests) = spent.anomaly {
        tracing::warn!(%operation, requests, "many different requests under one Idempotency-Key");
        door.tell(&asked.route, Some(operation), What::ReplayAnomaly { requests });
    }
    match spent.allowed {
        Ok(()) => Problem::new(Reason::Conflict),
        Err(exceeded) => budget_problem(&exceeded, operation),
    }
}

/// Whether the key is older than all records are kept: without a record, it is unknown whether it was used.
pub(crate) fn is_stale(door: &Door, asked: &Asked) -> bool {
    let keep = asked.route.policy.keep;
    let minted_at = asked.key.minted_at().filter(|_| door.refuse_stale_keys);
    let kept_until = |at| rule::later(rule::later(at, keep.answer_for), keep.tombstone_for);
    minted_at.is_some_and(|at| kept_until(at) < Timestamp::now())
}

/// Refuses a stale key without a record. A record that exists now may be gone at the claim, so this is checked again
/// after a grant.
async fn refuse_stale(door: &Door, asked: &Asked) -> Result<(), Problem> {
    if !is_stale(door, asked) {
        return Ok(());
    }
    match door.store.look(asked.operation).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Problem::new(Reason::KeyStale).about(asked.operation)),
        Err(error) => Err(store_problem(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_modified_is_not_later_than_now() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-16T09:00:00Z");
        let told = |text| last_modified(at(text), now).unwrap();
        assert_eq!(told("2026-11-16T08:59:59.9Z"), "Mon, 16 Nov 2026 08:59:59 GMT");
        assert_eq!(told("2026-11-16T09:00:07Z"), "Mon, 16 Nov 2026 09:00:00 GMT");
        assert_eq!(last_modified(at("-001199-01-01T00:00:00Z"), now), None);
    }
}
