//! Runs a granted request, and holds the lease while the handler runs. [`save`](crate::save) records the end.
//!
//! The handler has a task of its own, so that a panic is an outcome and a lost lease can stop it.

use crate::asked::{self, Asked, CONTENT_DIGEST, IDEMPOTENCY_REPLAYED, Refusal, random};
use crate::budget::Place;
use crate::content::{Content, Gathered, Resumed, Whole};
use crate::context::IdempotencyContext;
use crate::door::{Door, Inside, budget_problem, store_problem};
use crate::ending::AttachedMark;
use crate::locals::Locals;
use crate::observe::{FoundBy, What};
use crate::policy::{Attached, Mode, Policy};
use crate::problem::{Problem, Reason};
use crate::record::{Claim, Claimed, Completion, Ending, Grant, Holding, Record, Standing, Takeover};
use crate::service::{self, Inner};
use crate::store::{StoreError, Transaction};
use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tower::ServiceExt;
use tracing::Instrument;
use uuid::Uuid;

/// How often to repeat a claim that the store did not answer, and the pause before.
const CLAIM_AGAIN: (u32, Duration) = (2, Duration::from_millis(50));
/// The pause before an end is offered again: the first and the longest.
pub(crate) const SAVE_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A request that has not run yet, with its service.
pub(crate) struct Unrun<S> {
    pub(crate) request: Request<Whole>,
    pub(crate) inner: S,
    /// The task-locals for the handler.
    pub(crate) locals: Locals,
}

/// The result of a claim.
pub(crate) enum Step<S> {
    /// It ran; this is the answer.
    Done(http::Response<Content>),
    /// It is known already.
    Found(Box<(Record, Unrun<S>)>),
    /// It ran, and its end was reported to observers; this is the caller's problem.
    Failed(Problem),
    /// It was not run.
    Refused(Problem),
}

/// Claims the operation, and runs it if it is granted.
pub(crate) async fn claim_and_run<S: Inner>(door: Arc<Door>, asked: Arc<Asked>, unrun: Unrun<S>) -> Step<S> {
    let inside = door.running.enter();
    let policy = &asked.route.policy;
    let takeover = policy.mode.takeover();
    let now = Instant::now().into_std();
    let budget = door.spending.admit(asked.scope_tag, now).and_then(|()| door.spending.run(asked.scope_tag));
    let place = match budget {
        Ok(place) => place,
        // A caller without budget for another run may still get the result of an earlier one.
        Err(exceeded) => {
            return match door.store.look(asked.operation).await {
                Ok(Some(record))
                    if record.request != asked.request || record.standing.is_settled(takeover) =>
                {
                    Step::Found(Box::new((record, unrun)))
                }
                Ok(Some(_) | None) => Step::Refused(budget_problem(&exceeded, asked.operation)),
                Err(error) => Step::Refused(store_problem(&error)),
            };
        }
    };
    let claim = Claim {
        operation: asked.operation,
        scope: asked.scope_tag,
        request: asked.request,
        claimant: Uuid::from_bytes(random()),
        lease_for: policy.lease_for,
        takeover,
        keep: policy.keep,
    };
    let began = Instant::now();
    match claim_patiently(&door, &claim).await {
        Ok(Claimed::Found(record)) => Step::Found(Box::new((record, unrun))),
        Ok(Claimed::Lapsed(record)) => {
            door.tell_lapsed(asked.route.label.clone(), asked.operation, FoundBy::Claim);
            Step::Found(Box::new((record, unrun)))
        }
        Ok(Claimed::Granted(grant)) => {
            let (deadline, _) = watch::channel(deadline_after(began, policy));
            let (parts, content) = unrun.request.into_parts();
            let asker = door.authorise.as_ref().map(|_| parts.clone());
            let unrun = Unrun { request: Request::from_parts(parts, content), ..unrun };
            let run = Arc::new(Run {
                door,
                asked: asked.clone(),
                asker,
                grant,
                began,
                deadline,
                is_recorded: AtomicBool::new(false),
                is_lost: AtomicBool::new(false),
                _inside: inside,
                _place: place,
            });
            let answered = if !grant.taken_over && service::is_stale(&run.door, &asked) {
                run.give_back(Err(Problem::new(Reason::KeyStale).about(asked.operation))).await
            } else {
                run.clone().go(unrun).await
            };
            match answered {
                Ok(answer) => Step::Done(answer),
                Err(problem) if run.is_recorded.load(Ordering::Relaxed) => Step::Failed(problem),
                Err(problem) => Step::Refused(problem),
            }
        }
        Err(
            error @ (StoreError::Corrupt { .. }
            | StoreError::Unfit(_)
            | StoreError::Detached(_)
            | StoreError::Refused(_)
            | StoreError::Undone(_)),
        ) => Step::Refused(store_problem(&error).about(asked.operation)),
        Err(error @ StoreError::Unavailable(_)) => {
            if policy.fail_open {
                // If the claim was granted after all, its lease runs out: a request that runs now must not look as if
                // it never began.
                tracing::error!(%error, route = &*asked.route.label, "run without protection");
                let ran = unrun.inner.oneshot(unrun.request.map(Body::from));
                let Ok(response) = unrun.locals.around(ran).await;
                return Step::Done(response.map(Content::Flowing));
            }
            tokio::spawn(undo(door.clone(), claim, inside, place));
            Step::Refused(store_problem(&error).about(asked.operation))
        }
    }
}

/// The instant by which a lease requested at `asked_at` must be renewed: before it can end on the store's clock.
fn deadline_after(asked_at: Instant, policy: &Policy) -> Instant {
    asked_at + policy.lease_for.mul_f64(0.95)
}

/// Repeats the same claim a few times: if only its answer was lost, the repeat gets the same answer.
async fn claim_patiently(door: &Door, claim: &Claim) -> Result<Claimed, StoreError> {
    let (again, pause) = CLAIM_AGAIN;
    for _ in 0..again {
        match door.store.claim(claim).await {
            Err(StoreError::Unavailable(error)) => tracing::debug!(%error, "a claim is offered again"),
            answered => return answered,
        }
        sleep(pause).await;
    }
    door.store.claim(claim).await
}

/// A claim that was given up may have been granted. Once the store answers, the grant is released, because the caller
/// was told that nothing was done. Its lease may run out meanwhile: as long as there is no other claim, the store
/// recognises it by its claimant. It keeps its place among the caller's running operations, which bounds the number of
/// these tasks while the store is down. A program that ends waits for it as long as the lease: nothing ran.
async fn undo(door: Arc<Door>, claim: Claim, inside: Inside, _place: Place) {
    let (mut inside, leaves_at) = (Some(inside), Instant::now() + claim.lease_for);
    let until = Instant::now() + claim.keep.answer_for;
    // Never take over: an operation that another holder began meanwhile must not be released.
    let claim = Claim { takeover: Takeover::Never, ..claim };
    while Instant::now() < until {
        sleep(SAVE_AGAIN.1).await;
        match undo_once(&door, &claim).await {
            Ok(()) | Err(StoreError::Corrupt { .. }) => return,
            Err(error) => {
                tracing::debug!(%error, operation = %claim.operation, "a claim is given back later");
            }
        }
        inside = inside.filter(|_| Instant::now() < leaves_at);
    }
}

async fn undo_once(door: &Door, claim: &Claim) -> Result<(), StoreError> {
    let Claim { operation, keep, .. } = *claim;
    // If nothing was granted, do not claim, even to release: another request may come just then.
    let Some(Standing::Running { .. }) = door.store.look(operation).await?.map(|record| record.standing)
    else {
        return Ok(());
    };
    match door.store.claim(claim).await? {
        Claimed::Found(_) => {}
        Claimed::Lapsed(_) => door.tell_lapsed("".into(), operation, FoundBy::Claim),
        // An earlier run began: after a release it would look as if none had, and the work would begin again.
        Claimed::Granted(Grant { epoch, taken_over: true, .. }) => {
            let completion = Completion { operation, epoch, ending: Ending::Unknown, keep };
            door.store.complete(&completion).await?;
        }
        Claimed::Granted(Grant { epoch, taken_over: false, .. }) => {
            door.store.release(operation, epoch).await?;
        }
    }
    Ok(())
}

/// The result of a handler's task.
pub(crate) enum Produced {
    /// A complete answer.
    Whole(http::response::Parts, Whole),
    /// An answer whose content is too large to keep, or has no end yet.
    Flowing(http::response::Parts, Body),
    /// The work goes on elsewhere.
    StillRunning,
    /// The state of the work is unknown.
    Unknown,
    /// Its answer broke off.
    Broke,
}

/// The end of the handler's task.
pub(crate) enum Finished {
    Produced(Box<Produced>),
    Panicked,
    TimedOut,
    /// The lease was lost, and the handler was stopped, because another process may run the operation.
    Lost,
}

/// A granted operation, until its end is recorded.
pub(crate) struct Run {
    pub(crate) door: Arc<Door>,
    pub(crate) asked: Arc<Asked>,
    /// The request's parts, if permissions are checked.
    asker: Option<Parts>,
    pub(crate) grant: Grant,
    pub(crate) began: Instant,
    /// The deadline for the next renewal.
    deadline: watch::Sender<Instant>,
    /// Its end was recorded and reported.
    is_recorded: AtomicBool,
    /// The loss of the lease was reported.
    is_lost: AtomicBool,
    _inside: Inside,
    _place: Place,
}

impl Run {
    pub(crate) fn policy(&self) -> &Policy {
        &self.asked.route.policy
    }

    pub(crate) fn tell(&self, what: What) {
        self.door.tell(&self.asked.route, Some(self.asked.operation), what);
    }

    /// Reports the loss of the lease, once.
    pub(crate) fn tell_lost(&self) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            self.tell(What::LeaseLost { epoch: self.grant.epoch });
        }
    }

    /// Reports that its end is recorded.
    pub(crate) fn tell_recorded(&self, what: What) {
        self.is_recorded.store(true, Ordering::Relaxed);
        self.tell(what);
    }

    async fn go<S: Inner>(self: Arc<Self>, unrun: Unrun<S>) -> Result<http::Response<Content>, Problem> {
        let Grant { epoch, taken_over, .. } = self.grant;
        self.tell(What::Claimed { epoch, taken_over });
        let context = IdempotencyContext::new(
            self.asked.key.canonical(),
            self.asked.operation,
            self.grant,
            self.deadline.subscribe(),
        );
        let (mut parts, content) = unrun.request.into_parts();
        parts.extensions.insert(context.clone());
        // Other callers will get the stored answer, and may not accept this coding.
        parts.headers.remove(header::ACCEPT_ENCODING);
        let transaction = match self.policy().mode {
            Mode::Transactional => match self.begin(&mut parts.extensions).await {
                Ok(transaction) => Some(transaction),
                Err(error) => {
                    return self.give_back(Err(store_problem(&error).about(self.asked.operation))).await;
                }
            },
            Mode::Exempt | Mode::AtMostOnce | Mode::Durable(_) => None,
        };
        let request = Request::from_parts(parts, Body::from(content));
        let policy = self.policy().clone();
        let (inner, locals) = (unrun.inner, unrun.locals);
        let work = context.clone().within(async move {
            match &policy.mode {
                Mode::Durable(attach) if taken_over => match attach.attach(context).await {
                    Attached::Answer(mut response) => {
                        response.extensions_mut().insert(AttachedMark);
                        collect(response, &policy).await
                    }
                    Attached::NotBegun => produce(inner, request, &policy).await,
                    Attached::StillRunning => Produced::StillRunning,
                    Attached::Unknown => Produced::Unknown,
                },
                Mode::Exempt | Mode::AtMostOnce | Mode::Transactional | Mode::Durable(_) => {
                    produce(inner, request, &policy).await
                }
            }
        });
        let span = tracing::info_span!("idempotency", operation = %self.asked.operation, %epoch, route = &*self.asked.route.label);
        let finished = self.hold_while(locals.around(work).instrument(span)).await;
        self.end(finished, transaction).await
    }

    async fn begin(&self, extensions: &mut http::Extensions) -> Result<Box<dyn Transaction>, StoreError> {
        let transaction = self.door.store.begin(self.asked.operation, self.grant, extensions).await?;
        transaction.ok_or_else(|| StoreError::Unfit("it has no transaction to share".to_owned()))
    }

    /// Runs the work on a task of its own and renews the lease until it ends. If another process may take over after a
    /// lost lease, the work is stopped before that; otherwise it goes on. Neither the end of the work nor the end of
    /// the lease waits for a renewal without an answer.
    async fn hold_while(&self, work: impl Future<Output = Produced> + Send + 'static) -> Finished {
        let policy = self.policy();
        let run_until = policy.run_for_max.map(|run_for| Instant::now() + run_for);
        let stops = policy.mode.takeover() == Takeover::Allowed;
        let mut is_held = true;
        let mut work = tokio::spawn(work);
        let renewal = self.renew_at(self.began + policy.lease_for / 3);
        tokio::pin!(renewal);
        loop {
            let deadline = *self.deadline.borrow();
            let finished = tokio::select! {
                biased;
                produced = &mut work => return if let Ok(produced) = produced {
                    Finished::Produced(Box::new(produced))
                } else {
                    // The panic's message is not logged: it may contain secrets.
                    tracing::error!(operation = %self.asked.operation, "a handler panicked");
                    Finished::Panicked
                },
                () = until(run_until) => Finished::TimedOut,
                () = sleep_until(deadline), if stops => {
                    self.tell_lost();
                    Finished::Lost
                }
                renewed = &mut renewal, if is_held => match renewed {
                    Ok(Holding::Held) => {
                        renewal.set(self.renew_at(Instant::now() + policy.lease_for / 3));
                        continue;
                    }
                    Ok(Holding::Lost) => {
                        self.tell_lost();
                        is_held = false;
                        if !stops {
                            continue;
                        }
                        Finished::Lost
                    }
                    Err(error) => {
                        tracing::warn!(%error, operation = %self.asked.operation, "a lease could not be renewed yet");
                        renewal.set(self.renew_at(Instant::now() + policy.lease_for / 12));
                        continue;
                    }
                },
            };
            return match finished {
                Finished::TimedOut => stop(work, finished).await,
                // Another process may run it by now, so this result does not count.
                other => {
                    stop(work, Finished::Lost).await;
                    other
                }
            };
        }
    }

    /// Renews the lease when a third of it has passed, while the store does not accept the end.
    pub(crate) async fn stay_holder(&self) {
        let lease_for = self.policy().lease_for;
        let left = self.deadline.borrow().saturating_duration_since(Instant::now());
        if left < lease_for * 2 / 3
            && let Err(error) = self.renew_at(Instant::now()).await
        {
            tracing::debug!(%error, operation = %self.asked.operation, "a lease could not be renewed yet");
        }
    }

    /// Checks that the caller may still see the result.
    pub(crate) async fn authorise(&self) -> Result<(), Refusal> {
        match &self.asker {
            Some(parts) => asked::authorise(&self.door, parts, &self.asked.scope).await,
            None => Ok(()),
        }
    }

    /// Renews the lease at that instant. A store that does not answer is given up in time for another try.
    async fn renew_at(&self, instant: Instant) -> Result<Holding, StoreError> {
        sleep_until(instant).await;
        self.tell(What::Renewing { epoch: self.grant.epoch });
        let (lease_for, asked_at) = (self.policy().lease_for, Instant::now());
        let renewal = self.door.store.renew(self.asked.operation, self.grant.epoch, lease_for);
        let late = |_| StoreError::Unavailable("no answer in time".into());
        let holding = timeout_at(asked_at + lease_for / 3, renewal).await.map_err(late)??;
        if holding == Holding::Held {
            self.deadline.send_replace(deadline_after(asked_at, self.policy()));
        }
        Ok(holding)
    }
}

/// Ends at that instant, or never.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Stops the work, and waits until it has stopped. A result at the last moment counts.
async fn stop(work: JoinHandle<Produced>, otherwise: Finished) -> Finished {
    work.abort();
    match work.await {
        Ok(produced) => Finished::Produced(Box::new(produced)),
        Err(error) if error.is_panic() => Finished::Panicked,
        Err(_) => otherwise,
    }
}

async fn produce<S: Inner>(inner: S, request: Request<Body>, policy: &Policy) -> Produced {
    let Ok(response) = inner.oneshot(request).await;
    collect(response, policy).await
}

/// Reads an answer to its end, unless it is too large to keep or has no end.
async fn collect(response: Response, policy: &Policy) -> Produced {
    let (mut parts, mut body) = response.into_parts();
    // Only this layer sets it on its own answers; a handler may pass on another service's.
    parts.headers.remove(IDEMPOTENCY_REPLAYED);
    let kind = parts.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let events = essence.eq_ignore_ascii_case(b"text/event-stream");
    if policy.streaming || events || parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Produced::Flowing(parts, body);
    }
    let (mut read, mut trailers) = (Gathered::default(), HeaderMap::new());
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => read.add(data),
            Ok(Err(frame)) => trailers = frame.into_trailers().unwrap_or_default(),
            Err(error) => {
                tracing::error!(%error, "an answer broke off");
                return Produced::Broke;
            }
        }
        if read.len() > policy.answer_bytes_max {
            return Produced::Flowing(parts, Body::new(Resumed { read: read.whole(), rest: body }));
        }
    }
    // It becomes a header, as the content is complete.
    trailers.remove(CONTENT_DIGEST);
    Produced::Whole(parts, Whole { bytes: read.whole(), trailers })
}
