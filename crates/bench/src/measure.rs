//! Processor time and memory of a process, and durations.

use anyhow::{Context, Result};
use std::fs;
use std::process::Child;
use std::time::Duration;

/// Processor time that this process has used.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Processor time of a child process.
pub(crate) fn cpu_time_of(process: &Child) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id()))
        .context("the process is gone, or this system does not tell what it costs")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("the time of a process is no number")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Memory of this process that is in RAM, in bytes; the file cache is not counted.
pub(crate) fn resident_bytes() -> Result<u64> {
    bytes_of("RssAnon:")
}

fn bytes_of(name: &str) -> Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("this system does not tell what is in RAM")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib = kib.with_context(|| format!("{name} is not told here"))?;
    Ok(kib.parse::<u64>().with_context(|| format!("{name} is no number"))? * 1024)
}

/// The peak memory of this process in RAM so far, in bytes.
pub(crate) fn peak_bytes() -> Result<u64> {
    bytes_of("VmHWM:")
}

/// Durations, sorted when read.
#[derive(Debug, Default)]
pub(crate) struct Durations(pub(crate) Vec<Duration>);

impl Durations {
    /// The duration below which this share lies, in milliseconds.
    pub(crate) fn percentile_ms(&mut self, share: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        self.0.sort_unstable();
        let at = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[at].as_secs_f64() * 1000.0
    }
}
