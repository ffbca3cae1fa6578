//! A Distributed Map of children that do nothing. Items are read one batch after the other, and results are written one
//! after the other, so that the memory of the run does not grow with their number.

use super::Report;
use super::arguments::MapArguments;
use super::load::{Stage, noop};
use super::measure::{cpu_time, peak_bytes};
use anyhow::{Context, Result, bail};
use perdura_engine::asl::json::{Payload, Value};
use perdura_engine::asl::resource::Resource;
use perdura_engine::{EffectKey, ExecutionId, Policy, Status, StrandId};
use perdura_runtime::{Nowhere, Order, Performer, ReadOrder, Source, Start, WriteOrder};
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

const MACHINE: &str = r#"{"StartAt": "Each", "States": {"Each": {"Type": "Map", "End": true,
    "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": "JSONL"},
        "Parameters": {"Bucket": "bench", "Key": "items"}},
    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": true}}},
    "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject",
        "Parameters": {"Bucket": "bench", "Prefix": "results"}}}}}"#;

/// Items per batch.
const BATCH: u64 = 1_000;

#[derive(Debug, Serialize)]
pub(crate) struct MapReport {
    workload: &'static str,
    concurrency: usize,
    /// Children per second.
    per_s: f64,
    commit_p50_ms: f64,
    commit_p99_ms: f64,
    turns_per_commit: f64,
    children: u64,
    cpu_us_per_child: f64,
    /// The peak memory of the process, including memory-mapped files.
    peak_resident_mib: f64,
    lost: u64,
}

impl Report for MapReport {
    fn is_good(&self) -> bool {
        self.lost == 0
    }
}

/// Reads numbers as items, and counts the results.
struct Numbers {
    count: u64,
    tokio: Handle,
}

impl Performer for Numbers {
    fn perform(&self, order: Order) {
        Nowhere.perform(order);
    }

    fn cancel(&self, _: ExecutionId, _: StrandId, _: &EffectKey) {}

    fn policy(&self, _: &Resource, _: &Payload) -> Policy {
        Policy::default()
    }

    fn read(&self, order: ReadOrder) {
        let count = self.count;
        self.tokio.spawn(async move {
            order.feed.begin(Source { name: "S3://bench/items".into(), version: "1".into() });
            for from in (0..count).step_by(BATCH as usize) {
                let items = (from..count.min(from + BATCH)).map(Value::from).collect();
                if order.feed.give(items).await.is_err() {
                    return;
                }
            }
            order.feed.end(Ok(()));
        });
    }

    fn write(&self, order: WriteOrder) {
        self.tokio.spawn_blocking(move || {
            let mut next = 0;
            for result in order.results {
                let in_order = result.as_ref().is_ok_and(|child| {
                    child.index == next
                        && child.output.as_ref().is_some_and(|it| **it.text() == *next.to_string())
                });
                if !in_order {
                    tracing::error!(?result, next, "not the result that comes next");
                    break;
                }
                next += 1;
            }
            order.reply.send(Ok(Value::from(next).into()));
        });
    }
}

pub(crate) fn bench(arguments: &MapArguments) -> Result<MapReport> {
    let count = arguments.count;
    let stage = Stage::with(&arguments.site.data, noop(), |tokio| {
        Ok(Box::new(Numbers { count, tokio: tokio.clone() }))
    })?;
    let machine = stage.deploy("bench-map", MACHINE)?;
    let start = Start::new(machine.revision, Payload::default());
    let before = stage.runtime.door().gauges();
    let (began, cpu) = (Instant::now(), cpu_time());
    let ending = stage.tokio.block_on(stage.runtime.door().run(start))?.1?;
    let (took, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu));
    let commits = stage.runtime.door().gauges().since(&before);
    stage.runtime.close(Duration::from_secs(10));
    if ending.status != Status::Succeeded {
        bail!("the Map Run ended as {}: {:?}", ending.status.name(), ending.fault);
    }
    let output = ending.output.context("what succeeded has an output")?;
    let written = output.value().as_i64().map_or(0, i64::unsigned_abs);
    Ok(MapReport {
        workload: "map",
        concurrency: 10_000,
        per_s: count as f64 / took.as_secs_f64(),
        commit_p50_ms: commits.percentile_ms(0.5),
        commit_p99_ms: commits.percentile_ms(0.99),
        turns_per_commit: commits.turns as f64 / commits.commits.max(1) as f64,
        children: count,
        cpu_us_per_child: cpu.as_secs_f64() * 1e6 / count.max(1) as f64,
        peak_resident_mib: peak_bytes()? as f64 / 1024.0 / 1024.0,
        lost: count.saturating_sub(written),
    })
}
