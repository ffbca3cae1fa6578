//! What the disk does without us: records appended to a plain file, in groups, each group synced.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// About as long as a Turn of a simple step.
const RECORD_BYTES: usize = 737;

/// Records per second, if so many share one sync.
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
