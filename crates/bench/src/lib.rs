//! `perdura bench`: measures the disk and the processors of this machine in one run.
//!
//! Each workload has its own arguments and its own report. Some need another process: that is this program again, with
//! a hidden workload, so the program that calls [`bench()`] must pass on all arguments of its command `bench`.

mod arguments;
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
mod steps;

use anyhow::{Context, Result};
pub use arguments::Arguments;
use arguments::{LoadArguments, Site, Via, Workload};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

/// Measures, and prints the results.
pub fn bench(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.workload {
        Workload::Floor(wanted) => {
            prepare(&wanted.site)?;
            for report in floor::bench(wanted)? {
                print(&report, wanted.site.json)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Workload::Steps(wanted) => measured(&wanted.site, || steps::bench(wanted, &steps::TEN)),
        Workload::Starts(wanted) => {
            let LoadArguments { site, .. } = &wanted.load;
            match wanted.via {
                Via::Library => measured(site, || steps::bench(&wanted.load, &steps::ONE)),
                Via::Aws => measured(site, || aws::bench(&wanted.load, aws::Door::Aws)),
                Via::V1 => measured(site, || aws::bench(&wanted.load, aws::Door::V1)),
            }
        }
        Workload::Sleepers(wanted) => measured(&wanted.site, || sleepers::bench(wanted)),
        Workload::Map(wanted) => measured(&wanted.site, || map::bench(wanted)),
        Workload::Polls(wanted) => measured(&wanted.site, || polls::bench(wanted)),
        Workload::Recovery(wanted) => measured(&wanted.site, || recovery::bench(wanted)),
        Workload::Child(wanted) => recovery::child(wanted),
        Workload::Reopen(site) => sleepers::reopen(site),
        Workload::Worker => http::worker(),
    }
}

/// The result of a measurement.
trait Report: Serialize {
    /// Whether nothing was lost and nothing was done twice.
    fn is_good(&self) -> bool {
        true
    }
}

fn measured<R: Report>(site: &Site, measure: impl FnOnce() -> Result<R>) -> Result<ExitCode> {
    prepare(site)?;
    let report = measure()?;
    print(&report, site.json)?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prepare(site: &Site) -> Result<()> {
    let data = &site.data;
    fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))
}

fn print(report: &impl Serialize, json: bool) -> Result<()> {
    let line = serde_json::to_string(report).context("a report can be written")?;
    if json {
        return say(&line);
    }
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&line).context("a report is an object")?;
    let shown = fields.iter().map(|(name, value)| match value.as_f64() {
        Some(number) if number.fract() != 0.0 && number < 100.0 => format!("{name:<24} {number:.3}"),
        Some(number) => format!("{name:<24} {number:.0}"),
        None => format!("{name:<24} {}", value.as_str().unwrap_or_default()),
    });
    say(&shown.collect::<Vec<_>>().join("\n"))
}

/// Prints a line on stdout at once: another process may wait for it.
fn say(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
