//! `POST /orders`, durable: the work is a job on disk that goes on without its handler, and a retry is attached to it.
//!
//! A job is a file; its end is a second one. Whoever finds a job without an end finishes it: the handler, the process
//! that starts after a crash, or a retry. Two processes may do so at the same time, so the warehouse is told the same
//! key by both: the one that was derived for this step of the operation and is written into the job.

use crate::App;
use crate::ledger::{Ledger, blocking, write_first};
use crate::plug::{Plug, Point};
use crate::refusal::Refusal;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use perdura_idempotency::record::OperationId;
use perdura_idempotency::{Attached, IdempotencyContext};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

#[derive(Clone)]
pub(crate) struct Jobs {
    folder: PathBuf,
    ledger: Ledger,
    plug: Plug,
    work_for: Duration,
    /// The receiver is told the job's key.
    keyed: bool,
    /// Held by who finishes a job: in one process, one at a time does.
    turn: Arc<Mutex<()>>,
}

impl Jobs {
    pub(crate) fn open(ledger: &Ledger, plug: &Plug, work_for: Duration) -> io::Result<Self> {
        let folder = ledger.beside("jobs");
        std::fs::create_dir_all(&folder)?;
        let (ledger, plug) = (ledger.clone(), plug.clone());
        Ok(Self { folder, ledger, plug, work_for, keyed: true, turn: Arc::default() })
    }

    /// How not to do it: other jobs, of which the receiver is told no key.
    pub(crate) fn keyless(self) -> io::Result<Self> {
        let folder = self.ledger.beside("keyless-jobs");
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, keyed: false, turn: Arc::default(), ..self })
    }

    /// Goes on with what a crash interrupted.
    pub(crate) fn resume(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let job = name.to_str().and_then(|name| OperationId::parse(name.strip_suffix(".job")?));
            if let Some(operation) = job {
                let jobs = self.clone();
                tokio::spawn(async move {
                    if let Err(error) = jobs.finish(operation).await {
                        eprintln!("the order {operation} could not be finished: {error}");
                    }
                });
            }
        }
        Ok(())
    }

    fn path(&self, operation: OperationId, what: &str) -> PathBuf {
        self.folder.join(format!("{operation}.{what}"))
    }

    async fn read(&self, operation: OperationId, what: &str) -> io::Result<Option<Value>> {
        let path = self.path(operation, what);
        blocking(move || match std::fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    /// Puts the job on disk. From here on it is done, whatever happens to this process.
    async fn begin(&self, context: &IdempotencyContext, order: Value) -> io::Result<()> {
        let path = self.path(context.operation(), "job");
        let job = json!({"order": order, "key": context.derive("ship")});
        blocking(move || write_first(&path, &job)).await.map(|_first| ())
    }

    /// Does what the job says, unless it is done, and gives its end. `None`: there is no such job.
    async fn finish(self, operation: OperationId) -> io::Result<Option<Value>> {
        let _turn = self.turn.lock().await;
        let Some(job) = self.read(operation, "job").await? else { return Ok(None) };
        if let Some(end) = self.read(operation, "end").await? {
            return Ok(Some(end));
        }
        self.plug.at(Point::BeforeEffect);
        self.plug.passed().await;
        tokio::time::sleep(self.work_for).await;
        // That may have taken long, and another process may have finished it.
        if let Some(end) = self.read(operation, "end").await? {
            return Ok(Some(end));
        }
        self.ship(&job).await?;
        self.plug.at(Point::AfterEffect);
        let end = json!({"order": operation.to_string(), "item": job["order"]["item"], "shipped_by": std::process::id()});
        let path = self.path(operation, "end");
        blocking(move || write_first(&path, &end)).await?;
        self.read(operation, "end").await
    }

    async fn ship(&self, job: &Value) -> io::Result<()> {
        let order = &job["order"];
        let mut shipped = json!({"what": "order", "reference": order["reference"], "item": order["item"]});
        if self.keyed {
            shipped["key"] = job["key"].clone();
            self.ledger.append_once(shipped).await
        } else {
            self.ledger.append(shipped).await
        }
    }

    /// What became of the order that somebody began?
    pub(crate) async fn attach(self, context: IdempotencyContext) -> Attached {
        match self.finish(context.operation()).await {
            Ok(Some(end)) => Attached::Answer(shipped(context.operation(), end)),
            Ok(None) => Attached::NotBegun,
            Err(error) => {
                eprintln!("the order {} cannot be read: {error}", context.operation());
                Attached::Unknown
            }
        }
    }
}

fn shipped(operation: OperationId, end: Value) -> Response {
    (StatusCode::CREATED, [(header::LOCATION, format!("/orders/{operation}"))], Json(end)).into_response()
}

/// Ships what was ordered.
pub(crate) async fn order(
    State(app): State<App>,
    context: IdempotencyContext,
    Json(order): Json<Value>,
) -> Result<Response, Refusal> {
    ordered(app.jobs, context, order).await
}

/// How not to do it: the same job, and a receiver that cannot tell its second attempt from a second order.
pub(crate) async fn order_keyless(
    State(app): State<App>,
    context: IdempotencyContext,
    Json(order): Json<Value>,
) -> Result<Response, Refusal> {
    ordered(app.keyless_jobs, context, order).await
}

async fn ordered(jobs: Jobs, context: IdempotencyContext, order: Value) -> Result<Response, Refusal> {
    jobs.begin(&context, order).await?;
    // On a task of its own: it goes on when this handler is stopped.
    let end = tokio::spawn(jobs.finish(context.operation())).await??;
    Ok(shipped(context.operation(), end.ok_or("a job was taken away")?))
}
