//! Logs on stderr, for people or for programs.

use crate::arguments::LogFormat;
use crate::terminal;
use anyhow::{Context, Result, anyhow};
use std::io;
use tracing_subscriber::EnvFilter;

/// Begins to log. Call it once.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<()> {
    let filter = level
        .parse::<EnvFilter>()
        .with_context(|| format!("--log {level} is wrong: info, or perdura_runtime=debug"))?;
    // A line that cannot be written, as on a full disk, is lost. Reporting that would be another line, whose failure is
    // a panic.
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let begun = match format {
        LogFormat::Text => builder.with_ansi(terminal::stderr_paint().0).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow!("cannot log: {error}"))
}
