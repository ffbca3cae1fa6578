//! `perdura bench`: what this machine's disk and processors give, measured in one run.

mod aws;
mod floor;
mod http;
mod load;
mod map;
mod measure;
mod polls;
mod receiver;
mod recovery;
mod sleepers;

use crate::arguments::{BenchArguments, StepsIn, Via, Workload};
use crate::terminal;
use anyhow::{Context, Result, bail};
use load::{Load, STEP, Stage, Wanted, noop, steps_in_a_row};
use serde::Serialize;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

/// How long the plain disk is measured.
const FLOOR_FOR: Duration = Duration::from_millis(1_500);
/// How many steps an execution of the workload `steps` has.
const STEPS: usize = 10;

/// One line of results; what a workload does not measure is absent.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) workload: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) via: Option<&'static str>,
    pub(crate) concurrency: usize,
    /// Steps, starts or records per second.
    pub(crate) per_s: f64,
    /// From the start of an execution to its end; through the API, from the request to its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commit_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turns_per_commit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_step: Option<f64>,
    /// Server and client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_cpu_us_per_start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) describe_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) describe_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history_p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_sleeper: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restart_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restart_resident_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) children: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_child: Option<f64>,
    /// The most memory that the process had, what it maps of files included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_resident_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) done_after_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bodies_run_twice: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) applied_twice: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_5_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_5_s: Option<f64>,
    /// What the plain disk does at the same concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor_ratio: Option<f64>,
}

pub(crate) fn bench(arguments: &BenchArguments) -> Result<ExitCode> {
    let data = &arguments.data;
    fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))?;
    if arguments.concurrency == 0 {
        bail!("--concurrency is 0, and is to be 1 or more");
    }
    if arguments.via == Via::Aws && !matches!(arguments.workload, Workload::Starts) {
        bail!("only `starts` can be measured with --via aws");
    }
    let reports = match arguments.workload {
        Workload::Floor => floors(arguments)?,
        Workload::Steps => vec![loaded(arguments, "steps", STEPS)?],
        Workload::Starts => vec![match arguments.via {
            Via::Library => loaded(arguments, "starts", 1)?,
            Via::Aws => aws::bench(arguments)?,
        }],
        Workload::Sleepers => vec![sleepers::bench(arguments)?],
        Workload::Map => vec![map::bench(arguments)?],
        Workload::Polls => vec![polls::bench(arguments)?],
        Workload::Recovery => vec![recovery::bench(arguments)?],
        Workload::Child => return recovery::child(arguments),
        Workload::Reopen => return sleepers::reopen(arguments),
        Workload::Worker => return http::worker(),
    };
    let is_bad = |report: &Report| report.lost.unwrap_or(0) + report.applied_twice.unwrap_or(0) > 0;
    let failed = reports.iter().any(is_bad);
    for report in &reports {
        print(report, arguments.json)?;
    }
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(report: &Report, json: bool) -> Result<()> {
    let line = serde_json::to_string(report).context("a report can be written")?;
    if json {
        return terminal::print(format!("{line}\n").as_bytes());
    }
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&line).context("a report is an object")?;
    let shown = fields.iter().map(|(name, value)| match value.as_f64() {
        Some(number) if number.fract() != 0.0 && number < 100.0 => format!("{name:<24} {number:.3}\n"),
        Some(number) => format!("{name:<24} {number:.0}\n"),
        None => format!("{name:<24} {}\n", value.as_str().unwrap_or_default()),
    });
    terminal::print(shown.collect::<String>().as_bytes())
}

fn floors(arguments: &BenchArguments) -> Result<Vec<Report>> {
    let lasts = Duration::from_secs_f64(arguments.seconds / 4.0);
    [1, 16, 128, 1024]
        .into_iter()
        .map(|concurrency| {
            let per_s = floor::floor(&arguments.data, concurrency, lasts)?;
            Ok(Report { workload: "floor", concurrency, per_s, ..Report::default() })
        })
        .collect()
}

fn loaded(arguments: &BenchArguments, workload: &'static str, steps: usize) -> Result<Report> {
    let before = floor::floor(&arguments.data, arguments.concurrency, FLOOR_FOR)?;
    let worker = (arguments.steps == StepsIn::Http).then(http::Worker::start).transpose()?;
    let (stage, resource) = match &worker {
        None => (Stage::open(&arguments.data, noop())?, STEP),
        Some(worker) => (worker.stage(&arguments.data)?, http::FUNCTION),
    };
    let machine = stage.deploy(&format!("bench-{workload}"), &steps_in_a_row(steps, resource))?;
    let wanted = Wanted {
        revision: machine.revision,
        concurrency: arguments.concurrency,
        lasts: Duration::from_secs_f64(arguments.seconds),
        rate: arguments.rate.map(|rate| rate / steps as f64),
    };
    // The first moments of a process are not what it does all day.
    load::run(&stage, &Wanted { lasts: Duration::from_millis(500), rate: None, ..wanted.clone() })?;
    let gauges = stage.runtime.door().gauges();
    let worked = worker.as_ref().map(http::Worker::cpu_time).transpose()?;
    let mut load = load::run(&stage, &wanted)?;
    if let (Some(worker), Some(before)) = (&worker, worked) {
        load.cpu += worker.cpu_time()?.saturating_sub(before);
    }
    let commits = stage.runtime.door().gauges().since(&gauges);
    stage.runtime.close(Duration::from_secs(10));
    let after = floor::floor(&arguments.data, arguments.concurrency, FLOOR_FOR)?;
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
    Ok(Report {
        workload,
        concurrency: arguments.concurrency,
        per_s,
        p50_ms: Some(load.durations.percentile_ms(0.5)),
        p99_ms: Some(load.durations.percentile_ms(0.99)),
        commit_p50_ms: Some(commits.percentile_ms(0.5)),
        commit_p99_ms: Some(commits.percentile_ms(0.99)),
        turns_per_commit: Some(commits.turns as f64 / commits.commits.max(1) as f64),
        cpu_us_per_step: Some(cpu.as_secs_f64() * 1e6 / units.max(1) as f64),
        first_5_s,
        last_5_s,
        floor_per_s: Some(floor),
        floor_ratio: Some(per_s / floor),
        ..Report::default()
    })
}
