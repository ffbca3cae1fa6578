//! Waiting workers: the memory of an idle long poll.

use super::Report;
use super::arguments::PollsArguments;
use super::load::{Stage, noop};
use super::measure::resident_bytes;
use anyhow::{Context, Result};
use perdura_store::MachineId;
use serde::Serialize;
use std::time::Instant;

#[derive(Debug, Serialize)]
pub(super) struct PollsReport {
    workload: &'static str,
    concurrency: usize,
    per_s: f64,
    /// The memory that the workers added.
    peak_resident_mib: f64,
}

impl Report for PollsReport {}

pub(super) fn bench(arguments: &PollsArguments) -> Result<PollsReport> {
    let count = arguments.count;
    let stage = Stage::open(&arguments.site.data, noop())?;
    let door = stage.runtime.door().clone();
    let before = resident_bytes()?;
    let began = Instant::now();
    let workers: Vec<_> = (0..count)
        .map(|number| {
            let door = door.clone();
            let worker = format!("worker-{number}").into();
            stage.tokio.spawn(async move { door.poll("bench".into(), Some(worker)).await })
        })
        .collect();
    // All polls were sent before this question, once all tasks have run up to their wait.
    stage.tokio.block_on(async {
        while door.gauges().polls < count {
            drop(door.named(MachineId(0), "nobody".into()).await);
        }
    });
    let took = began.elapsed();
    let held = resident_bytes()?.saturating_sub(before);
    for worker in &workers {
        worker.abort();
    }
    stage.runtime.close(std::time::Duration::ZERO);
    Ok(PollsReport {
        workload: "polls",
        concurrency: usize::try_from(count).context("there are too many workers")?,
        per_s: count as f64 / took.as_secs_f64(),
        peak_resident_mib: held as f64 / 1024.0 / 1024.0,
    })
}
