//! Steps in another process, as functions that are called over HTTP.
//!
//! The worker answers each call with its input, using the same kind of server as a worker in Rust would. Its cost
//! counts: a step over HTTP is the engine, the call and the worker.

use super::load::Stage;
use super::measure::cpu_time_of;
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::response::IntoResponse;
use axum::routing::post;
use perdura_runtime::Steps;
use perdura_tasks::Tasks;
use perdura_tasks::connection::Connections;
use perdura_tasks::settings::{Settings, Tables};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The resource of the worker's function.
pub(super) const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:noop";

/// A worker in another process; it is killed when this value is dropped.
pub(super) struct Worker {
    process: Child,
    url: String,
}

impl Worker {
    pub(super) fn start() -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program again")?;
        let mut process = Command::new(program)
            .args(["bench", "worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let said = process.stdout.take().context("the worker has no stdout")?;
        let mut url = String::new();
        BufReader::new(said).read_line(&mut url).context("the worker does not say where it listens")?;
        if url.is_empty() {
            bail!("the worker ended before it listened");
        }
        Ok(Self { process, url: url.trim().into() })
    }

    /// A runtime whose function is this worker.
    pub(super) fn stage(&self, data: &Path) -> Result<Stage> {
        let mut tables = Tables::default();
        let table = format!("url = \"{}\"", self.url);
        tables.functions.insert("noop".into(), toml::from_str(&table).context("a function is a table")?);
        let settings = Settings::check(tables, Path::new("."))?;
        Stage::with(data, Steps::default(), |handle| {
            let tasks = Tasks::new(settings, Arc::new(Connections::default()), handle.clone());
            Ok(Box::new(tasks.context("cannot make a client")?))
        })
    }

    /// Processor time that the worker has used.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(&self.process)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for error in [self.process.kill(), self.process.wait().map(drop)].into_iter().filter_map(Result::err)
        {
            tracing::warn!(%error, "the worker cannot be ended");
        }
    }
}

/// The worker process: runs until its parent is gone.
pub(super) fn worker() -> Result<ExitCode> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let mut stdout = std::io::stdout();
        writeln!(stdout, "http://{}/", listener.local_addr()?)?;
        stdout.flush()?;
        let (sender, owner_gone) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            // Nobody writes to this pipe: it ends when the parent ends.
            let ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            drop(sender.send(ended));
        });
        let served = axum::serve(listener, Router::new().route("/", post(echo)));
        tokio::select! {
            biased;
            _ = owner_gone => Ok(ExitCode::SUCCESS),
            served = async { served.await } => served.context("the worker cannot serve").map(|()| ExitCode::SUCCESS),
        }
    })
}

/// A call without a key is not one of our steps.
async fn echo(headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let status =
        if headers.contains_key("idempotency-key") { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    (status, [(CONTENT_TYPE, "application/json")], body)
}
