//! Executions that wait for an hour: their memory, and how soon a process with many of them is ready.

use super::arguments::{Site, SleepersArguments};
use super::load::{Stage, noop};
use super::measure::resident_bytes;
use super::{Report, say};
use anyhow::{Context, Result, anyhow};
use perdura_engine::asl::json::Payload;
use perdura_runtime::{Door, Start};
use perdura_store::RevisionId;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MACHINE: &str =
    r#"{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": true}}}"#;

#[derive(Debug, Serialize)]
pub(crate) struct SleepersReport {
    workload: &'static str,
    concurrency: usize,
    /// Starts per second.
    per_s: f64,
    bytes_per_sleeper: f64,
    restart_ms: f64,
    restart_resident_mib: f64,
}

impl Report for SleepersReport {}

/// The output of a process that opened the data again.
#[derive(Debug, Serialize, Deserialize)]
struct Reopened {
    resident_bytes: u64,
}

pub(crate) fn bench(arguments: &SleepersArguments) -> Result<SleepersReport> {
    let SleepersArguments { site, concurrency, count } = arguments;
    let (concurrency, count) = (*concurrency, *count);
    let stage = Stage::open(&site.data, noop())?;
    let machine = stage.deploy("bench-sleepers", MACHINE)?;
    let left = Arc::new(AtomicU64::new(count));
    let before = resident_bytes()?;
    let began = Instant::now();
    let callers: Vec<_> = (0..concurrency)
        .map(|_| stage.tokio.spawn(caller(stage.runtime.door().clone(), machine.revision, left.clone())))
        .collect();
    for caller in callers {
        stage.tokio.block_on(caller).context("a caller panicked")??;
    }
    let per_s = count as f64 / began.elapsed().as_secs_f64();
    let grown = resident_bytes()?.saturating_sub(before);
    stage.runtime.close(Duration::from_secs(10));
    let (restart_ms, reopened) = reopen_elsewhere(site)?;
    Ok(SleepersReport {
        workload: "sleepers",
        concurrency,
        per_s,
        bytes_per_sleeper: grown as f64 / count as f64,
        restart_ms,
        restart_resident_mib: reopened.resident_bytes as f64 / 1024.0 / 1024.0,
    })
}

async fn caller(door: Door, revision: RevisionId, left: Arc<AtomicU64>) -> Result<()> {
    let take = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let input = Payload::from_text("{\"amount\": 1}").context("the bench's own input is wrong")?;
        let start = Start::new(revision, input);
        door.start(start).await?;
    }
    Ok(())
}

/// The time from the start of a process until it has taken the data up.
fn reopen_elsewhere(site: &Site) -> Result<(f64, Reopened)> {
    let began = Instant::now();
    let mut child = Command::new(std::env::current_exe().context("cannot find this program")?)
        .args(["bench", "reopen", "--data"])
        .arg(&site.data)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start this program again")?;
    let output = child.stdout.take().context("its output is piped")?;
    let line = BufReader::new(output).lines().next().ok_or_else(|| anyhow!("the process said nothing"))??;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    child.wait()?;
    Ok((took, serde_json::from_str(&line).context("the process said something else")?))
}

/// The work of the other process.
pub(crate) fn reopen(site: &Site) -> Result<ExitCode> {
    let stage = Stage::open(&site.data, noop())?;
    say(&serde_json::to_string(&Reopened { resident_bytes: resident_bytes()? })?)?;
    stage.runtime.close(Duration::ZERO);
    Ok(ExitCode::SUCCESS)
}
