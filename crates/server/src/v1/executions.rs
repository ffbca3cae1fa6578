//! Executions and tasks, where somebody may wait: for a commit, for an end, for work.

use super::asked::{Asked, Members, WAIT_MAX};
use super::conditions::Conditions;
use super::problem::{Code, Problem};
use super::shapes::{NOTHING, POLL, START, STARTS};
use super::{Desk, Told, no_more, wire};
use crate::commands::{executions, find};
use crate::control::{Answer, Request, Shown, Starting};
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perdura_engine::{Fault, Input};
use perdura_idempotency::{CONTENT_DIGEST, IdempotencyContext};
use perdura_runtime::StartError;
use perdura_runtime::card::is_gone;
use perdura_sigv4::sha256;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::time::timeout;

/// The most executions that are started by one request.
const MANY: usize = 100;

pub(super) async fn start(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let (context, key) = (asked.context().cloned(), key(&asked));
    let starts = desk.parsed(asked.body.len(), move || starts(&asked.members(&START)?)).await?;
    let starts = executions::Starts { key: starts.key.or(key), ..starts };
    let started = begin(desk, Begun::under(context.as_ref(), "start", starts)).await?;
    let location = format!("/v1/executions/{}", started.execution);
    let told = serde_json::to_value(&started).expect("answers are plain data");
    Ok(Told::json(told.to_string()).with(header::LOCATION, location))
}

/// A start as it is carried out under its key.
struct Begun {
    starts: executions::Starts,
    /// It is named by its key, so that whatever has its name was begun by this request.
    is_own: bool,
    /// An earlier try may have begun it.
    is_again: bool,
}

impl Begun {
    /// Without a name it gets one of its key. The name is no UUID, so that nobody takes it for an id.
    fn under(context: Option<&IdempotencyContext>, step: &str, mut starts: executions::Starts) -> Self {
        let is_own = starts.name.is_none() && context.is_some();
        if is_own {
            starts.name = context.map(|context| format!("key-{}", context.derive(step)));
        }
        Self { starts, is_own, is_again: is_own || context.is_some_and(IdempotencyContext::is_taken_over) }
    }
}

/// The client's key for its request, which the execution is found by.
const KEY: header::HeaderName = header::HeaderName::from_static("idempotency-key");
const APPLIED: header::HeaderName = header::HeaderName::from_static("preference-applied");

pub(super) async fn start_many(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let (bytes, key, context) = (asked.body.len(), key(&asked), asked.context().cloned());
    let all = desk.parsed(bytes, move || {
        let body = asked.members(&STARTS)?;
        let all = body.each("executions");
        if all.len() > MANY {
            return Err(Problem::invalid(format!("the most is {MANY} executions in one request")));
        }
        let each = |body: &Members| {
            let starts = starts(body)?;
            Ok(executions::Starts { key: starts.key.or_else(|| key.clone()), ..starts })
        };
        all.iter().map(each).collect::<Result<Vec<_>, Problem>>()
    });
    let begun = all.await?.into_iter().enumerate();
    let begun = begun.map(|(at, starts)| Begun::under(context.as_ref(), &format!("start {at}"), starts));
    let begun = begun.map(|begun| begin(desk, begun));
    // All at once, so that they share a commit.
    let mut waiting: Vec<_> = begun.map(Box::pin).collect();
    let mut items = Vec::with_capacity(waiting.len());
    for one in join(&mut waiting).await {
        items.push(match one {
            Ok(started) => json!({"status": 201, "execution": started}),
            Err(problem) => json!({"status": problem.code.status(), "problem": problem.to_json()}),
        });
    }
    Ok(Told::json(json!({ "items": items }).to_string()))
}

/// The results of all, in their order.
async fn join<F: Future + Unpin>(waiting: &mut [F]) -> Vec<F::Output> {
    use std::task::Poll;
    let mut done: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in waiting.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn key(asked: &Asked) -> Option<String> {
    asked.headers.get(KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned())
}

fn starts(body: &Members) -> Result<executions::Starts, Problem> {
    Ok(executions::Starts {
        machine: body.needed("machine"),
        name: body.text("name"),
        input: body.document("input")?.unwrap_or_default(),
        strict: body.flag("strict"),
        labels: executions::labels(body.pairs("labels"))?,
        key: body.text("rootKey"),
    })
}

/// Starts one. A thread is needed only to look at the machine: the commit is waited for without one.
async fn begin(desk: &Desk, begun: Begun) -> Result<Starting, Problem> {
    let Begun { starts, is_own, is_again } = begun;
    let door = desk.data.door();
    let changes = door.machine_changes();
    let (start, head) = desk.reads(move |data| executions::prepare(data, &starts)).await?;
    let (said, input) = ((start.name.clone(), start.via.labels.clone()), start.input.clone());
    let started = match door.start(start).await {
        Err(StartError::Exists(id)) if is_again => {
            let found = desk.reads(move |data| executions::begun_with(data, id, &input)).await?;
            let mut found = found.ok_or_else(|| crate::Refusal::from(StartError::Exists(id)))?;
            found.fresh = is_own.then_some(true);
            return Ok(found);
        }
        other => other.map_err(crate::Refusal::from)?,
    };
    if started.fresh {
        tracing::debug!(execution = %started.execution, machine = %head.name, "started");
    }
    if started.fresh && door.machine_changes() != changes {
        let (of, seen) = (head.name.clone(), head.clone());
        if desk.reads(move |data| Ok(is_gone(executions::head(data, &of)?.as_ref(), &seen))).await? {
            // The machine was deleted before this execution was listed: it is stopped like the others.
            let stopped = door.input(started.execution, Input::Stop { fault: Fault::default() }).await;
            stopped.map_err(crate::Refusal::from)?;
            return Err(Problem::new(Code::Conflict, format!("the machine {} is being deleted", head.name)));
        }
    }
    let mut told = executions::starting(started, said, &head, true);
    told.fresh = told.fresh.map(|fresh| fresh || is_own);
    Ok(told)
}

/// The answer to a start with how the execution stands at its end, or after so long.
pub(super) async fn ended(desk: &Desk, response: Response, wait: Duration) -> Result<Response, Problem> {
    let (mut head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut told: Json = serde_json::from_slice(&body).unwrap_or_default();
    let id = told.get("id").and_then(Json::as_str).unwrap_or_default().to_owned();
    let shown = settled(desk, id, wait).await?;
    // The output stays as it is written, whatever its numbers.
    let output = shown.output.as_ref().map(|output| format!(",\"output\":{output}"));
    told["status"] = shown.status.name().into();
    for (name, value) in [
        ("endedAt", shown.ended_at.map(|at| at.to_string())),
        ("error", shown.fault.error.as_deref().map(str::to_owned)),
        ("cause", shown.fault.cause.as_deref().map(str::to_owned)),
    ] {
        if let Some(value) = value {
            told[name] = value.into();
        }
    }
    let told = told.to_string();
    let inner = told.strip_suffix('}').unwrap_or(&told);
    let body = format!("{inner}{}}}", output.unwrap_or_default());
    // It was that of the start alone.
    if head.headers.contains_key(CONTENT_DIGEST) {
        let digest = format!("sha-256=:{}:", STANDARD.encode(sha256(body.as_bytes())));
        head.headers.insert(CONTENT_DIGEST, HeaderValue::from_str(&digest).expect("base64 is a header"));
    }
    head.headers.remove(header::CONTENT_LENGTH);
    let applied = format!("wait={}", wait.as_secs());
    head.headers.insert(APPLIED, HeaderValue::from_str(&applied).expect("a number is a header"));
    Ok(Response::from_parts(head, Body::from(body)))
}

/// An execution as it stands at its end, or after so long.
async fn settled(desk: &Desk, which: String, wait: Duration) -> Result<Shown, Problem> {
    if !wait.is_zero() {
        let id = desk.reads({
            let which = which.clone();
            move |data| find(data, &which)
        });
        // One that cannot be waited for is shown as it is, or refused there.
        let _ = timeout(wait.min(WAIT_MAX), desk.data.door().ending(id.await?)).await;
    }
    match desk.verb(Request::Show { execution: which }).await? {
        Answer::Execution(shown) => Ok(*shown),
        _ => unreachable!("a question about an execution is answered with one"),
    }
}

pub(super) async fn describe(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let wait = asked.wait();
    let showing = asked.showing().filter(|_| wait.is_some());
    let settled = settled(desk, asked.first(), wait.unwrap_or_default());
    let shown = desk.while_it_counts(showing, settled).await??;
    let tag = format!("W/\"{}-{}\"", shown.execution, shown.turns.unwrap_or_default());
    if Conditions::of(&asked).has(&tag) {
        return Ok(Told::unchanged(tag));
    }
    let told = Told::new(wire::told(&Answer::Execution(Box::new(shown)))).with(header::ETAG, tag);
    Ok(match wait {
        Some(wait) => told.with(APPLIED, format!("wait={}", wait.as_secs())),
        None => told,
    })
}

pub(super) async fn poll(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let worker = asked.members(&POLL)?.text("worker");
    let wait = asked.wait().unwrap_or(WAIT_MAX);
    let activity = asked.first();
    let showing = asked.showing();
    drop(asked);
    let polling = crate::commands::activities::poll(&desk.data, &activity, worker);
    // A task that is handed to nobody goes to the next worker, so a worker leaves as soon as its token does not count.
    let ends = async {
        match showing {
            Some((known, headers)) => known.ended(&headers, || desk.api.moment().now).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        polled = timeout(wait, polling) => match polled {
            Ok(task) => Ok(Told::new(wire::told(&task?))),
            Err(_elapsed) => Ok(Told::nothing()),
        },
        denied = ends => {
            tracing::debug!(%denied, "a worker waits no more");
            Err(no_more())
        }
    }
}

/// How often it is looked whether anything is still under way.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pauses everything, and waits until nothing is under way.
pub(super) async fn drain(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    asked.members(&NOTHING)?;
    let waits_for = asked.wait().unwrap_or_default();
    desk.verb(Request::Pause { machine: None, now: true }).await?;
    let mut answer = desk.verb(Request::Pauses).await?;
    let drained = async {
        while !matches!(&answer, Answer::Pauses(pauses) if pauses.drained) {
            tokio::time::sleep(LOOK_EVERY).await;
            answer = desk.verb(Request::Pauses).await?;
        }
        Ok::<(), Problem>(())
    };
    if let Ok(told) = timeout(waits_for, drained).await {
        told?;
    }
    Ok(Told::new(wire::told(&answer)))
}
