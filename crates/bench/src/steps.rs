//! Executions of steps that do nothing, one after the other.

use super::arguments::{LoadArguments, StepsIn};
use super::load::{self, Load, Plan, STEP, Stage, noop, steps_in_a_row};
use super::{Report, floor, http};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

/// The default number of callers.
const CONCURRENCY: usize = 128;
/// How long the plain disk is measured.
pub(super) const FLOOR_FOR: Duration = Duration::from_millis(1_500);

/// The executions to measure.
pub(super) struct Executions {
    workload: &'static str,
    steps: usize,
}

pub(super) const TEN: Executions = Executions { workload: "steps", steps: 10 };
pub(super) const ONE: Executions = Executions { workload: "starts", steps: 1 };

#[derive(Debug, Serialize)]
pub(super) struct LoadReport {
    workload: &'static str,
    concurrency: usize,
    /// Steps or starts per second.
    per_s: f64,
    /// From the start of an execution to its end.
    p50_ms: f64,
    p99_ms: f64,
    commit_p50_ms: f64,
    commit_p99_ms: f64,
    turns_per_commit: f64,
    cpu_us_per_step: f64,
    /// Only for runs of 20 seconds or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_5_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_5_s: Option<f64>,
    /// The rate of the plain disk at the same concurrency.
    floor_per_s: f64,
    floor_ratio: f64,
}

impl Report for LoadReport {}

pub(super) fn bench(arguments: &LoadArguments, executions: &Executions) -> Result<LoadReport> {
    let Executions { workload, steps } = *executions;
    let (data, concurrency) = (&arguments.site.data, arguments.concurrency.unwrap_or(CONCURRENCY));
    let before = floor::floor(data, concurrency, FLOOR_FOR)?;
    let worker = (arguments.steps == StepsIn::Http).then(http::Worker::start).transpose()?;
    let (stage, resource) = match &worker {
        None => (Stage::open(data, noop())?, STEP),
        Some(worker) => (worker.stage(data)?, http::FUNCTION),
    };
    let machine = stage.deploy(&format!("bench-{workload}"), &steps_in_a_row(steps, resource))?;
    let plan = Plan {
        revision: machine.revision,
        concurrency,
        lasts: Duration::from_secs_f64(arguments.seconds),
        rate: arguments.rate.map(|rate| rate / steps as f64),
    };
    // Warm-up: the first moments of a process are not typical.
    load::run(&stage, &Plan { lasts: Duration::from_millis(500), rate: None, ..plan.clone() })?;
    let gauges = stage.runtime.door().gauges();
    let worked = worker.as_ref().map(http::Worker::cpu_time).transpose()?;
    let mut load = load::run(&stage, &plan)?;
    if let (Some(worker), Some(before)) = (&worker, worked) {
        load.cpu += worker.cpu_time()?.saturating_sub(before);
    }
    let commits = stage.runtime.door().gauges().since(&gauges);
    stage.runtime.close(Duration::from_secs(10));
    let after = floor::floor(data, concurrency, FLOOR_FOR)?;
    let floor = f64::midpoint(before, after);
    let Load { executions, lasted, cpu, ref by_second, .. } = load;
    let units = executions * steps as u64;
    let per_s = units as f64 / lasted.as_secs_f64();
    let five = |seconds: &[u64]| {
        (by_second.len() >= 20)
            .then(|| seconds.iter().sum::<u64>() as f64 * steps as f64 / seconds.len() as f64)
    };
    let first_5_s = five(by_second.get(..5).unwrap_or_default());
    let last_5_s = five(by_second.get(by_second.len().saturating_sub(5)..).unwrap_or_default());
    Ok(LoadReport {
        workload,
        concurrency,
        per_s,
        p50_ms: load.durations.percentile_ms(0.5),
        p99_ms: load.durations.percentile_ms(0.99),
        commit_p50_ms: commits.percentile_ms(0.5),
        commit_p99_ms: commits.percentile_ms(0.99),
        turns_per_commit: commits.turns as f64 / commits.commits.max(1) as f64,
        cpu_us_per_step: cpu.as_secs_f64() * 1e6 / units.max(1) as f64,
        first_5_s,
        last_5_s,
        floor_per_s: floor,
        floor_ratio: per_s / floor,
    })
}
