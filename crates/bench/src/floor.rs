//! The plain disk without perdura: records appended to a file, in groups, each group synced.

use super::Report;
use super::arguments::FloorArguments;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// About the length of a Turn of a simple step.
const RECORD_BYTES: usize = 737;

#[derive(Debug, Serialize)]
pub(crate) struct FloorReport {
    workload: &'static str,
    concurrency: usize,
    /// Records per second.
    per_s: f64,
}

impl Report for FloorReport {}

/// One report for each group size.
pub(crate) fn bench(arguments: &FloorArguments) -> Result<Vec<FloorReport>> {
    let lasts = Duration::from_secs_f64(arguments.seconds / 4.0);
    let measure = |concurrency| {
        let per_s = floor(&arguments.site.data, concurrency, lasts)?;
        Ok(FloorReport { workload: "floor", concurrency, per_s })
    };
    [1, 16, 128, 1024].into_iter().map(measure).collect()
}

/// Records per second, if `group` records share one sync.
pub(crate) fn floor(folder: &Path, group: usize, lasts: Duration) -> Result<f64> {
    let path = folder.join("floor.tmp");
    let mut file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let bytes = vec![b'x'; RECORD_BYTES * group];
    let began = Instant::now();
    let mut groups = 0u64;
    while began.elapsed() < lasts {
        file.write_all(&bytes).context("cannot append")?;
        file.sync_data().context("cannot sync")?;
        groups += 1;
    }
    let per_s = (groups * group as u64) as f64 / began.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(&path).context("cannot remove the test file")?;
    Ok(per_s)
}
